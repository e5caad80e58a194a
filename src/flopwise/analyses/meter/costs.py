"""The costs of a model's batches, each counted once: one that is like another before is looked up.

In a loop this runs between the steps, where a processor's caches hold nothing of it: a call of a function costs some
microseconds there, so that what a known batch takes is few of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping, Sequence

from flopwise.analyses.meter.batch import key_of_call
from flopwise.analyses.meter.cost import Cost
from flopwise.analyses.meter.counting import Counter
from flopwise.analyses.meter.program import Program
from flopwise.analyses.meter.weights import TRAINED
from flopwise.errors import FlopwiseError

#: Batches of different keys that are remembered, at most.
REMEMBERED = 1 << 16

#: The thread that counts a batch, if one does. It runs the model, and those calls are batches of no meter.
COUNTING: list[int] = []

#: Programs are read one at a time.
_ONE = threading.RLock()


class Costs:
    """The costs of a model's batches."""

    def __init__(self, program: Program) -> None:
        self._program, self._counter = program, Counter(program)
        self._weights, self._positions, self._ignored = program.weights, program.positions, program.ignored
        #: The weights that are trained -> the costs of batches, by their keys.
        self._known: dict[bytes, dict[Hashable, Cost]] = {}
        self._trained = self._weights.look()
        #: Those of the weights that are trained now.
        self._now = self._known[self._trained] = {}
        #: Seconds that formulas and profiles have taken so far.
        self.seconds = 0.0
        #: The errors of batches that cannot be counted, by the weights that are trained and their keys.
        self._failures: dict[tuple[bytes, Hashable], FlopwiseError] = {}

    def of(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Cost:
        """The cost of a batch with the weights that are trained now.

        Args:
            args: the positional arguments of the model.
            kwargs: the named ones.

        Raises:
            ModelError: the model fails with it.
        """
        trained = bytes(map(TRAINED, self._weights.all))
        if trained != self._trained:
            self._train(trained)
        key = key_of_call(args, kwargs, self._positions[len(args)], self._ignored)
        cost = self._now.get(key)
        return self._count(key, args, kwargs) if cost is None else cost

    def _train(self, trained: bytes) -> None:
        """Go on with the costs of batches that train these weights."""
        self._trained = trained
        self._now = self._known.setdefault(trained, {})

    def _count(self, key: Hashable, args: Sequence[object], kwargs: Mapping[str, object]) -> Cost:
        """The cost of a batch that is like none before."""
        with _ONE:
            self._weights.renew()
            self._train(self._weights.look())
            if key in self._now:  # another thread was faster
                return self._now[key]
            if sum(map(len, self._known.values())) + len(self._failures) >= REMEMBERED:
                self._known, self._failures = {self._trained: {}}, {}
                self._now = self._known[self._trained]
            place = self._trained, key
            if place in self._failures:
                raise self._failures[place].with_traceback(None)
            COUNTING.append(threading.get_ident())
            start = time.perf_counter()
            try:
                cost = self._now[key] = self._counter.cost(([*args], dict(kwargs)))
            except FlopwiseError as error:
                self._failures[place] = type(error)(*error.args)  # without the tensors of its frames
                raise
            finally:
                COUNTING.pop()
                self.seconds += time.perf_counter() - start
            return cost
