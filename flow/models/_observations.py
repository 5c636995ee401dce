"""What happened since the question: which tools were called, what they gave, and what can be quoted of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ...schema import Message, ToolCall
from ..tools._search import cut_into_passages
from ..tools._words import iter_terms


class Step(NamedTuple):
    """One tool call since the question, and its answer if there is one."""

    call: ToolCall
    arguments: Mapping[str, Any]
    result: Message | None

    @property
    def failed(self) -> bool:
        """Whether the call gave nothing that can be used."""
        return self.result is None or self.result.is_error

    @property
    def text(self) -> str:
        """What the tool said, or that it said nothing."""
        return "it gave no result" if self.result is None else self.result.text.strip()


class Found(NamedTuple):
    """A place that a search tool named."""

    path: str
    line: int | None
    text: str


class Passage(NamedTuple):
    """Some lines of a document, as they stand there."""

    path: str
    first_line: int | None
    lines: Sequence[str]

    @property
    def place(self) -> str:
        """Where the passage stands: path, and line numbers if they are known."""
        if self.first_line is None:
            return self.path
        last = self.first_line + len(self.lines) - 1
        return f"{self.path}:{self.first_line}" + (f"-{last}" if last > self.first_line else "")


def last_question(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Find what the user asked last, and all that was said after it.

    Args:
        messages: A history, of any shape.

    Returns:
        The text, empty if no user spoke, and the messages after it.
    """
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return messages[index].text.strip(), messages[index + 1 :]
    return "", messages


def read_steps(messages: Iterable[Message]) -> list[Step]:
    """Bring tool calls and their answers together, in the order of the calls.

    Args:
        messages: What was said after the question. Answers to unknown calls are left out.

    Returns:
        The steps.
    """
    calls: list[ToolCall] = []
    results: list[Message] = []
    for message in messages:
        calls.extend(message.tool_calls)
        if message.role == "tool":
            results.append(message)
    steps: list[Step] = []
    for call in calls:
        # ids may repeat in histories that others made: each answer is taken once
        match = next((result for result in results if result.tool_call_id == call.id), None)
        if match is not None:
            results.remove(match)
        steps.append(Step(call, _read_arguments(call.arguments), match))
    return steps


def read_hits(text: str) -> list[Found]:
    """Read the places from what a search tool gave.

    Args:
        text: Lines such as `path:12: text`, or JSON with paths in it.

    Returns:
        The places in their order; none if there are none to be seen.
    """
    hits = [Found(match["path"], int(match["line"]), match["text"].strip()) for match in _HIT_LINE.finditer(text)]
    if hits:
        return hits
    try:
        value = json.loads(text)
    except ValueError:
        return [Found(match.group(1), None, "") for match in _PATH_LINE.finditer(text)]
    return list(_hits_in_json(value))


def definitions_first(hits: Iterable[Found], question: str) -> list[Found]:
    """Put the hits that define something in front, if that is what the question asks for.

    Args:
        hits: The hits, best first.
        question: What was asked.

    Returns:
        The hits, else in their order.
    """
    asked = _ASKS_WHAT.match(question)
    if asked is None:
        return list(hits)
    subject = re.escape(asked["subject"].strip())
    defines = re.compile(rf"\b{subject}\W{{1,4}}(?:is|are|was|were|means|stands\s+for)\b", re.IGNORECASE)
    return sorted(hits, key=lambda hit: defines.search(hit.text) is None)


def says_nothing_found(text: str) -> bool:
    """Whether a search tool's text says in words that nothing was found."""
    return not text.strip(" \n[]{}") or (len(text) < 400 and _NOTHING.match(text) is not None)


