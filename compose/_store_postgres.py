"""A store in a PostgreSQL database, for runs that many machines may resume."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from typing_extensions import override

from ..schema.errors import MissingExtraError
from ._store import (
    RECORD_LIMIT,
    CheckpointStore,
    LogHead,
    LogKind,
    LogStatus,
    LogVersion,
    StoredLog,
    check_limit,
    check_save,
)
from ._store_worker import Worker

if TYPE_CHECKING:
    from ._store_postgres_server import PostgresServer

SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgresStore(CheckpointStore):
    """Keeps logs in a PostgreSQL database; needs the extra ``postgres``.

    The tables are made in a schema of their own when the store is first used, and brought up to date by a newer
    anabranch. Up to ``pool_size`` threads work at once, each with a connection of its own, which is opened when it
    is needed. A connection that breaks, say because the server restarts, is opened again, and what was being done is
    done again if it had not taken place.

    Args:
        dsn: The connection string or URL, as libpq takes it; what it leaves out comes from ``PGHOST`` and its like.
        schema: Where the tables are; made if it is missing.
        pool_size: At most so many connections.
        connect_timeout: How many seconds a connection may take to be made.
        reconnect_timeout: How many seconds to go on trying to connect to a server that has been reached before.
        statement_timeout: How many seconds the server may take for one statement.
        max_record_bytes: How long an entry may be, written or read.

    Raises:
        MissingExtraError: If the driver is not installed.
        ValueError: If the connection string or the schema's name is none.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "anabranch",
        pool_size: int = 4,
        connect_timeout: float = 10.0,
        reconnect_timeout: float = 15.0,
        statement_timeout: float = 30.0,
        max_record_bytes: int = RECORD_LIMIT,
    ) -> None:
        if not SCHEMA.fullmatch(schema):
            raise ValueError(f"a schema's name is of small letters, digits and underscores, unlike {schema!r}")
        if pool_size < 1:
            raise ValueError(f"pool_size is at least 1, not {pool_size}")
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtraError("psycopg", "postgres") from error
        from ._store_postgres_server import PostgresServer, PostgresSettings, Statements, place_of

        try:
            where = place_of(dsn)
        except psycopg.Error:  # its text quotes from the string, which may hold a password
            raise ValueError("the DSN is no connection string that libpq takes") from None
        self._name = f"PostgresStore({where!r})"
        self._max_record_bytes = max_record_bytes
        settings = PostgresSettings(
            self._name,
            dsn,
            Statements(schema),
            connect_timeout,
            reconnect_timeout,
            statement_timeout,
            max_record_bytes,
            Event(),
        )
        self._worker: Worker[PostgresServer] = Worker(
            "anabranch-postgres", partial(PostgresServer, settings), pool_size
        )

    @override
    def __repr__(self) -> str:
        return self._name

    @override
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        check_save(head, data, snapshot, expected, self._max_record_bytes)
        await self._worker.do(lambda server: server.save(head, data, snapshot, expected))

    @override
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        return await self._worker.do(lambda server: server.load(id, version))

    @override
    async def versions(self, id: str) -> Sequence[LogVersion]:
        return await self._worker.do(lambda server: server.versions(id))

    @override
    async def heads(
        self,
        *,
        kind: LogKind | None = None,
        thread: str | None = None,
        status: LogStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[LogHead]:
        check_limit(limit)
        return await self._worker.do(lambda server: server.heads(kind, thread, status, limit, after))

    @override
    async def delete(self, id: str) -> bool:
        return await self._worker.do(lambda server: server.delete(id))

    @override
    async def expire(self, now: float) -> int:
        return await self._worker.do(lambda server: server.expire(now))

    @override
    async def aclose(self) -> None:
        await self._worker.aclose()
