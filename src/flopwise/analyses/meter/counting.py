"""Counting the batches of a model: by formulas where they hold, else by a profile for each new shape."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from flopwise.analyses.meter.batch import called_with, leaves, named, plain, samples_of, tokens_of
from flopwise.analyses.meter.cost import Cost, cost_of
from flopwise.analyses.meter.form import Form
from flopwise.analyses.meter.program import Program


@dataclass
class Counter:
    """The costs of a model's batches."""

    program: Program
    #: Names, types and numbers of axes of the tensors in a batch, and its other arguments -> how it is counted.
    forms: dict[Hashable, Form] = field(default_factory=dict)

    def cost(self, batch: Any) -> Cost:
        """The cost of a batch.

        Raises:
            ModelError: the model fails with it.
            InputError: it is no batch.
        """
        call = called_with(batch)
        arguments = named(*call, self.program.names)
        tensors = leaves(arguments)
        kinds = tuple([(name, t.dtype, t.dim(), t.requires_grad) for name, t in tensors.items()])
        key = (kinds, *plain(arguments))
        if key not in self.forms:
            self.forms[key] = Form(self.program, call)
        figures, how, exact = self.forms[key].figures(batch, tensors)
        return cost_of(figures, tokens_of(tensors), samples_of(tensors), how, exact)
