"""The shapes in which servers stream tool calls, and the calls that they make.

Sources are named by project and number of the issue or pull request.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest

from anabranch.schema import ConcatError, Message, ToolCall, concat


def fragment(index: int | None, id: str = "", name: str = "", arguments: str = "") -> ToolCall:
    return ToolCall(index=index, id=id, name=name, arguments=arguments)


F = fragment


class Shape(NamedTuple):
    """A way of streaming calls."""

    chunks: list[list[ToolCall]]
    calls: list[ToolCall]


ONE = [F(0, "c1", "search", '{"q": "tides"}')]
TWO = [F(0, "c1", "search", '{"q": 1}'), F(1, "c2", "lookup", '{"k": 2}')]
ONE_PLAIN = [F(None, "c1", "search", '{"q": 1}')]
TWO_PLAIN = [F(None, "c1", "search", '{"q": 1}'), F(None, "c2", "lookup", '{"k": 2}')]
TWO_SHARING = [F(0, "c1", "search", '{"q": 1}'), F(0, "c2", "search", '{"q": 2}')]

SHAPES: dict[str, Shape] = {
    # OpenAI, DeepSeek, Azure: openai-python streaming, eino case 55
    "id and name on the first fragment only": Shape(
        [[F(0, "c1", "search")], [F(0, arguments='{"q": ')], [F(0, arguments='"tides"}')]], ONE
    ),
    "id, name and the first arguments together": Shape(
        [[F(0, "c1", "search", '{"q": ')], [F(0, arguments='"tides"}')]], ONE
    ),
    # symfony/ai#2220: Qwen on DashScope sends the id as "" on the later ones, which is the same for us
    "empty id and name on later fragments": Shape(
        [[F(0, "c1", "search", "")], [F(0, "", "", '{"q": "ti')], [F(0, "", "", 'des"}')], [F(0, "", "", "")]], ONE
    ),
    "two calls one after the other": Shape(
        [
            [F(0, "c1", "search")],
            [F(0, arguments='{"q": 1}')],
            [F(1, "c2", "lookup")],
            [F(1, arguments='{"k": ')],
            [F(1, arguments="2}")],
        ],
        TWO,
    ),
    # bifrost#1829, Qwen-Agent#943, deer-flow#654
    "two calls interleaved": Shape(
        [
            [F(0, "c1", "search")],
            [F(1, "c2", "lookup")],
            [F(0, arguments='{"q"')],
            [F(1, arguments='{"k"')],
            [F(0, arguments=": 1}")],
            [F(1, arguments=": 2}")],
        ],
        TWO,
    ),
    "fragments of two calls in one chunk": Shape(
        [[F(0, "c1", "search"), F(1, "c2", "lookup")], [F(1, arguments='{"k": 2}'), F(0, arguments='{"q": 1}')]], TWO
    ),
    # litellm#11407: Claude on Bedrock counts content blocks, so the first call may have index 1
    "the first index is not 0": Shape(
        [[F(1, "c1", "search")], [F(1, arguments="")], [F(1, arguments="{}")]], [F(1, "c1", "search", "{}")]
    ),
    # Anthropic: input_json_delta after content_block_start; indexes are those of the content blocks
    "block indexes with gaps": Shape(
        [[F(2, "c1", "search")], [F(2, arguments="{}")], [F(4, "c2", "lookup")], [F(4, arguments="{}")]],
        [F(2, "c1", "search", "{}"), F(4, "c2", "lookup", "{}")],
    ),
    # Groq, Mistral: openclaw#130532
    "a whole call in one chunk": Shape([[F(0, "c1", "search", '{"q": "tides"}')]], ONE),
    "two whole calls in one chunk": Shape([TWO], TWO),
    # ollama#15457, ai-dynamo/dynamo#4723, plexus#691, eino#927
    "two whole calls sharing index 0": Shape([[TWO_SHARING[0]], [TWO_SHARING[1]]], TWO_SHARING),
    "two whole calls sharing index 0 in one chunk": Shape([TWO_SHARING], TWO_SHARING),
    # langchain#34807: Claude on Bedrock through a proxy
    "two streamed calls sharing index 0": Shape(
        [
            [F(0, "c1", "search")],
            [F(0, arguments='{"q": 1}')],
            [F(0, "c2", "search")],
            [F(0, arguments='{"q"')],
            [F(0, arguments=": 2}")],
        ],
        TWO_SHARING,
    ),
    # smolagents#1958: Ollama through LiteLLM; no ids at all
    "two whole calls sharing index 0 without ids": Shape(
        [[F(0, "", "search", '{"q": 1}')], [F(0, "", "search", '{"q": 2}')]],
        [F(0, "", "search", '{"q": 1}'), F(0, "", "search", '{"q": 2}')],
    ),
    "calls of two tools sharing index 0 without ids": Shape(
        [[F(0, "", "search", "{}")], [F(0, "", "lookup", "{")], [F(0, "", "", "}")]],
        [F(0, "", "search", "{}"), F(0, "", "lookup", "{}")],
    ),
    # vllm#18412, sglang#7048
    "no id": Shape(
        [[F(0, "", "search")], [F(0, arguments='{"q": ')], [F(0, arguments='"tides"}')]],
        [F(0, "", "search", '{"q": "tides"}')],
    ),
    "an id only for the first of two": Shape(
        [[F(0, "c1", "search", '{"q": 1}')], [F(1, "", "lookup", '{"k": ')], [F(1, arguments="2}")]],
        [F(0, "c1", "search", '{"q": 1}'), F(1, "", "lookup", '{"k": 2}')],
    ),
    # poolsideai/pool#9, vllm: every fragment has a fresh id; the first one counts
    "another id on every fragment": Shape(
        [[F(0, "c1", "search")], [F(0, "x7", "", '{"q": ')], [F(0, "x8", "", '"tides"}')]], ONE
    ),
    # AstrBot#7694: ids and names must not be glued
    "id and name on every fragment": Shape(
        [[F(0, "c1", "search", "")], [F(0, "c1", "search", '{"q": ')], [F(0, "c1", "search", '"tides"}')]], ONE
    ),
    # hermes-agent#8259: MiniMax on NIM; hermes-agent#8094: Fireworks, Kimi; workbuddy2api#82
    "name on every fragment": Shape(
        [[F(0, "c1", "search", "")], [F(0, "", "search", '{"q": ')], [F(0, "", "search", '"tides"}')]], ONE
    ),
    "name on every fragment, two calls sharing index 0": Shape(
        [
            [F(0, "c1", "search", '{"q"')],
            [F(0, "", "search", ": 1}")],
            [F(0, "c2", "search", '{"q"')],
            [F(0, "", "search", ": 2}")],
        ],
        TWO_SHARING,
    ),
    # open-webui#22235: the whole call is sent once more at the end
    "the whole call once more": Shape(
        [[F(0, "c1", "search")], [F(0, arguments='{"q": "tides"}')], [F(0, "c1", "search", '{"q": "tides"}')]], ONE
    ),
    "the name once more at the end": Shape(
        [[F(0, "c1", "search")], [F(0, arguments='{"q": "tides"}')], [F(0, "c1", "search", "")]], ONE
    ),
    # continue#5849: Gemini splits the name
    "name split over fragments": Shape([[F(0, "c1", "sea")], [F(0, "", "rch")], [F(0, "", "", '{"q": "tides"}')]], ONE),
    "name split over fragments that repeat the id": Shape(
        [[F(0, "c1", "sea")], [F(0, "c1", "rch")], [F(0, "c1", "", '{"q": "tides"}')]], ONE
    ),
    "name grows with every fragment": Shape(
        [[F(0, "c1", "sea")], [F(0, "c1", "search")], [F(0, "c1", "search", '{"q": "tides"}')]], ONE
    ),
    # Qwen-Agent#943: the id may come later; eino case 62
    "id and name only in the third fragment": Shape([[F(0)], [F(0)], [F(0, "c1", "search", '{"q": "tides"}')]], ONE),
    "first the id, then the name": Shape([[F(0, "c1")], [F(0, "", "search")], [F(0, arguments='{"q": "tides"}')]], ONE),
    "first the name, then the id": Shape([[F(0, "", "search")], [F(0, "c1", "", '{"q": "tides"}')]], ONE),
    # openai-python#2806, AstrBot#6661: Gemini's compatible endpoint; lobehub#11219: Qwen
    "no index": Shape([[F(None, "c1", "search")], [F(None, arguments='{"q":')], [F(None, arguments=" 1}")]], ONE_PLAIN),
    "no index, two calls one after the other": Shape(
        [
            [F(None, "c1", "search")],
            [F(None, arguments='{"q": 1}')],
            [F(None, "c2", "lookup", '{"k": ')],
            [F(None, arguments="2}")],
        ],
        TWO_PLAIN,
    ),
    # ollama#7881
    "no index, whole calls": Shape([[TWO_PLAIN[0]], [TWO_PLAIN[1]]], TWO_PLAIN),
    "no index, id on every fragment, interleaved": Shape(
        [
            [F(None, "c1", "search")],
            [F(None, "c2", "lookup")],
            [F(None, "c1", "", '{"q": ')],
            [F(None, "c2", "", '{"k": ')],
            [F(None, "c1", "", "1}")],
            [F(None, "c2", "", "2}")],
        ],
        TWO_PLAIN,
    ),
    "no index, id and name on every fragment": Shape(
        [[F(None, "c1", "search", '{"q"')], [F(None, "c1", "search", ": 1}")]], ONE_PLAIN
    ),
    # Ollama's and Gemini's own protocols: whole calls with neither index nor id
    "no index, no id, whole calls": Shape(
        [[F(None, "", "search", '{"q": 1}')], [F(None, "", "search", '{"q": 2}'), F(None, "", "lookup", "{}")]],
        [F(None, "", "search", '{"q": 1}'), F(None, "", "search", '{"q": 2}'), F(None, "", "lookup", "{}")],
    ),
    "no index, no id, whole calls without arguments": Shape(
        [[F(None, "", "search")], [F(None, "", "lookup")]], [F(None, "", "search"), F(None, "", "lookup")]
    ),
    "no index, no id, streamed": Shape(
        [[F(None, "", "search", '{"q"')], [F(None, arguments=": 1}")], [F(None, "", "lookup", "{}")]],
        [F(None, "", "search", '{"q": 1}'), F(None, "", "lookup", "{}")],
    ),
    "no index, no id, name on every fragment": Shape(
        [[F(None, "", "search", '{"q"')], [F(None, "", "search", ": 1}")]], [F(None, "", "search", '{"q": 1}')]
    ),
    "no index, name first, then the id": Shape([[F(None, "", "search")], [F(None, "c1", "", '{"q": 1}')]], ONE_PLAIN),
    "index on the first fragment only": Shape(
        [[F(0, "c1", "search")], [F(None, arguments='{"q": ')], [F(None, arguments='"tides"}')]], ONE
    ),
    "index on the first fragment only, id on all": Shape(
        [[F(0, "c1", "search")], [F(None, "c1", "", '{"q": ')], [F(None, "c1", "", '"tides"}')]], ONE
    ),
    # both are kept; repair_history gives one of them another id
    "the same id for two calls": Shape(
        [[F(None, "c1", "search", '{"q": 1}')], [F(None, "c1", "lookup", "{}")]],
        [F(None, "c1", "search", '{"q": 1}'), F(None, "c1", "lookup", "{}")],
    ),
    "the same id for two calls of one tool": Shape(
        [[F(None, "c1", "search", '{"q": 1}')], [F(None, "c1", "search", '{"q": 2}')]],
        [F(None, "c1", "search", '{"q": 1}'), F(None, "c1", "search", '{"q": 2}')],
    ),
    "the same id under two indexes": Shape(
        [[F(0, "c1", "search", "{}")], [F(1, "c1", "search", "{}")]],
        [F(0, "c1", "search", "{}"), F(1, "c1", "search", "{}")],
    ),
    # the arguments are the model's own text: what is wrong with them is not for us to judge
    "arguments that are no JSON": Shape(
        [[F(0, "c1", "search", "{'q':")], [F(0, arguments=" tides")]], [F(0, "c1", "search", "{'q': tides")]
    ),
    "a call without arguments": Shape([[F(0, "c1", "search")], [F(0)]], [F(0, "c1", "search")]),
}

# In these a fragment by itself does not say enough, so that pieces have to be kept as pieces: partial=True.
NEED_PARTIAL = {
    "no index",
    "no index, two calls one after the other",
    "no index, no id, streamed",
    "index on the first fragment only",
    "name on every fragment, two calls sharing index 0",
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def stream(chunks: list[list[ToolCall]]) -> list[Message]:
    return [Message.assistant(tool_calls=calls) for calls in chunks]


def groupings(chunks: list[Any]) -> list[list[list[Any]]]:
    """All ways to cut the chunks into two or more pieces."""
    cuts = range(1, len(chunks))
    return [
        [chunks[start:end] for start, end in itertools.pairwise([0, *chosen, len(chunks)])]
        for count in range(1, len(chunks))
        for chosen in itertools.combinations(cuts, count)
    ]


@every_shape
def test_every_shape_gives_the_right_calls(shape: Shape) -> None:
    assert list(concat(stream(shape.chunks)).tool_calls) == shape.calls


@every_shape
def test_a_shape_that_comes_in_one_chunk_gives_the_same(shape: Shape) -> None:
    together = [[call for calls in shape.chunks for call in calls]]
    assert list(concat(stream(together)).tool_calls) == shape.calls


@every_shape
def test_how_the_stream_was_cut_does_not_matter(shape: Shape) -> None:
    for pieces in groupings(stream(shape.chunks)):
        assert list(concat([concat(piece, partial=True) for piece in pieces]).tool_calls) == shape.calls


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - NEED_PARTIAL))
def test_whole_results_can_be_put_together_too_where_fragments_say_where_they_belong(name: str) -> None:
    shape = SHAPES[name]
    for pieces in groupings(stream(shape.chunks)):
        assert list(concat([concat(piece) for piece in pieces]).tool_calls) == shape.calls


@every_shape
def test_the_result_is_a_chunk_that_stands_for_all(shape: Shape) -> None:
    whole = concat(stream(shape.chunks))
    assert concat([whole]) == whole


def test_a_fragment_that_fits_nowhere_is_an_error_that_shows_it() -> None:
    chunks = stream([[F(None, arguments='{"q": 1}')], [F(None, "c1", "search", "{}")]])
    with pytest.raises(
        ConcatError, match=r"""arguments '\{"q": 1\}' fits nowhere: it has no index, no id and no name"""
    ):
        concat(chunks)


def test_a_call_that_changes_its_name_within_its_arguments_is_an_error_that_names_both() -> None:
    chunks = stream([[F(0, "c1", "search", '{"q"')], [F(0, "c1", "lookup", ": 1}")]])
    with pytest.raises(ConcatError, match=r"tool call 'c1' is named 'search' and then, within its arguments, 'lookup'"):
        concat(chunks)


def test_a_call_without_index_and_one_with_it_keep_apart() -> None:
    calls = [F(None, "c1", "search", "{"), F(0, "c2", "lookup", "{"), F(0, arguments="}"), F(None, "c1", "", "}")]
    assert list(concat(stream([calls])).tool_calls) == [F(None, "c1", "search", "{}"), F(0, "c2", "lookup", "{}")]


# --- the cases of the reference, by number ---------------------------------------------------------------------------


def test_case_55_fragments_of_one_index_make_one_call_that_keeps_the_index() -> None:
    calls = concat(stream([[F(0, "c1", "f")], [F(0, arguments='{"a')], [F(0, arguments='":1}')]])).tool_calls
    assert calls == (F(0, "c1", "f", '{"a":1}'),)


def test_case_56_calls_without_index_come_first() -> None:
    chunks = [[F(0, "a", "f", "{}"), F(1, "b", "f", "{}")], [F(None, "22", "f", "{}"), F(None, "44", "f", "{}")]]
    assert [call.id for call in concat(stream(chunks)).tool_calls] == ["22", "44", "a", "b"]


def test_case_58_another_id_at_the_same_index_is_another_call_where_the_reference_has_an_error() -> None:
    calls = concat(stream([[F(0, "c1", "f", "{}")], [F(0, "c2", "f", "{}")]])).tool_calls
    assert [call.id for call in calls] == ["c1", "c2"]


def test_case_59_calls_are_ordered_by_index_and_those_of_one_index_are_merged_also_in_one_message() -> None:
    chunk = [
        F(3, "c3", "f", "{"),
        F(None, "x", "f", "{}"),
        F(3, "", "", "}"),
        F(1, "c1", "f", "{}"),
        F(None, "y", "f", "{}"),
    ]
    assert [(call.index, call.id, call.arguments) for call in concat(stream([chunk])).tool_calls] == [
        (None, "x", "{}"),
        (None, "y", "{}"),
        (1, "c1", "{}"),
        (3, "c3", "{}"),
    ]


def test_case_61_the_extras_of_all_fragments_are_kept() -> None:
    fragments = [ToolCall(index=0, id="c1", name="f", extra={"a": 1}), ToolCall(index=0, extra={"b": 2})]
    assert concat(stream([[part] for part in fragments])).tool_calls[0].extra == {"a": 1, "b": 2}


def test_case_62_an_id_and_a_name_that_come_only_in_the_third_chunk_are_taken() -> None:
    assert concat(stream([[F(0)], [F(0)], [F(0, "c1", "f")]])).tool_calls == (F(0, "c1", "f"),)


def test_case_83_a_lone_chunk_is_brought_into_form_too() -> None:
    chunk = [F(3, "c1", "f", "{"), F(3, "", "", "}")]
    assert concat(stream([chunk])).tool_calls == (F(3, "c1", "f", "{}"),)
