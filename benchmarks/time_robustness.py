"""What time measurements withstand: python benchmarks/time_robustness.py [--sessions N].

Faults in an engine, noise in a thousand simulated programs, a busy machine, and what a warm store costs beside a
profile. Prints Markdown tables; ratios are within this run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.time_models import exported
from tests.analyses.timing.sessions import kernel, program, random_program, written
from tests.analyses.timing.simulated import ENGINE, Simulated

import flopwise
from flopwise.analyses.timing import worker
from flopwise.analyses.timing.bench import bench
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.measure import measure


def faults() -> None:
    """A status for each fault, and how soon the next child measures."""
    print("| fault | status | others measured | seconds from its end to the end of the session |\n|---|---|---|--:|")
    for fault in ("hang", "segfault", "abort", "memory"):
        nodes = [kernel("a", 1000), kernel("b", 2000, fault=fault), kernel("c", 3000)]
        lost = time.perf_counter()  # of a fault that the child itself survives

        def report(event: dict[str, object]) -> None:
            nonlocal lost
            if event["event"] == "lost":
                lost = time.perf_counter()

        with tempfile.TemporaryDirectory() as folder:
            request = {
                "engine": ENGINE,
                "model": written(program(*nodes), Path(folder)),
                "inputs": {},
                "options": {"level": "all", "threads": 1},
                "seconds": 0.01,
                "folder": folder,
            }
            result = worker.run(request, report, patience=1.0)  # type: ignore[arg-type]
        states = [m["status"] for m in result["measurements"]]
        print(f"| {fault} | {states[1]} | {states.count('ok')} of 2 | {time.perf_counter() - lost:.2f} |")


def simulated(count: int = 1000) -> None:
    """Floors of random programs in which three runs in ten take three times as long."""
    above, worst = 0, 0.0
    for seed in range(count):
        made = Simulated(random_program(seed), Options())
        result = measure(made, 1e9, now=lambda: 0.0, most_rounds=25)
        best = {m["key"]: m["best_ns"] for m in result["measurements"] if m["mode"] == "hot"}
        floor = sum(best[n.key] for n in made.executed if not n.alias)
        hidden = sum(k["ns"] for k in made.kernels if not k["alias"])
        above += floor > min(result["whole_ns"])
        worst = max(worst, abs(floor / hidden - 1) if hidden else 0.0)
    print(f"\n{count} simulated programs: floor above the whole in {above}; hidden times recovered within {worst:.2%}")


def _busy() -> None:
    while True:
        pass


def loads(sessions: int) -> None:
    """How many sessions are called noisy, as the machine is and with two busy processes for each core."""
    path = str(exported("squeezenet1_1"))
    profile = flopwise.profile(path)
    print("\n| machine | sessions | noisy | floor / whole | A/A | CPU/wall | load |\n|---|--:|--:|---|---|---|---|")
    for name, extra in (("as it is", 0), ("two busy processes a core", 2 * (os.cpu_count() or 1))):
        others = [multiprocessing.Process(target=_busy, daemon=True) for _ in range(extra)]
        for other in others:
            other.start()
        found = [bench(profile, path, "onnxruntime", Options(), 4.0) for _ in range(sessions)]
        for other in others:
            other.terminate()
        ratios = []
        for each in found:
            best = {m.key: m.best_ns or 0 for m in each.measurements if m.mode == "hot"}
            ratios.append(sum(best[n.key] for n in each.executed if not n.alias) / each.best_ns)
        noise, share = [f.noise for f in found], [f.cpu_share for f in found]
        load = [f.facts.get("load", 0) for f in found]
        print(
            f"| {name} | {sessions} | {sum(f.noisy for f in found)} | {min(ratios):.3f} to {max(ratios):.3f}"
            f" | {min(noise):.3f} to {max(noise):.3f} | {min(share):.2f} to {max(share):.2f}"
            f" | {min(load):.1f} to {max(load):.1f} |"
        )


def warm(rounds: int = 9) -> None:
    """``flopwise bound`` with a warm store beside ``flopwise profile``, each a process of its own, in turn."""
    path = str(exported("resnet50"))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FLOPWISE_STORE": f"{folder}/times.sqlite"}
        command = [sys.executable, "-m", "flopwise"]
        subprocess.run([*command, "bench", path, "--time", "3"], env=environment, check=True, capture_output=True)
        times: dict[str, list[float]] = {"profile": [], "bound": []}
        for _ in range(rounds):
            for name, seconds in times.items():
                start = time.perf_counter()
                done = subprocess.run([*command, name, path, "-f", "json"], env=environment, capture_output=True)
                seconds.append(time.perf_counter() - start)
                content = json.loads(done.stdout)
                assert name == "profile" or content["floors"]["engine_ns"], content["notes"]
    ratio = median(times["bound"]) / median(times["profile"])
    print(f"\nwarm store: bound takes {ratio:.2f} of the time of profile (ResNet-50, medians of {rounds} processes)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10)
    given = parser.parse_args()
    faults()
    simulated()
    warm()
    loads(given.sessions)


if __name__ == "__main__":
    main()
