"""`anabranch run` and `anabranch draw`."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from ...compose import Runnable
from ._output import Line
from ._target import load_graph
from ._values import read_input, write_value


def run_graph(target: str, *, given: str | None, stream: bool) -> Coroutine[Any, Any, None]:
    """Load a graph and its input, and give what runs it.

    Args:
        target: `FILE_OR_MODULE:GRAPH`.
        given: What stands behind `--input`.
        stream: Whether to print chunk by chunk.

    Returns:
        The work that is left to do.

    Raises:
        UsageError: If the target or the input is wrong; nothing has run.
    """
    app = load_graph(target)
    value = read_input(given, app.plan.input)
    return _stream(app, value) if stream else _invoke(app, value)


def draw_graph(target: str, output: Path | None) -> None:
    """Print a graph as Mermaid text, or write its picture to a file.

    Args:
        target: `FILE_OR_MODULE:GRAPH`.
        output: The file; it ends in `.svg` or `.png`.

    Raises:
        UsageError: If the target or the file is wrong.
        MissingExtraError: If a picture is wanted and what draws it is not installed.
    """
    from ...compose import draw_mermaid

    if output is not None:
        from ._picture import check_output, write_picture

        check_output(output)
        write_picture(draw_mermaid(load_graph(target)), output)
        return
    line = Line()
    line.write(draw_mermaid(load_graph(target)))
    line.end()


async def _invoke(app: Runnable[Any, Any], value: Any) -> None:
    line = Line()
    line.write(write_value(await app.invoke(value)))
    line.end()


async def _stream(app: Runnable[Any, Any], value: Any) -> None:
    line = Line()
    async with app.stream(value) as reader:
        async for chunk in reader:
            line.write(chunk if isinstance(chunk, str) else write_value(chunk, indent=None) + "\n")
    line.end()
