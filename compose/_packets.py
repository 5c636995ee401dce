"""What travels along edges: values in value mode, streams in stream mode. The schedulers do not care which.

Each kind of packet knows how to run a node on it, give it to several successors, ask a condition about it, merge
several into one and give it up. That is where the four paradigms are adapted to each other: in value mode a node's
``invoke`` is used if it has one, in stream mode its ``transform``; else what it has is adapted by boxing a value into
a stream of one chunk, or by concatenating a stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ..schema import NO_VALUE, StreamReader
from ._apart import CONTAINERS, apart
from ._body import Body
from ._merge import MergeConflictError, as_mapping, merge_values
from ._plan import BranchPlan, Check, HandlerPlan, NodePlan
from ._run import Run
from ._streams import boxed, checked_reader, chunks_to_value, keyed_reader, merged_reader, node_reader
from ._types import value_type_name
from .errors import MergeError, MissingKeyError, ValueTypeError

Packet = Any
"""A value, or in stream mode a StreamReader; the engine's values are heterogeneous by nature."""


class Packets(Protocol):
    """One way in which a run handles what travels along its edges."""

    streaming: bool

    async def before(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        """Run the pre-handler."""
        ...

    def pick(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        """Take what is under the input key."""
        ...

    async def perform(self, run: Run, node: NodePlan, body: Body, packet: Packet) -> Packet:
        """Run the body of a node once; called inside the node's context."""
        ...

    def wrap(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        """Put under the output key."""
        ...

    async def after(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        """Run the post-handler."""
        ...

    def fork(self, packet: Packet, count: int) -> Sequence[Packet]:
        """Make as many packets of one; at least one."""
        ...

    def give_out(self, packet: Packet, count: int) -> Sequence[Packet]:
        """Make as many packets of one, for nodes that may do with theirs what they like."""
        ...

    async def ask(self, run: Run, node: NodePlan, branch: BranchPlan, packet: Packet) -> Any:
        """Call a branch's condition; the packet is used up."""
        ...

    def check(self, run: Run, check: Check, packet: Packet) -> Packet:
        """Test what passes an edge that may fit."""
        ...

    async def merge(self, run: Run, node: NodePlan, packets: Mapping[int, Packet]) -> Packet:
        """Make one packet of several, given by sender in the order in which the senders were declared."""
        ...

    def empty(self, node: NodePlan) -> Packet:
        """Make the packet of a node that control leads to without data."""
        ...

    async def finish(self, packet: Packet) -> None:
        """Let a node whose output nobody takes come to its end all the same."""
        ...

    async def drop(self, packet: Packet) -> None:
        """Give a packet up."""
        ...


class ValuePackets:
    """Plain values."""

    streaming = False

    async def before(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        assert node.pre is not None, "only called where there is one"
        if not node.pre.streams:
            return await run.call_handler(node, node.pre, packet)
        async with boxed(packet) as given:
            reader = await run.call_handler(node, node.pre, given)
            return await chunks_to_value(run, node, reader, node.input)

    def pick(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        return pick(run, node, packet)

    async def perform(self, run: Run, node: NodePlan, body: Body, packet: Packet) -> Packet:
        return await call_value(run, node, body, packet)

    def wrap(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        return {node.output_key: packet}

    async def after(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        assert node.post is not None, "only called where there is one"
        if not node.post.streams:
            return await run.call_handler(node, node.post, packet)
        async with boxed(packet) as given:
            reader = await run.call_handler(node, node.post, given)
            return await chunks_to_value(run, node, reader, node.output)

    def fork(self, packet: Packet, count: int) -> Sequence[Packet]:
        return (packet,) * count

    def give_out(self, packet: Packet, count: int) -> Sequence[Packet]:
        if count == 1 or type(packet) not in CONTAINERS:
            return (packet,) * count
        return (packet, *(apart(packet) for _ in range(count - 1)))

    async def ask(self, run: Run, node: NodePlan, branch: BranchPlan, packet: Packet) -> Any:
        if branch.check is not None:
            self.check(run, branch.check, packet)
        if not branch.streams:
            return await ask_condition(branch.condition, packet)
        if branch.on_value is not None:
            return await ask_condition(branch.on_value, packet)
        async with boxed(packet) as reader:
            return await ask_condition(branch.condition, reader)

    def check(self, run: Run, check: Check, packet: Packet) -> Packet:
        if not check.accepts(packet):
            raise run.fail(ValueTypeError(run.graph_path, check.edge, check.wanted, value_type_name(packet)))
        return packet

    async def merge(self, run: Run, node: NodePlan, packets: Mapping[int, Packet]) -> Packet:
        return merge_all(run, node, packets)

    def empty(self, node: NodePlan) -> Packet:
        return node.empty() if node.empty is not None else None

    async def finish(self, packet: Packet) -> None:
        pass

    async def drop(self, packet: Packet) -> None:
        pass


class StreamPackets:
    """Streams, pulled by whoever reads them."""

    streaming = True

    async def before(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        assert node.pre is not None, "only called where there is one"
        if node.pre.streams:
            return await _handled_stream(run, node, node.pre, packet)
        value = await chunks_to_value(run, node, packet, node.input)
        return boxed(await run.call_handler(node, node.pre, value))

    def pick(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        return _picked_stream(run, node, packet)

    async def perform(self, run: Run, node: NodePlan, body: Body, packet: Packet) -> Packet:
        return await call_stream(run, node, body, packet)

    def wrap(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        return keyed_reader(run, node, packet)

    async def after(self, run: Run, node: NodePlan, packet: Packet) -> Packet:
        assert node.post is not None, "only called where there is one"
        if node.post.streams:
            return await _handled_stream(run, node, node.post, packet)
        value = await chunks_to_value(run, node, packet, node.output)
        return boxed(await run.call_handler(node, node.post, value))

    def fork(self, packet: Packet, count: int) -> Sequence[Packet]:
        return (packet,) if count == 1 else packet.copy(count)

    give_out = fork  # the chunks are shared; what is concatenated of them is not

    async def ask(self, run: Run, node: NodePlan, branch: BranchPlan, packet: Packet) -> Any:
        if branch.streams:
            if branch.check is not None:
                packet = self.check(run, branch.check, packet)
            async with packet:
                return await ask_condition(branch.condition, packet)
        value = await chunks_to_value(run, node, packet, node.output)
        if branch.check is not None:
            ValuePackets().check(run, branch.check, value)
        return await ask_condition(branch.condition, value)

    def check(self, run: Run, check: Check, packet: Packet) -> Packet:
        return checked_reader(run, check, packet)

    async def merge(self, run: Run, node: NodePlan, packets: Mapping[int, Packet]) -> Packet:
        live = merged_reader(run, node, packets)
        if live is not None:
            return live
        values: dict[int, Any] = {}
        try:
            for source, reader in packets.items():
                values[source] = await chunks_to_value(run, node, reader, run.plan.nodes[source].output)
        finally:
            for reader in packets.values():
                await reader.aclose()
        return boxed(merge_all(run, node, values))

    def empty(self, node: NodePlan) -> Packet:
        return boxed(node.empty() if node.empty is not None else None)

    async def finish(self, packet: Packet) -> None:
        reader: StreamReader[Any] = packet
        async with reader:
            async for _ in reader:
                pass

    async def drop(self, packet: Packet) -> None:
        if packet is not None:  # the place of one that is somewhere else by now
            await packet.aclose()


VALUES = ValuePackets()
STREAMS = StreamPackets()


async def ask_condition(condition: Callable[[Any], Any], given: Any) -> Any:
    """Call a condition, sync or async."""
    answer = condition(given)
    return await cast("Awaitable[Any]", answer) if hasattr(answer, "__await__") else answer


def pick(run: Run, node: NodePlan, packet: Any) -> Any:
    """Take the value under a node's input key."""
    key = cast("str", node.input_key)
    keyed = as_mapping(packet)
    if keyed is None:
        where = f"the input of node {run.path(node)!r}"
        raise run.fail(ValueTypeError(run.path(node), where, "a dict", value_type_name(packet)))
    if key not in keyed:
        raise run.fail(MissingKeyError(run.path(node), key, sorted(map(str, keyed))))
    found = keyed[key]
    check = node.key_check
    if check is not None and not check.accepts(found):
        raise run.fail(ValueTypeError(run.path(node), check.edge, check.wanted, value_type_name(found)))
    return found


def _picked_stream(run: Run, node: NodePlan, reader: StreamReader[Any]) -> StreamReader[Any]:
    """Take the chunks under the input key; a stream that never had it is as wrong as a value without it."""
    key = cast("str", node.input_key)
    found = False
    seen: set[str] = set()

    def take(chunk: Any) -> Any:
        nonlocal found
        keyed = as_mapping(chunk)
        if keyed is None or key in keyed:
            found = True
            return pick(run, node, chunk)
        seen.update(map(str, keyed))
        return NO_VALUE

    def ended() -> Any:
        if not found:
            raise run.fail(MissingKeyError(run.path(node), key, sorted(seen)))
        return NO_VALUE

    return reader.convert(take, on_end=ended)


def merge_all(run: Run, node: NodePlan, values: Mapping[int, Any]) -> Any:
    """Merge values by sender: the node's own function, or the type's rule."""
    names = [run.plan.nodes[source].key for source in values]
    try:
        if node.assembler is not None:
            return node.assembler.assemble(dict(zip(names, values.values(), strict=True)))
        if node.merge is not None:  # also for one value: what the function makes need not be what it gets
            return node.merge(list(values.values()))
        if len(values) == 1:
            return next(iter(values.values()))
        return merge_values(names, list(values.values()))
    except MergeConflictError as error:
        raise run.fail(MergeError(run.path(node), str(error))) from None
    except Exception as error:
        where = "the field mapping" if node.assembler is not None else "the merge function"
        raise run.located(run.path(node), where, error) from error


async def _handled_stream(run: Run, node: NodePlan, handler: HandlerPlan, reader: StreamReader[Any]) -> Any:
    try:
        made = await run.call_handler(node, handler, reader)
    except BaseException:
        await reader.aclose()
        raise
    return made if isinstance(made, StreamReader) else node_reader(run, node, made, reader)  # pyright: ignore[reportUnknownVariableType]


async def call_value(run: Run, node: NodePlan, body: Body, value: Any) -> Any:
    """Run a body from a value to a value."""
    if body.nested is not None:
        return await run.call_nested(node, body.nested, value)
    if body.invoke is not None:
        if body.blocking:
            return await in_thread(body.invoke, value)
        result = body.invoke(value)
        return await result if hasattr(result, "__await__") else result
    if body.stream is not None:
        made = body.stream(value)
        made = await made if hasattr(made, "__await__") else made
        return await chunks_to_value(run, node, StreamReader.from_iterable(made), node.gives)
    async with boxed(value) as reader:
        if body.collect is not None:
            result = body.collect(reader)
            return await result if hasattr(result, "__await__") else result
        assert body.transform is not None, "a body has at least one paradigm"
        made = body.transform(reader)
        made = await made if hasattr(made, "__await__") else made
        return await chunks_to_value(run, node, StreamReader.from_iterable(made), node.gives)


async def call_stream(run: Run, node: NodePlan, body: Body, reader: StreamReader[Any]) -> StreamReader[Any]:
    """Run a body from a stream to a stream."""
    if body.nested is not None:
        inner: StreamReader[Any] = await run.call_nested(node, body.nested, reader)
        return inner
    if body.transform is not None:
        try:
            made = body.transform(reader)
            if hasattr(made, "__await__"):
                made = await made
        except BaseException:
            await reader.aclose()
            raise
        return node_reader(run, node, made, reader)
    if body.stream is not None:
        made = body.stream(await chunks_to_value(run, node, reader, node.takes))
        if hasattr(made, "__await__"):
            made = await made
        return node_reader(run, node, made, None)
    if body.collect is not None:
        async with reader:
            result = body.collect(reader)
            return boxed(await result if hasattr(result, "__await__") else result)
    return boxed(await call_value(run, node, body, await chunks_to_value(run, node, reader, node.takes)))


async def in_thread(call: Any, value: Any) -> Any:
    """Call a plain function in a worker thread; cancelling does not wait for it, and drops what it returns."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(call, value, abandon_on_cancel=True)
