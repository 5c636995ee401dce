"""Build the site of docs/ into site/, and fail at whatever the build complains of.

python scripts/build_site.py [FOLDER OF A mkdocs.yml]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPLAINTS = ("warning", "error", "griffe:")  # how lines begin that --strict does not count

COLOUR = re.compile(r"\x1b\[[\d;]*m")


def main(folder: Path) -> int:
    """Build; give the exit status."""
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    said = COLOUR.sub("", done.stdout + done.stderr).partition("Traceback ")[0].splitlines()
    print("\n".join(line for line in said if line.strip()))
    complained = any(line.strip().lower().startswith(COMPLAINTS) for line in said)
    return 1 if done.returncode or complained else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
