"""Run the command line with `python -m anabranch.flow.cli`."""

from __future__ import annotations

from . import main

raise SystemExit(main())
