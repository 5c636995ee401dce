"""Chunks of a message made into the message: the cases of the reference by number, and what they leave open."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.schema import (
    Append,
    AudioPart,
    ConcatError,
    ConcatRegistry,
    FilePart,
    ImagePart,
    Join,
    Merge,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    Sum,
    TextPart,
    ToolCall,
    ToolResult,
    ToolResultPart,
    Usage,
    UsageMode,
    concat,
)


def assistant(*contents: Any) -> list[Message]:
    return [Message.assistant(content) for content in contents]


def extras(*values: dict[str, Any]) -> list[Message]:
    return [Message.assistant("", extra=value) for value in values]


def join(*parts: Part | list[Part]) -> list[Part]:
    """Concatenate chunks of one part (or of several) each."""
    return list(concat(assistant(*parts)).parts)


# --- text and plain fields -------------------------------------------------------------------------------------------


def test_case_52_text_is_joined() -> None:
    assert concat(assistant("Hel", "lo")) == Message.assistant("Hello")


def test_case_53_no_chunks_make_an_empty_message() -> None:
    assert concat([], of=Message) == Message.assistant("")


def test_case_53_none_among_chunks_changes_nothing() -> None:
    # The reference refuses it; here None is neutral for every type alike.
    assert concat([Message.assistant("a"), None, Message.assistant("b")]) == Message.assistant("ab")


@pytest.mark.parametrize(
    ("field", "first", "other"), [("name", "n", "m"), ("tool_call_id", "a", "b"), ("role", "assistant", "user")]
)
def test_chunks_that_contradict_each_other_are_an_error_that_says_where(field: str, first: str, other: str) -> None:
    chunks = [Message.model_validate({"role": "assistant", field: value}) for value in (first, first, other)]
    text = rf"differ in their {field}: '{first}' \(chunk 0\) and '{other}' \(chunk 2\)"
    with pytest.raises(ConcatError, match=text):
        concat(chunks)


def test_a_name_may_come_in_any_chunk() -> None:
    chunks = [Message.assistant("a"), Message.assistant("b", name="n"), Message.assistant("c", name="")]
    assert concat(chunks) == Message.assistant("abc", name="n")


@pytest.mark.parametrize(
    ("reasons", "last"),
    [((None, "stop", "", "tool_calls"), "tool_calls"), (("stop", ""), "stop"), ((None, None), None)],
)
def test_case_64_the_last_finish_reason_that_is_given_counts(reasons: tuple[str | None, ...], last: str | None) -> None:
    assert concat([Message.assistant("", finish_reason=reason) for reason in reasons]).finish_reason == last


def test_an_error_mark_in_any_chunk_is_kept() -> None:
    chunks = [Message.tool(text, tool_call_id="c1", is_error=bad) for text, bad in (("no ", True), ("file", False))]
    assert concat(chunks) == Message.tool("no file", tool_call_id="c1", is_error=True)


# --- usage -----------------------------------------------------------------------------------------------------------


def report(input_tokens: int, output_tokens: int, mode: UsageMode = "cumulative", **details: int) -> Message:
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, mode=mode, details=details)
    return Message.assistant("", usage=usage)


def test_cumulative_reports_take_the_largest_counts() -> None:
    usage = concat([report(10, 3, audio=1), report(7, 5), Message.assistant("x")]).usage
    assert usage == Usage(input_tokens=10, output_tokens=5, details={"audio": 1})


def test_delta_reports_are_added() -> None:
    usage = concat([report(10, 3, "delta", audio=1), report(0, 5, "delta", audio=2)]).usage
    assert usage == Usage(input_tokens=10, output_tokens=8, mode="delta", details={"audio": 3})


def test_both_kinds_of_report_in_one_stream_are_an_error() -> None:
    with pytest.raises(ConcatError, match=r"as 'cumulative' and as 'delta'"):
        concat([report(1, 1), report(1, 1, "delta")])


# --- extra -----------------------------------------------------------------------------------------------------------


def test_case_65_log_probabilities_are_appended() -> None:
    chunks = extras({"logprobs": [{"token": "a"}, {"token": "b"}]}, {"logprobs": [{"token": "c"}]})
    assert [item["token"] for item in concat(chunks).extra["logprobs"]] == ["a", "b", "c"]


def test_case_67_values_of_different_types_are_no_error_the_last_counts() -> None:
    assert concat(extras({"n": 1}, {"n": "x"})).extra == {"n": "x"}


def test_case_68_of_lists_the_last_counts_unless_the_key_is_declared() -> None:
    chunks = extras({"l": ["a"]}, {"l": ["b"]})
    assert concat(chunks).extra == {"l": ["b"]}
    registry = ConcatRegistry()
    registry.declare_key("l", Append)
    assert concat(chunks, registry).extra == {"l": ["a", "b"]}
    assert concat(extras({"l": ["a"]}, {"l": None}, {"l": []}), registry).extra == {"l": ["a"]}


def test_case_70_none_is_neutral() -> None:
    assert concat(extras({"n": None}, {"n": None})).extra == {"n": None}
    assert concat(extras({"n": None}, {"n": "x"})).extra == {"n": "x"}
    assert concat(extras({"n": "x"}, {"n": None})).extra == {"n": "x"}


def test_case_71_an_extra_cannot_be_changed_through_the_result() -> None:
    given = {"n": [1]}
    whole = concat([*extras(given), Message.assistant("x")])
    given["n"].append(2)
    assert whole.extra == {"n": [1]}
    with pytest.raises(TypeError, match="frozen"):
        whole.extra["n"].append(2)


def test_keys_follow_the_policies_of_the_registry_in_parts_and_calls_too() -> None:
    registry = ConcatRegistry()
    registry.declare_key("cost", Sum)
    registry.declare_key("trace", Join)
    registry.declare_key("info", Merge)
    first, second = {"cost": 1, "trace": "a", "info": {"x": "1"}}, {"cost": 2, "trace": "b", "info": {"x": "2"}}
    merged = {"cost": 3, "trace": "ab", "info": {"x": "12"}}
    chunks = [
        Message.assistant(
            [TextPart("t", extra=extra, index=0), ProviderPart(provider="p", type="t", data=extra, index=1)],
            tool_calls=[ToolCall(index=0, extra=extra, name="f")],
            extra=extra,
        )
        for extra in (first, second)
    ]
    whole = concat(chunks, registry)
    text, block = whole.parts
    assert isinstance(block, ProviderPart)
    assert [whole.extra, whole.tool_calls[0].extra, text.extra, block.data] == [merged] * 4


# --- parts -----------------------------------------------------------------------------------------------------------


def test_text_and_parts_may_be_mixed() -> None:
    image = ImagePart(url="u")
    assert concat(assistant("a", [TextPart("b"), image], "c", "d")) == Message.assistant(
        [TextPart("ab"), image, TextPart("cd")]
    )


def test_texts_of_one_chunk_stay_apart_and_those_where_chunks_meet_are_joined() -> None:
    image = ImagePart(url="u")
    assert concat(assistant([TextPart("a"), TextPart("b")])) == assistant([TextPart("a"), TextPart("b")])[0]
    assert concat(assistant([TextPart("a"), TextPart("b")], "c", [TextPart("d"), image, TextPart("e")])).content == (
        TextPart("a"),
        TextPart("bcd"),
        image,
        TextPart("e"),
    )


def test_parts_that_say_nothing_leave_text_as_text() -> None:
    assert concat(assistant("a", [TextPart("")], "b")).content == "ab"
    assert concat(assistant([TextPart(""), ReasoningPart()])).content == ""


def test_case_73_parts_of_one_index_belong_together_where_the_reference_leaves_them_apart() -> None:
    parts = join(TextPart("a", index=0), TextPart("x", index=1), TextPart("b", index=0))
    assert parts == [TextPart("ab", index=0), TextPart("x", index=1)]


def test_case_74_text_without_index_and_text_with_one_stay_apart() -> None:
    assert join(TextPart("a"), TextPart("b", index=0)) == [TextPart("a"), TextPart("b", index=0)]


def test_blocks_are_ordered_by_index_between_the_parts_that_have_none() -> None:
    parts = join(TextPart("5", index=5), TextPart("2", index=2), TextPart("-"), TextPart("1", index=1))
    assert [part.index for part in parts] == [2, 5, None, 1]


def test_case_76_audio_data_and_an_address_are_not_merged() -> None:
    parts: list[Part] = [AudioPart(data="AAAA"), AudioPart(url="u")]
    assert join(*parts) == parts


def test_case_77_an_address_and_audio_data_are_not_merged() -> None:
    parts: list[Part] = [AudioPart(url="u"), AudioPart(data="AAAA")]
    assert join(*parts) == parts


def test_streamed_audio_is_joined_and_decodes_whole() -> None:
    chunks = [
        AudioPart.from_bytes(b"abcd", "audio/pcm"),
        AudioPart(data="ZWY="),
        AudioPart.from_bytes(b"g", "audio/pcm"),
    ]
    (audio,) = join(*chunks)
    assert isinstance(audio, AudioPart)
    assert (audio.to_bytes(), audio.mime_type) == (b"abcdefg", "audio/pcm")


def test_audio_of_two_types_stays_two_parts() -> None:
    parts: list[Part] = [AudioPart(data="AAAA", mime_type="audio/wav"), AudioPart(data="AAAA", mime_type="audio/mp3")]
    assert join(*parts) == parts


def test_case_79_the_extras_of_joined_texts_are_merged() -> None:
    chunks = [Message.user([TextPart("a", extra={"x": 1})]), Message.user([TextPart("b", extra={"y": 1})])]
    assert concat(chunks).content == (TextPart("ab", extra={"x": 1, "y": 1}),)


def test_case_80_pictures_are_never_merged() -> None:
    parts: list[Part] = [ImagePart(url="1"), ImagePart(url="2"), ImagePart(data="AAAA"), ImagePart(data="AAAA")]
    assert join(*parts) == parts


def test_pieces_of_a_picture_that_share_an_index_are_one() -> None:
    pieces = [ImagePart(index=3, mime_type="image/png"), ImagePart(index=3, data="AA"), ImagePart(index=3, data="BB")]
    assert join(*pieces) == [ImagePart(index=3, mime_type="image/png", data="AABB")]
    files: list[Part] = [FilePart(index=1, name="a.pdf", data="AA"), FilePart(index=1, name="b.pdf", data="BB")]
    assert join(*files) == files


def test_citations_of_a_text_are_collected() -> None:
    deltas: list[Part] = [
        TextPart("It is ", index=0),
        TextPart("", index=0, extra={"citations": [{"title": "a"}]}),
        TextPart("so.", index=0),
        TextPart("", index=0, extra={"citations": {"title": "b"}}),
    ]
    assert join(*deltas) == [TextPart("It is so.", index=0, extra={"citations": [{"title": "a"}, {"title": "b"}]})]


# --- reasoning -------------------------------------------------------------------------------------------------------


def test_reasoning_is_joined_and_kept_apart_from_the_text() -> None:
    chunks = [Message.assistant(reasoning="Let "), Message.assistant(reasoning="me see."), *assistant("4", "2")]
    whole = concat(chunks)
    assert (whole.reasoning, whole.text) == ("Let me see.", "42")
    assert whole == Message.assistant([ReasoningPart("Let me see."), TextPart("42")])


def test_a_signature_completes_a_block() -> None:
    chunks: list[Part] = [
        ReasoningPart("a"),
        ReasoningPart("b"),
        ReasoningPart(signature="s1"),
        ReasoningPart("c"),
        ReasoningPart(signature="s2"),
    ]
    assert join(*chunks) == [ReasoningPart("ab", signature="s1"), ReasoningPart("c", signature="s2")]


def test_empty_blocks_that_carry_a_signature_are_kept() -> None:
    sealed: list[Part] = [ReasoningPart(signature="s1"), ReasoningPart(signature="s2")]
    assert join(*sealed) == sealed


def test_a_complete_block_of_an_index_is_not_added_to() -> None:
    chunks: list[Part] = [
        ReasoningPart("a", index=0),
        ReasoningPart(signature="s", index=0),
        ReasoningPart("b", index=0),
    ]
    assert join(*chunks) == [ReasoningPart("a", signature="s", index=0), ReasoningPart("b", index=0)]


# --- lists of messages, tool results ---------------------------------------------------------------------------------


def test_case_82_lists_of_messages_are_put_together_place_by_place() -> None:
    answer = Message.tool("4", tool_call_id="c1")
    chunks = [[answer, None, None], [None, None, Message.tool("a", tool_call_id="c2")], [answer, None, None]]
    assert concat(chunks) == [Message.tool("44", tool_call_id="c1"), None, Message.tool("a", tool_call_id="c2")]


def test_case_82_lists_of_messages_of_different_lengths_are_an_error() -> None:
    message = Message.user("a")
    with pytest.raises(ConcatError, match=r"chunk 0 has places for 2 messages and chunk 1 for 1"):
        concat([[message, message], [message]])


def test_lists_of_nothing_but_none_are_places_too() -> None:
    assert concat([[None, None], [None, Message.user("a")]]) == [None, Message.user("a")]
    assert concat([[None, None], [None, None]]) == [None, None]
    assert concat([[None], [1]], of=list[int | None]) == [None, 1]
    with pytest.raises(ConcatError, match=r"say which with concat\(\.\.\., of=list"):
        concat([[None], [1]])


def test_case_85_a_tool_result_may_have_two_pictures() -> None:
    pictures = (ImagePart(url="1"), ImagePart(url="2"))
    result = ToolResult.model_construct(parts=pictures)
    assert concat([result]).parts == pictures
    assert concat([result, result]).parts == pictures * 2


def test_case_86_tool_results_may_have_several_parts_of_a_kind_in_several_chunks() -> None:
    parts = [AudioPart(url="1"), AudioPart(url="2"), ImagePart(url="3")]
    chunks = [ToolResult.model_construct(parts=(part,)) for part in parts]
    assert list(concat(chunks).parts) == parts


def test_the_text_of_tool_results_is_joined_across_chunks() -> None:
    chunks = [
        ToolResult.model_construct(parts=(TextPart(text),), is_error=bad) for text, bad in (("a", True), ("b", False))
    ]
    assert concat(chunks) == ToolResult.model_construct(parts=(TextPart("ab"),), is_error=True)


# --- blocks of providers ---------------------------------------------------------------------------------------------


def test_case_113_blocks_come_in_the_order_of_their_index_and_keep_it() -> None:
    parts = join(TextPart("b", index=5), ReasoningPart("r", index=2), TextPart("c", index=5))
    assert parts == [ReasoningPart("r", index=2), TextPart("bc", index=5)]


def test_case_115_parts_with_and_without_index_may_be_mixed() -> None:
    block = ProviderPart(provider="p", type="search_result", data={"hits": 3})
    assert join(TextPart("a", index=0), block, TextPart("b", index=1)) == [
        TextPart("a", index=0),
        block,
        TextPart("b", index=1),
    ]


def test_case_116_two_kinds_under_one_index_are_an_error() -> None:
    with pytest.raises(ConcatError, match=r"parts of index 3 are of two kinds, 'text' and 'reasoning'"):
        join(TextPart("a", index=3), ReasoningPart("b", index=3))


def call_block(index: int | None, text: str = "", **data: Any) -> ProviderPart:
    return ProviderPart(provider="anthropic", type="server_tool_use", index=index, text=text, data=data)


def test_case_118_a_server_call_streams_its_arguments_as_text() -> None:
    deltas = [call_block(1, id="s1", name="web_search"), call_block(1, '{"query"'), call_block(1, ': "tides"}')]
    assert join(*deltas) == [call_block(1, '{"query": "tides"}', id="s1", name="web_search")]


def test_case_118_of_arguments_given_as_objects_the_last_counts_where_the_reference_has_an_error() -> None:
    assert join(call_block(1, input={"a": 1}), call_block(1, input={"b": 2})) == [call_block(1, input={"b": 2})]


def test_case_119_a_call_in_two_chunks_keeps_its_approval_request() -> None:
    deltas = [call_block(1, approval_request_id="a1", name="delete"), call_block(1, "{}", name="delete")]
    assert join(*deltas) == [call_block(1, "{}", approval_request_id="a1", name="delete")]


def test_case_121_annotations_are_collected_whatever_their_index() -> None:
    notes = [{"index": 0, "url": "a"}, {"index": 0, "url": "b"}]
    (part,) = join(*(TextPart("x", index=0, extra={"annotations": [note]}) for note in notes))
    assert part.extra["annotations"] == notes


def test_blocks_of_different_types_or_without_index_stay_apart() -> None:
    blocks: list[Part] = [call_block(None, "a"), call_block(None, "b"), call_block(1, "c"), call_block(2, "d")]
    assert join(*blocks) == blocks


def test_a_tool_result_block_collects_its_content() -> None:
    pieces = [
        ToolResultPart(tool_call_id="c1", index=0, name="search", content=(TextPart("a"),)),
        ToolResultPart(tool_call_id="c1", index=0, content=(TextPart("b"), ImagePart(url="u")), is_error=True),
        ToolResultPart(tool_call_id="c2", index=0),
    ]
    content = (TextPart("ab"), ImagePart(url="u"))
    assert join(*pieces) == [
        ToolResultPart(tool_call_id="c1", index=0, name="search", content=content, is_error=True),
        ToolResultPart(tool_call_id="c2", index=0),
    ]


# --- nothing is lost --------------------------------------------------------------------------------------------------


def test_calls_that_only_some_chunks_carry_are_kept() -> None:
    # langchain#34807 and langchainjs#10085: a message without its calls sends an agent to the end
    call = ToolCall(index=0, id="c1", name="f", arguments="{}")
    chunks = [*assistant("I will"), Message.assistant(" look", tool_calls=[call]), *assistant(".", "")]
    assert concat(chunks) == Message.assistant("I will look.", tool_calls=[call])


def test_messages_of_a_subclass_stay_of_it() -> None:
    class Rated(Message, frozen=True):
        stars: int = 0
        note: str = ""

    chunks = [Rated(role="assistant", content="a", note="x"), Rated(role="assistant", content="b", stars=3, note="y")]
    assert concat(chunks) == Rated(role="assistant", content="ab", stars=3, note="xy")
