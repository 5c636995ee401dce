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

from ._frozen import EMPTY, Extra, FrozenModel, JsonObject

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


class _Part(FrozenModel):
    """What every part has."""

    index: int | None = None
    """The block of the stream that this is a fragment of."""
    extra: Extra = EMPTY
    """What else the provider said of this part."""


class TextPart(_Part):
    """A piece of text."""

    kind: Literal["text"] = "text"
    text: str

    if TYPE_CHECKING:

        def __init__(self, text: str, *, index: int | None = None, extra: JsonObject = EMPTY) -> None: ...

    else:

        def __init__(self, *args, **data) -> None:
            """Take the text by position too."""
            super().__init__(**dict(zip(("text",), args, strict=False)), **data)


class ReasoningPart(_Part):
    """What a model thought before it answered.

    A block that has its signature is complete. Providers want signed blocks back unchanged, empty ones too.
    """

    kind: Literal["reasoning"] = "reasoning"
    text: str = ""
    signature: str = ""
    """The provider's seal on this block; also where a provider gives the thought only in sealed form."""

    if TYPE_CHECKING:

        def __init__(
            self, text: str = "", *, signature: str = "", index: int | None = None, extra: JsonObject = EMPTY
        ) -> None: ...

    else:

        def __init__(self, *args, **data) -> None:
            """Take the text by position too."""
            super().__init__(**dict(zip(("text",), args, strict=False)), **data)


class MediaPart(_Part):
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


class ImagePart(MediaPart):
    """A picture."""

    kind: Literal["image"] = "image"
    detail: Literal["low", "high", "auto"] | None = None
    """How closely the model should look."""


class AudioPart(MediaPart):
    """Sound."""

    kind: Literal["audio"] = "audio"


class VideoPart(MediaPart):
    """A film."""

    kind: Literal["video"] = "video"


class FilePart(MediaPart):
    """A file, such as a PDF, by address, by its data, or by the id that the provider gave it."""

    kind: Literal["file"] = "file"
    name: str = ""
    file_id: str | None = None


class ProviderPart(_Part):
    """A block that anabranch does not interpret and does not lose.

    Server-side tool calls and their results, MCP calls and approvals, citations: whatever an adapter has no
    other part for, to be sent back to the same provider as it was.
    """

    kind: Literal["provider"] = "provider"
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


class ToolResultPart(_Part):
    """A tool's result inside of another message, as APIs have it for tools that they run themselves.

    The answer to a call in :attr:`Message.tool_calls` is a message of its own: :meth:`Message.tool`.
    """

    kind: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    name: str = ""
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False


Part = Annotated[
    TextPart | ImagePart | AudioPart | VideoPart | FilePart | ReasoningPart | ToolResultPart | ProviderPart,
    Field(discriminator="kind"),
]
"""Any part of a message's content."""
