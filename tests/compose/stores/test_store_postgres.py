"""A store on PostgreSQL outlives restarts and broken connections, and says in one error what else goes wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread
import psycopg
import pytest

from anabranch.compose._store import CheckpointStore, LogHead
from anabranch.compose._store_postgres import PostgresStore
from anabranch.compose.errors import DamagedRecordError, StoreError, VersionConflict

if TYPE_CHECKING:
    from postgres_server import Server

pytestmark = pytest.mark.anyio


def head(version: int, id: str = "run", owner: str | None = None) -> LogHead:
    return LogHead(
        id=id, kind="run", version=version, status="running", thread=None, owner=owner, graph="g", created=1.0,
        updated=float(version), expires=None,
    )  # fmt: skip


async def append(store: CheckpointStore, *datas: bytes, at: int = 0, id: str = "run") -> None:
    for version, data in enumerate(datas, at + 1):
        await store.save(head(version, id), data, snapshot=version == 1, expected=version - 1)


async def datas(store: CheckpointStore, id: str = "run") -> list[bytes]:
    log = await store.load(id)
    return [] if log is None else [entry.data for entry in log.entries]


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def schema(postgres: Server) -> Iterator[str]:
    name = f"s{uuid.uuid4().hex}"
    yield name
    execute(postgres.dsn, f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_between_saves_is_not_noticed(
    postgres: Server, schema: str, mode: Literal["fast", "immediate"]
) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, b"1")
        await anyio.to_thread.run_sync(postgres.restart, mode)
        await append(store, b"2", at=1)
        await anyio.to_thread.run_sync(postgres.restart, mode)
        assert await datas(store) == [b"1", b"2"]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_during_saves_loses_none_and_makes_none_twice(
    postgres: Server, schema: str, mode: Literal["fast", "immediate"]
) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        restarted = anyio.Event()
        saved: dict[str, int] = dict.fromkeys("abc", 0)

        async def fill(id: str) -> None:
            while not (restarted.is_set() and saved[id] > 20):
                await append(store, b"%d" % (saved[id] + 1), at=saved[id], id=id)
                saved[id] += 1

        await append(store, b"1", id="first")
        async with anyio.create_task_group() as group:
            for id in saved:
                group.start_soon(fill, id)
            await anyio.to_thread.run_sync(postgres.restart, mode)
            restarted.set()
        for id, count in saved.items():
            assert await datas(store, id) == [b"%d" % number for number in range(1, count + 1)]


Breaks = Callable[[str], None]


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Breaks:
    """Let the next save's connection break before or after the server has done it, noticed or not."""
    original = psycopg.Connection[Any].execute
    planned: list[str] = []

    def execute(self: psycopg.Connection[Any], query: Any, *args: Any, **kwargs: Any) -> Any:
        if planned and isinstance(query, bytes) and query.startswith(b"WITH head"):
            when = planned.pop()
            if "after" in when:
                original(self, query, *args, **kwargs)
            if "unnoticed" not in when:
                self.close()
            raise psycopg.OperationalError("the connection is lost")
        return original(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    return planned.append


@pytest.mark.parametrize("when", ["before", "after", "before, unnoticed", "after, unnoticed"])
@pytest.mark.parametrize("count", [0, 1])
async def test_a_connection_that_breaks_during_a_save_changes_nothing(
    postgres: Server, schema: str, breaks: Breaks, when: str, count: int
) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, *[b"1"][:count])
        breaks(when)
        await append(store, b"new", at=count)
        await append(store, b"next", at=count + 1)
        assert await datas(store) == [*[b"1"][:count], b"new", b"next"]


async def test_a_save_that_breaks_after_another_one_was_first_is_a_conflict(
    postgres: Server, schema: str, breaks: Breaks
) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, b"1", b"2")
        breaks("before")
        with pytest.raises(VersionConflict) as caught:
            await append(store, b"2", at=1)  # the same data at the same time, and yet not the same save
        assert (caught.value.expected, caught.value.found) == (1, 2)


async def test_a_connection_that_breaks_again_and_again_is_an_error(
    postgres: Server, schema: str, breaks: Breaks
) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, b"1")
        for _ in range(5):
            breaks("before")
        with pytest.raises(StoreError, match=r"saving version 2 of log 'run' failed: .*the connection was lost"):
            await append(store, b"2", at=1)
        await append(store, b"2", at=1)


async def test_a_server_that_is_down_is_an_error_without_the_password(postgres: Server, schema: str) -> None:
    dsn = f"{postgres.dsn} password=hidden"
    async with PostgresStore(dsn, schema=schema, reconnect_timeout=0.3) as store:
        await append(store, b"1")
        postgres.stop()
        try:
            for _ in range(2):  # with a connection that was lost, and without one
                with pytest.raises(StoreError, match="cannot be reached") as caught:
                    await append(store, b"2", at=1)
                assert "hidden" not in str(caught.value) + repr(caught.value.__cause__) + repr(store)
        finally:
            postgres.start()
        await append(store, b"2", at=1)


