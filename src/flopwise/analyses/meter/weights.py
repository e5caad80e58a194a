"""The weights of a model, of which some may be frozen: which are trained when a batch comes."""

from __future__ import annotations

import operator

from torch import nn

_TRAINED = operator.attrgetter("requires_grad")

#: Parts in which the weights of a model are looked at in turn, each an even sample of them.
PARTS = 8

#: A model of fewer weights is looked at as a whole: that takes 4 microseconds.
WHOLE = 48


class Weights:
    """The weights of a model."""

    def __init__(self, model: nn.Module, train: bool) -> None:
        """
        Args:
            model: has them.
            train: whether a batch costs a backward pass; without, none counts as trained.
        """
        self._model, self._train = model, train
        self._turn = 0
        self.renew()

    def renew(self) -> None:
        """Take the weights that the model has now: somebody may have added some, or put others in their place."""
        self._all = [*self._model.parameters()] if self._train else []
        number = PARTS if len(self._all) >= WHOLE else 1
        self._parts = [self._all[first::number] for first in range(number)]
        self.look()

    def look(self) -> bytes:
        """A byte for each weight, 1 if it has a gradient."""
        flags = bytes(map(_TRAINED, self._all))
        number = len(self._parts)
        self._flags = [flags[first::number] for first in range(number)]
        return flags

    def are_as_before(self) -> bool:
        """False if a weight of the next part was frozen or thawed since all were looked at.

        A change of ``PARTS`` weights in a row is seen at once, and that of a single one at the latest after ``PARTS``
        calls.
        """
        turn = self._turn = (self._turn + 1) % len(self._parts)
        return bytes(map(_TRAINED, self._parts[turn])) == self._flags[turn]

    def sees_at_once(self, before: bytes, after: bytes) -> bool:
        """True if a change is seen in whichever part is looked at next."""
        number = len(self._parts)
        return len(before) != len(after) or all(before[n::number] != after[n::number] for n in range(number))
