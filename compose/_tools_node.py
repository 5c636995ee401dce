"""``ToolsNode``: from a message with tool calls to the messages that answer them.

Every call is answered once, in the order of the calls, whatever happens to the others. Calls run at once, except for
those of tools that say ``parallel=False``, which run alone: the calls before them end first, the calls after them
start afterwards. In a stream run each chunk is a list with a place for every call, one of them filled.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING

from ..schema import Message, MessageError, StreamReader, Tool, ToolCall, ToolDefinitionError, ToolInfo, concat, merge
from ._body import Body
from ._context import current_frame, within
from ._crew import make_crew
from ._tool_call import AnyMiddleware, ArgumentHandler, Middleware, Steps, UnknownToolHandler, Work, is_cut
from ._tool_checks import listed_middlewares, listed_tools
from ._tool_kept import KeptWork, kept, stop_if_paused
from ._tool_set import ErrorPolicies, ToolAlias, ToolSet, policies_of
from ._tools_options import ToolsOptions
from .errors import ToolFailedError

if TYPE_CHECKING:
    from ._context import Frame


AnyWork = Work | KeptWork


class ToolsNode:
    """A node that runs the tool calls of a message: ``Message`` in, ``list[Message]`` out.

    For each call the steps are: its name and argument names are looked up among the aliases, the argument handler sees
    the arguments, they are validated, and then the middlewares stand around the tool, the first one outermost.

    What goes wrong with a call (a name that no tool has, bad JSON, arguments that do not fit, an exception, a
    time-out, a call that the model's token limit cut off) is told to the model in a tool message that it can act on;
    ``on_error="raise"`` makes the node fail instead, after all calls are done.

    Args:
        tools: The tools; each name may be there once.
        sequential: Run the calls one after the other.
        on_error: What becomes of a failed call: ``"tell_model"`` or ``"raise"``, or a mapping by kind of failure
            (``"unknown"``, ``"cut"``, ``"json"``, ``"arguments"``, ``"exception"``, ``"timeout"``).
        on_error_of: The same for single tools, by their name.
        aliases: Further names for tools and their arguments, by the tool's name: a :class:`ToolAlias`, or names.
            What is said about a tool that is not there waits for a run that brings it.
        argument_handler: Gets a tool's own name and the text of the arguments, and gives the text that counts.
        middlewares: ``async def middleware(call, next)`` around every call, the first one outermost. One that has a
            method ``handle_arguments(name, text)`` is an argument handler too; if it cannot be called it is only that.
        unknown_tool: Answers calls of names that no tool has, in place of a failure.
        timeout: Seconds that a call may take whose tool does not say.

    Raises:
        ToolDefinitionError: Two tools have the same name, an alias is ambiguous, or something is no tool or no
            middleware.

    Example:
        >>> from anabranch.schema import tool
        >>> @tool
        ... async def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> calls = Message.assistant(tool_calls=[ToolCall(id="c1", name="add", arguments='{"a": 2, "b": 3}')])
        >>> [message.text for message in await ToolsNode([add]).invoke(calls)]
        ['5']
    """

    def __init__(  # noqa: PLR0913  (one for each thing that can be set)
        self,
        tools: Sequence[Tool],
        *,
        sequential: bool = False,
        on_error: ErrorPolicies = "tell_model",
        on_error_of: Mapping[str, ErrorPolicies] | None = None,
        aliases: Mapping[str, ToolAlias | Sequence[str]] | None = None,
        argument_handler: ArgumentHandler | None = None,
        middlewares: Sequence[AnyMiddleware] = (),
        unknown_tool: UnknownToolHandler | None = None,
        timeout: float | None = None,
    ) -> None:
        if timeout is not None and timeout <= 0:
            raise ToolDefinitionError(f"timeout is in seconds and more than 0, or None, not {timeout}")
        self._tools = listed_tools(tools)
        middlewares = listed_middlewares(middlewares)
        self._fixed: tuple[Tool, ...] = ()
        self._at_once = False
        self._sequential = sequential
        self._aliases = dict(aliases or {})
        self._timeout = timeout
        self._policies = policies_of(on_error, "on_error")
        self._policies_of = {name: policies_of(p, f"on_error_of {name!r}") for name, p in (on_error_of or {}).items()}
        handlers = (*(() if argument_handler is None else (argument_handler,)), *_handlers(middlewares))
        self._steps = Steps(self._tool_set(), handlers, _around(middlewares), unknown_tool, self._policies)

    def __repr__(self) -> str:
        return f"<tools node of {', '.join(self._steps.tools.entries) or 'no tools'}>"

    @property
    def infos(self) -> tuple[ToolInfo, ...]:
        """What a model is told about the tools."""
        return self._steps.tools.infos

    def resolve(self, name: str) -> str | None:
        """Find the own name of the tool that answers to a name or alias.

        Args:
            name: As a model calls it.

        Returns:
            The tool's own name, or None if no tool answers to it.
        """
        entry = self._steps.tools.find(name)
        return None if entry is None else entry.name

    def with_options(self, options: ToolsOptions) -> ToolsNode:
        """Make a node to which these options apply; this one stays as it is.

        Args:
            options: What is to be different.

        Returns:
            The new node.

        Raises:
            ToolDefinitionError: As for a new node.
        """
        made = object.__new__(ToolsNode)
        made.__dict__.update(self.__dict__)
        if options.sequential is not None:
            made._sequential = options.sequential
        if options.timeout is not None:
            made._timeout = options.timeout
        if options.tools is not None:
            made._tools = listed_tools(options.tools)
        if options.aliases is not None:
            made._aliases = dict(options.aliases)
        old = self._steps
        made._steps = Steps(made._tool_set(), old.handlers, old.middlewares, old.unknown, old.node_policies)
        return made

    def with_tools(self, *tools: Tool) -> ToolsNode:
        """Make a node that has further tools; this one stays as it is.

        Args:
            *tools: The tools, which come after those that are there, also where a run brings others in their place.

        Returns:
            The new node.

        Raises:
            ToolDefinitionError: A name is there already.
        """
        made = object.__new__(ToolsNode)
        made.__dict__.update(self.__dict__)
        made._fixed = (*self._fixed, *tools)
        return made.with_options(ToolsOptions())

    def with_middlewares(self, *middlewares: AnyMiddleware) -> ToolsNode:
        """Make a node that has further middlewares, around those of this one, which stays as it is.

        Args:
            *middlewares: The first one is outermost.

        Returns:
            The new node.

        Raises:
            ToolDefinitionError: Something among them cannot be one.
        """
        listed_middlewares(middlewares)
        made = object.__new__(ToolsNode)
        made.__dict__.update(self.__dict__)
        old = self._steps
        all_of_them = (*_around(middlewares), *old.middlewares)
        handlers = (*_handlers(middlewares), *old.handlers)
        made._steps = Steps(old.tools, handlers, all_of_them, old.unknown, old.node_policies)
        return made

    @property
    def streams(self) -> bool:
        """Whether the answer to a call may come in pieces: a tool says so or does not say, or middlewares may do it."""
        entries = self._steps.tools.entries.values()
        return bool(self._steps.middlewares) or any(getattr(e.tool, "streaming", True) for e in entries)

    def at_once(self) -> ToolsNode:
        """Make a node that gives all answers to a message at once, as one chunk, in stream runs too.

        Returns:
            The new node; where whoever reads it needs all of them anyway, it is the quicker one.
        """
        made = object.__new__(ToolsNode)
        made.__dict__.update(self.__dict__)
        made._at_once = True
        return made

    def as_node(self) -> Body:
        """Give the body of a node that does this."""
        return Body(
            Message,
            list[Message],
            "tools",
            "tools",
            invoke=self.invoke,
            stream=None if self._at_once else self.stream,
            bind=lambda options: self.with_options(options).as_node(),
            options=ToolsOptions,
            target=self,
        )

    async def invoke(self, message: Message) -> list[Message]:
        """Run the calls of a message.

        Args:
            message: An assistant's message with at least one call, whose ids are all different.

        Returns:
            One tool message for each call, in their order.

        Raises:
            MessageError: The message makes no calls, or an id is empty or doubled; nothing has run.
            ToolFailedError: A call failed whose policy is ``"raise"``: the first of them, when all calls are done. The
                results of the others are in it.
        """
        frame = current_frame.get()
        works = self._works(message, frame)
        answers: list[Message | None]
        if len(works) == 1 and frame is not None:  # the context is the node's own
            answer = await works[0].answer()
            if answer is not None and type(works[0]) is Work:
                return [answer]  # it has neither failed nor stopped
            return _complete(works, [answer], frame)
        answers = [None] * len(works)
        for group in self._groups(works):
            if len(group) == 1:
                work = group[0]
                answers[work.current.position] = await within(copy_context(), work.answer())
                continue
            async with make_crew() as crew:
                for work in group:
                    crew.start(work.current.position, work.answer(), copy_context())
                missing = len(group)
                while missing:
                    for position, answer, error in await crew.news():
                        if error is not None:
                            raise error
                        answers[position] = answer
                        missing -= 1
        return _complete(works, answers, frame)

    async def stream(self, message: Message) -> AsyncGenerator[list[Message | None], None]:
        """Run the calls of a message, and give what the tools give as it comes.

        Args:
            message: As for :meth:`invoke`.

        Yields:
            Lists with a place for each call, in their order: None, but for one that holds a piece of its answer.
            Concatenated they are what :meth:`invoke` gives.

        Raises:
            MessageError: As for :meth:`invoke`.
            ToolFailedError: As for :meth:`invoke`.
        """
        frame = current_frame.get()
        works = self._works(message, frame)
        pieces: list[list[Message]] = [[] for _ in works]
        fails = self._may_fail(works)
        for group in self._groups(works):
            async with _merged(group) as labelled:
                async for position, piece in labelled:
                    if fails:
                        pieces[position].append(piece)
                    slots: list[Message | None] = [None] * len(works)
                    slots[position] = piece
                    yield slots
        if any(work.error is not None for work in works):
            _complete(works, [concat(found) if found else None for found in pieces], frame)
        stop_if_paused(works)

    def _works(self, message: Message, frame: Frame | None) -> Sequence[AnyWork]:
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MessageError(f"a tools node answers a Message with tool calls, got {type(message).__name__}")
        calls = message.tool_calls
        if message.role != "assistant" or not calls:
            raise MessageError(
                f"a tools node answers an assistant's message with tool calls, got a message of role {message.role!r} "
                f"with {len(calls)} calls"
            )
        _require_ids(calls)
        at_limit = message.finish_reason == "length"
        watched = frame if frame is not None and frame[0].observer is not None else None
        last = len(calls) - 1
        works = [
            Work(self._steps, call, position, at_limit and is_cut(call, position == last), watched)
            for position, call in enumerate(calls)
        ]
        if self._steps.node_policies["unknown"] == "raise" and self._steps.unknown is None:
            for work in works:
                if work.entry is None:
                    work.error = self._steps.tools.unknown(work.call.name)
                    _complete(works, [None] * len(works), frame)
        return kept(works)

    def _groups(self, works: Sequence[AnyWork]) -> Iterator[Sequence[AnyWork]]:
        """Give the calls that may run at once."""
        together: list[AnyWork] = []
        for work in works:
            alone = self._sequential or (work.entry is not None and not work.entry.parallel)
            if alone and together:
                yield together
                together = []
            together.append(work)
            if alone:
                yield together
                together = []
        if together:
            yield together

    def _may_fail(self, works: Sequence[AnyWork]) -> bool:
        """Tell whether the node may have to fail, with the results of the others."""
        unknown = self._steps.node_policies
        return any("raise" in (unknown if w.entry is None else w.entry.policies).values() for w in works)

    def _tool_set(self) -> ToolSet:
        policies = self._policies_of
        return ToolSet(
            (*self._tools, *self._fixed), self._aliases, lambda name: policies.get(name, self._policies), self._timeout
        )


def current_tools(key: str) -> tuple[ToolInfo, ...] | None:
    """Tell which tools a tools node of this run has, options of the run included; for models that have to know them.

    Args:
        key: The key of the node, in the same graph as the node that asks.

    Returns:
        What a model is told about them, or None if there is no tools node with this key, or outside of a run.
    """
    frame = current_frame.get()
    if frame is None:
        return None
    run = frame[0]
    number = run.plan.keys.get(key)
    if number is None:
        return None
    body = run.plan.nodes[number].body
    node = (run.bodies.get(number, body) if run.bodies else body).target
    return node.infos if isinstance(node, ToolsNode) else None


def _around(middlewares: Sequence[AnyMiddleware]) -> Sequence[Middleware]:
    return tuple([m for m in middlewares if callable(m)])


def _handlers(middlewares: Sequence[AnyMiddleware]) -> Sequence[ArgumentHandler]:
    return [handle for m in middlewares if (handle := getattr(m, "handle_arguments", None)) is not None]


def _require_ids(calls: Sequence[ToolCall]) -> None:
    if len(calls) == 1 and calls[0].id:
        return
    seen: set[str] = set()
    for call in calls:
        if call.id and call.id not in seen:
            seen.add(call.id)
            continue
        what = f"two calls have the id {call.id!r}" if call.id else f"the call of {call.name!r} has no id"
        raise MessageError(f"{what}, so answers cannot refer to it; give each call an id: with_call_ids(message)")


def _complete(works: Sequence[AnyWork], answers: Sequence[Message | None], frame: Frame | None) -> list[Message]:
    """Give the answers, or raise for the first call that the node has to fail for, or else stop if any has asked."""
    for work in works:
        if work.error is None:
            continue
        current = work.current
        path = "" if frame is None else frame[0].path(frame[1])
        failed = ToolFailedError(path, current.name, current.id, current.position, work.error, answers)
        if frame is not None:
            frame[0].fail(failed)
        raise failed
    stop_if_paused(works)
    return [answer for answer in answers if answer is not None]


def _merged(group: Sequence[AnyWork]) -> StreamReader[tuple[int, Message]]:
    """Make one stream of calls that run at once; each piece comes with the position of its call."""
    readers = [_reader(work) for work in group]
    return readers[0] if len(readers) == 1 else merge(readers)


def _reader(work: AnyWork) -> StreamReader[tuple[int, Message]]:
    """Make the stream of a call, each of whose steps runs in a context of its own."""
    position = work.current.position
    made = StreamReader._from_generator(work.chunks(), context=copy_context())  # pyright: ignore[reportPrivateUsage]
    return made.convert(lambda piece: (position, piece))
