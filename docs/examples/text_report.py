"""A report on a text file: a typed graph that fans out to four analyses and joins them by key.

Run it with `anabranch run docs/examples/text_report.py:graph --input README.md --stream` or
`python docs/examples/text_report.py README.md`; see it with `anabranch draw docs/examples/text_report.py:graph`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from anabranch.compose import END, START, Graph

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
SMALL_WORDS = {"a", "an", "and", "are", "as", "for", "in", "is", "it", "of", "on", "or", "that", "the", "to", "with"}


class Text(BaseModel):
    """A text, cut into sentences and words."""

    path: str
    sentences: list[str]
    words: list[str]


class Size(BaseModel):
    """How long a text is."""

    path: str
    words: int
    sentences: int


class Readability(BaseModel):
    """How easily a text reads."""

    score: float
    verdict: str


def read(path: str) -> Text:
    """Read a file; code blocks of Markdown are left out."""
    prose = CODE.sub("\n\n", Path(path).read_text(encoding="utf-8"))
    pieces = re.split(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[#>*|-])", prose)
    sentences = [" ".join(piece.split()) for piece in pieces if WORD.search(piece)]
    return Text(path=path, sentences=sentences, words=WORD.findall(prose))


def measure(text: Text) -> Size:
    """Count words and sentences."""
    return Size(path=text.path, words=len(text.words), sentences=len(text.sentences))


def find_frequent_words(text: Text) -> list[tuple[str, int]]:
    """Find the words that occur most often."""
    counts = Counter(word.lower() for word in text.words)
    telling = [(word, count) for word, count in counts.items() if word not in SMALL_WORDS]
    return sorted(telling, key=lambda entry: (-entry[1], entry[0]))[:10]


def judge_readability(text: Text) -> Readability:
    """Compute Flesch's reading ease, with syllables counted by groups of vowels."""
    words, sentences = max(len(text.words), 1), max(len(text.sentences), 1)
    syllables = sum(len(re.findall(r"[aeiouy]+", word.lower())) or 1 for word in text.words)
    score = 206.835 - 1.015 * words / sentences - 84.6 * syllables / words
    verdict = "easy" if score >= 70 else "plain" if score >= 50 else "hard"
    return Readability(score=round(score, 1), verdict=verdict)


def find_longest_sentences(text: Text) -> list[str]:
    """Find the three sentences with the most words, the longest first."""
    return sorted(text.sentences, key=lambda sentence: -len(WORD.findall(sentence)))[:3]


async def write_report(findings: dict[str, Any]) -> AsyncIterator[str]:
    """Write the report section by section, of what each analysis found under its key."""
    size: Size = findings["size"]
    readability: Readability = findings["readability"]
    yield f"# Report on {size.path}\n\n{size.words} words in {size.sentences} sentences.\n"
    yield "\n## Most frequent words\n\n"
    for word, count in findings["frequent"]:
        yield f"- {word}: {count}\n"
    yield f"\n## Readability\n\nReading ease {readability.score}: {readability.verdict}.\n"
    yield "\n## Longest sentences\n\n"
    for number, sentence in enumerate(findings["longest"], 1):
        yield f"{number}. {sentence}\n"


ANALYSES: dict[str, Callable[[Text], object]] = {
    "size": measure,
    "frequent": find_frequent_words,
    "readability": judge_readability,
    "longest": find_longest_sentences,
}


def build() -> Graph[str, str]:
    """Join the functions to a graph."""
    report = Graph[str, str]()
    source = report.add_node("read", read, blocking=True)
    write = report.add_node("write", write_report)
    report.add_edge(START, source)
    for key, analyse in ANALYSES.items():
        report.add_node(key, analyse, output_key=key)
        report.add_edge(source, key)
        report.add_edge(key, write)
    report.add_edge(write, END)
    return report


graph = build().compile(trigger="all", name="text_report")

if __name__ == "__main__":
    with graph.stream_sync(sys.argv[1] if len(sys.argv) > 1 else "README.md") as chunks:
        for chunk in chunks:
            sys.stdout.write(chunk)
