"""The parts that the content of a message is made of.

A part says its ``kind`` and holds what belongs to it. ``index`` is the number of the block that a part belongs
to in a provider's stream: parts of one index are fragments of one block, also when others stand between them.
It stays on the concatenated part, so that this can be concatenated further. ``extra`` is a JSON object for
whatever a provider adds.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from ._frozen import EMPTY, Extra, JsonObject, Value

__all__ = (
    "AudioPart",
    "FilePart",
    "ImagePart",
    "MediaPart",
    "Part",
    "ProviderPart",
    "ReasoningPart",
    "ResultPart",
    "TextPart",
    "ToolResultPart",
    "VideoPart",
)


_NOT_GIVEN: Any = object()


class _Part(Value, frozen=True):
    """What every part has."""

    index: int | None = None
    """The block of the stream that this is a fragment of."""
    extra: Extra = EMPTY
    """What else the provider said of this part."""

    if not TYPE_CHECKING:

        def __init__(self, **data) -> None:
            # The kind is no default, so that it is written also where defaults or unset fields are left out: who reads
            # parts needs it.
            kind = next(_KINDS[base] for base in type(self).__mro__ if base in _KINDS)
            super().__init__(**{"kind": kind, **data})


class TextPart(_Part, frozen=True):
    """A piece of text."""

    kind: Literal["text"] = Field(init=False)
    text: str

    if TYPE_CHECKING:

        def __init__(self, text: str, *, index: int | None = None, extra: JsonObject = EMPTY) -> None: ...

    else:

        def __init__(self, text=_NOT_GIVEN, **data) -> None:
            """Take the text by position too."""
            super().__init__(**data) if text is _NOT_GIVEN else super().__init__(text=text, **data)


class ReasoningPart(_Part, frozen=True):
    """What a model thought before it answered.

    A block that has its signature is complete. Providers want signed blocks back unchanged, empty ones too.
    """

    kind: Literal["reasoning"] = Field(init=False)
    text: str = ""
    signature: str = ""
    """The provider's seal on this block; also where a provider gives the thought only in sealed form."""

    if TYPE_CHECKING:

        def __init__(
            self, text: str = "", *, signature: str = "", index: int | None = None, extra: JsonObject = EMPTY
        ) -> None: ...

    else:

        def __init__(self, text=_NOT_GIVEN, **data) -> None:
            """Take the text by position too."""
            super().__init__(**data) if text is _NOT_GIVEN else super().__init__(text=text, **data)


class MediaPart(_Part, frozen=True):
    """What image, audio, video and file parts have in common: an address, or the data themselves."""

    url: str | None = None
    """Where the medium can be had."""
    data: str | None = None
    """The medium itself in base64; may be several base64 texts one after the other, as streams bring them."""
    mime_type: str = ""
    """Such as ``image/png``."""

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str, **fields: Any) -> Self:
        """Make a part that carries these bytes.

        Args:
            data: The medium.
            mime_type: Its type, such as ``image/png``.
            **fields: The part's other fields.
        """
        return cls(data=b64encode(data).decode("ascii"), mime_type=mime_type, **fields)

    def to_bytes(self) -> bytes:
        """Decode the data that the part carries; empty when it has only an address."""
        texts = (self.data or "").replace("=", "= ").replace("= =", "==").split()
        return b"".join(b64decode(text) for text in texts)


class ImagePart(MediaPart, frozen=True):
    """A picture."""

    kind: Literal["image"] = Field(init=False)
    detail: Literal["low", "high", "auto"] | None = None
    """How closely the model should look."""


class AudioPart(MediaPart, frozen=True):
    """Sound."""

    kind: Literal["audio"] = Field(init=False)


class VideoPart(MediaPart, frozen=True):
    """A film."""

    kind: Literal["video"] = Field(init=False)


class FilePart(MediaPart, frozen=True):
    """A file, such as a PDF, by address, by its data, or by the id that the provider gave it."""

    kind: Literal["file"] = Field(init=False)
    name: str = ""
    file_id: str | None = None


class ProviderPart(_Part, frozen=True):
    """A block that anabranch does not interpret and does not lose.

    Server-side tool calls and their results, MCP calls and approvals, citations: whatever an adapter has no
    other part for, to be sent back to the same provider as it was.
    """

    kind: Literal["provider"] = Field(init=False)
    provider: str
    """Whose block it is, such as ``anthropic``."""
    type: str
    """The provider's own name of the block's type."""
    data: Extra = EMPTY
    """The block; over the fragments of one index, the last value of each key counts."""
    text: str = ""
    """What of the block comes in pieces (arguments, output); joined over the fragments of one index."""


ResultPart = Annotated[
    TextPart | ImagePart | AudioPart | VideoPart | FilePart | ProviderPart, Field(discriminator="kind")
]
"""What a tool's result can be made of."""


class ToolResultPart(_Part, frozen=True):
    """A tool's result inside of another message, as APIs have it for tools that they run themselves.

    The answer to a call in :attr:`Message.tool_calls` is a message of its own: :meth:`Message.tool`.
    """

    kind: Literal["tool_result"] = Field(init=False)
    tool_call_id: str
    name: str = ""
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False


Part = Annotated[
    TextPart | ImagePart | AudioPart | VideoPart | FilePart | ReasoningPart | ToolResultPart | ProviderPart,
    Field(discriminator="kind"),
]
"""Any part of a message's content."""

_KINDS: dict[type[Any], str] = {
    TextPart: "text",
    ReasoningPart: "reasoning",
    ImagePart: "image",
    AudioPart: "audio",
    VideoPart: "video",
    FilePart: "file",
    ProviderPart: "provider",
    ToolResultPart: "tool_result",
}
