"""The streams of a run: how a node's output becomes a reader whose errors name the node, and chunks a value."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextvars import Context
from inspect import isasyncgen
from typing import TYPE_CHECKING, Any, cast

from anyio import EndOfStream, WouldBlock

from ..schema import NO_VALUE, EmptyStreamError, SourceEnd, StreamReader, concat, merge
from ._empty import empty_value
from ._merge import EACH_ITS_OWN
from ._plan import Check, NodePlan
from ._types import value_type_name
from .errors import GraphRunError, MergeError, ValueTypeError

if TYPE_CHECKING:
    from ._run import Run


def boxed(value: Any) -> StreamReader[Any]:
    """Make a stream of one chunk."""
    return StreamReader.of(value)


def node_reader(
    run: Run, node: NodePlan, made: Any, fed: StreamReader[Any] | None, context: Context | None = None
) -> StreamReader[Any]:
    """Make the reader of what a node's function gave: located errors, the node's context, its input closed with it."""
    if fed is not None and fed is made:
        return fed

    def locate(error: BaseException) -> BaseException:
        return run.located(run.path(node), "node", error) if isinstance(error, Exception) else error

    feeds: list[StreamReader[Any]] = [] if fed is None else [fed]
    generator = made
    if not isasyncgen(made):
        source: StreamReader[Any] = StreamReader.from_iterable(made)
        generator = _relay(source)
        feeds.append(source)  # a generator that was never started closes nothing
    return StreamReader._from_generator(  # pyright: ignore[reportPrivateUsage]
        generator, context=context or run.context(node), translate=locate, feeds=feeds
    )


async def _relay(reader: StreamReader[Any]) -> AsyncGenerator[Any, None]:
    async with reader:
        async for chunk in reader:
            yield chunk


async def chunks_to_value(run: Run, node: NodePlan, reader: StreamReader[Any], form: Any) -> Any:
    """Read a stream to its end and concatenate it; an empty one gives the type's neutral element if there is one.

    Raises:
        NodeError: If the chunks do not make one value; errors that the stream itself raises pass as they are.
    """
    chunks: list[Any] = []
    if not _take_what_is_there(reader, chunks):
        async with reader:
            async for chunk in reader:
                chunks.append(chunk)
    if len(chunks) == 1 and type(chunks[0]) is str:
        return chunks[0]  # what concat() would give
    if any(isinstance(chunk, SourceEnd) for chunk in chunks):
        chunks = [chunk for chunk in chunks if not isinstance(chunk, SourceEnd)]
    if not chunks:
        return _neutral(run, node, form)
    try:
        return concat(chunks)
    except Exception as error:
        raise run.located(run.path(node), "the stream", error) from error


def _take_what_is_there(reader: StreamReader[Any], chunks: list[Any]) -> bool:
    """Take the chunks that come without waiting; tell whether that was all of them."""
    take = reader._receive_nowait  # pyright: ignore[reportPrivateUsage]
    try:
        while True:
            chunks.append(take())
    except WouldBlock:
        return False
    except EndOfStream:
        return True


def _neutral(run: Run, node: NodePlan, form: Any) -> Any:
    factory = empty_value(form)
    neutral = None if factory is None else factory()
    if neutral is None:
        error = EmptyStreamError("the stream ended without a chunk, and its type has no neutral element")
        raise run.located(run.path(node), "the stream", error) from error
    return neutral


def keyed_reader(run: Run, node: NodePlan, reader: StreamReader[Any]) -> StreamReader[Any]:
    """Put each chunk under a node's output key; a stream without any chunk has the key too, as its value would."""
    key, empty = node.output_key, True

    def wrap(chunk: Any) -> Any:
        nonlocal empty
        empty = False
        return {key: chunk}

    def ended() -> Any:
        return {key: _neutral(run, node, node.gives)} if empty else NO_VALUE

    return reader.convert(wrap, on_end=ended)


def checked_reader(run: Run, check: Check, reader: StreamReader[Any]) -> StreamReader[Any]:
    """Test what passes an edge: every chunk, and where that says too little, the whole when it has ended."""
    chunks: list[Any] = []

    def refuse(value: Any) -> GraphRunError:
        return run.fail(ValueTypeError(run.graph_path, check.edge, check.wanted, value_type_name(value)))

    def test(chunk: Any) -> Any:
        if not check.accepts_chunk(chunk):
            raise refuse(chunk)
        if check.whole:
            chunks.append(chunk)
        return chunk

    def ended() -> Any:
        if chunks and not check.accepts(whole := concat(chunks)):
            raise refuse(whole)
        return NO_VALUE

    return reader.convert(test, on_end=ended) if check.whole else reader.convert(test)


async def checked_chunks(run: Run, check: Check, source: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Do the same for an async generator whose chunks' test says all: with a layer less, since it is on every chunk."""
    accepts = check.accepts_chunk
    try:
        async for chunk in source:
            if not accepts(chunk):
                raise run.fail(ValueTypeError(run.graph_path, check.edge, check.wanted, value_type_name(chunk)))
            yield chunk
    finally:
        await source.aclose()


def merged_reader(run: Run, node: NodePlan, packets: Mapping[int, StreamReader[Any]]) -> StreamReader[Any] | None:
    """Merge streams live where concatenating the result gives what merging the values would; else give None.

    That holds for dicts, whose keys must not come from two senders, and for labelled sources.
    """

    def locate(error: Exception) -> Exception:
        return run.located(run.path(node), "the field mapping", error)

    nodes = run.plan.nodes
    readers = {nodes[source].key: reader for source, reader in packets.items()}
    if node.assembler is not None:
        return cast("StreamReader[Any] | None", node.assembler.assemble_stream(readers, locate))
    if node.label_sources:
        return merge(readers, labels=True)
    is_end = node.body.component == "virtual" and not run.wants_value
    takes_streams = (
        is_end or node.body.transform is not None or node.body.collect is not None or node.body.nested is not None
    )
    dicts = all(_is_dict(nodes[source].output) for source in packets)
    if node.merge is not None or not dicts or not takes_streams:
        return None
    owner: dict[str, str] = {}

    def keep(item: Any) -> Any:
        if isinstance(item, SourceEnd):
            return NO_VALUE
        sender, chunk = item
        for key in chunk:
            if owner.setdefault(key, sender) != sender:
                first, second = sorted((owner[key], sender), key=list(readers).index)
                text = f"{first!r} and {second!r} both sent the key {key!r}; {EACH_ITS_OWN}"
                raise run.fail(MergeError(run.path(node), text))
        return chunk

    return merge(readers, labels=True).convert(keep)


def _is_dict(form: Any) -> bool:
    origin = getattr(form, "__origin__", form)
    return isinstance(origin, type) and issubclass(origin, Mapping)
