"""An engine whose kernels take stated virtual nanoseconds: tests of everything else need neither an engine nor time.

A model is a JSON file: ``kernels`` with ``name``, ``op``, ``ns`` (hot), ``cold`` (more, when its weights left the
cache), ``needs`` (positions), ``alias`` and ``fault``; ``dispatch`` and ``null`` in nanoseconds; ``spikes``, the share
of runs that take three times as long; ``seed``.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.engines import Options, Task, UnsupportedError
from flopwise.analyses.timing.machine import digest
from flopwise.analyses.timing.sampling import Clock

#: The name that a session asks for it by, and what it says of itself.
ENGINE = __name__
NAMED = {"name": "simulated", "version": "1"}

#: How much longer a disturbed run takes.
SPIKE = 3


class Simulated:
    """A program in virtual time."""

    def __init__(self, content: Mapping[str, Any], options: Options) -> None:
        self.kernels: list[dict[str, Any]] = list(content["kernels"])
        self.dispatch, self.null = int(content.get("dispatch", 300)), int(content.get("null", 3000))
        self.spikes = float(content.get("spikes", 0))
        self.facts: Mapping[str, Any] = {**NAMED, **asdict(options), "build": "virtual"}
        self.notes: Sequence[str] = tuple(content.get("notes", ()))
        self.now = self.cpu = self.switches = 0
        self.clock = Clock(lambda: self.now, lambda: self.cpu, lambda: self.switches)
        self.drift, self._calibrated = float(content.get("drift", 0)), 0
        self.idle = float(content.get("idle", 0))
        self._random = random.Random(content.get("seed", 0))
        self._by_key: dict[str, dict[str, Any]] = {}
        executed = []
        for kernel in self.kernels:
            shape: dict[str, Any] = {k: kernel[k] for k in ("ns", "cold", "fault", "spec") if k in kernel}
            key = digest([kernel["op"], shape])
            self._by_key.setdefault(key, kernel)
            kinds = ("macs", "flops", "nbytes", "rows", "dtypes", "needs")
            own: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in kernel.items() if k in kinds}
            executed.append(Executed(kernel["name"], kernel["op"], key, bool(kernel.get("alias")), **own))
        self.executed: Sequence[Executed] = tuple(executed)

    def whole(self) -> Task:
        """Dispatch, kernel and cold weights of every node; an alias only the dispatch."""

        def run() -> None:
            total = self.null
            for kernel in self.kernels:
                own = 0 if kernel.get("alias") else kernel["ns"] + kernel.get("cold", 0)
                total += self.dispatch + own
            self._spend(total)

        return Task(run)

    def calibration(self) -> Task:
        """A hundred microseconds, and more by ``drift`` each time."""

        def run() -> None:
            self._calibrated += 1
            self.now += round(100_000 * (1 + self.drift * self._calibrated))

        return Task(run)

    def nulls(self) -> Mapping[str, Task]:
        """An empty run."""
        return {"empty": Task(lambda: self._spend(self.null))}

    def node(self, key: str, mode: str, calibrate: Callable[[Task], float]) -> Task | None:
        """The kernel alone, with as many copies as last 20 microseconds."""
        kernel = self._by_key[key]
        if mode == "streamed" and not kernel.get("cold"):
            return None
        self._fail(kernel.get("fault", ""), building=True)
        one = kernel["ns"] + (kernel["cold"] if mode == "streamed" else 0)
        copies = max(1, min(64, -(-20_000 // max(1, one))))

        def run() -> None:
            self._fail(kernel.get("fault", ""), building=False)
            self._spend(self.null + copies * one)

        task = Task(run, copies, "empty")
        calibrate(task)
        return task

    def _spend(self, nanoseconds: int) -> None:
        if self._random.random() < self.spikes:
            nanoseconds *= SPIKE
            self.switches += 1
        self.now += round(nanoseconds * (1 + self.idle))
        self.cpu += nanoseconds

    def _fail(self, fault: str, building: bool) -> None:
        """The faults of real kernels, for tests of the worker."""
        if building and fault == "unsupported":
            raise UnsupportedError("no kernel of that name")
        if building or not fault:
            return
        if fault == "hang":
            time.sleep(3600)
        elif fault == "segfault":
            ctypes.string_at(0)
        elif fault == "abort":
            os.abort()
        elif fault == "memory":
            bytearray(8 << 40)


def open_program(model: str, inputs: Mapping[str, Any], options: Options, folder: str) -> Simulated:
    """The program of a JSON file."""
    with open(model, encoding="utf-8") as file:
        return Simulated(json.load(file), options)
