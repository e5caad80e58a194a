"""Layers together: under one operator, one module, or one formula that many of them have."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.analyses.formula.terms.polynomial import Term, add_up
from flopwise.errors import InputError
from flopwise.operators.counts import CLASSES
from flopwise.profiles.grouping import by_module
from flopwise.rows import Row

#: The figures that have a formula.
FIGURES: tuple[str, ...] = (
    "count",
    "macs",
    "flops",
    "params",
    "buffers",
    "weight_bytes",
    "activations",
    "input_bytes",
    "output_bytes",
)

#: Figures of the whole model alone.
OF_MODEL: tuple[str, ...] = ("peak_activation_bytes", "state_bytes")

#: Figures of a training step, of formulas that were asked for it.
TRAINED: tuple[str, ...] = ("backward", "backward_macs", "backward_flops", "saved_bytes")


@dataclass(frozen=True, eq=False)
class Group:
    """Layers under one name, and their figures added up."""

    name: str
    rows: tuple[Row, ...]
    #: The operator, or the class of a module.
    kind: str = ""
    #: How deep a module is nested.
    depth: int = 0
    #: How many parts with the same formulas it consists of, and the first of them.
    times: int = 1
    one: Group | None = None

    @functools.cached_property
    def terms(self) -> dict[str, Term | None]:
        """Each figure on the symbols' scales, the sum of what is known; None when no layer has it."""
        trained = TRAINED if any(row.backward_counts is not None for row in self.rows) else ()
        return {figure: self._sum(figure) for figure in (*FIGURES, *trained)}

    def _sum(self, figure: str) -> Term | None:
        terms = [term for row in self.rows if (term := getattr(row, figure)) is not None]
        return add_up(terms) if terms or not self.rows else None

    @functools.cached_property
    def classes(self) -> dict[str, Term | None]:
        """Canonical operations of each class on the symbols' scales; None when no layer has a rule."""
        counts = [row.counts for row in self.rows if row.counts is not None]
        columns = zip(*counts, strict=True) if counts else [() for _ in CLASSES]
        counted = bool(counts) or not self.rows
        return {name: add_up(column) if counted else None for name, column in zip(CLASSES, columns, strict=True)}

    def term(self, figure: str) -> Term | None:
        """A figure, or the operations of a class, on the symbols' scales; None when no layer has it."""
        return self.classes[figure] if figure in self.classes else self.terms.get(figure)

    def exact(self, figure: str) -> bool:
        """True if every layer has the figure, or it is one of the whole model, so that the sum is no lower bound."""
        if figure in CLASSES:
            return all(row.counts is not None for row in self.rows)
        return figure in OF_MODEL or all(getattr(row, figure) is not None for row in self.rows)


def grouped(rows: Sequence[Row], key: str, depth: int | None = None) -> list[Group]:
    """Layers grouped, in execution order.

    Args:
        rows: the layers.
        key: "layer", "op", "formula", "module" or "block", see ``Formula.by``.
        depth: how many levels of modules; None for all.

    Raises:
        InputError: the key is none of these.
    """
    if key == "layer":
        return [Group(row.name, (row,), row.type) for row in rows]
    if key == "module":
        return [Group(s.name, s.rows, s.kind, s.depth) for s in by_module(rows, depth)]
    if key == "block":
        return list(_merged([Group(s.name, s.rows, s.kind, s.depth) for s in by_module(rows, depth)]))
    if key not in ("op", "formula"):
        raise InputError(f"cannot group by {key!r}; choose layer, op, module, block or formula")
    alike: dict[Any, list[Row]] = {}
    for row in rows:
        figures = tuple(getattr(row, figure) for figure in ("count", "macs", "flops", "activations", "output_bytes"))
        alike.setdefault((row.type, *(figures if key == "formula" else ())), []).append(row)
    if key == "op":
        return [Group(own[0].type, tuple(own), own[0].type) for own in alike.values()]
    return [_repeated([Group(row.name, (row,), row.type) for row in own]) for own in alike.values()]


def _repeated(groups: Sequence[Group]) -> Group:
    """One group for several with the same formulas, under the name of the first."""
    first = groups[0]
    if len(groups) == 1:
        return first
    rows = tuple(row for group in groups for row in group.rows)
    return Group(first.name, rows, first.kind, first.depth, len(groups), first)


def _merged(groups: Sequence[Group]) -> Iterator[Group]:
    """Modules in execution order; those alike in one module are one group, below which the first one's parts follow."""
    starts = [i for i, group in enumerate(groups) if group.depth == groups[0].depth]
    ends = dict(zip(starts, [*starts[1:], len(groups)], strict=False))
    alike: dict[Any, list[int]] = {}
    for i in starts:
        alike.setdefault((groups[i].kind or groups[i].name, tuple(groups[i].terms.values())), []).append(i)
    for places in alike.values():
        yield _repeated([groups[i] for i in places])
        yield from _merged(groups[places[0] + 1 : ends[places[0]]])
