"""One session: a program's whole, its nodes and empty runs in interleaved rounds; the times of each, and the noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from flopwise.analyses.timing.benchmark import MODES, Measurement
from flopwise.analyses.timing.engines import Program, Task, UnsupportedError
from flopwise.analyses.timing.sampling import Clock, Sampler, Samples, cpu_share, noise, verdict

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
Report = Callable[[Mapping[str, Any]], None]


def measure(
    program: Program,
    seconds: float,
    skip: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
    report: Report = lambda event: None,
    before: Callable[[str], None] = lambda name: None,
    now: Callable[[], float] = time.monotonic,
    most_rounds: int | None = None,
) -> dict[str, Any]:
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
    skip = dict(skip or {})
    failed: dict[str, tuple[str, str]] = {}
    start = now()
    tasks: dict[str, Task] = {name: program.whole() for name in WHOLES}
    clock = program.clock

    def calibrate(task: Task) -> float:
        return min(_time(task, clock) for _ in range(WARM))

    keys = dict.fromkeys(node.key for node in program.executed if not node.alias)
    wanted = [key for key in keys if key not in skip and (only is None or key in only)]
    rough: dict[str, float] = {}
    for name, task in tasks.items():
        before(name)
        rough[name] = calibrate(task)
    for place, key in enumerate(wanted):
        report({"event": "building", "done": place, "of": len(wanted)})
        for mode in MODES:
            before(f"{mode} {key}")
            try:
                task_of_mode = program.node(key, mode, calibrate)
                if task_of_mode is not None:
                    rough[f"{mode} {key}"] = calibrate(task_of_mode)
                    tasks[f"{mode} {key}"] = task_of_mode
            except UnsupportedError as error:
                failed[key] = ("unsupported", str(error))
                break
            except MemoryError:
                failed[key] = ("memory", "out of memory")
                break
    for name, task in program.nulls().items():
        tasks[f"null {name}"] = task
    built = now() - start
    report({"event": "built", "tasks": len(tasks), "seconds": built})

    runs = runs_of_round(rough, tasks)
    warm = {name: 1 for name in tasks if name.startswith(("hot", "null"))}
    sampler = Sampler({name: task.run for name, task in tasks.items()}, clock, before=before, warm=warm, runs=runs)
    begin = now()
    interrupted = False
    fixed = program.calibration()
    speeds = [min(_time(fixed, clock) for _ in range(CALIBRATING))]
    looked = begin
    try:
        while True:
            sampler.round()
            if now() - looked > LOOK:
                looked = now()
                speeds.append(min(_time(fixed, clock) for _ in range(CALIBRATING)))
            spent = now() - begin
            report({"event": "round", "rounds": sampler.rounds, "seconds": spent, "of": seconds})
            over = spent + spent / sampler.rounds / 2 > seconds and sampler.rounds >= FEWEST
            settled = sampler.settled and spent >= min(seconds, LEAST_SECONDS)
            if settled or over or sampler.rounds == most_rounds:
                break
    except KeyboardInterrupt:  # what is measured is kept
        interrupted = True
    round_ns = 1e9 * (now() - begin)
    speeds.append(min(_time(fixed, clock) for _ in range(CALIBRATING)))
    drift = max(speeds) / min(speeds) - 1 if min(speeds) else 0.0
    result = _result(program, sampler, tasks, skip, failed, list(keys), only, round_ns, drift)
    result.update(seconds=now() - start, built=built, interrupted=interrupted)
    return result


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


def _time(task: Task, clock: Clock) -> float:
    start = clock.wall()
    task.run()
    return clock.wall() - start


def _result(
    program: Program,
    sampler: Sampler,
    tasks: Mapping[str, Task],
    skip: Mapping[str, str],
    failed: Mapping[str, tuple[str, str]],
    keys: list[str],
    only: Collection[str] | None,
    round_ns: float,
    drift: float,
) -> dict[str, Any]:
    one, other = (sampler.samples[name] for name in WHOLES)
    threads = int(program.facts.get("threads", 1))
    difference, share = noise(one, other), cpu_share(one, other)
    rows = []
    for key in keys:
        if key in skip or key in failed:
            status, note = failed.get(key, (skip.get(key, ""), ""))
            rows.append(Measurement(key, "hot", status, note=note))  # type: ignore[arg-type] # from JSON
        elif only is None or key in only:
            rows += [
                _measurement(key, mode, tasks[f"{mode} {key}"], sampler.samples, share)
                for mode in MODES
                if f"{mode} {key}" in tasks
            ]
    return {
        "measurements": [{field: getattr(m, field) for field in m.__dataclass_fields__} for m in rows],
        "whole_ns": [one.best or other.best or 0, other.best or one.best or 0],
        "median_ns": one.median or 0,
        "cpu_ns": one.cpu / max(1, one.runs),
        "rounds": sampler.rounds,
        "round_ns": round_ns / max(1, sampler.rounds),
        "settling": sampler.sums[9] / sampler.sums[-1] if sampler.rounds > 9 and sampler.sums[-1] else None,
        "noise": difference,
        "cpu_share": share,
        "drift": drift,
        "verdict": verdict(difference, share, drift, threads),
        "facts": dict(program.facts),
        "notes": list(program.notes),
    }


def _measurement(key: str, mode: str, task: Task, samples: Mapping[str, Samples], share: float) -> Measurement:
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