def read_passages(path: str, text: str, first_line: int | None) -> Iterator[Passage]:
    """Cut what a reading tool gave into passages, with the numbers of their lines.

    Args:
        path: What was read.
        text: What the tool gave: bare lines, or lines with numbers in front and remarks around them.
        first_line: The number of the first line, where the tool was asked for it and gives no numbers.

    Yields:
        The passages in their order. Lines are quoted exactly.
    """
    lines = text.split("\n")
    numbered = [(int(match[1]), match[2]) for line in lines if (match := _NUMBERED.match(line))]
    if len(numbered) >= max(1, len(lines) - 3):
        start, lines = numbered[0][0], [line for _, line in numbered]
    elif first_line is not None:
        start = first_line
    else:
        yield from (Passage(path, None, block) for _, block in cut_into_passages("\n".join(lines)))
        return
    for offset, block in cut_into_passages("\n".join(lines)):
        yield Passage(path, start + offset - 1, block)


def best_passage(
    passages: Iterable[Passage], keywords: Sequence[str], line: int | None
) -> tuple[Passage, float] | None:
    """Choose the passage that fits the question best.

    Args:
        passages: What was read.
        keywords: What the question is about.
        line: The line that the search pointed to, which decides between passages that fit alike.

    Returns:
        The passage, and which part of the keywords it has; `None` if no passage has one of them.
    """
    terms = set(iter_terms(" ".join(keywords)))
    best: tuple[Passage, float] | None = None
    best_rank: tuple[float, int, int] = (0.0, 0, 0)
    for passage in passages:
        present = list(iter_terms("\n".join(passage.lines)))
        covered = len(terms & {*present, *iter_terms(passage.path)}) / len(terms) if terms else 0.0
        if not terms & set(present):
            continue
        holds = line is not None and passage.first_line is not None
        pointed = holds and cast("int", passage.first_line) <= cast("int", line) < (
            cast("int", passage.first_line) + len(passage.lines)
        )
        bare = all(text.lstrip().startswith("#") or not text.strip() for text in passage.lines)
        rank = (covered + 0.3 * pointed - 0.4 * bare, sum(term in terms for term in present), 0)
        if best is None or rank > best_rank:
            best, best_rank = (passage, covered), rank
    return best


_HIT_LINE = re.compile(
    r"^[ \t]*(?:[-*] )?(?P<path>[^\s:][^:\n]*):(?P<line>[0-9]+)(?::|\s|$)(?P<text>.*)$", re.MULTILINE
)
_PATH_LINE = re.compile(r"^[ \t]*(?:[-*] )?([\w./-]+\.[A-Za-z0-9]{1,8})[ \t]*$", re.MULTILINE)
_NUMBERED = re.compile(r"[ \t]*([0-9]+)(?::|\||\t|→)[ ]?(.*)$")
_NOTHING = re.compile(
    r"\W*(?:no|nothing|none|0|zero)\b[^\n]*\b(?:match\w*|found|results?|hits?|documents?|files?)\b"
    r"|\W*(?:nothing|none|not found|no results?)\W*$",
    re.IGNORECASE,
)
_ASKS_WHAT = re.compile(
    r"\s*(?:what|who)(?:['’]?s|\s+is|\s+are|\s+was|\s+were)\s+(?:an?\s+|the\s+)?(?P<subject>\w[\w\s.-]{0,60}?)\s*[?.!]*\s*$",
    re.IGNORECASE,
)
_PATH_KEYS = ("path", "file", "filename", "file_path", "uri", "url", "source", "id")
_LINE_KEYS = ("line", "line_number", "start_line", "lineno")
_TEXT_KEYS = ("text", "content", "snippet", "page_content", "title")


def _hits_in_json(value: Any) -> Iterator[Found]:
    """Find objects that name a path, at any depth."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            if isinstance(item, str) and _PATH_LINE.fullmatch(item):
                yield Found(item, None, "")
            else:
                yield from _hits_in_json(item)
    elif isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        path = next((found[key] for key in _PATH_KEYS if isinstance(found.get(key), str)), None)
        if path is None:
            for item in found.values():
                yield from _hits_in_json(item)
            return
        line = next((found[key] for key in _LINE_KEYS if isinstance(found.get(key), int)), None)
        text = next((found[key] for key in _TEXT_KEYS if isinstance(found.get(key), str)), "")
        yield Found(path, line, text)


def _read_arguments(text: str) -> Mapping[str, Any]:
    """Read a call's arguments; malformed ones count as none."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