def test_what_is_no_connection_string_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="no connection string") as caught:
        PostgresStore("host=here passwort=hidden nonsense")
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "hidden" not in repr(PostgresStore("postgresql://me:hidden@here:99/runs"))


@pytest.mark.parametrize("options", [{"schema": "a; DROP"}, {"schema": ""}, {"pool_size": 0}])
def test_options_that_make_no_store_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"schema|pool_size"):
        PostgresStore("host=here", **options)


async def test_many_stores_that_make_the_tables_at_once_agree(postgres: Server, schema: str) -> None:
    stores = [PostgresStore(postgres.dsn, schema=schema) for _ in range(6)]
    async with anyio.create_task_group() as group:
        for number, store in enumerate(stores):
            group.start_soon(partial(append, store, b"1", id=f"run {number}"))
    assert len(await stores[0].heads()) == 6
    for store in stores:
        await store.aclose()


async def test_there_are_no_more_connections_than_allowed(postgres: Server, schema: str) -> None:
    mine = f"{postgres.dsn} application_name={schema}"
    async with PostgresStore(mine, schema=schema, pool_size=2) as store:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(partial(append, store, b"1", b"2", id=f"run {number}"))
        with psycopg.connect(postgres.dsn) as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            assert connection.execute(query, (schema,)).fetchone() == (2,)


async def test_a_schema_from_the_future_is_left_alone(postgres: Server, schema: str) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, b"1")
    execute(postgres.dsn, f"UPDATE {schema}.format SET version = 99")
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        with pytest.raises(StoreError, match=r"a newer anabranch has written it \(format 99, .*upgrade"):
            await append(store, b"2", at=1)


async def test_a_user_who_may_not_make_the_schema_is_told_so(postgres: Server, schema: str) -> None:
    execute(postgres.dsn, f"CREATE ROLE {schema} LOGIN", "REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    weak = postgres.dsn.replace("user=app", f"user={schema}")
    try:
        async with PostgresStore(weak, schema=schema) as store:
            with pytest.raises(StoreError, match="the user lacks a privilege"):
                await append(store, b"1")
        async with PostgresStore(weak.replace("dbname=postgres", "dbname=missing"), schema=schema) as store:
            with pytest.raises(StoreError, match=r'database "missing" does not exist'):
                await append(store, b"1")
    finally:
        execute(postgres.dsn, f"DROP ROLE {schema}")


async def test_a_server_that_takes_no_writes_is_told_so(postgres: Server, schema: str) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, b"1")
    async with PostgresStore(f"{postgres.dsn} options='-c default_transaction_read_only=on'", schema=schema) as store:
        with pytest.raises(StoreError, match=r"the server takes no writes; .*connect to the primary"):
            await append(store, b"2", at=1)
        assert await datas(store) == [b"1"]


async def test_a_statement_that_takes_too_long_is_an_error(postgres: Server, schema: str) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as patient:
        await append(patient, b"1")  # making the tables may take its time on a busy machine
    async with PostgresStore(postgres.dsn, schema=schema, statement_timeout=1.0) as store:
        with psycopg.connect(postgres.dsn) as other:
            other.execute(f"LOCK TABLE {schema}.logs".encode())
            with pytest.raises(StoreError, match="longer than the statement_timeout"):
                await append(store, b"2", at=1)
        await append(store, b"2", at=1)


async def test_a_record_that_somebody_has_changed_is_an_error(postgres: Server, schema: str) -> None:
    async with PostgresStore(postgres.dsn, schema=schema, max_record_bytes=10) as store:
        await append(store, b"1", b"2", b"3")
        for damage, why in {
            "DELETE FROM {}.entries WHERE version = 2": "entries are missing",
            "UPDATE {}.entries SET data = decode(repeat('00', 99), 'hex') WHERE version = 3": "99 bytes",
            "UPDATE {}.logs SET graph = decode('ff', 'hex')": "no UTF-8",
            "UPDATE {}.logs SET status = 'odd', graph = ''": "'odd'",
        }.items():
            execute(postgres.dsn, damage.format(schema))
            with pytest.raises(DamagedRecordError, match=why):
                await store.load("run")


async def test_a_cancelled_save_is_waited_for(postgres: Server, schema: str) -> None:
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        await append(store, b"1")
        with psycopg.connect(postgres.dsn) as other:
            other.execute(f"LOCK TABLE {schema}.logs".encode())
            async with anyio.create_task_group() as group:
                group.start_soon(partial(append, store, b"2", b"3", at=1))
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
                threading.Thread(target=other.rollback).start()
        assert await datas(store) == [b"1", b"2"]


def test_the_extra_is_named_where_the_driver_is_missing() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from anabranch.compose._store_postgres import PostgresStore
try:
    PostgresStore("host=here")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert 'pip install "anabranch[postgres]"' in done.stdout


def test_dropping_connections_leaves_no_thread(postgres: Server, schema: str) -> None:
    anyio.run(append, PostgresStore(postgres.dsn, schema=schema), b"1")
    left = [thread for thread in threading.enumerate() if thread.name.startswith("anabranch-postgres")]
    for thread in left:
        thread.join(10)
    assert not any(thread.is_alive() for thread in left)
