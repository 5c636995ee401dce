"""What :class:`~anabranch.compose.PostgresStore` does in its threads: the connection, its statements, its failures.

Each call is one statement in autocommit, so it is one transaction in one exchange with the server. A save finds its
log by id and expected version: of two at once, the second waits for the first one's row, looks again, and finds
another version.

When the connection breaks during a save, nobody knows whether it took place, and it may still be under way. So it is
done again on a new connection. If then the version has moved on, the entry's token, drawn for each save, tells whether
that was this save.

Texts are kept as ``bytea``, since PostgreSQL's ``text`` cannot hold every character; see them with
``convert_from(id, 'UTF8')``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final, LiteralString, NamedTuple, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from ._store import LogEntry, LogHead, LogVersion, StoredLog, checked_log, to_bytes, to_text
from ._store_rows import bytes_or_none, read_entry, read_head, text_or_none
from .errors import DamagedRecordError, StoreError, VersionConflict

T = TypeVar("T")

LOCK: Final = 0x616E6162
"""The advisory lock that is held while the tables are made or changed."""

MIGRATIONS: Final[tuple[tuple[LiteralString, ...], ...]] = (
    (
        """CREATE TABLE {logs} (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bytea NOT NULL UNIQUE, kind text NOT NULL,
            version bigint NOT NULL, status text NOT NULL, thread bytea, owner bytea, graph bytea NOT NULL,
            created double precision NOT NULL, updated double precision NOT NULL, expires double precision)""",
        """CREATE TABLE {entries} (
            log bigint NOT NULL REFERENCES {logs} ON DELETE CASCADE, version bigint NOT NULL,
            snapshot boolean NOT NULL, created double precision NOT NULL, token bytea NOT NULL, data bytea NOT NULL,
            PRIMARY KEY (log, version))""",
        "CREATE INDEX snapshots ON {entries} (log, version) WHERE snapshot",
        "CREATE INDEX threads ON {logs} (thread) WHERE thread IS NOT NULL",
        "CREATE INDEX expiries ON {logs} (expires) WHERE expires IS NOT NULL",
    ),
)
"""The statements that bring a schema from each version (its place here) to the next; never changed, only added to."""

HEAD: Final = "id, kind, version, status, thread, owner, graph, created, updated, expires"
INSERT: Final = """WITH head AS (
    INSERT INTO {logs} (id, kind, version, status, thread, owner, graph, created, updated, expires)
    VALUES (%(id)b, %(kind)s, %(version)s, %(status)s, %(thread)b, %(owner)b, %(graph)b, %(created)s, %(updated)s,
    %(expires)s) ON CONFLICT (id) DO NOTHING RETURNING key)
    INSERT INTO {entries} (log, version, snapshot, created, token, data)
    SELECT key, %(version)s, %(snapshot)s, %(updated)s, %(token)b, %(data)b FROM head"""
UPDATE: Final = """WITH head AS (
    UPDATE {logs} SET kind = %(kind)s, version = %(version)s, status = %(status)s, thread = %(thread)b,
    owner = %(owner)b, graph = %(graph)b, created = %(created)s, updated = %(updated)s, expires = %(expires)s
    WHERE id = %(id)b AND version = %(expected)s RETURNING key)
    INSERT INTO {entries} (log, version, snapshot, created, token, data)
    SELECT key, %(version)s, %(snapshot)s, %(updated)s, %(token)b, %(data)b FROM head"""
FOUND: Final = """SELECT l.version, e.token FROM {logs} l
    LEFT JOIN {entries} e ON e.log = l.key AND e.version = %(version)s WHERE l.id = %(id)b"""
LOAD: Final = """SELECT l.id, l.kind, l.version, l.status, l.thread, l.owner, l.graph, l.created, l.updated, l.expires,
    e.version, e.snapshot, e.created, octet_length(e.data), CASE WHEN octet_length(e.data) <= %(limit)s THEN e.data END
    FROM {logs} l LEFT JOIN {entries} e ON e.log = l.key
    AND e.version <= coalesce(%(version)s::bigint, l.version) AND e.version >=
    (SELECT max(s.version) FROM {entries} s
    WHERE s.log = l.key AND s.snapshot AND s.version <= coalesce(%(version)s::bigint, l.version))
    WHERE l.id = %(id)b ORDER BY e.version"""
VERSIONS: Final = """SELECT e.version, e.snapshot, octet_length(e.data), e.created
    FROM {logs} l JOIN {entries} e ON e.log = l.key WHERE l.id = %(id)b ORDER BY e.version"""
HEADS: Final = """SELECT id, kind, version, status, thread, owner, graph, created, updated, expires FROM {logs}"""
CONDITIONS: Final = {
    "kind": b"kind = %(kind)s",
    "thread": b"thread = %(thread)b",
    "status": b"status = %(status)s",
    "after": b"id > %(after)b",
}

# By the tables and not by to_regclass, which may answer from a cache that is older than the lock.
IS_MADE: Final = """SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'format')"""

REASONS: Final = {
    "08": "the connection does not work",
    "25006": "the server takes no writes; it may be a standby, so connect to the primary",
    "28": "the server refuses the user or the password",
    "3D000": "there is no such database; make it",
    "42501": "the user lacks a privilege; the store needs to make its schema once, and to read and write its tables",
    "53100": "the server's disk is full; make room and resume",
    "53300": "the server has no connection left; lower pool_size or raise max_connections",
    "55P03": "somebody else holds a lock",
    "57014": "the server took longer than the statement_timeout",
}
TRIED_AGAIN: Final = frozenset({"40001", "40P01"})  # serialization failure, deadlock: nothing has taken place
SHUTDOWN: Final = frozenset({"57P01", "57P02", "57P03"})  # the server says that it goes, or is not there yet
ATTEMPTS: Final = 5


class Statements:
    """The statements for one schema, put together once."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._names = {name: sql.Identifier(schema, name) for name in ("logs", "entries", "format")}
        self.insert = self.fill(INSERT)
        self.update = self.fill(UPDATE)
        self.found = self.fill(FOUND)
        self.load = self.fill(LOAD)
        self.versions = self.fill(VERSIONS)
        self.heads = self.fill(HEADS)
        self.delete = self.fill("DELETE FROM {logs} WHERE id = %(id)b")
        self.expire = self.fill("DELETE FROM {logs} WHERE expires IS NOT NULL AND expires <= %(now)s")

    def fill(self, statement: LiteralString) -> bytes:
        """Put the tables' names into a statement."""
        return sql.SQL(statement).format(**self._names).as_bytes(None)


