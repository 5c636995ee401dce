"""Several paradigms of one function, as one node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic

from typing_extensions import TypeVar

from ..schema import StreamReader
from ._body import PARADIGMS, Body, ShapeError, shape_of

InputT = TypeVar("InputT", contravariant=True, default=Any)
OutputT = TypeVar("OutputT", covariant=True, default=Any)


class Lambda(Generic[InputT, OutputT]):
    """A node made of up to four functions that do the same in different paradigms.

    In value mode the graph uses ``invoke`` where there is one, in stream mode ``transform``; what is missing is made
    from what is there.

    Args:
        invoke: From a value to a value, ``def`` or ``async def``.
        stream: From a value to a stream of chunks.
        collect: From a stream to a value.
        transform: From a stream to a stream.
        input: The type of the input, where the annotations do not say it.
        output: The type of the output (of one chunk, for streams).
        name: What callbacks and drawings call it.

    Raises:
        TypeError: If no function is given, or one of them cannot be a node.

    Example:
        >>> async def shout(text: str) -> str:
        ...     return text.upper()
        >>> Lambda(invoke=shout).body().output
        <class 'str'>
    """

    def __init__(
        self,
        invoke: Callable[[InputT], Awaitable[OutputT] | OutputT] | None = None,
        stream: Callable[[InputT], AsyncIterator[OutputT]] | None = None,
        collect: Callable[[StreamReader[InputT]], Awaitable[OutputT] | OutputT] | None = None,
        transform: Callable[[StreamReader[InputT]], AsyncIterator[OutputT]] | None = None,
        *,
        input: Any = None,
        output: Any = None,
        name: str | None = None,
    ) -> None:
        given = dict(zip(PARADIGMS, (invoke, stream, collect, transform), strict=True))
        functions = {paradigm: f for paradigm, f in given.items() if f is not None}
        if not functions:
            raise ShapeError("Lambda(): give at least one of invoke=, stream=, collect=, transform=")
        first = next(iter(functions.values()))
        shape = shape_of(first)
        self._body = Body(
            input=shape.input if input is None else input,
            output=shape.output if output is None else output,
            component="lambda",
            name=name or str(getattr(first, "__name__", "lambda")),
            target=self,
            **functions,  # pyright: ignore[reportArgumentType]
        )

    def body(self) -> Body:
        """Give the four callables and their types, as the engine takes them."""
        return self._body
