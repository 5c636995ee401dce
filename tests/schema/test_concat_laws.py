"""The laws of concatenation, as properties: for random chunks of every kind, put together in random groupings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.schema import (
    Append,
    AudioPart,
    ConcatError,
    FilePart,
    First,
    ImagePart,
    Last,
    Max,
    Message,
    Min,
    ProviderPart,
    ReasoningPart,
    Sum,
    TextPart,
    ToolCall,
    ToolResult,
    ToolResultPart,
    Usage,
    VideoPart,
    concat,
)

T = TypeVar("T")

# --- what chunks are made of: few values, so that they meet ----------------------------------------------------------

texts = st.sampled_from(["", "a", "b", "ab"])
numbers = st.integers(-3, 3)
extras: st.SearchStrategy[dict[str, Any]] = st.just(dict[str, Any]()) | st.dictionaries(
    st.sampled_from(["k", "l", "citations"]), st.none() | numbers | texts | st.lists(numbers, max_size=2)
)
optional_texts = st.none() | texts
mime_types = st.sampled_from(["", "", "image/png", "audio/wav"])

fragments = st.builds(
    ToolCall,
    id=st.sampled_from(["", "", "a", "b"]),
    name=st.sampled_from(["", "", "f", "g", "fg"]),
    arguments=st.sampled_from(["", "{", "}", "{}", " ", '"x":1', "{}{}"]),
    index=st.none() | st.integers(0, 2),
    extra=extras,
)


def make_plain_parts(*indexes: st.SearchStrategy[int | None]) -> st.SearchStrategy[Any]:
    """Parts of every kind that a tool's result can have, each kind with indexes of its own."""
    text, image, audio, video, file, provider = indexes
    return (
        st.builds(TextPart, texts, index=text, extra=extras)
        | st.builds(ImagePart, url=optional_texts, data=optional_texts, mime_type=mime_types, index=image)
        | st.builds(AudioPart, url=optional_texts, data=optional_texts, mime_type=mime_types, index=audio)
        | st.builds(VideoPart, data=optional_texts, index=video)
        | st.builds(FilePart, data=optional_texts, name=texts, file_id=optional_texts, index=file)
        | st.builds(ProviderPart, provider=texts, type=texts, data=extras, text=texts, index=provider)
    )


def make_parts(*indexes: st.SearchStrategy[int | None]) -> st.SearchStrategy[Any]:
    """Parts of every kind."""
    *plain, reasoning, result = indexes
    return (
        make_plain_parts(*plain)
        | st.builds(ReasoningPart, texts, signature=st.sampled_from(["", "", "s", "t"]), index=reasoning)
        | st.builds(
            ToolResultPart,
            tool_call_id=st.sampled_from(["a", "b"]),
            content=st.lists(plain_parts, max_size=2).map(tuple),
            is_error=st.booleans(),
            index=result,
        )
    )


plain_parts = make_plain_parts(*(st.sampled_from([None, number, number + 8]) for number in range(6)))
parts = make_parts(*(st.sampled_from([None, number, number + 8]) for number in range(8)))
clashing_parts = make_parts(*(st.none() | st.integers(0, 2) for _ in range(8)))
usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
    details=st.dictionaries(st.sampled_from(["audio", "image"]), st.integers(0, 9)),
)


