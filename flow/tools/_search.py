"""Find the passages of some texts that a query is about.

Texts are cut into passages (a paragraph with the heading above it) and scored by BM25 over stems, with a
bonus for passages that cover more of the query and for words that stand side by side as in the query.
The order is total: equal scores are ordered by path and line, so the same query over the same texts
always gives the same answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ._words import STOP_WORDS, iter_terms, keywords

_LONGEST_PASSAGE = 12
_HITS_PER_FILE = 3
_LETTERS_PER_WORD = 6
_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"\s*(?:[-*+|]|[0-9]{1,3}[.)])\s")
_LONG_ENOUGH = 300
"""Letters of a list's items that make a passage of their own."""
# BM25: how soon repeating a word stops to count, and how much long passages are held back
_SATURATION, _LENGTH = 1.2, 0.6


class Hit(NamedTuple):
    """A line that stands for a passage."""

    path: str
    line: int
    text: str
    score: float


class _Passage(NamedTuple):
    path: str
    first_line: int
    lines: Sequence[str]
    counts: Counter[str]
    """How often each query term occurs, the file's name and heading included."""
    pairs: int
    """How many neighbouring terms of the query stand side by side."""
    prose: float
    """How much it reads like sentences, from 0 to 1."""
    length: int


def search(query: str, texts: Iterable[tuple[str, str]], limit: int = 8) -> list[Hit]:
    """Rank the passages that share words with a query.

    Args:
        query: A question or some words.
        texts: Pairs of a path and the text found there.
        limit: How many hits to give at most.

    Returns:
        The best hits, best first; none if no word of the query occurs anywhere.
    """
    terms = list(dict.fromkeys(iter_terms(" ".join(keywords(query)))))
    found: list[_Passage] = []
    passages = 0
    words = 0
    for path, text in texts:
        for first_line, lines in cut_into_passages(text):
            passages += 1
            passage = _look(path, first_line, lines, terms)
            words += passage.length
            if passage.counts:
                found.append(passage)
    weights = _weights(terms, found, passages)
    average = words / passages if passages else 1.0
    hits = [_hit(passage, weights, average) for passage in found]
    hits.sort(key=lambda hit: (-hit.score, hit.path, hit.line))
    return _spread(hits, limit)


def cut_into_passages(text: str) -> Iterable[tuple[int, Sequence[str]]]:
    """Cut a text at blank lines, before headings and between the items of a long list.

    A heading stays with what follows it.

    Args:
        text: The text, with a plain newline between lines.

    Yields:
        The number of the first line, and the lines.
    """
    block: list[str] = []
    first = 1
    length = 0
    only_heading = False
    for number, line in enumerate(text.split("\n"), 1):
        is_heading = _HEADING.match(line) is not None
        ends = not line.strip() and not only_heading
        is_next_item = length >= _LONG_ENOUGH and _ITEM.match(line) is not None
        if block and (ends or is_heading or is_next_item or len(block) >= _LONGEST_PASSAGE):
            yield first, block
            block, length = [], 0
        if line.strip() or block:
            if not block:
                first, only_heading = number, True
            block.append(line)
            length += len(line)
            only_heading = only_heading and (is_heading or not line.strip())
    if block:
        yield first, block


def best_line(lines: Sequence[str], weights: dict[str, float]) -> int:
    """Choose the line with the most weight of query terms.

    Args:
        lines: The lines of a passage.
        weights: How much each term counts.

    Returns:
        The index of the line, the first one among equals; headings yield to text.
    """

    def weight(index: int) -> tuple[float, bool]:
        terms = set(iter_terms(lines[index]))
        return sum(w for term, w in weights.items() if term in terms), not _HEADING.match(lines[index])

    return max(range(len(lines)), key=weight)


def _look(path: str, first_line: int, lines: Sequence[str], terms: Sequence[str]) -> _Passage:
    """Count a passage's query terms; most passages have none, which a look at the bare text tells."""
    text = "\n".join(lines)
    length = len(text) // _LETTERS_PER_WORD
    folded = text.casefold()
    if not any((term.removesuffix("y")) in folded for term in terms):
        return _Passage(path, first_line, lines, Counter(), 0, 0.0, length)
    present = list(iter_terms(text))
    wanted = set(terms)
    counts = Counter(term for term in present if term in wanted)
    if counts:
        counts.update(term for term in set(iter_terms(path)) if term in wanted)
    neighbours = set(pairwise(terms))
    pairs = len({pair for pair in pairwise(present) if pair in neighbours}) if len(counts) > 1 else 0
    return _Passage(path, first_line, lines, counts, pairs, _prose(text), length)


def _prose(text: str) -> float:
    """Tell sentences from code and tables by how many small words there are."""
    words = text.casefold().split()
    return min(1.0, 5 * sum(word in STOP_WORDS for word in words) / max(len(words), 1))


def _weights(terms: Sequence[str], found: Sequence[_Passage], passages: int) -> dict[str, float]:
    """Weigh each term by how rare it is."""
    with_term = Counter(term for passage in found for term in passage.counts)
    return {t: math.log(1 + (passages - with_term[t] + 0.5) / (with_term[t] + 0.5)) for t in terms}


def _hit(passage: _Passage, weights: dict[str, float], average: float) -> Hit:
    """Score a passage and choose the line to show."""
    slack = _SATURATION * (1 - _LENGTH + _LENGTH * passage.length / max(average, 1.0))
    score = sum(weights[term] * count * (_SATURATION + 1) / (count + slack) for term, count in passage.counts.items())
    covered = sum(weights[term] for term in passage.counts) / (sum(weights.values()) or 1.0)
    index = best_line(passage.lines, weights)
    total = score * (0.4 + 0.6 * covered) * (1 + 0.25 * passage.pairs) * (0.7 + 0.3 * passage.prose)
    return Hit(passage.path, passage.first_line + index, passage.lines[index].strip(), round(total, 9))


def _spread(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Take the best hits, not all of them from one file."""
    per_file: Counter[str] = Counter()
    chosen: list[Hit] = []
    for hit in hits:
        if len(chosen) == limit:
            break
        if per_file[hit.path] < _HITS_PER_FILE:
            per_file[hit.path] += 1
            chosen.append(hit)
    return chosen
