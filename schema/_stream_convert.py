"""``convert``: one source made of another by a function, one item at a time, with nothing in between."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine
from types import CoroutineType
from typing import Any, NoReturn

import anyio

from ._stream_awaited import AwaitedSource
from ._stream_backend import is_cancellation
from ._stream_source import END, NO_VALUE, PENDING, Postbox, Source, as_stream_error, close_all

__all__ = ()

Hook = Callable[..., Any]


class ConvertSource(AwaitedSource):
    """Passes each item through a function; the hooks see how the inner source ends.

    The stream ends after what ``on_end`` or ``on_error`` returns, and with what any of the three functions raises.
    """

    __slots__ = ("_coroutine", "_function", "_last", "_on_end", "_on_error", "_pull", "_reading", "inner")

    def __init__(self, inner: Source, function: Hook, on_end: Hook | None, on_error: Hook | None) -> None:
        super().__init__()
        self.inner = inner
        self._pull = inner.anext
        self._function = function
        self._on_end = on_end
        self._on_error = on_error
        self._coroutine: Any = None  # returned by one of the functions to `poll`, which cannot await it
        self._reading = False  # a task is in `anext`
        self._last = False  # the item under way comes from a hook and is the last one

    @property
    def must_await(self) -> bool:
        return self._coroutine is not None or self.inner.must_await

    def watch(self, callback: Callable[[], None]) -> None:
        self.inner.watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self.inner.unwatch(callback)

    def cancel_next(self, error: BaseException) -> bool:
        return self.inner.cancel_next(error)

    def poll(self) -> Any:
        while not self.done:
            if self._coroutine is not None or self._reading:
                return PENDING
            try:
                item = END if self._last else self.inner.poll()
            except BaseException as error:  # noqa: BLE001
                value = self._call_on_error(error)
            else:
                if item is PENDING:
                    return PENDING
                value = self._call_on_end() if item is END else self._call(self._function, item)
            if type(value) is CoroutineType:
                self._coroutine = value
                return PENDING
            if value is not NO_VALUE and not self.done:
                return value
        return self.last_word()

    async def anext(self) -> Any:
        if self._reading:
            raise anyio.BusyResourceError("reading from")
        self._reading = True
        try:
            while not self.done:
                if self._coroutine is not None:
                    value, self._coroutine = self._coroutine, None
                elif self._last:
                    self._end()
                    break
                else:
                    try:
                        item = await self._pull()
                    except BaseException as error:  # noqa: BLE001
                        value = self._on_ending(error)
                    else:
                        try:
                            value = self._function(item)
                        except BaseException as error:  # noqa: BLE001
                            value = self._fail_with(error)
                if type(value) is CoroutineType:
                    value = await self._finish_call(value)
                if value is not NO_VALUE:
                    return value
        finally:
            self._reading = False
        return await self._tell_ending()

    async def _tell_ending(self) -> NoReturn:
        if not self.settled:
            await self.settle()
        self.last_word()
        raise StopAsyncIteration

    def _on_ending(self, error: BaseException) -> Any:
        """Give the last item, or ``NO_VALUE``, or raise what is not the stream's but the reader's."""
        if isinstance(error, StopAsyncIteration):
            return self._call_on_end()
        if self.closed or not self.inner.done:
            raise error
        if not isinstance(error, Exception) and is_cancellation(error):
            self.end_like(self.inner)
            raise error
        return self._call_on_error(error)

    def _call(self, function: Hook, *args: Any) -> Any:
        try:
            return function(*args)
        except BaseException as error:  # noqa: BLE001
            return self._fail_with(error)

    def _call_on_end(self) -> Any:
        on_end, self._on_end = self._on_end, None
        if self._last or on_end is None:
            self._end()
            return NO_VALUE
        self._last = True
        return self._call(on_end)

    def _end(self) -> None:
        self.settled = self.inner.settled
        self.finish()

    def _call_on_error(self, error: BaseException) -> Any:
        if self._on_error is None or not isinstance(error, Exception):
            self.end_like(self.inner)
            return NO_VALUE
        self._last = True
        return self._call(self._on_error, error)

    def _fail_with(self, error: BaseException) -> Any:
        self.settled = False
        if not isinstance(error, Exception) and is_cancellation(error):
            self.fail(anyio.BrokenResourceError("a function given to convert() was cancelled"))
            raise error
        self.fail(as_stream_error(error, "a function given to convert()"))
        return NO_VALUE

    async def _finish_call(self, coroutine: Any) -> Any:
        try:
            yielded = coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        except BaseException as error:  # noqa: BLE001
            return self._fail_with(error)
        try:
            return await self._resume(coroutine, yielded)
        except BaseException as error:
            if self.closed:
                raise
            return self._fail_with(error)

    def interrupt(self) -> None:
        super().interrupt()
        self.inner.interrupt()

    async def settle(self) -> None:
        await close_all((self.inner,), quietly=self.error is not None)
        self.is_settled()

    async def _release(self) -> None:
        if iscoroutine(self._coroutine):
            self._coroutine.close()
            self._coroutine = None
        await self.inner.aclose()

    def find_postbox(self) -> Postbox | None:
        return self.postbox or self.inner.find_postbox()

    def drop(self) -> None:
        if iscoroutine(self._coroutine):
            self._coroutine.close()
        self.inner.drop()
