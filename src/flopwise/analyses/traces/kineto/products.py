"""The products of a trace, which tell whether it is one of a model: how much of their time is on rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.counts import DTYPES, work_of
from flopwise.analyses.traces.kineto.listed import Listed
from flopwise.analyses.traces.kineto.model import Model, token_of
from flopwise.analyses.traces.kineto.records import Operator
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import FORWARD

#: Products by which the sizes of a trace of other inputs are told.
FIRST = 10_000


class Products:
    """The products of a trace: the share of their time that is on rows, and the element type of most of it."""

    def __init__(self, model: Model | Listed) -> None:
        self._model = model
        #: Time of products that are on a row, and of those that are on none.
        self._times: Counter[bool] = Counter()
        self._numbers: Counter[bool] = Counter()
        self._dtypes: Counter[str] = Counter()
        #: Time of products of CUDA graphs that may be any row's.
        self.untold = 0
        #: The first of them.
        self.first: list[Operator] = []

    def add(
        self, times: Mapping[Operator, int], places: Mapping[Operator, Place], called: Iterable[Operator] = ()
    ) -> None:
        """Add those of a step.

        Args:
            times: of its operators, in nanoseconds.
            places: of its operators.
            called: the operators of its threads. The last product that another calls has the type of what is computed,
                which under autocast is not that of what the other is given.
        """
        last = {o.unit: o for o in called if o.unit is not None and work_of(o.name, o.arguments).product}
        for operator, time in times.items():
            place = places.get(operator)
            if place is not None and place.name == names.GRAPHS and names.product_of(operator.name):
                self.untold += time
            if place is None or not self._has(operator, place):
                continue
            self._times[bool(place.layers)] += time
            self._numbers[bool(place.layers)] += 1
            types = last.get(operator, operator).arguments.types
            self._dtypes[next((DTYPES[kind] for kind in types if kind in DTYPES), "")] += time
            if len(self.first) < FIRST:
                self.first.append(operator)

    def _has(self, operator: Operator, place: Place) -> bool:
        """True for an operator that computes products: by its own shapes, or by those of its row."""
        if operator.arguments.tensors or place.phase != FORWARD:
            return place.phase == FORWARD and token_of(operator).product
        return any(self._model.layers[number].macs for number in place.layers)

    @property
    def share(self) -> float | None:
        """The share of their time that is on rows; None where there is none."""
        total = self._times.total() + self.untold
        return self._times[True] / total if total else None

    @property
    def confirm(self) -> bool:
        """True if they are the model's: at least half of those that are told, and of their time, is on rows."""
        told = self._times.total()
        return told > 0 and 2 * self._times[True] >= told and self._numbers[True] >= self._numbers[False]

    @property
    def dtype(self) -> str:
        """The element type that most of their time was spent on; "" where no type was recorded."""
        return self._dtypes.most_common(1)[0][0] if self._dtypes else ""
