"""The weights of a model, of which some may be frozen: which are trained when a batch comes."""

from __future__ import annotations

import operator

from torch import nn

#: True of a weight that is trained.
TRAINED = operator.attrgetter("requires_grad")


class Weights:
    """The weights of a model."""

    def __init__(self, model: nn.Module, train: bool) -> None:
        """
        Args:
            model: has them.
            train: whether a batch costs a backward pass; without, none counts as trained.
        """
        self._model, self._train = model, train
        self.renew()

    def renew(self) -> None:
        """Take the weights that the model has now: somebody may have added some, or put others in their place."""
        self.all = [*self._model.parameters()] if self._train else []

    def look(self) -> bytes:
        """A byte for each weight, 1 if it has a gradient."""
        return bytes(map(TRAINED, self.all))
