"""Snapshots of the texts of errors: a plain file for each package, to be read as a whole."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
UPDATE = "ANABRANCH_UPDATE_TEXTS"
Provoke = Callable[[], Any]
Compare = Callable[[str, Mapping[str, Provoke]], Awaitable[None]]


@pytest.fixture
def compare_texts() -> Compare:
    """Provoke errors and compare their texts with those in a file.

    The key of a case is the name of the class, then what is special about the case; ``ANABRANCH_UPDATE_TEXTS=1
    pytest tests/error_messages`` writes the files anew, for a look at the difference.
    """

    async def compare(name: str, cases: Mapping[str, Provoke]) -> None:
        texts: list[str] = []
        wrong: list[str] = []
        for case, provoke in cases.items():
            try:
                texts.append(f"== {case}\n{await _text_of(case, provoke)}\n")
            except AssertionError as error:
                wrong.append(str(error).partition("\n")[0])
        assert not wrong, "\n".join(wrong)
        found = "\n".join(texts)
        file = HERE / f"{name}.txt"
        if os.environ.get(UPDATE):
            file.write_text(found, encoding="utf-8")
        assert found.splitlines() == file.read_text(encoding="utf-8").splitlines(), f"{UPDATE}=1 writes {file} anew"

    return compare


async def _text_of(case: str, provoke: Provoke) -> str:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            made = provoke()
            if inspect.isawaitable(made):
                await made
        except BaseException as error:  # noqa: BLE001  (what is no error is told apart below)
            found = _find(error, case.partition(",")[0])
            if found is None:
                raise AssertionError(f"{case} raised {error!r}") from None
            return _same_everywhere(str(found))
    assert [type(w.message).__name__ for w in warned] == [case.partition(",")[0]], f"{case} raised nothing"
    return _same_everywhere(str(warned[0].message))


def _find(error: BaseException | None, name: str) -> BaseException | None:
    """Give the error of a class, among what was raised and what that was raised for."""
    while error is not None and type(error).__name__ != name:
        error = error.__cause__
    return error


def _same_everywhere(text: str) -> str:
    """Leave out what depends on the machine, the version or the day."""
    text = text.replace(str(HERE.parent.parent), "")
    return re.sub(r" at 0x[0-9a-f]+", "", re.sub(r"\.py:\d+", ".py:N", text))
