"""The operators of a trace without a model: one with its shapes is a layer of its own."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.analyses.traces.kineto import names
from flopwise.analyses.traces.kineto.counts import Work, work_of
from flopwise.analyses.traces.kineto.records import Operator
from flopwise.analyses.traces.land import Place
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Layer


class Listed:
    """Without a model: an operator with its shapes is a layer of its own."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, object], int] = {}
        self._works: list[Work] = []
        self._names: list[tuple[str, str]] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The operators that were seen so far, with the work of one call."""
        return tuple(
            Layer(name, op, work.flops, work.bytes, None, work.macs, uncounted=work.product and work.macs is None)
            for (name, op), work in zip(self._names, self._works, strict=True)
        )

    def places(self, operators: Sequence[Operator], trains: bool, views: bool = True) -> dict[Operator, Place]:
        """The places of the operators of a forward pass."""
        return {operator: self._place(operator, trains) for operator in operators}

    def has_products_of(self, kernels: Sequence[Operator], called: Sequence[Operator]) -> bool:
        """True: each kernel is a layer of its own."""
        return True

    def gradients(self, operators: Sequence[Operator]) -> dict[Operator, Place]:
        """The places of the operators of a compiled backward pass."""
        places = {operator: self._place(operator, trains=True) for operator in operators}
        return {operator: place._replace(phase=BACKWARD) for operator, place in places.items() if place.layers}

    def _place(self, operator: Operator, trains: bool) -> Place:
        if not names.is_unit(operator.name) and operator.context != names.GRAPHS:
            name = names.remainder_of(operator.name)
            if name not in (names.UNMATCHED, names.LAYOUT, names.COMPILED):
                return Place(name=name)
        key = (operator.name, operator.arguments)
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._works):
            shapes = " ".join("x".join(map(str, shape or ())) for shape in operator.arguments.tensors)
            self._works.append(work_of(*key))
            bare = names.bare(operator.name) if operator.context == names.GRAPHS else operator.base
            self._names.append((f"{bare} {shapes}".strip(), operator.name))
        return Place((number,), FORWARD)
