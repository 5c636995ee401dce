"""What :class:`~anabranch.compose.SqliteStore` does in its thread: the connection, its statements, its failures."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from ._store import LogHead, LogVersion, StoredLog, checked_log, to_bytes, to_text
from ._store_rows import bytes_or_none, read_entry, read_head
from .errors import DamagedRecordError, StoreError, VersionConflict

T = TypeVar("T")

APPLICATION: Final = 0x616E6162
"""What an SQLite file of ours carries as its application id: "anab"."""

MIGRATIONS: Final = (
    (
        """CREATE TABLE logs (
            key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, version INTEGER NOT NULL,
            status TEXT NOT NULL, thread TEXT, owner TEXT, graph TEXT NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL, expires REAL)""",
        """CREATE TABLE entries (
            log INTEGER NOT NULL, version INTEGER NOT NULL, snapshot INTEGER NOT NULL, created REAL NOT NULL,
            data BLOB NOT NULL, PRIMARY KEY (log, version))""",
        "CREATE INDEX snapshots ON entries (log, version) WHERE snapshot = 1",
        "CREATE INDEX threads ON logs (thread, id) WHERE thread IS NOT NULL",
        "CREATE INDEX expiries ON logs (expires) WHERE expires IS NOT NULL",
    ),
)
"""The statements that bring a file from each version (its place here) to the next; never changed, only added to."""

TEXT: Final = "CAST(? AS TEXT)"
HEAD: Final = "id, kind, version, status, thread, owner, graph, created, updated, expires"
INSERT_HEAD: Final = f"INSERT INTO logs ({HEAD}) VALUES ({TEXT}, ?, ?, ?, {TEXT}, {TEXT}, {TEXT}, ?, ?, ?)"
UPDATE_HEAD: Final = f"""UPDATE logs SET kind = ?, version = ?, status = ?, owner = {TEXT}, graph = {TEXT}, created = ?,
    updated = ? WHERE id = {TEXT} AND version = ?"""
# What indexes are made of is written only when it has changed, since each index would cost a page more in each save.
UPDATE_INDEXED: Final = f"""UPDATE logs SET thread = {TEXT}, expires = ?
    WHERE id = {TEXT} AND (thread IS NOT {TEXT} OR expires IS NOT ?)"""
INSERT_ENTRY: Final = f"""INSERT INTO entries (log, version, snapshot, created, data)
    SELECT key, ?, ?, ?, ? FROM logs WHERE id = {TEXT}"""
READ_HEAD: Final = f"SELECT key, {HEAD} FROM logs WHERE id = {TEXT}"
READ_ENTRIES: Final = """SELECT version, snapshot, created, length(data), CASE WHEN length(data) <= ? THEN data END
    FROM entries WHERE log = ? AND version <= ? AND version >=
    (SELECT max(version) FROM entries WHERE log = ? AND snapshot = 1 AND version <= ?) ORDER BY version"""

REOPENED_AFTER: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk, or the quota on it, is full; make room and resume",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written; see whose they are and how they are mounted",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened or made; its folder must exist, and both must be writable",
    sqlite3.SQLITE_PERM: "the file may not be opened; see whose it is",
    sqlite3.SQLITE_NOTADB: "this is no SQLite database; give another path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a copy, or see what 'sqlite3 FILE .recover' finds",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
}


class SqliteSettings(NamedTuple):
    """What a connection is opened with."""

    store: str
    """How errors name the store."""
    path: str
    synchronous: str
    busy_timeout: float
    max_record_bytes: int


class SqliteFile:
    """One connection, opened when it is needed and used by one thread."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def save(self, head: LogHead, data: bytes, snapshot: bool, expected: int) -> None:
        """Append an entry and replace the head."""
        id = to_bytes(head.id)
        thread, owner = bytes_or_none(head.thread), bytes_or_none(head.owner)
        graph = to_bytes(head.graph)
        times = head.created, head.updated

        def work(connection: sqlite3.Connection) -> None:
            self._check_file()
            execute = connection.execute
            execute("BEGIN IMMEDIATE")
            if expected:
                update = (head.kind, head.version, head.status, owner, graph, *times, id, expected)
                done = execute(UPDATE_HEAD, update).rowcount == 1
                if done:
                    execute(UPDATE_INDEXED, (thread, head.expires, id, thread, head.expires))
            elif done := execute(READ_HEAD, (id,)).fetchone() is None:
                new = (id, head.kind, head.version, head.status, thread, owner, graph, *times, head.expires)
                execute(INSERT_HEAD, new)
            if not done:
                row = execute(READ_HEAD, (id,)).fetchone()
                raise VersionConflict(self._settings.store, head.id, expected, 0 if row is None else row[3])
            execute(INSERT_ENTRY, (head.version, int(snapshot), head.updated, data, id))
            execute("COMMIT")

        self._attempt(f"saving version {head.version} of log {head.id!r}", work)

    def load(self, id: str, version: int | None) -> StoredLog | None:
        """Read the head, the snapshot and what comes after it, all as of one moment."""
        limit = self._settings.max_record_bytes

        def work(connection: sqlite3.Connection) -> StoredLog | None:
            connection.execute("BEGIN")
            row = connection.execute(READ_HEAD, (to_bytes(id),)).fetchone()
            if row is None:
                return None
            key, head = row[0], read_head(row[1:])
            wanted = head.version if version is None else version
            if not 1 <= wanted <= head.version:
                return None
            rows = connection.execute(READ_ENTRIES, (limit, key, wanted, key, wanted)).fetchall()
            return checked_log(head, [read_entry(head.id, entry, limit) for entry in rows], wanted)

        return self._attempt(f"loading log {id!r}", work)

    def versions(self, id: str) -> list[LogVersion]:
        """List a log's entries."""
        query = f"""SELECT version, snapshot, length(data), created FROM entries
            WHERE log = (SELECT key FROM logs WHERE id = {TEXT}) ORDER BY version"""

        def work(connection: sqlite3.Connection) -> list[LogVersion]:
            rows = connection.execute(query, (to_bytes(id),)).fetchall()
            return [LogVersion(version, bool(snapshot), size, created) for version, snapshot, size, created in rows]

        return self._attempt(f"listing the versions of log {id!r}", work)

    def heads(
        self, kind: str | None, thread: str | None, status: str | None, limit: int, after: str | None
    ) -> list[LogHead]:
        """List heads in the order of their ids."""
        conditions = {
            "kind = ?": kind,
            f"thread = {TEXT}": bytes_or_none(thread),
            "status = ?": status,
            f"id > {TEXT}": bytes_or_none(after),
        }
        given = {condition: value for condition, value in conditions.items() if value is not None}
        query = f"SELECT {HEAD} FROM logs WHERE {' AND '.join(['1', *given])} ORDER BY id LIMIT ?"

        def work(connection: sqlite3.Connection) -> list[LogHead]:
            return [read_head(row) for row in connection.execute(query, (*given.values(), limit)).fetchall()]

        return self._attempt("listing logs", work)

    def delete(self, id: str) -> bool:
        """Delete a log."""
        return self._delete(f"deleting log {id!r}", f"id = {TEXT}", to_bytes(id)) > 0

    def expire(self, now: float) -> int:
        """Delete the logs whose time is up."""
        return self._delete("deleting expired logs", "expires IS NOT NULL AND expires <= ?", now)

    def _delete(self, what: str, condition: str, value: bytes | float) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"DELETE FROM entries WHERE log IN (SELECT key FROM logs WHERE {condition})", (value,))
            count = connection.execute(f"DELETE FROM logs WHERE {condition}", (value,)).rowcount
            connection.execute("COMMIT")
            return count

        return self._attempt(what, work)

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _attempt(self, what: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do a piece of work, again while others hold the file, and leave no transaction open."""
        give_up = time.monotonic() + self._settings.busy_timeout
        while True:
            try:
                return work(self._connection or self._open())
            except (sqlite3.Error, ValueError, OverflowError) as error:
                if isinstance(error, DamagedRecordError):
                    raise
                if isinstance(error, UnicodeDecodeError):
                    raise DamagedRecordError(self._settings.store, f"{what} met a text that is no UTF-8") from error
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code not in BUSY or time.monotonic() >= give_up:
                    if code in REOPENED_AFTER:
                        self.close()
                    raise StoreError(self._settings.store, what, self._reason(code, error)) from error
            finally:
                self._end_transaction()
            # SQLite waits by itself, save where it sees a deadlock or where the file is changed to write-ahead mode.
            time.sleep(random.uniform(0.001, 0.01))

    def _end_transaction(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()

    def _reason(self, code: int, error: Exception) -> str:
        if code in BUSY:
            seconds = self._settings.busy_timeout
            reason = f"another process kept the file locked for {seconds:g} s; see who, or give a longer busy_timeout"
        else:
            reason = REASONS.get(code, "")
        return f"{reason} ({error})" if reason else str(error)

    def _open(self) -> sqlite3.Connection:
        settings = self._settings
        connection = sqlite3.connect(settings.path, timeout=settings.busy_timeout, isolation_level=None)
        try:
            connection.text_factory = to_text
            connection.execute("PRAGMA trusted_schema = OFF")
            self._migrate(connection)
            connection.execute(f"PRAGMA synchronous = {settings.synchronous}")
            identity = _identity_of(settings.path)
        except BaseException:
            connection.close()
            raise
        self._identity = identity
        self._connection = connection
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # one look, between whose parts nobody else makes the tables
        version = self._version_of(connection)
        connection.execute("COMMIT")
        if version == len(MIGRATIONS):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statements in MIGRATIONS[self._version_of(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")

    def _version_of(self, connection: sqlite3.Connection) -> int:
        """Give the version of the file's tables, 0 if it is empty; refuse a file that is not ours."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        what = "opening the file"
        if application != APPLICATION and (application or version or tables):
            raise StoreError(self._settings.store, what, "it belongs to another program; give another path")
        if version > len(MIGRATIONS):
            why = f"a newer anabranch has written it (format {version}, this one knows {len(MIGRATIONS)}); upgrade"
            raise StoreError(self._settings.store, what, why)
        return int(version)

    def _check_file(self) -> None:
        """Refuse to write to a file that is no longer at its path: nobody would find again what is in there."""
        if self._identity != _identity_of(self._settings.path):
            self.close()
            why = "the file was removed or replaced while it was open; what it held is gone from this path"
            raise StoreError(self._settings.store, "saving", why)


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
