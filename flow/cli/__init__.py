"""The command line: `anabranch ask`, `anabranch resume`, `anabranch runs`, `anabranch run`, `anabranch draw`.

Exit status: 0 done, 1 the run failed, 2 the command was used wrongly, 3 the run was saved and waits for an answer,
130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: What stands behind the command's name; `sys.argv` by default.

    Returns:
        The exit status.
    """
    try:
        import cyclopts as cyclopts
        import rich as rich

        from ._app import execute
    except ModuleNotFoundError as error:
        if error.name not in {"cyclopts", "rich"}:
            raise
        sys.stderr.write('anabranch: the command line needs an extra; run: pip install "anabranch[cli]"\n')
        return 2
    except KeyboardInterrupt:
        return 130
    return execute(sys.argv[1:] if arguments is None else list(arguments))
