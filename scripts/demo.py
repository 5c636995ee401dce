"""Set up anabranch in ``.venv`` and show what it does: an agent, an agent with files, and a graph.

python3.11 scripts/demo.py

Nothing needs to be installed before, no key is needed, and after the set-up no network.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

from environment import ROOT, SetupError, check_machine, prepare, program

JOBS = [
    ["ask", "What is (312 * 46) + 2280?"],
    ["ask", "Which trigger allows a graph to have cycles?", "--folder", "docs"],
    ["run", "docs/examples/text_report.py:graph", "--input", "README.md", "--stream"],
]


def main() -> int:
    """Run the jobs one after the other; the exit status is 1 if one failed."""
    try:
        check_machine()
        python = prepare(ROOT / ".venv", extras="cli")
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    anabranch = program(python, "anabranch")
    failed = 0
    for job in JOBS:
        print(f"\n$ anabranch {shlex.join(job)}", flush=True)
        failed += subprocess.run([anabranch, *job], cwd=ROOT, check=False).returncode != 0
    print("\nThe same command is in your checkout: .venv/bin/anabranch --help", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
