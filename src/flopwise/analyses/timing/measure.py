"""One session: a program's whole, its nodes and empty runs in interleaved rounds; the times of each, and the noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from flopwise._results import Json
from flopwise.analyses.timing.benchmark import MODES, Measurement, Status
from flopwise.analyses.timing.engines import Program, Task, UnsupportedError
from flopwise.analyses.timing.sampling import Clock, Sampler, Samples, cpu_share, noise, verdict
from flopwise.formats.sources.text import JsonObject

#: Names of the two wholes; nodes are "mode key", empty runs "null name".
WHOLES = ("whole A", "whole B")

#: Runs of a task before it is measured, the first of which may compile, pack weights or touch memory.
WARM = 3

#: Timed runs of a task in a round, behind one that brings its code and data back into the caches.
RUNS = 2

#: Runs of a node in a round at most, and rounds at least, whatever the budget says: fewer have not met the least times.
MOST_RUNS, FEWEST = 8, 6

#: Seconds between two looks at the processor's speed, and runs of each look.
LOOK, CALIBRATING = 10.0, 10

#: Rounds go on for so long even when the minima have settled.
LEAST_SECONDS = 2.0

#: Told what happens, as plain values.
Report = Callable[[JsonObject], None]


def measure(
    program: Program,
    seconds: float,
    skip: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
    report: Report = lambda event: None,
    before: Callable[[str], None] = lambda name: None,
    now: Callable[[], float] = time.monotonic,
    most_rounds: int | None = None,
) -> Json:
    """The figures of a session as a plain value.

    Args:
        program: what to measure.
        seconds: how long rounds may go on; a few are finished in any case.
        skip: keys that are not run, and why: the status of an earlier attempt.
        only: keys to measure; None for all.
        report: called with what happens.
        before: called with the name of each task before it runs.
        now: seconds, for the budget.
        most_rounds: an upper limit of rounds.
    """
    start = now()
    failed: dict[str, tuple[Status, str]] = {key: (cast(Status, status), "") for key, status in (skip or {}).items()}
    keys = list(dict.fromkeys(node.key for node in program.executed if not node.alias))
    chosen = [key for key in keys if key in failed or only is None or key in only]
    tasks, rough = _tasks(program, [key for key in chosen if key not in failed], failed, report, before)
    built = now() - start
    report({"event": "built", "tasks": len(tasks), "seconds": built})

    runs = runs_of_round(rough, tasks)
    warm = {name: 1 for name in tasks if name.startswith(("hot", "null"))}
    actions = {name: task.run for name, task in tasks.items()}
    sampler = Sampler(actions, program.clock, before=before, warm=warm, runs=runs)
    fixed, begin = program.calibration(), now()
    speeds = [_least(fixed, program.clock, CALIBRATING)]
    interrupted, looked = False, begin
    try:
        while not _is_done(sampler, now() - begin, seconds, most_rounds):
            sampler.round()
            if now() - looked > LOOK:
                looked = now()
                speeds.append(_least(fixed, program.clock, CALIBRATING))
            report({"event": "round", "rounds": sampler.rounds, "seconds": now() - begin, "of": seconds})
    except KeyboardInterrupt:  # what is measured is kept
        interrupted = True
    round_ns = 1e9 * (now() - begin) / max(1, sampler.rounds)
    speeds.append(_least(fixed, program.clock, CALIBRATING))
    drift = max(speeds) / min(speeds) - 1 if min(speeds) else 0.0
    measurements = _measurements(chosen, failed, tasks, sampler.samples)
    times = {"seconds": now() - start, "built": built, "round_ns": round_ns, "interrupted": interrupted}
    return {**_result(program, sampler, drift), "measurements": measurements, **times}


def _tasks(
    program: Program,
    keys: Sequence[str],
    failed: dict[str, tuple[Status, str]],
    report: Report,
    before: Callable[[str], None],
) -> tuple[dict[str, Task], dict[str, float]]:
    """The tasks and roughly the nanoseconds of one run, by name; keys that cannot run alone go to ``failed``."""
    tasks = {name: program.whole() for name in WHOLES}
    rough: dict[str, float] = {}

    def calibrate(task: Task) -> float:
        return _least(task, program.clock, WARM)

    for name, task in tasks.items():
        before(name)
        rough[name] = calibrate(task)
    for place, key in enumerate(keys):
        report({"event": "building", "done": place, "of": len(keys)})
        try:
            for mode in MODES:
                before(f"{mode} {key}")
                if (alone := program.node(key, mode, calibrate)) is not None:
                    rough[f"{mode} {key}"] = calibrate(alone)
                    tasks[f"{mode} {key}"] = alone
        except UnsupportedError as error:
            failed[key] = ("unsupported", str(error))
        except MemoryError:
            failed[key] = ("memory", "out of memory")
    return tasks | {f"null {name}": task for name, task in program.nulls().items()}, rough


def _is_done(sampler: Sampler, spent: float, seconds: float, most_rounds: int | None) -> bool:
    """True after the last round: the minima have settled, the next round would take too long, or there are enough."""
    if not sampler.rounds:
        return False
    late = spent + spent / sampler.rounds / 2 > seconds and sampler.rounds >= FEWEST
    settled = sampler.settled and spent >= min(seconds, LEAST_SECONDS)
    return settled or late or sampler.rounds == most_rounds


def runs_of_round(rough: Mapping[str, float], tasks: Collection[str]) -> dict[str, int]:
    """Timed runs of each task in a round: nodes that take little beside the whole run more often.

    Args:
        rough: nanoseconds of a run, roughly.
        tasks: names of all tasks.
    """
    nodes = sum(time for name, time in rough.items() if name.startswith("hot"))
    more = int(RUNS * rough[WHOLES[0]] / nodes) if nodes else RUNS
    often = min(MOST_RUNS, max(RUNS, more))
    return {name: 1 if name.startswith("streamed") else often if name.startswith("hot") else RUNS for name in tasks}


def _least(task: Task, clock: Clock, runs: int) -> float:
    """The least nanoseconds of so many runs."""
    times = []
    for _ in range(runs):
        start = clock.wall()
        task.run()
        times.append(clock.wall() - start)
    return min(times)


def _measurements(
    keys: Sequence[str],
    failed: Mapping[str, tuple[Status, str]],
    tasks: Mapping[str, Task],
    samples: Mapping[str, Samples],
) -> list[Json]:
    """The times of each key in each mode, or why it has none, as plain values."""
    rows = []
    for key in keys:
        if key in failed:
            status, note = failed[key]
            rows.append(Measurement(key, "hot", status, note=note))
        else:
            named = {mode: f"{mode} {key}" for mode in MODES}
            rows += [_measurement(key, mode, tasks[name], samples) for mode, name in named.items() if name in tasks]
    return [asdict(row) for row in rows]


def _result(program: Program, sampler: Sampler, drift: float) -> Json:
    """The figures of the whole model, and how quiet the machine was."""
    one, other = (sampler.samples[name] for name in WHOLES)
    difference, share = noise(one, other), cpu_share(one, other)
    return {
        "whole_ns": [one.best or other.best or 0, other.best or one.best or 0],
        "median_ns": one.median or 0,
        "cpu_ns": one.cpu / max(1, one.runs),
        "rounds": sampler.rounds,
        "settling": sampler.sums[9] / sampler.sums[-1] if sampler.rounds > 9 and sampler.sums[-1] else None,
        "noise": difference,
        "cpu_share": share,
        "drift": drift,
        "verdict": verdict(difference, share, drift, int(program.facts.get("threads", 1))),
        "facts": dict(program.facts),
        "notes": list(program.notes),
    }


def _measurement(key: str, mode: str, task: Task, samples: Mapping[str, Samples]) -> Measurement:
    """Times of one execution: the empty run subtracted, divided by the copies."""
    own, empty = samples[f"{mode} {key}"], samples.get(f"null {task.null}")
    null = (empty.best or 0) if empty is not None else 0

    def alone(nanoseconds: float | None) -> float | None:
        return None if nanoseconds is None else max(0.0, nanoseconds - null) / task.copies

    return Measurement(
        key=key,
        mode=mode,
        status="ok",
        best_ns=alone(own.best),
        median_ns=alone(own.median),
        spread=own.spread,
        runs=own.runs,
        null_ns=null,
        cpu_ns=own.cpu / max(1, own.runs) / task.copies,
        note=f"{task.copies} copies" if task.copies > 1 else "",
    )
