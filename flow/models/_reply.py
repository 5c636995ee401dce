"""The offline model's answer: what the tools gave, quoted with its place, and what they did not give, said plainly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ._abilities import Purpose
from ._observations import (
    Found,
    Passage,
    Step,
    best_passage,
    definitions_first,
    read_hits,
    read_passages,
    says_nothing_found,
)
from ._questions import Question

_ENOUGH_COVERED = 0.5
_MOST_OTHERS = 3
_LONGEST_RESULT = 2000

PurposeOf = Callable[[Step], Purpose | None]


def compose_reply(question: Question, steps: Sequence[Step], purpose_of: PurposeOf) -> str:
    """Write the answer, of nothing but the question and the tools' results.

    Args:
        question: What was asked.
        steps: The tool calls since, with their results; at least one.
        purpose_of: What a step was for.

    Returns:
        One paragraph for each thing asked, in the order of the calls.
    """
    lookups = [step for step in steps if purpose_of(step) in {"search", "read"}]
    paragraphs: list[str] = []
    for step in steps:
        purpose = purpose_of(step)
        if purpose == "calculate":
            paragraphs.append(_calculation(step))
        elif purpose == "clock":
            paragraphs.append(_time(step))
        elif purpose is None:
            paragraphs.append(_other(step))
        elif step is lookups[0]:
            paragraphs.append(_Lookup(question, lookups, purpose_of).describe())
    return "\n\n".join(paragraphs)


def refuse(question: Question, tool_names: Sequence[str], *, may_call: bool) -> str:
    """Say why there is no answer when no tool was called.

    Args:
        question: What was asked.
        tool_names: The tools at hand.
        may_call: Whether one of them may be called.

    Returns:
        A sentence.
    """
    if not question.text:
        return "There is no question for me to answer."
    if not tool_names:
        return "I am the offline model: I answer only from what tools give me, and I was given no tools."
    if not may_call:
        return "I am the offline model: I answer only from what tools give me, and I may not call one here."
    names = ", ".join(tool_names)
    return f"I am the offline model: I know nothing myself, and none of my tools ({names}) suits this question."


def _calculation(step: Step) -> str:
    subject = _subject(step)
    if step.failed:
        return f"I could not calculate {subject}. {_failure(step)}"
    return f"{subject} = {step.text}"


def _time(step: Step) -> str:
    place = f" in {_subject(step)}" if _subject(step) else ""
    return f"I could not get the time{place}. {_failure(step)}" if step.failed else f"Time{place}: {step.text}"


def _other(step: Step) -> str:
    verb = "failed" if step.failed else "gave"
    text = step.text if len(step.text) <= _LONGEST_RESULT else step.text[:_LONGEST_RESULT] + "…"
    return f"{step.call.name} {verb}: {text}"


def _failure(step: Step) -> str:
    """Say what a failed tool reported, with its name."""
    return step.text if step.call.name in step.text else f"{step.call.name} reported: {step.text}"


def _subject(step: Step) -> str:
    """Give what a tool was asked: its first text argument."""
    return next((value for value in step.arguments.values() if isinstance(value, str)), "")


class _Lookup:
    """The answer to what was searched and read."""

    def __init__(self, question: Question, steps: Sequence[Step], purpose_of: PurposeOf) -> None:
        self._keywords = question.keywords
        self._searches = [step for step in steps if purpose_of(step) == "search"]
        self._reads = [step for step in steps if purpose_of(step) == "read"]
        good = [step.text for step in self._searches if not step.failed and not says_nothing_found(step.text)]
        self._hits = definitions_first((hit for text in good for hit in read_hits(text)), question.text)
        self._plain = [text for text in good if not read_hits(text)]

    def describe(self) -> str:
        """Quote the best passage, or say that there is none, and what failed on the way."""
        quoted = self._from_reading() or self._from_plain_results() or self._from_hits()
        parts = [quoted or self._nothing(), *self._failures(), *self._others(quoted)]
        return "\n\n".join(part for part in parts if part)

    def _from_reading(self) -> str | None:
        """Quote what was read."""
        lines = {hit.path: hit.line for hit in reversed(self._hits)}
        for step in self._reads:
            path = _subject(step)
            if step.failed or not path:
                continue
            start = next((value for value in step.arguments.values() if type(value) is int), None)
            found = best_passage(read_passages(path, step.text, start), self._keywords, lines.get(path))
            if found is not None:
                return _quote(*found)
        return None

    def _from_plain_results(self) -> str | None:
        """Quote a search tool that gives passages instead of places."""
        sources = {step.text: step.call.name for step in self._searches}
        for text in self._plain:
            found = best_passage(read_passages(sources[text], text, None), self._keywords, None)
            if found is not None:
                return _quote(*found)
        return None

    def _from_hits(self) -> str | None:
        """Quote the first hit when it could not be read."""
        for hit in self._hits:
            if hit.text:
                return f"{_place(hit)} says:\n\n> {hit.text}"
        return f"The search points to {_place(self._hits[0])}." if self._hits else None

    def _nothing(self) -> str:
        queries = " and for ".join(repr(_subject(step)) for step in self._searches)
        if not self._searches or all(step.failed for step in self._searches):
            return "I could not search, so I cannot answer this."
        return f"I searched for {queries} and found nothing, so I cannot answer this."

    def _failures(self) -> Iterable[str]:
        return (_failure(step) for step in (*self._searches, *self._reads) if step.failed)

    def _others(self, quoted: str | None) -> Iterable[str]:
        """Name further files that the search found."""
        places: Mapping[str, str] = {hit.path: _place(hit) for hit in reversed(self._hits)}
        others = [place for path, place in reversed(list(places.items())) if path not in (quoted or "")]
        if others:
            yield f"See also: {', '.join(others[:_MOST_OTHERS])}"


def _place(hit: Found) -> str:
    return hit.path if hit.line is None else f"{hit.path}:{hit.line}"


def _quote(passage: Passage, covered: float) -> str:
    """Quote a passage line by line, and say how well it fits."""
    lines = list(passage.lines)
    while lines and not lines[-1].strip():
        lines.pop()
    kept = Passage(passage.path, passage.first_line, lines)
    quoted = "\n".join(f"> {line}".rstrip() for line in lines)
    if covered >= _ENOUGH_COVERED:
        return f"{kept.place} says:\n\n{quoted}"
    return f"I found no passage that plainly answers this. The closest one is {kept.place}:\n\n{quoted}"
