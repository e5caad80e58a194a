"""Counting the batches of a model: by formulas where they hold, else by a profile for each new shape."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from flopwise.analyses.meter.batch import called_with, counted, leaves, named, plain, samples_of, tokens_of
from flopwise.analyses.meter.cost import Cost, How, cost_of
from flopwise.analyses.meter.form import Form
from flopwise.analyses.meter.program import Program

#: Values of an argument that is a number, or holds some, for which formulas are derived.
MOST_VALUES = 2


@dataclass
class Counter:
    """The costs of a model's batches."""

    program: Program
    #: The weights that are trained, names, types and numbers of axes of the tensors in a batch, and its other arguments
    #: -> how it is counted.
    forms: dict[Hashable, Form] = field(default_factory=dict)
    #: How many forms there are of batches that differ in the numbers among their arguments alone.
    alike: Counts[Hashable] = field(default_factory=Counts)

    def cost(self, batch: Any) -> Cost:
        """The cost of a batch.

        Raises:
            ModelError: the model fails with it.
            InputError: it is no batch.
        """
        call = called_with(batch)
        arguments = named(*call, self.program.names)
        tensors = leaves(arguments)
        first = {id(tensor): name for name, tensor in reversed(tensors.items())}  # labels may be the inputs themselves
        kinds = tuple([(name, first[id(t)], t.dtype, t.dim(), t.requires_grad) for name, t in tensors.items()])
        others = [*plain(counted(arguments, self.program.ignored))]
        key = (self.program.weights.look(), kinds, *others)
        how: How = "profile"
        if key in self.forms or not self._changes(key, others):
            if key not in self.forms:
                self.forms[key] = Form(self.program, call)
            figures, how, exact = self.forms[key].figures(batch, tensors)
        else:
            figures, exact = self.program.profiled(batch)
        return cost_of(figures, tokens_of(tensors), samples_of(tensors), how, exact)

    def _changes(self, key: Sequence[Hashable], others: Sequence[tuple[str, Hashable]]) -> bool:
        """True if batches that differ in the numbers among their arguments alone have formulas enough."""
        names = [name for name, value in others if not isinstance(value, (bool, str, NoneType))]
        alike = (*key[:2], *[name if name in names else (name, value) for name, value in others])
        self.alike[alike] += 1
        if self.alike[alike] <= MOST_VALUES:
            return False
        self.program.remark(
            f"{', '.join(names)}: other numbers in each batch, of which each is counted by a profile; "
            f"Meter(ignore={names}) says that they change nothing in the cost"
        )
        return True
