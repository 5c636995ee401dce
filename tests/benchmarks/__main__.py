"""``python -m tests.benchmarks [--quick] [--json FILE] [WORD …]``: run the workloads whose names hold a word."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from . import agents, durable, graphs, memory, peers, streams
from .harness import Result, Verdict, judge, run, table_of


def main() -> None:
    """Run, print the table, write JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("words", nargs="*", help="run only the workloads whose names hold one of these")
    parser.add_argument("--quick", action="store_true", help="one short round: it only has to finish")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"))
    options = parser.parse_args()
    results: list[Result] = []
    verdicts: list[Verdict] = []
    for workload in [*graphs.WORKLOADS, *streams.WORKLOADS, *agents.WORKLOADS, *durable.WORKLOADS, *peers.WORKLOADS]:
        if options.words and not any(word in workload.name for word in options.words):
            continue
        found = run(workload, 1 if options.quick else options.rounds, quick=options.quick)
        results += found
        verdicts += judge(workload, found)
    if not options.words or any(word in "memory import" for word in options.words):
        verdicts += memory.verdicts(quick=options.quick)
    sys.stdout.write(table_of(results, verdicts))
    report = {"results": [asdict(r) for r in results], "verdicts": [asdict(v) | {"met": v.met} for v in verdicts]}
    options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
