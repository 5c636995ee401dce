"""The sources at the root of a stream: items that are there, an async generator, any other async iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import Context
from functools import partial
from typing import Any, NoReturn, Protocol, cast

import anyio

from ._stream_awaited import AwaitedSource
from ._stream_backend import current_backend, is_cancellation
from ._stream_source import EMPTY, END, Source, as_stream_error, close_all

__all__ = ()


class IterSource(Source):
    """A sync iterator; a generator is closed with the stream."""

    __slots__ = ("_iterator", "array")

    def __init__(self, iterator: Iterator[Any], *, array: bool = False) -> None:
        super().__init__()
        self._iterator = iterator
        self.array = array

    def poll(self) -> Any:
        if self.done:
            return self.last_word()
        try:
            item = next(self._iterator, END)
        except BaseException as error:
            self._release()
            replaced = as_stream_error(error, "the iterable of a stream")
            self.fail(replaced)
            if replaced is error:
                raise
            return self.last_word()
        if item is END:
            self._release()
            self.finish()
        return item

    async def anext(self) -> Any:
        item = self.poll()
        if item is END:
            raise StopAsyncIteration
        return item

    def watch(self, callback: Callable[[], None]) -> None:
        callback()

    def unwatch(self, callback: Callable[[], None]) -> None:
        pass

    async def aclose(self) -> None:
        self.drop()

    def drop(self) -> None:
        if not self.closed:
            self.closed = True
            iterator = self._release()
            self.finish()
            if isinstance(iterator, Generator):
                iterator.close()

    def _release(self) -> Iterator[Any]:
        iterator, self._iterator = self._iterator, iter(())
        return iterator


class _Closable(Protocol):
    async def aclose(self) -> None: ...
    def _drop(self) -> None: ...


class _AsyncGenerator(Protocol):
    """What is needed of an async generator."""

    def __anext__(self) -> Coroutine[Any, Any, Any]: ...
    def athrow(self, error: BaseException, /) -> Coroutine[Any, Any, Any]: ...
    def aclose(self) -> Coroutine[Any, Any, None]: ...


class GeneratorSource(AwaitedSource):
    """An async generator, each of whose steps runs in the task that asks for it.

    Args:
        generator: The generator.
        context: Each step runs in this context; by default in that of the task.
        translate: Makes the stream's error of what the generator raises.
        feeds: Sources that only this generator reads: they are closed with it.
    """

    __slots__ = ("_cancel", "_context", "_feeds", "_generator", "_next", "_translate")

    def __init__(
        self,
        generator: _AsyncGenerator,
        context: Context | None = None,
        translate: Callable[[BaseException], BaseException] | None = None,
        feeds: Sequence[_Closable] = (),
    ) -> None:
        super().__init__()
        self._generator = generator
        self._context = context
        self._translate = translate
        self._feeds = feeds
        self._next: Callable[[], Any] | None = None  # None: something is special about the next step
        self._cancel: BaseException | None = None

    def cancel_next(self, error: BaseException) -> bool:
        self._cancel = error
        self._next = None
        return True

    async def anext(self) -> Any:
        # All in one function: generators that read one another are nested as deep as their calls, and there is a limit.
        call = self._next or self._special_call()
        step = call()
        context = self._context
        try:
            yielded = step.send(None) if context is None else context.run(step.send, None)
        except StopIteration as stop:
            if self._scope_before is not EMPTY:
                self._note_scope()
            return stop.value
        except BaseException as error:  # noqa: BLE001
            ending = error
        else:
            self._next = None
            try:
                item = await self._begin_wait(step, yielded, context)
            except BaseException as error:  # noqa: BLE001
                ending = await self._end_wait(error)
            else:
                if self._closing is None:
                    self._drive = None
                    self._next = self._generator.__anext__
                    if self._scope_before is not EMPTY:
                        self._note_scope()
                    return item
                ending = await self._end_wait(None)
        return await self._end(ending)

    def _special_call(self) -> Callable[[], Any]:
        """Give the call that makes the next step, where that is not the usual one, or raise."""
        if self.done:
            self.last_word()
            raise StopAsyncIteration
        if self._drive is not None:
            raise anyio.BusyResourceError("reading from")
        self._note_scope_before()
        cancel, self._cancel = self._cancel, None
        self._next = self._generator.__anext__
        return self._next if cancel is None else partial(self._generator.athrow, cancel)

    def drop(self) -> None:
        for feed in self._feeds:  # the generator itself is left to the loop, which closes those that are dropped
            feed._drop()  # pyright: ignore[reportPrivateUsage]

    async def _end(self, error: BaseException) -> NoReturn:
        """Note how the generator ended, close what it read from, and tell the reader."""
        self._next = None
        if self.closed:
            raise anyio.ClosedResourceError if isinstance(error, StopAsyncIteration) else error
        cancelled = False
        if isinstance(error, StopAsyncIteration):
            self.finish()
        elif is_cancellation(error):
            cancelled = True
            self.fail(anyio.BrokenResourceError("the stream's generator was cancelled in the middle of a step"))
        else:
            self.fail(as_stream_error(self._translated(error), "the generator of a stream"))
            if getattr(self._generator, "ag_frame", None) is not None:
                # It was broken off in a wait that cannot be aborted, and gave an item instead of ending.
                await self._close_generator()
        if self._feeds:
            await close_all(self._feeds, quietly=self.error is not None)
        if cancelled:
            raise error
        self.last_word()
        raise StopAsyncIteration

    async def _release(self) -> None:
        self._next = None
        try:
            await self._close_generator()
        finally:
            await close_all(self._feeds)

    async def _close_generator(self) -> None:
        step = self._generator.aclose()
        await self._closed(step if self._context is None else _in_context(step, self._context))

    def _translated(self, error: BaseException) -> BaseException:
        if self._translate is None:
            return error
        try:
            return self._translate(error)
        except BaseException as failure:  # noqa: BLE001
            return failure


async def _in_context(step: Coroutine[Any, Any, Any], context: Context) -> None:
    try:
        yielded = context.run(step.send, None)
    except StopIteration:
        return
    await current_backend().drive(step, yielded, context)


class ForeignSource(AwaitedSource):
    """Any async iterator that is not ours, a receive stream of anyio for example.

    Unlike a generator it may be read on after a wait that was cancelled.
    """

    __slots__ = ("_close", "_iterator")

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        super().__init__()
        self._iterator = iterator
        self._close: Callable[[], Awaitable[None]] | None = getattr(iterator, "aclose", None)

    async def anext(self) -> Any:
        if self.done:
            self.last_word()
            raise StopAsyncIteration
        if self._drive is not None:
            raise anyio.BusyResourceError("reading from")
        try:
            self._note_scope_before()
            item = await self._step()
            if self._scope_before is not EMPTY:
                self._note_scope()
        except BaseException as error:
            if self.closed or is_cancellation(error):
                raise
            self.fail(as_stream_error(error, "the async iterator of a stream"))
        else:
            if item is not END:
                return item
            self.finish()
        try:
            await self._release()
        except Exception:
            if self.error is None:
                raise
        self.last_word()
        raise StopAsyncIteration

    async def _step(self) -> Any:
        step = self._call()
        try:
            yielded = step.send(None)
        except StopIteration as stop:
            return stop.value
        return await self._resume(step, yielded)

    async def _call(self) -> Any:
        try:
            return await self._iterator.__anext__()
        except StopAsyncIteration:
            return END

    async def _release(self) -> None:
        if self._close is not None:
            await self._closed(self._close())


def root_of(items: Any) -> Source:
    """Make the source of a list, an iterator, a generator, an async iterable, an async generator or a receive stream.

    Raises:
        TypeError: If it is none of these.
    """
    kind = cast("type[object]", type(items))
    if isinstance(items, Sequence):
        return IterSource(iter(cast("Any", items)), array=True)
    if hasattr(items, "asend") and hasattr(items, "athrow"):
        return GeneratorSource(items)
    if hasattr(kind, "__aiter__"):
        iterator = items.__aiter__()
        if hasattr(iterator, "asend") and hasattr(iterator, "athrow"):
            return GeneratorSource(iterator)
        return ForeignSource(iterator)
    if hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"):
        return IterSource(iter(items))
    raise TypeError(f"a stream is made of an iterable or an async iterable, not of {kind.__qualname__}")
