"""Run a program that must not outlive whoever started it: the standard input of this one is the leash.

python leash.py PROGRAM [ARGUMENTS]

When that input ends, which it does even when its writer is killed, the program is killed. Its exit status is passed on.
"""

from __future__ import annotations

import subprocess
import sys
import threading


def main() -> int:
    """Run the program to its end, or to that of the leash."""
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def watch() -> None:
        sys.stdin.buffer.read()
        program.kill()

    threading.Thread(target=watch, daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    sys.exit(main())