class PostgresSettings(NamedTuple):
    """What connections are opened with."""

    store: str
    """How errors name the store."""
    dsn: str
    statements: Statements
    connect_timeout: float
    reconnect_timeout: float
    statement_timeout: float
    max_record_bytes: int
    reached: Event
    """Set once the server has been reached, so that what goes wrong later may pass."""


Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresServer:
    """One connection, opened when it is needed and used by one thread."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._statements = settings.statements
        self._connection: Connection | None = None

    def save(self, head: LogHead, data: bytes, snapshot: bool, expected: int) -> None:
        """Append an entry and replace the head."""
        statement = self._statements.update if expected else self._statements.insert
        values: dict[str, Any] = {
            "id": to_bytes(head.id),
            "kind": head.kind,
            "version": head.version,
            "status": head.status,
            "thread": bytes_or_none(head.thread),
            "owner": bytes_or_none(head.owner),
            "graph": to_bytes(head.graph),
            "created": head.created,
            "updated": head.updated,
            "expires": head.expires,
            "snapshot": snapshot,
            "token": os.urandom(16),
            "data": data,
            "expected": expected,
        }

        def work(connection: Connection) -> None:
            if connection.execute(statement, values).rowcount == 1:
                return
            row = connection.execute(self._statements.found, values, binary=True).fetchone()
            found, token = row or (0, None)
            if token != values["token"]:  # else the connection broke after this very save had taken place
                raise VersionConflict(self._settings.store, head.id, expected, found)

        self._attempt(f"saving version {head.version} of log {head.id!r}", work)

    def load(self, id: str, version: int | None) -> StoredLog | None:
        """Read the head, the snapshot and what comes after it, all as of one moment."""
        limit = self._settings.max_record_bytes
        values = {"id": to_bytes(id), "version": version, "limit": limit}
        rows = self._read(f"loading log {id!r}", self._statements.load, values)
        if not rows:
            return None
        head = read_head(_with_texts(rows[0][:10]))
        wanted = head.version if version is None else version
        if not 1 <= wanted <= head.version:
            return None
        entries: list[LogEntry] = [read_entry(id, row[10:], limit) for row in rows if row[10] is not None]
        return checked_log(head, entries, wanted)

    def versions(self, id: str) -> list[LogVersion]:
        """List a log's entries."""
        rows = self._read(f"listing the versions of log {id!r}", self._statements.versions, {"id": to_bytes(id)})
        return [LogVersion(*row) for row in rows]

    def heads(
        self, kind: str | None, thread: str | None, status: str | None, limit: int, after: str | None
    ) -> list[LogHead]:
        """List heads in the order of their ids."""
        values = {"kind": kind, "thread": bytes_or_none(thread), "status": status, "after": bytes_or_none(after)}
        given = [condition for name, condition in CONDITIONS.items() if values[name] is not None]
        where = b" AND ".join([b"true", *given])
        query = b"%b WHERE %b ORDER BY id LIMIT %%(limit)s" % (self._statements.heads, where)
        rows = self._read("listing logs", query, {**values, "limit": limit})
        return [read_head(_with_texts(row)) for row in rows]

    def delete(self, id: str) -> bool:
        """Delete a log; after a connection has broken meanwhile, it may say that there was none."""
        values = {"id": to_bytes(id)}
        return self._attempt(f"deleting log {id!r}", lambda c: c.execute(self._statements.delete, values).rowcount) > 0

    def expire(self, now: float) -> int:
        """Delete the logs whose time is up."""
        values = {"now": now}
        return self._attempt("deleting expired logs", lambda c: c.execute(self._statements.expire, values).rowcount)

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _read(self, what: str, query: bytes, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._attempt(what, lambda connection: connection.execute(query, values, binary=True).fetchall())

    def _attempt(self, what: str, work: Callable[[Connection], T]) -> T:
        """Do a piece of work, again on a new connection if this one breaks, again after a failure that passes."""
        for attempt in range(1, ATTEMPTS + 1):
            connection = self._connection or self._open(what)
            try:
                return work(connection)
            except psycopg.Error as error:
                lost = connection.closed or error.sqlstate in SHUTDOWN or _is_of_the_connection(error)
                if lost:
                    self.close()
                if attempt == ATTEMPTS or not (lost or error.sqlstate in TRIED_AGAIN):
                    raise self._located(what, error) from error
        raise AssertionError("the last attempt returns or raises")

    def _open(self, what: str) -> Connection:
        """Open the connection; patiently where the server has been reached before, since it may be restarting."""
        known = self._settings.reached.is_set()
        give_up = time.monotonic() + (self._settings.reconnect_timeout if known else 0)
        while True:
            try:
                self._connection = self._connect()
            except psycopg.Error as error:
                if time.monotonic() >= give_up:
                    raise self._located(what, error) from error
            else:
                self._settings.reached.set()
                return self._connection
            time.sleep(0.1)

    def _connect(self) -> Connection:
        settings = self._settings
        given = conninfo_to_dict(settings.dsn)
        ours = {
            "application_name": "anabranch",
            "connect_timeout": max(2, round(settings.connect_timeout)),  # libpq takes 1 for 2
            "tcp_user_timeout": round(1000 * settings.statement_timeout),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 4,
        }
        missing: dict[str, Any] = {name: value for name, value in ours.items() if name not in given}
        connection: Connection = psycopg.connect(settings.dsn, autocommit=True, **missing)
        try:
            milliseconds = str(round(1000 * settings.statement_timeout))
            connection.execute("SELECT set_config('statement_timeout', %s, false)", (milliseconds,))
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: Connection) -> None:
        if self._version_of(connection) == len(MIGRATIONS):
            return
        fill = self._statements.fill
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            version = self._version_of(connection)  # again: another one may have been at it
            if version is None:
                query = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s)"
                if connection.execute(query, (self._statements.schema,)).fetchone() == (False,):
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._statements.schema)))
                connection.execute(fill("CREATE TABLE {format} (version bigint NOT NULL)"))
                connection.execute(fill("INSERT INTO {format} VALUES (0)"))
            for statements in MIGRATIONS[version or 0 :]:
                for statement in statements:
                    connection.execute(fill(statement))
            connection.execute(fill("UPDATE {format} SET version = %s"), (len(MIGRATIONS),))

    def _version_of(self, connection: Connection) -> int | None:
        """Give the version of the schema's tables, None if there are none; refuse one from the future."""
        if connection.execute(IS_MADE, (self._statements.schema,)).fetchone() == (False,):
            return None
        row = connection.execute(self._statements.fill("SELECT version FROM {format}")).fetchone()
        version = int(row[0]) if row is not None else 0
        if version > len(MIGRATIONS):
            why = f"a newer anabranch has written it (format {version}, this one knows {len(MIGRATIONS)}); upgrade"
            raise StoreError(self._settings.store, f"opening the schema {self._statements.schema!r}", why)
        return version

    def _located(self, what: str, error: psycopg.Error) -> StoreError:
        state = error.sqlstate or ""
        reason = REASONS.get(state) or REASONS.get(state[:2])
        if reason is None and isinstance(error, psycopg.OperationalError):
            reason = "the server cannot be reached, or the connection was lost; see whether it runs"
        text = " ".join(str(error).split())
        return StoreError(self._settings.store, what, f"{reason} ({text})" if reason else text)


def _is_of_the_connection(error: psycopg.Error) -> bool:
    """Tell an error of the connection from one that the server has sent: it has no state.

    It can come before libpq has noticed that the connection is lost, while that still counts as open.
    """
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def place_of(dsn: str) -> str:
    """Give where a connection string leads, without what is secret in it."""
    given = conninfo_to_dict(dsn)
    return " ".join(f"{name}={given[name]}" for name in ("host", "port", "dbname", "user") if given.get(name))


def _with_texts(row: Sequence[Any]) -> list[Any]:
    """Make the texts of a head's row of the bytes that the server keeps."""
    id, kind, version, status, thread, owner, graph, *times = row
    try:
        return [to_text(id), kind, version, status, text_or_none(thread), text_or_none(owner), to_text(graph), *times]
    except UnicodeDecodeError as error:
        raise DamagedRecordError(f"log {id!r}", f"a text of its head is no UTF-8 ({error})") from error
