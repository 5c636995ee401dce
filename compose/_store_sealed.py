"""A store around another one that keeps what is in the entries secret, or makes it smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from typing_extensions import override

from ._store import CheckpointStore, LogEntry, LogHead, LogKind, LogStatus, LogVersion, StoredLog
from .errors import DamagedRecordError, StoreError

Seal = Callable[[bytes, str], bytes]
"""Turns the data of an entry into something else, or back; gets the log's id too."""


class SealedStore(CheckpointStore):
    """Keeps logs in another store with the data of their entries sealed, say by encryption.

    Heads are stored as they are: ids, threads and owners are no place for secrets. Each entry is sealed together with
    its version, so that with a seal that notices changes, entries that somebody has put elsewhere in their log are
    noticed as well; where the seal uses the id, so are entries of other logs.

    Args:
        store: Where the logs are kept.
        seal: Turns an entry's data, given the log's id, into what is stored.
        unseal: Turns it back, and raises if it cannot.

    Example:
        >>> import hmac
        >>> def seal(data: bytes, id: str) -> bytes:  # a signature; see a library of cryptography for encryption
        ...     return hmac.digest(b"key", data + id.encode(), "sha256") + data
        >>> def unseal(data: bytes, id: str) -> bytes:
        ...     if not hmac.compare_digest(data, seal(data[32:], id)):
        ...         raise ValueError("the signature does not fit")
        ...     return data[32:]
        >>> store = SealedStore(MemoryStore(), seal, unseal)
    """

    def __init__(self, store: CheckpointStore, seal: Seal, unseal: Seal) -> None:
        self._store = store
        self._seal = seal
        self._unseal = unseal

    @override
    def __repr__(self) -> str:
        return f"SealedStore({self._store!r})"

    @override
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        try:
            sealed = self._seal(_prefix(head.version) + data, head.id)
        except Exception as error:
            what = f"sealing version {head.version} of log {head.id!r}"
            raise StoreError(repr(self), what, f"{type(error).__name__}: {error}") from error
        await self._store.save(head, sealed, snapshot=snapshot, expected=expected)

    @override
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        log = await self._store.load(id, version=version)
        return None if log is None else StoredLog(log.head, tuple(self._opened(id, entry) for entry in log.entries))

    def _opened(self, id: str, entry: LogEntry) -> LogEntry:
        path = f"log {id!r}, version {entry.version}"
        try:
            data = self._unseal(entry.data, id)
        except Exception as error:
            raise DamagedRecordError(path, f"it cannot be unsealed: {type(error).__name__}: {error}") from error
        prefix = _prefix(entry.version)
        if not data.startswith(prefix):
            raise DamagedRecordError(path, "what was sealed is another version")
        return replace(entry, data=data[len(prefix) :])

    @override
    async def versions(self, id: str) -> Sequence[LogVersion]:
        """List a log's entries; the sizes are those of what is stored."""
        return await self._store.versions(id)

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
        return await self._store.heads(kind=kind, thread=thread, status=status, limit=limit, after=after)

    @override
    async def delete(self, id: str) -> bool:
        return await self._store.delete(id)

    @override
    async def expire(self, now: float) -> int:
        return await self._store.expire(now)

    @override
    async def aclose(self) -> None:
        await self._store.aclose()


def _prefix(version: int) -> bytes:
    return b"%d\n" % version
