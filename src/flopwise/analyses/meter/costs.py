"""The costs of a model's batches, each counted once: one that is like another before is looked up.

In a loop this runs between the steps, where a processor's caches hold nothing of it: a call of a function costs some
microseconds there, so that what a known batch takes is few of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from flopwise.analyses.meter.batch import WHOLE, key_of, leaves, named, plain_mask, said_by, steers
from flopwise.analyses.meter.cost import Cost
from flopwise.analyses.meter.counting import Counter
from flopwise.analyses.meter.program import Program
from flopwise.analyses.meter.weights import Turn
from flopwise.errors import FlopwiseError
from flopwise.formats.torch.record.tensors import shape_of_input

#: The place of a tensor among the arguments, its name, and how it mostly is where it is a mask: see ``plain_mask``.
Stating: TypeAlias = tuple[int, str, Tensor | None]

#: Batches of different keys that are remembered, at most.
REMEMBERED = 1 << 16

#: The remark where a loop has seen late that weights were frozen or thawed.
LATE = (
    "a few weights were frozen or thawed, and the batches of a loop that have seen it late have no figures; "
    "Meter.step looks at all weights each time"
)

#: The thread that counts a batch, if one does. It runs the model, and those calls are batches of no meter.
COUNTING: list[int] = []

#: Programs are read one at a time.
_ONE = threading.RLock()


class Costs:
    """The costs of a model's batches."""

    def __init__(self, program: Program) -> None:
        self._program, self._counter = program, Counter(program)
        self._weights = program.weights
        #: The weights that are trained -> the costs of batches by their keys, which have the shapes and types of their
        #: tensors, which of them have gradients and are the same, and the other arguments. Where elements of inputs
        #: state facts, the inputs that do so stand there, and the costs are under the key with these facts.
        self._known: dict[bytes, dict[Hashable, Cost | list[Stating]]] = {}
        self._train(self._weights.look())
        #: The weight that the last batch of a loop has looked at; None where it was all.
        self._seen: Turn | None = None
        #: Whether weights may have been frozen or thawed some batches of a loop before that was seen.
        self._late = False
        #: Seconds that formulas and profiles have taken so far.
        self.seconds = 0.0
        #: The errors of batches that cannot be counted, by the weights that are trained and their keys.
        self._failures: dict[tuple[bytes, Hashable], FlopwiseError] = {}

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, looped: bool = False) -> Cost:
        """The cost of a batch with the weights that are trained now.

        Args:
            args: the positional arguments of the model.
            kwargs: the named ones.
            looped: whether it is the next batch of a loop, which looks at one of the weights: see ``settled``.

        Raises:
            ModelError: the model fails with it.
            InputError: it holds a nested tensor without a shape.
        """
        seen = next(self._turns) if looped else None
        if seen is None or seen[0].requires_grad is not seen[1]:
            self._look()
        else:
            self._seen = seen
        values = (*args, *kwargs.values())
        kinds: list[Hashable] = [len(args), *kwargs]
        try:
            for place, value in enumerate(values):
                if type(value) is Tensor:
                    first = 0
                    while values[first] is not value:  # labels may be the inputs themselves
                        first += 1
                    kinds += (value.shape, value.dtype, value.requires_grad, first)
                else:
                    kinds.append(self._other(place, args, kwargs))
        except RuntimeError:  # a nested tensor without a shape
            for name, tensor in leaves(named(args, kwargs, self._program.names)).items():
                shape_of_input(name, tensor)
            raise
        key = tuple(kinds)
        found = self._now.get(key)
        if not isinstance(found, Cost):
            for place, name, plain in found or self._stating(key, args, kwargs):
                tensor = values[place]
                as_most = plain is not None and tensor.is_cpu and torch.equal(tensor, plain)
                kinds.append(False if as_most else said_by(name, tensor))
            key = tuple(kinds)
            found = self._now.get(key)
        return found if isinstance(found, Cost) else self._count(key, args, kwargs)

    def _other(self, place: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
        """The part of a key for an argument that is no plain tensor."""
        name, value = named(args, kwargs, self._program.names)[place]
        ignored = isinstance(value, (int, float)) and name in self._program.ignored
        return name, None if ignored else key_of(value, name)

    def _stating(self, key: Hashable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Stating]:
        """The tensors of a batch with a new key whose elements state facts."""
        arguments = enumerate(named(args, kwargs, self._program.names))
        stating = [
            (place, name, plain_mask(name, value))
            for place, (name, value) in arguments
            if type(value) is Tensor and steers(name) and value.dtype in WHOLE
        ]
        if stating:
            self._now[key] = stating
        return stating

    def settled(self) -> bool:
        """True if all batches of a loop since the last call count with the weights that were trained then."""
        self._look()
        late, self._late = self._late, False
        return not late

    def _look(self) -> None:
        """Look at all weights."""
        trained = self._weights.look()
        if trained != self._trained:
            if self._seen is not None and self._seen[0].requires_grad is self._seen[1]:  # it may be some batches ago
                self._late = True
                self._program.remark(LATE)
            self._train(trained)
        self._seen = None

    def _train(self, trained: bytes) -> None:
        """Go on with the costs of batches that train these weights."""
        self._trained = trained
        #: Those of the weights that are trained now.
        self._now = self._known.setdefault(trained, {})
        self._turns = self._weights.turns(trained)

    def _count(self, key: Hashable, args: Sequence[object], kwargs: Mapping[str, object]) -> Cost:
        """The cost of a batch that is like none before."""
        with _ONE:
            if self._weights.renew():
                self._train(self._weights.look())
            self._look()
            cost = self._now.get(key)
            if isinstance(cost, Cost):  # another thread was faster
                return cost
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
                self._failures[place] = error.reworded(str(error))  # without the tensors of its frames
                raise
            finally:
                COUNTING.pop()
                self.seconds += time.perf_counter() - start
            return cost
