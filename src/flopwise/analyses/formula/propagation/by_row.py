"""Shapes by the rule in the row of an operator, which takes sizes with expressions as it takes numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flopwise.analyses.formula.dim import require, term
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError, array, whole
from flopwise.graph import Node, Tensor
from flopwise.operators.shape import Call, UnresolvedError
from flopwise.operators.tables import row

#: Operator -> the shapes of its results.
Standard = Mapping[str, Callable[[Site], Sequence["Shape | None"]]]


class SizedCall(Call):
    """One application of an operator as its row's rule sees it; a type is a shape."""

    def __init__(self, site: Site, standard: Standard) -> None:
        self.site = site
        self.standard = standard

    @property
    def op(self) -> str:
        return self.site.node.op.rpartition("::")[2]

    @property
    def inputs(self) -> int:
        return len(self.site.node.inputs)

    def has(self, place: int) -> bool:
        return self.site.has(place)

    def type(self, place: int) -> Shape | None:
        return self.shape(place)

    def type_of(self, name: str) -> None:
        return  # nothing is known about tensors that are not inputs

    def shape(self, place: int) -> Shape | None:
        return self.site.shapes[place] if self.site.has(place) else None

    def dtype(self, place: int) -> str:
        tensor = self.site.node.inputs[place] if self.site.has(place) else None
        return (tensor.dtype if tensor is not None else None) or "float32"

    def value(self, place: int) -> Any:
        return self.site.values[place] if self.site.has(place) else None

    def number(self, place: int) -> int | None:
        value = self.value(place)
        return whole(value.ravel().tolist()[0]) if value is not None and value.size == 1 else None

    def attribute(self, name: str, default: Any) -> Any:
        value = self.site.attr(name, default)
        if not isinstance(value, type(default)):
            raise UnresolvedError
        return value

    def type_attribute(self, name: str, default: str) -> str:
        """An element type, which decides no size."""
        return default

    def tensor(self, dtype: str, dims: Iterable[int] | None) -> Shape | None:
        """A shape; that its extents are not negative becomes a condition."""
        if dims is None:
            return None
        shape = tuple(dims)
        for extent in shape:
            require(term(extent), ">=")
        return shape

    def ask(
        self,
        op: str,
        inputs: Sequence[Shape | None],
        *,
        without: Sequence[str] = (),
        only: Sequence[str] | None = None,
        more: Mapping[str, Any] | None = None,
        values: Sequence[Any] = (),
    ) -> Shape | None:
        """The shape of the first result of a standard operator."""
        node = self.site.node
        attrs = {k: v for k, v in node.attrs.items() if k not in without and (only is None or k in only)}
        tensors = tuple(None if s is None else Tensor(f"x{i}", s, "float32") for i, s in enumerate(inputs))
        alone = Node(op, node.name, tensors, node.outputs[:1], {**attrs, **(more or {})})
        held = [values[i] if i < len(values) else None for i in range(len(inputs))]
        held = [None if v is None else array(v) for v in held]
        rule = self.standard.get(op)
        if rule is None:
            raise UnresolvedError
        return rule(Site(alone, list(inputs), held, self.site.hints[:1], lambda place: None))[0]


def by_row(site: Site, standard: Standard) -> Sequence[Shape | None]:
    """The shapes of an operator's results by the rule in its row.

    Raises:
        UnknownError: it has none, or something that the rule needs is not known.
    """
    rule = row(site.node.op).shape
    if rule is None:
        raise UnknownError
    try:
        return rule(SizedCall(site, standard))
    except UnresolvedError:
        raise UnknownError from None
