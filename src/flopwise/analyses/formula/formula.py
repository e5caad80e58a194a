"""What a model costs as expressions in its symbols."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flopwise.analyses.formula.conditions import Conditions
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.expressions import Expressions, identifiers
from flopwise.analyses.formula.polynomial import Term, add_up, value
from flopwise.analyses.formula.rows import NO_FORMULA
from flopwise.conventions.convention import Convention
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.profiles.grouping import by_module
from flopwise.profiles.profile import Profile
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


class OutsideError(InputError):
    """A point at which the formulas do not hold."""

    def __init__(self, message: str, point: Mapping[str, int]) -> None:
        super().__init__(message)
        self.point = point


@dataclass(frozen=True, eq=False)
class Group:
    """Layers under one name, and their figures added up."""

    name: str
    rows: tuple[Row, ...]
    #: The operator, or the class of a module.
    kind: str = ""
    #: How deep a module is nested.
    depth: int = 0

    @functools.cached_property
    def terms(self) -> dict[str, Term | None]:
        """Each figure on the symbols' scales, the sum of what is known; None when no layer has it."""
        return {figure: self._sum(figure) for figure in FIGURES}

    def _sum(self, figure: str) -> Term | None:
        known = [term for row in self.rows if (term := getattr(row, figure)) is not None]
        return add_up(known) if known or not self.rows else None

    def exact(self, figure: str) -> bool:
        """Whether every layer has the figure, so that the sum is no lower bound."""
        return all(getattr(row, figure) is not None for row in self.rows)


