"""Tool calls that a model wrote into its text: found where they are meant, left where they are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import (
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolInfo,
    concat,
    repair_tool_calls,
)

TOOLS = ["search", "add"]
FENCE = "```"

# the text, the calls (name, arguments), what is left of the text
WRITTEN: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    "a fenced block": (
        f'{FENCE}json\n{{"name": "search", "arguments": {{"q": "tides"}}}}\n{FENCE}',
        [("search", '{"q":"tides"}')],
        "",
    ),
    "a fenced block within text": (
        f'Let me look.\n\n{FENCE}\n{{"tool": "search", "args": {{"q": 1}}}}\n{FENCE}\n',
        [("search", '{"q":1}')],
        "Let me look.",
    ),
    "two fenced blocks": (
        (
            f'{FENCE}json\n{{"name": "search", "parameters": {{}}}}\n{FENCE}\nand\n'
            f'{FENCE}json\n{{"name": "add", "input": {{"a": 1}}}}\n{FENCE}'
        ),
        [("search", "{}"), ("add", '{"a":1}')],
        "and",
    ),
    "bare JSON": ('{"name": "add", "arguments": {"a": 1}}', [("add", '{"a":1}')], ""),
    "a list": (
        '[{"name": "add", "arguments": {"a": 1}}, {"name": "search", "arguments": {}}]',
        [("add", '{"a":1}'), ("search", "{}")],
        "",
    ),
    "as the API has it": (
        '{"id": "c7", "type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}',
        [("add", '{"a": 1}')],
        "",
    ),
    # Qwen and Hermes
    "between tags": (
        (
            'I will.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n'
            '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'
        ),
        [("add", '{"a":1}'), ("add", '{"a":2}')],
        "I will.",
    ),
    "after a tag that is not closed": ('<tool_call>{"name": "add", "arguments": {}}', [("add", "{}")], ""),
    # DeepSeek V3 and V3.1
    "between DeepSeek's marks": (
        (
            "Sure.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n"
            f'{FENCE}json\n{{"q": {{"deep": 1}}}}\n{FENCE}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        [("search", '{"q": {"deep": 1}}')],
        "Sure.",
    ),
    "between DeepSeek's newer marks": (
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{"q": 1}<｜tool▁call▁end｜>'
            '<｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
        ),
        [("search", '{"q": 1}'), ("add", '{"a": 2}')],
        "",
    ),
}

PURE = {
    "prose": "Use search to find the tides.",
    "prose with braces": "A set such as {search, add} is fine.",
    "another tool": f'{FENCE}json\n{{"name": "delete", "arguments": {{}}}}\n{FENCE} is not search',
    "a list with another tool": '[{"name": "add", "arguments": {}}, {"name": "delete", "arguments": {}}]',
    "data": f'{FENCE}json\n{{"name": "search", "rank": 1}}\n{FENCE}',
    "the definition of a tool": f'{FENCE}json\n{{"name": "search", "description": "d", "parameters": {{}}}}\n{FENCE}',
    "a name without arguments": '{"name": "search"}',
    "arguments that are no object": '{"name": "search", "arguments": [1]}',
    "arguments that are broken": '{"name": "search", "arguments": "{"}',
    "broken JSON": f'{FENCE}json\n{{"name": "search", "arguments": {{\n{FENCE}',
    "a block that is not closed": f'{FENCE}json\n{{"name": "search", "arguments": {{}}}} and so on',
    "code": f'{FENCE}python\nsearch({{"q": 1}})\n{FENCE}',
    "DeepSeek's marks around another tool": '<｜tool▁call▁begin｜>delete<｜tool▁sep｜>{"search": 1}<｜tool▁call▁end｜>',
    "nothing": "",
}


def found(message: Message) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


@pytest.mark.parametrize(("text", "calls", "rest"), WRITTEN.values(), ids=WRITTEN.keys())
def test_calls_in_the_text_become_calls(text: str, calls: list[tuple[str, str]], rest: str) -> None:
    message = repair_tool_calls(Message.assistant(text, finish_reason="stop", extra={"k": 1}), TOOLS)
    assert (found(message), message.content, message.finish_reason) == (calls, rest, "tool_calls")
    assert message.extra == {"k": 1}
    ids = [call.id for call in message.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("text", PURE.values(), ids=PURE.keys())
def test_pure_text_is_left_untouched(text: str) -> None:
    for message in (Message.assistant(text), Message.assistant([TextPart(text)])):
        assert repair_tool_calls(message, TOOLS) is message


@given(st.text('se{}[]"`:,\n<>ar ch name arguments', max_size=60))
def test_text_is_either_untouched_or_gave_a_call(text: str) -> None:
    message = Message.assistant(text)
    mended = repair_tool_calls(message, TOOLS)
    assert mended is message or mended.tool_calls


def test_a_call_that_was_streamed_as_text_is_found_once_it_is_whole() -> None:
    text = WRITTEN["a fenced block within text"][0]
    chunks = [Message.assistant(letter) for letter in text]
    assert found(repair_tool_calls(concat(chunks), TOOLS)) == [("search", '{"q":1}')]


@pytest.mark.parametrize(
    "block",
    [
        {"data": {"name": "search", "args": {"q": 1}, "id": "c7"}},
        {"data": {"name": "search", "input": {"q": 1}, "id": "c7", "type": "tool_use"}},
        {"data": {"name": "search", "id": "c7"}, "text": '{"q":1}'},
    ],
)
def test_parts_that_hold_a_call_become_calls(block: dict[str, Any]) -> None:
    part = ProviderPart(provider="qwen", type="tool_call", **block)
    kept: list[Part] = [ReasoningPart("Hm."), TextPart("Look:"), ImagePart(url="u")]
    message = repair_tool_calls(Message.assistant([*kept, part]), TOOLS)
    assert list(message.parts) == kept
    assert message.tool_calls == (ToolCall(id="c7", name="search", arguments='{"q":1}'),)


def test_parts_of_other_kinds_stay() -> None:
    part = ProviderPart(provider="p", type="tool_call", data={"name": "delete", "args": {}})
    message = Message.assistant([part, TextPart('{"name": "add", "args": {}}', index=3)])
    mended = repair_tool_calls(message, [ToolInfo(name="add", description="Adds.")])
    assert (list(mended.parts), found(mended)) == ([part], [("add", "{}")])


def test_messages_that_have_calls_or_are_no_assistants_are_left_alone() -> None:
    text = WRITTEN["bare JSON"][0]
    for message in (Message.user(text), Message.assistant(text, tool_calls=[ToolCall(id="c", name="add")])):
        assert repair_tool_calls(message, TOOLS) is message


def test_made_up_ids_are_the_same_each_time() -> None:
    message = Message.assistant(WRITTEN["between tags"][0])
    assert repair_tool_calls(message, TOOLS) == repair_tool_calls(message, TOOLS)
    assert repair_tool_calls(Message.assistant("", finish_reason="length"), TOOLS).finish_reason == "length"
