"""How far onnxruntime is from the sum of its own nodes: python benchmarks/time_acceptance.py [--sessions N].

Each session measures a whole network twice, each of its executed nodes alone, and empty runs, in interleaved rounds;
the networks are those of time_models.py. Sessions accumulate in benchmarks/cache/time/sessions.jsonl, and the table is
of all of them: the floor may not be above the whole by more than the noise in any.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.time_models import CACHE, MODELS, exported

import flopwise
from flopwise.analyses.timing.bench import bench
from flopwise.analyses.timing.bound import physical_bound
from flopwise.analyses.timing.engine import with_engine
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.machine import this_cpu
from flopwise.api.bench import record_of

SESSIONS = CACHE / "sessions.jsonl"


def session(name: str, level: str, threads: int, seconds: float) -> dict[str, Any]:
    """The figures of one session."""
    profile = flopwise.profile(str(exported(name)))
    found = bench(profile, str(exported(name)), "onnxruntime", Options(level, threads), seconds)
    bound = with_engine(physical_bound(profile, this_cpu(), threads), record_of(found))
    engine = bound.engine
    assert engine is not None
    assert engine.measured_ns is not None
    measured = [row for row in bound.rows if row.status == "ok"]
    return {
        "model": name,
        "level": level,
        "threads": threads,
        "nodes": engine.nodes,
        "unique": len({n.key for n in found.executed if not n.alias}),
        "alias": sum(n.alias for n in found.executed),
        "mapped": sum(bool(row.layers) for row in bound.rows),
        "complete": engine.complete,
        "whole_ms": engine.measured_ns / 1e6,
        "floor": engine.hot_ns / engine.measured_ns,
        "streamed": engine.streamed_ns / engine.measured_ns,
        "critical": engine.critical_ns / engine.measured_ns,
        "physical": bound.physical.ns / engine.measured_ns,
        "noise": found.noise,
        "cpu": found.cpu_share,
        "verdict": bound.verdict,
        "above": sum((row.physical_ns or 0) > (row.engine_ns or 0) for row in measured),
        "built_s": found.facts["built_seconds"],
        "round": found.facts["round_ns"] / engine.measured_ns,
        "settling": found.facts["settling"],
        "rounds": found.rounds,
        "load": found.facts.get("load"),
        "started": found.started,
    }


def table(rows: list[dict[str, Any]]) -> None:
    """The sessions of each cell as a Markdown table."""
    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        cells[row["model"], row["level"], row["threads"]].append(row)
    print(
        "| model | level | threads | nodes (unique, alias) | sessions | best whole ms | floor / whole"
        " | streamed / whole | physical / whole | A/A | CPU/wall | load | above floor + max(2 %, A/A)"
        " | nodes below physical | ready s | round / whole | 10 rounds |"
    )
    print("|---|---|--:|---|--:|--:|---|---|---|---|---|---|--:|--:|--:|--:|--:|")
    order = list(MODELS)
    for (model, level, threads), found in sorted(cells.items(), key=lambda c: (c[0][2], order.index(c[0][0]), c[0][1])):
        slack = 0.02 if threads == 1 else 0.05
        broken = sum(f["floor"] > 1 + max(slack, f["noise"]) for f in found)

        def span(key: str, found: list[dict[str, Any]] = found) -> str:
            values = [f[key] for f in found if f[key] is not None]
            if not values:
                return "?"
            low, high = min(values), max(values)
            return f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{low:.3f} to {high:.3f}"

        first = found[0]
        settled = max((f["settling"] or 0) for f in found)
        print(
            f"| {model} | {level} | {threads} | {first['nodes']} ({first['unique']}, {first['alias']}) | {len(found)}"
            f" | {min(f['whole_ms'] for f in found):.2f} | {span('floor')} | {span('streamed')} | {span('physical')}"
            f" | {max(f['noise'] for f in found):.3f} | {min(f['cpu'] for f in found):.2f}"
            f" | {min(f['load'] or 0 for f in found):.1f} to {max(f['load'] or 0 for f in found):.1f}"
            f" | {broken} | {max(f['above'] for f in found)} | {max(f['built_s'] for f in found):.1f}"
            f" | {max(f['round'] for f in found):.0f} | {settled:.3f} |"
        )
    everything = [f for found in cells.values() for f in found]
    single = [f for f in everything if f["threads"] == 1]
    broken = [f for f in single if f["floor"] > 1 + max(0.02, f["noise"])]
    complete = "complete" if all(f["complete"] for f in everything) else "NOT complete"
    print()
    print(
        f"{len(everything)} sessions, {len(single)} with one thread: in {len(broken)} of these the floor is above the"
        f" whole by more than max(2 %, A/A); coverage {complete};"
        f" physical <= engine floor in {sum(f['physical'] <= f['floor'] for f in everything)} of {len(everything)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=3, help="new ones for each cell; 0 prints what there is")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--levels", nargs="*", default=["all"])
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=15)
    given = parser.parse_args()
    for _ in range(given.sessions):
        for threads in given.threads:
            for level in given.levels:
                for name in given.models:
                    row = session(name, level, threads, given.seconds)
                    with SESSIONS.open("a") as file:
                        print(json.dumps(row), file=file)
                    print(
                        f"{name} {level} {threads}: {row['whole_ms']:.2f} ms, floor {row['floor']:.3f},"
                        f" streamed {row['streamed']:.3f}, A/A {row['noise']:.3f}, {row['verdict']}",
                        file=sys.stderr,
                        flush=True,
                    )
    table([json.loads(line) for line in SESSIONS.read_text().splitlines()])


if __name__ == "__main__":
    main()
