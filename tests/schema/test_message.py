"""Messages and their parts: made, shown, shared, hashed, and written to JSON and back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from anabranch.schema import (
    AudioPart,
    ConcatError,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResultPart,
    Usage,
    VideoPart,
    concat,
    total_usage,
)

FULL = Message(
    role="assistant",
    content=[
        "Look: ",
        ImagePart(url="https://example.org/a.png", detail="low"),
        AudioPart.from_bytes(b"sound", "audio/wav"),
        VideoPart(data="AAAA", mime_type="video/mp4"),
        FilePart(name="a.pdf", file_id="file-1"),
        ProviderPart(provider="openai", type="mcp_approval_request", data={"id": "a1", "arguments": {"x": [1, None]}}),
        ToolResultPart(tool_call_id="s1", name="web_search", content=(TextPart("hits"),), is_error=True),
    ],
    reasoning="Hm.",
    tool_calls=[ToolCall(id="c1", name="search", arguments='{"q": 1}', index=0, extra={"signature": "s"})],
    name="helper",
    usage=Usage(input_tokens=3, output_tokens=4, cached_tokens=1, details={"audio": 2}, mode="delta"),
    finish_reason="tool_calls",
    extra={"id": "m1", "nested": {"list": [1, {"a": None}]}},
)

# --- making ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("short", "full"),
    [
        (Message.system("a"), Message(role="system", content="a")),
        (Message.user("a", name="Ann"), Message(role="user", content="a", name="Ann")),
        (Message.user(["a", ImagePart(url="u")]), Message(role="user", content=(TextPart("a"), ImagePart(url="u")))),
        (Message.user(ImagePart(url="u")), Message(role="user", content=(ImagePart(url="u"),))),
        (Message.assistant(), Message(role="assistant")),
        (Message.assistant("a", extra={"k": [1]}), Message(role="assistant", content="a", extra={"k": [1]})),
        (
            Message.assistant("a", reasoning="r"),
            Message(role="assistant", content=(ReasoningPart("r"), TextPart("a"))),
        ),
        (Message.assistant(reasoning="r"), Message(role="assistant", content=(ReasoningPart("r"),))),
        (Message.assistant("a", reasoning=""), Message(role="assistant", content="a")),
        (
            Message.assistant(tool_calls=iter([ToolCall(id="c")]), usage=Usage(input_tokens=1), finish_reason="stop"),
            Message(
                role="assistant", tool_calls=(ToolCall(id="c"),), usage=Usage(input_tokens=1), finish_reason="stop"
            ),
        ),
        (
            Message.tool("a", tool_call_id="c", name="f", is_error=True),
            Message(role="tool", content="a", tool_call_id="c", name="f", is_error=True),
        ),
        (Message.tool([TextPart("a")], tool_call_id="c"), Message(role="tool", content=("a",), tool_call_id="c")),
    ],
)
def test_the_constructors_are_short_for_the_fields(short: Message, full: Message) -> None:
    assert short == full
    assert hash(short) == hash(full)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Message(role="robot"),  # type: ignore[arg-type]
        lambda: Message.user(3),  # type: ignore[arg-type]
        lambda: Message.user([3]),  # type: ignore[list-item]
        lambda: Message.assistant("a", tool_calls=["f"]),  # type: ignore[list-item]
        lambda: Message.assistant("a", name=3),  # type: ignore[arg-type]
        lambda: Message.assistant("a", usage=7),  # type: ignore[arg-type]
        lambda: Message.assistant("a", extra={"k": object()}),
        lambda: Message.assistant("a", extra={"k": [{1: 2}]}),
        TextPart,
        lambda: TextPart("a", extra={"k": {1, 2}}),
        lambda: Usage(details={"a": "x"}),
    ],
)
def test_what_is_no_message_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()


def test_a_value_that_json_cannot_say_is_named_by_its_place() -> None:
    with pytest.raises(ValidationError, match=r"\['raw'\]\[1\] is of type object, which is no JSON value"):
        Message(role="user", extra={"raw": [1, object()]})


# --- reading ---------------------------------------------------------------------------------------------------------


def test_text_joins_the_text_parts_and_reasoning_the_reasoning_parts() -> None:
    message = Message.assistant([ReasoningPart("a"), "1", ReasoningPart("b", signature="s"), ImagePart(url="u"), "2"])
    assert (message.text, message.reasoning) == ("12", "ab")
    assert Message.user("a").reasoning is None
    assert Message.assistant([ReasoningPart(signature="sealed")]).reasoning is None


def test_parts_are_there_for_plain_text_too() -> None:
    assert Message.user("a").parts == (TextPart("a"),)
    assert Message.user("").parts == ()
    assert Message.user([TextPart("a")]).parts == (TextPart("a"),)


def test_a_message_reads_well() -> None:
    assert str(FULL).splitlines() == [
        "assistant (helper): Look: ",
        "  [reasoning] Hm.",
        "  [image] url=https://example.org/a.png detail=low",
        "  [audio] 8 characters of base64 mime_type=audio/wav",
        "  [video] 4 characters of base64 mime_type=video/mp4",
        "  [file] name=a.pdf file_id=file-1",
        "  [provider] provider=openai type=mcp_approval_request data={'id': 'a1', 'arguments': {'x': [1, None]}}",
        "  [tool_result] tool_call_id=s1 name=web_search content=(TextPart(text='hits'),) is_error=True",
        '  [tool call] c1: search({"q": 1})',
        "  [finish reason] tool_calls",
        "  [usage] 3 in, 4 out",
    ]
    assert str(Message.tool("no", tool_call_id="c1", is_error=True)) == "tool: no\n  [error in call] c1"
    assert str(ToolCall(index=2)) == "#2: ?()"
    assert repr(Message.user("a")) == "Message(role='user', content='a')"


def test_media_carry_bytes() -> None:
    image = ImagePart.from_bytes(b"\x00\xff" * 5, "image/png", detail="high")
    assert (image.to_bytes(), image.mime_type, image.detail) == (b"\x00\xff" * 5, "image/png", "high")
    assert ImagePart(url="u").to_bytes() == b""


# --- sharing ---------------------------------------------------------------------------------------------------------


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        FULL.role = "user"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    extra: Any = FULL.extra
    changes: list[Callable[[], object]] = [
        lambda: extra.update(a=1),
        extra.clear,
        lambda: extra["nested"].__setitem__("a", 1),
        lambda: extra["nested"]["list"].append(1),
        lambda: extra["nested"]["list"].__iadd__([1]),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="belongs to a frozen value"):
            change()


def test_extra_is_copied_when_the_message_is_made_and_is_a_dict_to_everyone() -> None:
    given: dict[str, Any] = {"list": [1], "dict": {"a": (1, 2)}}
    message = Message.user("a", extra=given)
    given["list"].append(2)
    given["dict"]["a"] = None
    assert message.extra == {"list": [1], "dict": {"a": [1, 2]}}
    assert {**message.extra, "more": 1} == {"list": [1], "dict": {"a": [1, 2]}, "more": 1}
    assert isinstance(message.extra, dict)
    assert isinstance(message.extra["list"], list)


def test_messages_can_be_hashed_copied_and_pickled() -> None:
    twin = Message.model_validate(FULL.model_dump())
    assert {FULL, twin} == {FULL}
    assert copy.copy(FULL) == copy.deepcopy(FULL) == pickle.loads(pickle.dumps(FULL)) == FULL
    assert FULL.model_copy(update={"content": "x"}).text == "x"


# --- JSON ------------------------------------------------------------------------------------------------------------

texts = st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts, json_values, max_size=2)
common: dict[str, Any] = {"index": st.none() | st.integers(0, 3), "extra": objects}
media: dict[str, Any] = {"url": st.none() | texts, "data": st.none() | texts, "mime_type": texts, **common}
plain_parts: st.SearchStrategy[Any] = (
    st.builds(TextPart, texts, **common)
    | st.builds(ImagePart, detail=st.sampled_from([None, "low", "high", "auto"]), **media)
    | st.builds(AudioPart, **media)
    | st.builds(VideoPart, **media)
    | st.builds(FilePart, name=texts, file_id=st.none() | texts, **media)
    | st.builds(ProviderPart, provider=texts, type=texts, data=objects, text=texts, **common)
)
parts = (
    plain_parts
    | st.builds(ReasoningPart, texts, signature=texts, **common)
    | st.builds(
        ToolResultPart,
        tool_call_id=texts,
        name=texts,
        content=st.lists(plain_parts, max_size=2),
        is_error=st.booleans(),
        **common,
    )
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=texts | st.lists(parts, max_size=3),
    tool_calls=st.lists(st.builds(ToolCall, id=texts, name=texts, arguments=texts, **common), max_size=2),
    tool_call_id=st.none() | texts,
    name=st.none() | texts,
    reasoning=st.none() | texts,
    is_error=st.booleans(),
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 99), details=st.dictionaries(texts, st.integers())),
    finish_reason=st.none() | texts,
    extra=objects,
)


@given(messages)
def test_json_brings_back_the_same_message(message: Message) -> None:
    assert Message.model_validate_json(message.model_dump_json()) == message
    assert Message.model_validate(message.model_dump(mode="json")) == message
    assert Message.model_validate_json(message.model_dump_json(exclude_defaults=True)) == message
    assert Message.model_validate_json(message.model_dump_json(exclude_unset=True)) == message


@given(messages)
def test_what_concatenation_gives_can_be_written_too(message: Message) -> None:
    try:
        whole = concat([message, Message(role=message.role, content=["x"])], partial=True)
    except ConcatError:  # two kinds of part under one index
        reject()
    assert TypeAdapter(list[Message]).validate_json(TypeAdapter(list[Message]).dump_json([whole])) == [whole]


def test_case_119_and_its_like_blocks_of_providers_survive_json_untouched() -> None:
    blocks: list[Part] = [
        ProviderPart(
            provider="anthropic", type="server_tool_use", data={"id": "s1", "name": "web_search"}, text='{"q":1}'
        ),
        ProviderPart(provider="anthropic", type="web_search_tool_result", data={"content": [{"encrypted": "x"}]}),
        ProviderPart(provider="openai", type="mcp_list_tools", data={"server_label": "db", "tools": []}),
        ProviderPart(provider="openai", type="mcp_call", data={"approval_request_id": "a1", "error": None}),
        ProviderPart(provider="openai", type="mcp_approval_response", data={"approve": False, "reason": ""}),
        ReasoningPart("", signature="sealed"),
        TextPart("so", extra={"citations": [{"url": "u"}]}),
    ]
    message = Message.assistant(blocks)
    assert list(Message.model_validate_json(message.model_dump_json()).parts) == blocks
    assert list(concat([message]).parts) == blocks


def test_the_json_is_plain() -> None:
    message = Message.assistant("a", tool_calls=[ToolCall(id="c", name="f", arguments="{}")])
    assert message.model_dump(exclude_defaults=True) == {
        "role": "assistant",
        "content": "a",
        "tool_calls": ({"id": "c", "name": "f", "arguments": "{}"},),
    }
    assert TypeAdapter(Message).json_schema()["required"] == ["role"]


# --- usage -----------------------------------------------------------------------------------------------------------


def test_usage_adds_up_over_a_run() -> None:
    calls = [
        Message.assistant("", usage=Usage(input_tokens=10, output_tokens=2, reasoning_tokens=1, details={"audio": 1})),
        Message.tool("", tool_call_id="c"),
        Message.assistant(
            "", usage=Usage(input_tokens=20, output_tokens=3, mode="delta", details={"audio": 2, "b": 1})
        ),
    ]
    total = Usage(input_tokens=30, output_tokens=5, reasoning_tokens=1, details={"audio": 3, "b": 1})
    assert total_usage(calls) == total
    assert sum(message.usage for message in calls if message.usage) == total
    assert total.total_tokens == 35
    assert total_usage([]) == Usage()


def test_a_sum_of_deltas_is_a_delta() -> None:
    delta = Usage(input_tokens=1, mode="delta")
    assert delta + delta == Usage(input_tokens=2, mode="delta")
    assert (delta + Usage(input_tokens=1)).mode == "cumulative"
    with pytest.raises(TypeError):
        delta + 1  # pyright: ignore[reportUnusedExpression]
