"""Words of a text, brought to a form in which a question and its answer meet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_STOP = """
    a about all also am an and any are as at be been being but by can could describe did do does doing
    each explain find for from get gets give had happen happens has have having he her here hers him his
    how i if in into is it its itself just let list many may me mean means might more most much must my
    no not of off on once one only or other our out over own please said same say says shall she should
    show so some such tell than that the their them then there these they this those through to too under
    up upon us use used uses using very was we were what when where which while who whom whose why will
    with work works would you your
"""
STOP_WORDS = frozenset(_STOP.split())
"""English words that carry no subject of their own in a question."""

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CJK_LETTERS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_CJK = re.compile(f"[{_CJK_LETTERS}]|[^{_CJK_LETTERS}]+")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Cut the endings that English words take, lightly and always in the same way.

    Args:
        word: One word.

    Returns:
        A form shared by, for example, merge, merges, merged and merging.
    """
    folded = word.casefold()
    if len(folded) > 4 and folded.endswith("ies"):
        return folded[:-3] + "y"
    if len(folded) > 3 and folded.endswith("s") and not folded.endswith(("ss", "us", "is")):
        folded = folded[:-1]
    for ending, least in (("ing", 6), ("ed", 5)):
        if folded.endswith(ending) and len(folded) >= least:
            folded = folded[: -len(ending)]
            if len(folded) > 3 and folded[-1] == folded[-2] and folded[-1] not in "lsz":
                folded = folded[:-1]
            break
    return folded[:-1] if len(folded) > 3 and folded.endswith("e") else folded


def iter_terms(text: str) -> Iterator[str]:
    """Give the stems of a text in order; names in camel case give their parts as well.

    Args:
        text: Any text.

    Yields:
        The stems. Chinese, Japanese and Korean are given character by character.
    """
    for word in _WORD.findall(text):
        if word.isascii():
            yield stem(word)
            if not (word.islower() or word.isdigit() or word.istitle() or word.isupper()):
                parts = _CAMEL.findall(word)
                if len(parts) > 1:
                    yield from (stem(part) for part in parts if len(part) > 2)
        else:
            yield from (stem(part) for part in _CJK.findall(word))


def keywords(text: str) -> list[str]:
    """Give the words of a question that carry its subject, as they are written, without repeating one.

    Args:
        text: A question.

    Returns:
        The words in order; all of them if none carries a subject.
    """
    words = list(dict.fromkeys(_WORD.findall(text.replace("'s", " ").replace("’s", " "))))
    telling = [word for word in words if word.casefold() not in STOP_WORDS and (len(word) > 1 or word.isdigit())]
    return telling or words
