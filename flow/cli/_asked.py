"""What a run asks a person on the command line: how it is shown, and how an answer is read."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from ...compose import Approval, Breakpoint, Interrupt
from ...compose._types import type_name
from .errors import UsageError

_WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


# -- showing ----------------------------------------------------------------------------------------------------------


def shown(interrupts: Sequence[Interrupt]) -> Iterator[str]:
    """Write what is waited for, line by line: the id of each question, and below it what is asked.

    Args:
        interrupts: The questions.

    Yields:
        The lines.
    """
    for one in interrupts:
        yield f"  {one.id}"
        yield from (f"    {line}" for line in described(one.payload).splitlines())


def described(payload: Any) -> str:
    """Write a question in words as far as it has some, else as JSON.

    Args:
        payload: What is asked.

    Returns:
        The text.
    """
    if isinstance(payload, str):
        return payload
    if isinstance(payload, Breakpoint):
        return f"a pause {payload.when} node {payload.node!r}; it needs no answer"
    given: Any = payload.model_dump() if isinstance(payload, Approval) else payload
    if not isinstance(given, dict) or "action" not in given:
        return as_json(payload)
    fields = cast("dict[str, Any]", given)
    arguments, target = fields.get("arguments"), fields.get("target")
    words = str(fields["action"])
    if arguments is not None:
        words = f"{words} with {as_json(arguments)}"
    elif target and repr(target) not in words:
        words = f"{words} {target}"
    return "\n".join(part for part in (words, fields.get("details")) if part)


def as_json(value: Any) -> str:
    """Write a value as JSON in one line.

    Args:
        value: The value.

    Returns:
        The text.
    """
    return to_json(value, fallback=repr, inf_nan_mode="constants").decode()


def command_to_go_on(run: str, store: str, interrupts: Sequence[Interrupt]) -> str:
    """Write the command that answers.

    Args:
        run: The id of the run.
        store: The store's file.
        interrupts: What it waits for.

    Returns:
        The command, for a shell.
    """
    words = ["anabranch", "resume", run, "--store", store]
    asked = [one for one in interrupts if not isinstance(one.payload, Breakpoint)]
    for one in asked:
        value = "yes" if _takes_bool(one.answer_type) else "ANSWER"
        words += ["--answer", value if len(asked) == 1 else f"{one.id}={value}"]
    return shlex.join(words)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_answers(given: Sequence[str], interrupts: Sequence[Interrupt], run: str) -> Mapping[str, Any]:
    """Make answers of what stands behind `--answer`.

    Args:
        given: Each is `ID=VALUE`, or a value where one answer is waited for.
        interrupts: What is waited for.
        run: The id of the run.

    Returns:
        The answers by id.

    Raises:
        UsageError: If it is not clear what is answered, or a value is of another type; nothing has run.
    """
    asked = {one.id: one for one in interrupts if not isinstance(one.payload, Breakpoint)}
    answers: dict[str, Any] = {}
    for text in given:
        ids = [id for id in asked if text.startswith(f"{id}=")]
        if not ids and len(asked) != 1:
            waits = f"waits for {', '.join(map(repr, asked))}: give --answer ID=VALUE" if asked else "waits for nothing"
            raise UsageError(f"--answer {text!r}: run {run!r} {waits}")
        id = max(ids, key=len) if ids else next(iter(asked))
        if id in answers:
            raise UsageError(f"--answer: {id!r} is answered twice")
        answers[id] = read_answer(text[len(id) + 1 :] if ids else text, asked[id])
    return answers


def read_answer(text: str, question: Interrupt) -> Any:
    """Make the answer to a question of a text: yes or no, JSON, or the text itself, whichever the question takes.

    Args:
        text: What was given.
        question: The question.

    Returns:
        The answer.

    Raises:
        UsageError: If none of these is of the type that is asked for.
    """
    wanted = question.answer_type
    for value in _readings(text, wanted):
        try:
            return TypeAdapter(wanted).validate_python(value, strict=True)
        except ValidationError:
            continue
    name = "yes or no" if wanted is bool else type_name(wanted)
    raise UsageError(f"the answer to {question.id!r} is {name}, not {text!r}")


def _readings(text: str, wanted: Any) -> Iterator[Any]:
    word = text.strip().lower()
    if word in _WORDS and wanted is not str:
        yield _WORDS[word]
    if wanted is not str:
        with suppress(ValueError):
            yield from_json(text)
    yield text


def _takes_bool(wanted: Any) -> bool:
    return wanted is bool or bool in get_args(wanted)


# -- asking on the spot -----------------------------------------------------------------------------------------------


def is_interactive() -> bool:
    """Tell whether somebody sits in front of a terminal.

    Returns:
        Whether both the standard input and the standard error are one.
    """
    streams = cast("tuple[Any, Any]", (sys.stdin, sys.stderr))
    return all(stream is not None and stream.isatty() for stream in streams)


def ask_on_the_spot(question: Interrupt) -> Any:
    """Ask whoever sits in front of the terminal, until the answer is of the type that is asked for.

    Args:
        question: The question.

    Returns:
        The answer.

    Raises:
        KeyboardInterrupt: Whoever was asked wants to stop.
    """
    hint = "yes/no" if _takes_bool(question.answer_type) else "answer"
    sys.stderr.write(f"{described(question.payload)}\n")
    while True:
        try:
            return read_answer(_line(f"{hint}: "), question)
        except UsageError as error:
            sys.stderr.write(f"{error}\n")


def _line(prompt: str) -> str:
    """Read a line; Ctrl-C and Ctrl-D end the reading, and not only the work around it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main_thread else None
    try:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)
    if not line:
        raise KeyboardInterrupt
    return line.rstrip("\n")
