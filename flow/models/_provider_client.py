"""The providers' clients: one for each event loop, made when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from anyio.lowlevel import RunVar

__all__ = ()


class Clients:
    """Gives the client that belongs to the running event loop.

    A client keeps connections open, and these belong to the loop in which they were made. So that one model can be
    used in many loops, one after the other or in several threads, each loop gets its own; a client that was given by
    the user is used everywhere.
    """

    def __init__(self, make: Callable[[], Any], given: Any = None) -> None:
        self._make = make
        self._given = given
        # The first client is made at once, so that a missing key or package shows when the model is made.
        self._spare: list[Any] = [] if given is not None else [make()]
        self._current: RunVar[Any] = RunVar("anabranch model client")

    @property
    def first(self) -> Any:
        """The client that was made or given at the start, to read its settings."""
        return self._given if self._given is not None else self._spare[0]

    def current(self) -> Any:
        """Give the client for this event loop."""
        if self._given is not None:
            return self._given
        client = self._current.get(None)
        if client is None:
            try:
                client = self._spare.pop()
            except IndexError:
                client = self._make()
            self._current.set(client)
        return client

    async def aclose(self) -> None:
        """Close the client of this event loop; one that the user gave stays open."""
        client = self._current.get(None)
        if client is not None:
            self._current.set(None)
            await client.close()
        while self._spare:
            await self._spare.pop().close()


def http_client(sdk: Any, settings: Mapping[str, Any]) -> Any:
    """Make the HTTP client that a provider's client would make for itself, without loading the certificates anew."""
    timeout = {"timeout": settings["timeout"]} if "timeout" in settings else {}
    return sdk.DefaultAsyncHttpxClient(verify=_certificates(), **timeout)


@cache
def _certificates() -> Any:
    import httpx2

    return httpx2.create_ssl_context()


def kept_settings(**settings: Any) -> dict[str, Any]:
    """Give the settings of a client that were given."""
    return {name: value for name, value in settings.items() if value is not None}