def make_messages(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    """Chunks of one message that do not contradict each other, but for what is given."""
    return st.builds(
        Message,
        **{
            "role": st.just("assistant"),
            "content": texts | st.lists(texts | parts, max_size=3),
            "tool_calls": st.just([]) | st.lists(fragments, max_size=2),
            "tool_call_id": st.sampled_from([None, "", "a"]),
            "name": st.sampled_from([None, "", "n"]),
            "is_error": st.booleans(),
            "usage": st.none() | usages,
            "finish_reason": st.sampled_from([None, None, "", "stop", "tool_calls"]),
            "extra": extras,
            **fields,
        },
    )


messages = make_messages()
contradicting_messages = make_messages(
    role=st.sampled_from(["assistant", "assistant", "assistant", "user"]),
    content=texts | st.lists(texts | clashing_parts, max_size=3),
    name=st.sampled_from([None, None, "n", "n", "m"]),
    usage=st.none() | usages | st.builds(Usage, mode=st.just("delta"), input_tokens=st.integers(0, 9)),
)


class Model(BaseModel):
    text: str = "x"
    number: int = 7
    first: Annotated[str, First] = ""
    total: Annotated[int, Sum] = 1
    best: Annotated[int | None, Max] = None
    items: list[int] = []
    nested: dict[str, Any] = {}
    message: Message | None = None


@dataclass(frozen=True)
class Record:
    text: str
    number: int = 7
    last: Annotated[str, Last] = "z"
    least: Annotated[int, Min] = 0
    items: Annotated[list[int], Append] = field(default_factory=list[int])


class Pair(NamedTuple):
    text: str
    number: int = 7


def models(draw_field: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Model]:
    return st.fixed_dictionaries({}, optional=draw_field).map(lambda fields: Model(**fields))


values = st.fixed_dictionaries(
    {},
    optional={
        "text": st.none() | texts,
        "number": st.none() | numbers,
        "list": st.lists(numbers, max_size=2),
        "dict": st.dictionaries(st.sampled_from("ab"), texts),
    },
)
dicts = st.fixed_dictionaries({}, optional={"value": st.none() | values, "other": values, "text": texts})
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "bytes": st.binary(max_size=2),
    "numbers": numbers | st.booleans() | st.floats(allow_nan=False),
    "dates": st.dates(),
    "lists": st.lists(numbers, max_size=2),
    "lists with None": st.lists(numbers | st.none(), max_size=2),
    "lists of messages": st.lists(st.none() | messages, min_size=2, max_size=2),
    "tuples": st.lists(numbers, max_size=2).map(tuple),
    "sets": st.sets(numbers),
    "dicts": dicts,
    "models": models(
        {
            "text": texts,
            "number": numbers,
            "first": texts,
            "total": numbers,
            "best": st.none() | numbers,
            "items": st.lists(numbers, max_size=2),
            "nested": dicts,
            "message": st.none() | messages,
        }
    ),
    "dataclasses": st.builds(Record, texts, numbers, texts, numbers, st.lists(numbers, max_size=2)),
    "named tuples": st.builds(Pair, texts, numbers),
    "messages": messages,
    "contradicting messages": contradicting_messages,
    "tool results": st.builds(
        ToolResult.model_construct,
        parts=st.lists(plain_parts, max_size=2).map(tuple),
        is_error=st.booleans(),
        extra=extras,
    ),
    "usages": usages,
    "anything": texts | numbers | dicts | messages | st.lists(numbers | messages, max_size=2),
}
every_kind = pytest.mark.parametrize("chunks", KINDS.values(), ids=KINDS.keys())


# --- the laws --------------------------------------------------------------------------------------------------------


def outcome(chunks: Sequence[Any], partial: bool = False) -> Any:
    """The value, or that there is none."""
    try:
        return concat(chunks, partial=partial)
    except ConcatError:
        return ConcatError


groupings = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=4)


def concat_in_groups(chunks: list[Any], grouping: list[tuple[int, int]]) -> Any:
    """Put neighbours together, piece by piece, then what is left."""
    for start, length in grouping:
        group = chunks[start : start + length]
        if group:
            piece = outcome(group, partial=True)
            if piece is ConcatError:
                return ConcatError
            chunks = [*chunks[:start], piece, *chunks[start + length :]]
    return outcome(chunks)


@every_kind
@given(data=st.data(), grouping=groupings)
def test_the_grouping_does_not_matter_and_no_chunk_is_changed(
    chunks: st.SearchStrategy[Any], data: st.DataObject, grouping: list[tuple[int, int]]
) -> None:
    stream = data.draw(st.lists(chunks, min_size=1, max_size=6))
    before = repr(stream)
    assert concat_in_groups(stream, grouping) == outcome(stream)
    assert repr(stream) == before


@every_kind
@given(data=st.data())
def test_one_chunk_is_normalised_as_many_are_and_none_changes_nothing(
    chunks: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    stream = data.draw(st.lists(chunks, min_size=1, max_size=4))
    whole = outcome(stream)
    at = data.draw(st.integers(0, len(stream)))
    assert outcome([*stream[:at], None, *stream[at:]]) == whole
    assert whole is ConcatError or concat([whole]) == whole


whole_parts = st.one_of(
    st.builds(TextPart, st.sampled_from("ab")),
    st.builds(ReasoningPart, st.sampled_from("ab"), signature=st.sampled_from(["", "s"])),
    st.builds(AudioPart, data=st.just("QUI="), mime_type=st.just("audio/wav")),
    st.builds(ImagePart, url=st.sampled_from("uv")),
)


@given(parts=st.lists(whole_parts, min_size=1, max_size=5))
def test_a_message_that_is_whole_is_left_as_it_is(parts: list[Any]) -> None:
    message = Message.assistant(parts)
    assert concat([message]) == message


EMPTY_CHUNKS: dict[str, Any] = {
    "text": "",
    "bytes": b"",
    "lists": [],
    "lists of messages": [],
    "tuples": (),
    "sets": set(),
    "dicts": {},
    "models": Model(),
    "messages": Message.assistant(""),
    "tool results": ToolResult.model_construct(parts=(), is_error=False, extra={}),
    "usages": Usage(),
}


@pytest.mark.parametrize("kind", EMPTY_CHUNKS.keys())
@given(data=st.data())
def test_the_empty_chunk_changes_nothing(kind: str, data: st.DataObject) -> None:
    stream = data.draw(st.lists(KINDS[kind], min_size=1, max_size=4))
    at = data.draw(st.integers(0, len(stream)))
    assert outcome([*stream[:at], EMPTY_CHUNKS[kind], *stream[at:]]) == outcome(stream)
