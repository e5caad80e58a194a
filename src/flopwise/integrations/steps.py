"""The figures of the steps between two lines of a log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from flopwise.analyses.meter.cost import Cost, total
from flopwise.analyses.meter.watch import Batch
from flopwise.api.meter import Meter

#: Batches at the beginning of a run of which no time counts: memory is reserved, kernels are chosen and compiled.
SKIPPED = 3

#: Figures that a line of any model may have.
COLUMNS = ("flops", "tflops_per_s", "mfu", "hfu", "samples_per_s", "step_s")


class Steps:
    """The steps of a run, whose model is watched."""

    def __init__(
        self,
        meter: Meter,
        accumulated: int = 1,
        skipped: int = SKIPPED,
        batch: Batch | None = None,
    ) -> None:
        """
        Args:
            meter: of the model.
            accumulated: batches of one step of the optimizer.
            skipped: batches at the beginning that do not count.
            batch: what is counted of the arguments of a call; None: the arguments.
        """
        self.batch = batch
        self.meter = meter
        self.accumulated = accumulated
        self.skipped = skipped
        #: The cost of the last batch.
        self.last: Cost | None = None
        self._end: Callable[[], None] | None = None
        self._evaluating: float | None = None
        self._waiting: float | None = None
        self._open(time.perf_counter())

    def start(self) -> None:
        """Watch the model."""
        if self._end is None:
            self._end = self.meter.watch(self.called, self.batch)

    def stop(self) -> None:
        """Leave the model as it was."""
        if self._end is not None:
            self._end()
            self._end = None

    def _open(self, now: float) -> None:
        """Forget all steps so far."""
        self._start = now
        self._costs: list[Cost] = []
        self._apart = self._waited = 0.0
        self._counting = self.meter.seconds

    def called(self, cost: Cost | None) -> None:
        """A batch of this cost is there; None: an evaluation has begun."""
        if cost is None:
            if self._evaluating is None:
                self._evaluating = time.perf_counter()
            return
        self.last = cost
        if self._evaluating is not None:
            self._evaluated(time.perf_counter())
        if self.skipped >= 0:
            self.skipped -= 1
            if self.skipped >= 0:
                return
            self._synchronize()
            self._open(time.perf_counter())
        self._costs.append(cost)

    def _evaluated(self, now: float) -> None:
        """An evaluation has ended."""
        if self._evaluating is not None:
            self._apart += now - self._evaluating
            self._evaluating = None

    def waits(self) -> None:
        """The next batch is being waited for."""
        self._waiting = time.perf_counter()

    def goes_on(self) -> None:
        """The next batch is there; an evaluation in between is no waiting."""
        now = time.perf_counter()
        if self._waiting is not None and self._evaluating is None:
            self._waited += now - self._waiting
        self._waiting = None
        self._evaluated(now)

    def _synchronize(self) -> None:
        if next((p.is_cuda for p in self.meter.model.parameters()), False):
            torch.cuda.synchronize()

    def figures(self) -> dict[str, float]:
        """The figures of the steps since the last call; none where no whole step was counted.

        ``flops`` of a step, ``tflops_per_s``, ``mfu``, ``hfu``, ``tokens_per_s`` and ``samples_per_s`` by the wall time
        without evaluation, ``step_s`` and, where the framework tells, how much of it was spent waiting for the next
        batch (``wait_s``).
        """
        self._synchronize()
        now = time.perf_counter()
        evaluating = self._evaluating is not None
        self._evaluated(now)
        seconds = now - self._start - self._apart - (self.meter.seconds - self._counting)
        costs, waited = self._costs, self._waited
        self._open(now)
        if evaluating:
            self._evaluating = now
        if not (costs and seconds > 0):
            return {}
        cost = total(costs)
        steps = cost.batches / self.accumulated
        figures: dict[str, Any] = {"flops": cost.flops / steps, **self.meter.rates(seconds, cost).to_dict()}
        return {**figures, "step_s": seconds / steps, **({"wait_s": waited / steps} if waited else {})}

    def columns(self) -> dict[str, float]:
        """The figures under the same names at each call, for tables; NaN where there is none."""
        return {**dict.fromkeys(COLUMNS, math.nan), **self.figures()}
