"""The costs of a model's batches, each counted once: one that is like another before is looked up.

In a loop this runs between the steps, where a processor's caches hold nothing of it: what a known batch takes is a few
plain loops over its arguments and over the weights.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence

from flopwise.analyses.meter.batch import key_of_call
from flopwise.analyses.meter.cost import Cost
from flopwise.analyses.meter.counting import Counter
from flopwise.analyses.meter.program import Program

#: Batches of different keys that are remembered, at most.
REMEMBERED = 1 << 16


class Costs:
    """The costs of a model's batches."""

    def __init__(self, program: Program) -> None:
        self._program, self._counter = program, Counter(program)
        self._weights = program.weights
        #: The weights that are trained -> the costs of batches, by their keys.
        self._known: dict[bytes, dict[Hashable, Cost]] = {}
        self._trained = self._weights.look()
        #: Those of the weights that are trained now.
        self._now = self._known[self._trained] = {}
        #: Seconds that formulas and profiles have taken so far.
        self.seconds = 0.0
        #: Whether a batch is being counted, which may run the model.
        self.busy = False

    def of(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Cost:
        """The cost of a batch with the weights that are trained now.

        Args:
            args: the positional arguments of the model.
            kwargs: the named ones.

        Raises:
            ModelError: the model fails with it.
        """
        self._look()
        key = key_of_call(args, kwargs, self._program.positions, self._program.ignored)
        cost = self._now.get(key)
        return self._count(key, args, kwargs) if cost is None else cost

    def _look(self) -> None:
        """Look which weights are trained."""
        trained = self._weights.look()
        if trained != self._trained:
            self._trained = trained
            self._now = self._known.setdefault(trained, {})

    def _count(self, key: Hashable, args: Sequence[object], kwargs: Mapping[str, object]) -> Cost:
        """The cost of a batch that is like none before."""
        self._weights.renew()
        self._look()
        if sum(map(len, self._known.values())) >= REMEMBERED:
            self._known = {self._trained: {}}
            self._now = self._known[self._trained]
        self.busy, start = True, time.perf_counter()
        try:
            cost = self._now[key] = self._counter.cost(([*args], dict(kwargs)))
        finally:
            self.busy = False
            self.seconds += time.perf_counter() - start
        return cost
