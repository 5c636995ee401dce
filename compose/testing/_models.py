"""A chat model that says what a script says, for tests of graphs and agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import cast

from ...schema import NO_OPTIONS, Message, ModelOptions, ToolChoice, ToolInfo, concat

Chunks = Sequence[Message | Exception]
"""The chunks of one answer; an exception among them is raised in its place."""

ScriptEntry = (
    str
    | Message
    | Chunks
    | Exception
    | type[Exception]
    | Callable[[list[Message]], "str | Message | Chunks | Exception | type[Exception]"]
)
"""What a model does when it is asked once: answers with a message (or its text) or in chunks, raises, or asks a
function what to do, which gets the messages."""


class AskedModel(list[Message]):
    """What a :class:`ScriptedModel` was asked once: the messages, and with what."""

    def __init__(
        self, messages: Iterable[Message], options: ModelOptions, tools: tuple[ToolInfo, ...], choice: ToolChoice
    ) -> None:
        super().__init__(messages)
        self.options = options
        """The options of the call."""
        self.tools = tools
        """The tools that the model could call."""
        self.choice = choice
        """The choice that was given with the tools."""

    @property
    def messages(self) -> list[Message]:
        """The messages, as a list of their own."""
        return list(self)


class ScriptedModel:
    """A chat model that answers by a script, one entry for each time it is asked.

    An entry is a message or its text, a list of chunks, or an exception to raise; what is one message is streamed as
    one chunk, and chunks are concatenated where a whole message is wanted. A function as an entry is given the messages
    and returns one of these. Models made with :meth:`with_tools` share the script and :attr:`calls`.

    Args:
        script: The entries, in order; an iterator may be endless.
        tool_calls_first: Whether the model promises that its tool calls come before any text.

    Attributes:
        calls: What it was asked, each time: a list of the messages that knows the ``options`` and ``tools`` too.

    Example:
        >>> model = ScriptedModel(["Hello.", [Message.assistant("Good"), Message.assistant("bye.")]])
        >>> (await model.generate([Message.user("Hi!")])).text
        'Hello.'
        >>> [chunk.text async for chunk in model.stream([Message.user("Bye!")])]
        ['Good', 'bye.']
        >>> model.calls[1][0].text
        'Bye!'
    """

    def __init__(self, script: Iterable[ScriptEntry], *, tool_calls_first: bool = False) -> None:
        self.calls: list[AskedModel] = []
        self.tool_calls_first = tool_calls_first
        self._script: Iterator[ScriptEntry] = iter(script)
        self._tools: tuple[ToolInfo, ...] = ()
        self._choice: ToolChoice = "auto"

    def __repr__(self) -> str:
        return f"<scripted model, asked {len(self.calls)} times>"

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto", /) -> ScriptedModel:
        """Make a model that knows these tools and goes on in the same script.

        Args:
            tools: What may be called.
            choice: Noted, and not obeyed.

        Returns:
            The new model.
        """
        made = ScriptedModel((), tool_calls_first=self.tool_calls_first)
        made.calls = self.calls
        made._script = self._script
        made._tools = tuple(tools)
        made._choice = choice
        return made

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS, /) -> Message:
        """Answer with the next entry as one message.

        Args:
            messages: Noted in :attr:`calls`.
            options: Noted too.

        Returns:
            The message.

        Raises:
            AssertionError: The script has ended.
            Exception: What the script says.
        """
        entry = self._next(messages, options)
        return entry if isinstance(entry, Message) else concat([_said(chunk) for chunk in entry])

    async def stream(
        self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS, /
    ) -> AsyncIterator[Message]:
        """Answer with the next entry in chunks.

        Args:
            messages: Noted in :attr:`calls`.
            options: Noted too.

        Yields:
            The chunks of the entry.

        Raises:
            AssertionError: The script has ended.
            Exception: What the script says.
        """
        entry = self._next(messages, options)
        for chunk in (entry,) if isinstance(entry, Message) else entry:
            yield _said(chunk)

    def _next(self, messages: Sequence[Message], options: ModelOptions) -> Message | Chunks:
        asked = AskedModel(messages, options, self._tools, self._choice)
        self.calls.append(asked)
        try:
            entry = next(self._script)
        except StopIteration:
            raise AssertionError(
                f"the script has ended: the model was asked {len(self.calls)} times, the last time after {asked[-1:]}"
            ) from None
        if callable(entry) and not isinstance(entry, type):
            entry = entry(asked.messages)
        if isinstance(entry, str):
            return Message.assistant(entry)
        if isinstance(entry, Exception) or (isinstance(entry, type) and issubclass(entry, Exception)):
            raise cast("Exception", entry)
        return cast("Message | Chunks", entry)


def _said(chunk: Message | Exception) -> Message:
    if isinstance(chunk, Exception):
        raise chunk
    return chunk