@dataclass(frozen=True, eq=False)
class Formula:
    """What a model costs in one convention, as expressions in the open sizes of its inputs."""

    #: The graph at one point.
    graph: Graph
    convention: Convention
    domains: tuple[Domain, ...]
    #: Name, element type and shape of each input with an open size.
    inputs: tuple[tuple[str, str | None, tuple[Term, ...]], ...]
    #: Where the formulas hold, one line each; nowhere else is a size refused.
    conditions: tuple[str, ...]
    #: One for each layer, with terms for figures.
    rows: tuple[Row, ...]
    #: Names of tensors whose shape nobody could resolve.
    unresolved: tuple[str, ...]
    #: The points at which all formulas were compared with the profile there.
    verified_at: tuple[Mapping[str, int], ...]
    notes: tuple[str, ...]
    #: Further conditions, in the places of the symbols.
    guards: Conditions = field(default_factory=lambda: Conditions(()))
    #: Symbols that follow from others.
    tied: Mapping[str, Term] = field(default_factory=dict)
    #: The profile at sizes where the formulas do not hold; None where the model does not take them.
    elsewhere: Callable[[Mapping[str, int]], Profile | None] | None = field(default=None, repr=False)
    #: Whether the conditions say all; where they do not, values come from profiles.
    everywhere: bool = True
    #: How ``print(formula)`` looks; provided by whoever knows the reports.
    renderer: Callable[[Formula], str] | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def expressions(self) -> Expressions:
        """How terms become expressions of sympy.

        Raises:
            InputError: sympy is not installed.
        """
        return Expressions(self.domains)

    @functools.cached_property
    def whole(self) -> Group:
        """All layers."""
        return Group("Total", self.rows)

    @property
    def symbols(self) -> tuple[Any, ...]:
        """The symbols, as sympy has them."""
        return tuple(self.expressions.symbols.values())

    @property
    def exact(self) -> bool:
        """Whether every layer has a formula and every tensor a shape, so that the totals are not lower bounds."""
        return self.whole.exact("count") and self.whole.exact("macs") and not self.unresolved

    def total(self, figure: str) -> Any:
        """The model's sum of one figure as a sympy expression; a lower bound unless ``exact``.

        Raises:
            InputError: there is no figure of that name, or sympy is not installed.
        """
        term = self._term(self.whole, figure)
        return self.expressions.expression(0 if term is None else term)

    def _term(self, group: Group, figure: str) -> Term | None:
        if figure not in FIGURES:
            raise InputError(f"unknown figure {figure!r}; known: {', '.join(FIGURES)}")
        return group.terms[figure]

    @functools.cached_property
    def layers(self) -> tuple[Group, ...]:
        """Each layer by itself, in execution order."""
        return tuple(Group(row.name, (row,), row.type) for row in self.rows)

    def layer(self, group: Group, figure: str) -> Any:
        """A figure of a layer or of several as a sympy expression; None when it is not known."""
        term = self._term(group, figure)
        return None if term is None else self.expressions.expression(term)

    def by(self, key: str, depth: int | None = None) -> list[Group]:
        """Layers grouped.

        Args:
            key: "layer" (each by itself), "op" (by operator), "formula" (layers of one operator with the same formulas
                together), both dearest first at the first point of ``verified_at``; or "module" (by module path, in
                execution order; the whole model first, and a module's sum includes what lies below it).
            depth: with "module", how many levels of the path to show; None for all.

        Raises:
            InputError: the key is none of these.
        """
        if key == "layer":
            return list(self.layers)
        if key == "module":
            return [Group(s.name, s.rows, s.kind, s.depth) for s in by_module(self.rows, depth)]
        if key not in ("op", "formula"):
            raise InputError(f"cannot group by {key!r}; choose layer, op, module or formula")
        groups: dict[Any, list[Row]] = {}
        for row in self.rows:
            alike = tuple(getattr(row, figure) for figure in ("count", "macs", "flops", "activations", "output_bytes"))
            groups.setdefault((row.type, *(alike if key == "formula" else ())), []).append(row)
        return self.dearest(
            [
                Group(rows[0].type if key == "op" else rows[0].name, tuple(rows), rows[0].type)
                for rows in groups.values()
            ]
        )

    def dearest(self, groups: Sequence[Group]) -> list[Group]:
        """The groups by their count at the first point of ``verified_at``: the unknown, then the largest first."""
        places = self._places(self.verified_at[0])
        atoms: dict[str, int] = {}

        def cost(group: Group) -> tuple[int, int]:
            term = group.terms["count"]
            return (0, 0) if term is None else (1, -value(term, places, atoms))

        return sorted(groups, key=cost)

    def _places(self, point: Mapping[str, int]) -> dict[str, int]:
        return {d.name: d.place(point[d.name]) for d in self.domains}

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """How a symbol may be called -> its name."""
        names = [d.name for d in self.domains]
        return {**{clean: name for name, clean in identifiers(names).items()}, **{n: n for n in names}}

    def point(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """A size for each symbol, checked.

        Args:
            sizes: by the symbol's name, or as it is written in the formulas.

        Raises:
            InputError: a symbol is missing or unknown, or the formulas do not hold there.
        """
        point = {self._names.get(name, name): size for name, size in sizes.items()}
        if strange := [n for n in point if n not in self._names]:
            raise InputError(f"no symbol {strange[0]!r}; the symbols are {', '.join(d.name for d in self.domains)}")
        for domain in self.domains:
            if domain.low == domain.high:
                point.setdefault(domain.name, domain.low)
            if domain.name not in point:
                raise InputError(f"a size for {domain.name} is missing")
            if not isinstance(point[domain.name], int) or not domain.holds(point[domain.name]):
                said = " and ".join(domain.conditions()) or f"{domain.name} >= {domain.low}"
                raise OutsideError(
                    f"the formulas do not hold for {domain.name} = {point[domain.name]}; they need {said}", point
                )
        point = {d.name: point[d.name] for d in self.domains}
        if broken := self.guards.broken(self._places(point)):
            guard, why = broken
            place = ", ".join(f"{n} = {s}" for n, s in point.items())
            message = f"the formulas do not hold for {place}; they need {guard}" + (f" ({why})" if why else "")
            raise OutsideError(message, point)
        return point

    def at(self, **sizes: int) -> dict[str, int | None]:
        """The totals at one point: each figure as an integer, None when no layer has it.

        Raises:
            InputError: a symbol is missing or unknown, or the formulas do not hold there.
        """
        return self.evaluate(self.whole, sizes)

    def evaluate(self, group: Group, sizes: Mapping[str, int]) -> dict[str, int | None]:
        """The figures of a group at one point; see :meth:`at`."""
        try:
            point = self.point(sizes)
        except OutsideError as error:
            return self._profiled(group, error)
        if not self.everywhere:
            return self._profiled(group, OutsideError("the program does not take these sizes", point))
        places, atoms = self._places(point), {}  # type: ignore[var-annotated]
        return {f: None if t is None else value(t, places, atoms) for f, t in group.terms.items()}

    def _profiled(self, group: Group, outside: OutsideError) -> dict[str, int | None]:
        """The figures of a group from the profile at a point outside the domain.

        Raises:
            InputError: the model does not take the sizes.
        """
        point = outside.point
        whole = all(isinstance(point.get(d.name), int) for d in self.domains)
        tied = {n: value(t, point) for n, t in self.tied.items()} if whole else {}
        profile = self.elsewhere({**point, **tied}) if self.elsewhere and whole else None
        if profile is None:
            raise outside
        ours = {id(row) for row in group.rows}
        if [r.name for r in profile.rows] == [r.name for r in self.rows]:
            rows = [there for row, there in zip(self.rows, profile.rows, strict=True) if id(row) in ours]
        elif len(group.rows) == len(self.rows):
            rows = list(profile.rows)
        else:
            raise outside
        return Group(group.name, tuple(rows)).terms  # type: ignore[return-value] # whole numbers

    def to_dict(self) -> dict[str, Any]:
        """The formulas in the stable JSON schema ``flopwise.formula/1``: each as text in Python's notation, or None.

        A total is the sum of the layers that have a formula, and a lower bound when "coverage" names what is missing.
        """
        text, names = self.text, identifiers([d.name for d in self.domains])
        unknown: dict[str, int] = {}
        for row in self.rows:
            if row.missing == "rule":
                unknown[row.node.op] = unknown.get(row.node.op, 0) + 1
        return {
            "schema": "flopwise.formula/1",
            "model": {"name": self.graph.name, "source": self.graph.source, "format": self.graph.format},
            "inputs": [{"name": n, "dtype": d, "shape": [_number(text(t)) for t in s]} for n, d, s in self.inputs],
            "convention": {"name": self.convention.name, "unit": self.convention.unit},
            "symbols": [
                {"name": d.name, "written": names[d.name], "low": d.low, "high": d.high, "step": d.step}
                for d in self.domains
            ],
            "conditions": list(self.conditions),
            "totals": {f: _text(text, t) for f, t in self.whole.terms.items()},
            "layers": [
                {
                    "name": row.name,
                    "op": row.node.op,
                    "scope": row.node.module,
                    **{f: _text(text, t) for f, t in layer.terms.items()},
                }
                for row, layer in zip(self.rows, self.layers, strict=True)
            ],
            "coverage": {
                "nodes": len(self.rows),
                "unknown": unknown,
                "without_formula": [row.name for row in self.rows if row.note == NO_FORMULA],
                "unresolved": list(self.unresolved),
            },
            "verified_at": [dict(p) for p in self.verified_at],
            "notes": list(self.notes),
        }

    def text(self, term: Term) -> str:
        """A term in Python's notation, with floor, ceil, min and max."""
        return self.expressions.text(term)

    def __str__(self) -> str:
        return self.renderer(self) if self.renderer else repr(self)


def _text(text: Callable[[Term], str], term: Term | None) -> str | None:
    return None if term is None else text(term)


def _number(text: str) -> int | str:
    return int(text) if text.isdigit() else text
