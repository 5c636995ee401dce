"""The sources at the root of a stream: items that are there, an async generator, any other async iterator."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import Context
from functools import partial
from typing import Any, NoReturn, Protocol, cast

import anyio

from ._stream_backend import Drive, Interrupted, current_backend
from ._stream_source import END, PENDING, Signal, Source, as_stream_error, close_all

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


class AwaitedSource(Source):
    """A source that moves only inside some task's ``anext``: how it is closed while another task waits there."""

    __slots__ = ("_closing", "_drive")

    plain = False

    def __init__(self) -> None:
        super().__init__()
        self._drive: Drive | None = None
        self._closing: Signal | None = None

    @property
    def must_await(self) -> bool:
        return True

    def poll(self) -> Any:
        return self.last_word() if self.done else PENDING

    async def _release(self) -> None:
        """Let go of what the source holds; called once, when the stream has ended or is closed."""
        raise NotImplementedError

    async def _resume(self, awaitable: Any, yielded: Any, context: Context | None = None) -> Any:
        """Finish a step that has to wait; on ``aclose`` break it off, release everything, and raise."""
        if self._drive is not None:
            raise anyio.BusyResourceError("reading from")
        drive = self._drive = current_backend().drive(awaitable, yielded, context)
        try:
            return await drive
        except Interrupted as broken_off:
            failure = broken_off.error
        finally:
            self._drive = None
            if self._closing is not None:
                try:
                    await self._release()
                finally:
                    closing, self._closing = self._closing, None
                    closing.fire()
        if failure is not None:
            raise failure
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        if self.closed:
            if self._closing is not None:
                await self._wait_closed(self._closing)
            return
        was_done = self.done
        self.closed = True
        self.finish()
        drive = self._drive
        if drive is None:
            if not was_done:
                await self._release()
            return
        self._closing = Signal()
        if drive.task is not current_backend().current_task():  # else it closes itself, from within its own step
            drive.interrupt()
            await self._wait_closed(self._closing)

    def interrupt(self) -> None:
        if self._drive is not None:
            self._drive.interrupt()

    async def _wait_closed(self, closing: Signal) -> None:
        with anyio.CancelScope(shield=True):
            await closing.wait()


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

    __slots__ = ("_cancel", "_context", "_feeds", "_generator", "_holds_scope", "_next", "_translate")

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
        self._next: Callable[[], Any] | None = (
            None  # None: not started, or over, or something is special about the next step
        )
        self._holds_scope: bool | None = None  # None: not started
        self._cancel: BaseException | None = None

    def cancel_next(self, error: BaseException) -> bool:
        self._cancel = error
        self._next = None
        return True

    async def anext(self) -> Any:
        if self._next is None:
            return await self._special_step()
        step = self._next()
        context = self._context
        try:
            yielded = step.send(None) if context is None else context.run(step.send, None)
        except StopIteration as stop:
            return stop.value
        except BaseException as error:  # noqa: BLE001
            ending = error
        else:
            return await self._finish_step(step, yielded)
        return await self._end(ending)

    async def _finish_step(self, step: Any, yielded: Any) -> Any:
        self._next = None
        try:
            item = await self._resume(step, yielded, self._context)
        except BaseException as error:  # noqa: BLE001
            ending = error
        else:
            self._next = self._generator.__anext__
            return item
        return await self._end(ending)

    async def _special_step(self) -> Any:
        if self.done:
            self.last_word()
            raise StopAsyncIteration
        if self._drive is not None:
            raise anyio.BusyResourceError("reading from")
        if self._holds_scope is None:
            # A generator that enters a cancel scope before its first item holds it while others run: see
            # _close_generator.
            before = current_backend().innermost_scope()
            self._holds_scope = False
            self._next = self._generator.__anext__
            item = await self.anext()
            self._holds_scope = current_backend().innermost_scope() is not before
            return item
        cancel, self._cancel = self._cancel, None
        self._next = self._generator.__anext__ if cancel is None else partial(self._generator.athrow, cancel)
        try:
            return await self.anext()
        finally:
            if self._next is not None:
                self._next = self._generator.__anext__

    def drop(self) -> None:
        for feed in self._feeds:  # the generator itself is left to the loop, which closes those that are dropped
            feed._drop()  # pyright: ignore[reportPrivateUsage]

    async def _end(self, error: BaseException) -> NoReturn:
        """Note how the generator ended, close what it read from, and tell the reader."""
        self._next = None
        cancelled = False
        if not self.closed:
            if isinstance(error, StopAsyncIteration):
                self.finish()
            elif isinstance(error, current_backend().cancelled):
                cancelled = True
                self.fail(anyio.BrokenResourceError("the stream's generator was cancelled in the middle of a step"))
            else:
                self.fail(as_stream_error(self._translated(error), "the generator of a stream"))
            await close_all(self._feeds, quietly=self.error is not None)
        elif isinstance(error, StopAsyncIteration):
            raise anyio.ClosedResourceError
        if cancelled or self.closed:
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
        # In a cancelled task this is shielded, so that what the generator does in `finally` may wait. Only there, and
        # not if the generator holds a cancel scope open: it would leave that one inside of ours, and cancel scopes have
        # to be properly nested within a task.
        step = self._generator.aclose()
        if self._context is not None:
            step = _in_context(step, self._context)
        if self._holds_scope is False and anyio.current_effective_deadline() == -math.inf:
            with anyio.CancelScope(shield=True):
                await step
        else:
            await step

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
    """Any async iterator that is not ours, a receive stream of anyio for example."""

    __slots__ = ("_iterator",)

    def __init__(self, iterator: AsyncIterator[Any]) -> None:
        super().__init__()
        self._iterator = iterator

    async def anext(self) -> Any:
        if self.done:
            self.last_word()
            raise StopAsyncIteration
        if self._drive is not None:
            raise anyio.BusyResourceError("reading from")
        step = self._step()
        try:
            try:
                yielded = step.send(None)
            except StopIteration as stop:
                item = stop.value
            else:
                item = await self._resume(step, yielded)
        except BaseException as error:
            if self.closed or isinstance(error, current_backend().cancelled):
                raise  # unlike a generator, such a stream may be read on after a cancelled wait
            await self._fail_with(error)
            raise
        if item is END:
            if not self.done:
                self.finish()
            raise StopAsyncIteration
        return item

    async def _step(self) -> Any:
        try:
            return await self._iterator.__anext__()
        except StopAsyncIteration:
            return END

    async def _fail_with(self, error: BaseException) -> None:
        self.fail(as_stream_error(error, "the async iterator of a stream"))
        await self._release()
        self.last_word()

    async def _release(self) -> None:
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()


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
