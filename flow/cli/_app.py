"""The commands, and how what happens becomes an exit status."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from ... import __version__
from .errors import OutputClosed, RunWaits, UsageError

DONE, FAILED, MISUSED, WAITS, INTERRUPTED = 0, 1, 2, 3, 130

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Target = Annotated[str, Parameter(name="TARGET")]

app = App(
    name="anabranch",
    version=f"anabranch {__version__}",
    help="Run typed graphs and LLM agents from the command line.",
    help_format="plaintext",
    help_epilogue="Exit status: 0 done, 1 the run failed, 2 wrong use, 3 the run waits for an answer, 130 interrupted.",
)


@app.command
def ask(  # noqa: PLR0913  (one for each option)
    question: str,
    /,
    *,
    folder: Path = Path(),
    model: str = "offline",
    confirm: Annotated[list[str] | None, Parameter(negative="")] = None,
    store: Path | None = None,
    run: str | None = None,
    thread: str | None = None,
    waiting: Literal["reject", "cancel", "queue"] = "reject",
    stream: bool = True,
    trace: Flag = False,
    debug: Flag = False,
) -> Coroutine[Any, Any, None]:
    """Ask a ReAct agent that can calculate, tell the time, and search and read the files of a folder.

    Args:
        question: The question, in quotes.
        folder: The folder whose text files the agent may read; it cannot leave it.
        model: The chat model: openai:NAME, openai-responses:NAME or anthropic:NAME, with keys and servers from
            OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL. "offline" needs no key and no
            network: it quotes what the tools find.
        confirm: A tool whose calls somebody has to allow, or "all"; may be given several times. In a terminal you are
            asked on the spot. Elsewhere the run is saved in the store and stops; `anabranch resume` goes on.
        store: The file in which runs and conversations are kept; made if it is not there.
        run: The id of the run, to find it again; made up if it is left out.
        thread: The conversation whose next turn this is; the agent remembers it.
        waiting: What to do if the last turn of the conversation has not ended: refuse the question, give that turn up
            (cancel), or keep the question until it has ended (queue).
        stream: Print the answer while it is made.
        trace: Show each thought, action and observation on stderr as it happens.
        debug: Show a traceback when something goes wrong.
    """
    from ._ask import Keep, ask_agent

    keep = Keep(store, run, thread, waiting)
    return ask_agent(question, folder=folder, model=model, confirm=confirm or (), keep=keep, stream=stream, trace=trace)


@app.command
def resume(
    id: Annotated[str, Parameter(name="ID")],
    /,
    *,
    store: Path,
    answer: Annotated[list[str] | None, Parameter(negative="", allow_leading_hyphen=True)] = None,
    stream: bool = True,
    trace: Flag = False,
    takeover: Flag = False,
    debug: Flag = False,
) -> Coroutine[Any, Any, None]:
    """Go on with a run of `anabranch ask` that waits for an answer, has failed or was cut off.

    Args:
        id: The id of the run.
        store: The file in which it is kept.
        answer: The answer: yes, no, JSON or text. Where several are waited for: ID=VALUE, several times. Without it, in
            a terminal, you are asked; elsewhere it is printed what is waited for.
        stream: Print the answer of the agent while it is made.
        trace: Show each thought, action and observation on stderr as it happens.
        takeover: Go on although another process seems to be at work on it.
        debug: Show a traceback when something goes wrong.
    """
    from ._kept import resume_run

    return resume_run(id, store=store, answers=answer or (), stream=stream, trace=trace, takeover=takeover)


@app.command
def runs(
    *, store: Path, thread: str | None = None, json: Flag = False, debug: Flag = False
) -> Coroutine[Any, Any, None]:
    """List the runs in a store: id, status, when it was last written, and what it waits for.

    Args:
        store: The file in which they are kept.
        thread: Only those of this conversation.
        json: Print JSON.
        debug: Show a traceback when something goes wrong.
    """
    from ._kept import list_runs

    return list_runs(store=store, thread=thread, as_json=json)


@app.command
def run(
    target: Target,
    /,
    *,
    input: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    stream: bool = False,
    debug: Flag = False,
) -> Coroutine[Any, Any, None]:
    """Compile and run a custom graph, and print its output: text as it is, everything else as JSON.

    Args:
        target: FILE_OR_MODULE:GRAPH, for example docs/examples/text_report.py:graph
        input: The graph's input as JSON, or @FILE (@- for standard input); text as it is if the graph takes text.
        stream: Print the output chunk by chunk while it is made; JSON chunks one per line.
        debug: Show a traceback when something goes wrong.
    """
    from ._run import run_graph

    return run_graph(target, given=input, stream=stream)


@app.command
def draw(target: Target, /, *, output: Path | None = None, debug: Flag = False) -> None:
    """Print a graph as Mermaid text, or draw its picture.

    Args:
        target: FILE_OR_MODULE:GRAPH, for example docs/examples/text_report.py:graph
        output: Write a picture to this file, which ends in .svg or .png; it needs "anabranch[draw]".
        debug: Show a traceback when something goes wrong.
    """
    from ._run import draw_graph

    draw_graph(target, output)


def execute(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: What stands behind the command's name.

    Returns:
        The exit status.
    """
    debug = "--debug" in arguments
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        result = command(*bound.args, **bound.kwargs)
        if isinstance(result, Coroutine):
            _run_async(cast("Coroutine[Any, Any, None]", result))
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except BaseException as error:  # noqa: BLE001  (the outermost place: everything becomes a line and a status)
        if debug and not isinstance(error, SystemExit | OutputClosed | RunWaits):
            traceback.print_exception(error)
        return _status_of(error)
    return DONE


def _run_async(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end; Ctrl-C cancels the work and waits until it has closed everything."""
    import anyio

    async def main() -> None:
        await work

    anyio.run(main)


def _status_of(error: BaseException) -> int:
    """Say what went wrong in one place, and give the exit status."""
    leaves = list(_leaves(error))
    first = leaves[0]
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return _report("interrupted", INTERRUPTED)
    if any(isinstance(leaf, OutputClosed) for leaf in leaves):
        return DONE
    if any(isinstance(leaf, RunWaits) for leaf in leaves):
        return WAITS
    if not isinstance(first, Exception):
        raise error
    if isinstance(first, CycloptsError):
        return _report(_usage(first), MISUSED)
    from ...compose import AnswerTypeError, GraphCompileError, ResumeError, RunOptionsError, ValueTypeError

    misuse = isinstance(first, UsageError | GraphCompileError | RunOptionsError | ResumeError | AnswerTypeError)
    misuse = misuse or (isinstance(first, ValueTypeError) and not first.path)
    for leaf in leaves:
        named = isinstance(leaf, UsageError) or type(leaf).__module__.startswith("anabranch")
        _report(str(leaf) if named else f"{type(leaf).__name__}: {leaf}", FAILED)
    return MISUSED if misuse else FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the errors inside of groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _usage(error: CycloptsError) -> str:
    """Make one line of what the parser says."""
    text = " ".join(str(error).split())
    if isinstance(error, UnusedCliTokensError):
        text += " Put a text with spaces into quotes."
    return f"{text} See: anabranch --help"


def _report(text: str, status: int) -> int:
    """Write a line to stderr, if there is one; further lines of a text are indented, so that each report is one."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  (None when it was closed)
        indented = "\n".join(f"  {line}".rstrip() for line in text.splitlines())[2:]
        sys.stderr.write(f"anabranch: {indented}\n")
    return status
