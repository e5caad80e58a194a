"""The costs of a model's batches: each is counted once, by a formula where one holds, else by a profile."""

from __future__ import annotations

import threading
import time
from collections import Counter as Counts
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from torch import Tensor

from flopwise.analyses.meter.batch import called_with, counted, key_of, leaves, named, plain, samples_of, tokens_of
from flopwise.analyses.meter.cost import Cost, How, cost_of
from flopwise.analyses.meter.form import Form
from flopwise.analyses.meter.program import Program
from flopwise.errors import FlopwiseError
from flopwise.formats.torch.record.values import shape_of_input

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
        key = (self.program.trained(), kinds, *others)
        how: How = "profile"
        if key in self.forms or not self._changes(key, others):
            if key not in self.forms:
                self.forms[key] = Form(self.program, call)
            figures, how, exact = self.forms[key].figures(batch, tensors)
        else:
            figures, exact = self.program.profiled(batch)
            exact = exact and not any(form.follows for form in self.forms.values())
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
        #: The costs, or why there is none, by the weights that are trained and what is known of the arguments.
        self._known: dict[Hashable, Cost | FlopwiseError] = {}
        #: Seconds that formulas and profiles have taken so far.
        self.seconds = 0.0

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Cost:
        """The cost of a batch with the weights that are trained now.

        Args:
            args: the positional arguments of the model.
            kwargs: the named ones.

        Raises:
            ModelError: the model fails with it.
            InputError: it holds a nested tensor without a shape.
        """
        arguments = self._key(args, kwargs)
        cost = self._known.get((self._program.trained(), arguments))
        return cost if isinstance(cost, Cost) else self._count(arguments, args, kwargs)

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
        """The arguments as far as costs hang on them: see ``key_of``, and which tensors are one and the same."""
        places: dict[int, int] = {}
        parts: list[Hashable] = [len(args), *kwargs]
        try:
            for name, value in named(args, kwargs, self._program.names):
                if isinstance(value, Tensor):  # labels may be the inputs themselves
                    parts.append(places.setdefault(id(value), len(parts)))
                ignored = isinstance(value, (int, float)) and name in self._program.ignored
                parts.append(None if ignored else key_of(value, name))
        except RuntimeError:  # a nested tensor without a shape
            for name, tensor in leaves(named(args, kwargs, self._program.names)).items():
                shape_of_input(name, tensor)
            raise
        return tuple(parts)

    def _count(self, arguments: Hashable, args: Sequence[object], kwargs: Mapping[str, object]) -> Cost:
        """The cost of a batch that is like none before."""
        with _ONE:
            self._program.renew()
            key = self._program.trained(), arguments
            cost = self._known.get(key)
            if isinstance(cost, FlopwiseError):
                raise cost.with_traceback(None)
            if cost is not None:  # another thread was faster, or other weights came in
                return cost
            if len(self._known) >= REMEMBERED:
                self._known = {}
            COUNTING.append(threading.get_ident())
            start = time.perf_counter()
            try:
                cost = self._known[key] = self._counter.cost(([*args], dict(kwargs)))
            except FlopwiseError as error:
                self._known[key] = error.reworded(str(error))  # without the tensors of its frames
                raise
            finally:
                COUNTING.pop()
                self.seconds += time.perf_counter() - start
            return cost
