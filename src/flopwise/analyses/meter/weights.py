"""The weights of a model, of which some may be frozen: which are trained when a batch comes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from typing import TypeAlias

import torch
from torch import Tensor, nn

#: True of a weight that is trained.
TRAINED = operator.attrgetter("requires_grad")

#: Batches that look at all weights, at first and after each change: loops that freeze and thaw by turns go on so.
FIRST = 64


#: A weight, and True if it has a gradient.
Turn: TypeAlias = tuple[Tensor, bool]


class Weights:
    """The weights of a model."""

    def __init__(self, model: nn.Module, train: bool) -> None:
        """
        Args:
            model: has them.
            train: whether a batch costs a backward pass; without, none counts as trained.
        """
        self._model, self._train = model, train
        self.all = self._present()

    def _present(self) -> list[nn.Parameter]:
        return [*self._model.parameters()] if self._train else []

    def renew(self) -> bool:
        """Take the weights that the model has now; False if they are the same as before."""
        present = self._present()
        if len(present) == len(self.all) and all(map(operator.is_, present, self.all)):
            return False
        self.all = present
        return True

    def look(self) -> bytes:
        """A byte for each weight, 1 if it has a gradient."""
        return bytes(map(TRAINED, self.all))

    def turns(self, trained: bytes) -> Iterator[Turn | None]:
        """For each batch of a loop the weight that it looks at; None where it looks at all.

        Args:
            trained: what ``look`` says now.
        """
        turns: list[Turn] = [*zip(self.all, map(bool, trained), strict=True)]
        return itertools.chain(itertools.repeat(None, FIRST), itertools.cycle(turns or [(torch.empty(0), False)]))
