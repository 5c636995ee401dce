"""Run a program that must not outlive whoever started it: the standard input of this one is the leash.

python leash.py PROGRAM [ARGUMENTS]
python leash.py --at-end PROGRAM [ARGUMENTS]

When that input ends, which it does even when its writer is killed, the program is killed. Its exit status is passed on.
With ``--at-end`` the program is what cleans up: it is run when the input ends.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the program to its end, or to that of the leash."""
    if arguments[0] == "--at-end":
        sys.stdin.buffer.read()
        return subprocess.call(arguments[1:], stdin=subprocess.DEVNULL, timeout=60)
    program = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)

    def watch() -> None:
        sys.stdin.buffer.read()
        program.kill()

    threading.Thread(target=watch, daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
