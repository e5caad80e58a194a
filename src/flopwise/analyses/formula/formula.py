"""The costs of a model as expressions in its symbols."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from flopwise import _arguments
from flopwise._results import Json, Printed
from flopwise.analyses.formula.conditions import Conditions, Symbols
from flopwise.analyses.formula.domains import Domain, OutsideError, Values
from flopwise.analyses.formula.expressions import Expressions
from flopwise.analyses.formula.extras.source import Piece, Way, checked, drawn, formula_json, pieces, source
from flopwise.analyses.formula.rows import OF_MODEL, Group, alive, grouped, peak_of, state_of
from flopwise.analyses.formula.terms import Term, value
from flopwise.conventions.convention import Convention
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.operators.counts import CLASSES
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Why conditions do not say all.
WAYS = "the program takes another way at sizes for which no condition speaks"


@dataclass(frozen=True, eq=False)
class Formula(Printed, Symbols):
    """The cost of a model in one convention, as expressions in the open sizes of its inputs."""

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
    #: The graph with sizes that carry expressions.
    sizes: Graph | None = field(default=None, repr=False)
    #: Whether these sizes gave every layer's figures as the profiles have them.
    sized: bool = True
    #: Whether the conditions say all; where they do not, values come from profiles.
    everywhere: bool = True
    #: The formulas at sizes at which the program takes another way.
    ways: tuple[Formula, ...] = ()
    #: Whether there is a formula for all sizes that the program takes, this one and its ``ways`` together.
    closed: bool = False

    @functools.cached_property
    def expressions(self) -> Expressions:
        """The table by which terms become expressions of sympy.

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
        """True if every layer has formulas and every tensor a shape, so that no total is a lower bound."""
        backward = not any(row.untrained for row in self.rows)
        return self.whole.exact("count") and self.whole.exact("macs") and backward and not self.unresolved

    @_arguments.checked
    def total(self, figure: str) -> Any:
        """The model's sum of one figure as a sympy expression; a lower bound unless ``exact``.

        Raises:
            InputError: there is no figure of that name, or sympy is not installed.
        """
        term = self.term_of(self.whole, figure)
        return self.expressions.expression(0 if term is None else term)

    def term_of(self, group: Group, figure: str) -> Term | None:
        """A group's formula for one figure, in the symbols' places; None if no layer of it has one.

        Place p of a symbol stands for its size ``offset + step × p`` (see ``Domain.size``).

        Args:
            group: layers, such as ``whole`` (all of them).
            figure: "macs", "count" and the like, or a class of operations; "peak_activation_bytes" and "state_bytes" of
                ``whole`` alone.

        Raises:
            InputError: there is no figure of that name, or this group has none.
        """
        if figure in OF_MODEL and group is self.whole:
            return self.peak if figure == "peak_activation_bytes" else self.state
        if figure not in group.terms and figure not in CLASSES:
            raise InputError(f"unknown figure {figure!r}; known: {', '.join((*group.terms, *OF_MODEL, *CLASSES))}")
        return group.term(figure)

    @_arguments.checked
    def term(self, figure: str) -> Term | None:
        """The model's formula for one figure, in the symbols' places (see ``term_of``); None when no layer has it.

        Raises:
            InputError: there is no figure of that name.
        """
        return self.term_of(self.whole, figure)

    @functools.cached_property
    def _alive(self) -> tuple[tuple[Term, ...], Conditions]:
        """The bytes of activations alive at each step, and at which sizes these sums hold."""
        return alive(self.sizes if self.sized else None)

    @functools.cached_property
    def peak(self) -> Term | None:
        """Bytes of activations alive at once, at most.

        None where a size is missing, where so many sums take turns that no formula is short, or where tensors share
        their storage at some sizes alone, and it is less there.
        """
        sums, shared = self._alive
        corner = {d.name: d.place(d.low) for d in self.domains}
        first = self.places(self.verified_at[0])
        edges = [{**first, d.name: d.place(d.low) + i} for d in self.domains for i in range(2)] + [corner]
        inside = [p for p in edges if all(d.holds(d.size(p[d.name])) for d in self.domains)]
        checked = [p for p in inside if shared.broken(p) and not self.guards.broken(p)]

        def true(places: Mapping[str, int]) -> int | None:
            return self.value("peak_activation_bytes", **{d.name: d.size(places[d.name]) for d in self.domains})

        return peak_of(sums, self.domains, checked, true)

    @functools.cached_property
    def state(self) -> Term | None:
        """Bytes that the model hands on from call to call: caches of keys and values, states."""
        return state_of(self.sizes)

    @_arguments.checked
    def value(self, figure: str, **sizes: int) -> int | None:
        """One figure of the model at one point; None when no layer has it.

        Raises:
            InputError: a symbol or figure is unknown, or the model does not take the sizes.
        """
        if figure not in CLASSES and figure in self.whole.terms:
            return self.evaluate(self.whole, sizes)[figure]
        if (way := self._way(sizes)) is not self:
            return way.value(figure, **sizes)
        term = None if figure == "peak_activation_bytes" else self.term(figure)
        if figure == "state_bytes":
            return None if term is None else value(term, self.places(self.own_point(sizes)))
        try:
            places, atoms = self._formula_places(sizes), {}  # type: ignore[var-annotated]
        except OutsideError as error:
            profile = self._profile_at(error)
            return profile.peak_activation_bytes if figure in OF_MODEL else getattr(profile.sum.counts, figure)
        if figure in CLASSES:
            return None if term is None else value(term, places)
        sums, shared = self._alive
        if not sums or shared.broken(places):
            outside = OutsideError("the model does not take these sizes", self.own_point(sizes))
            with contextlib.suppress(*[OutsideError] if sums else []):
                return self._profile_at(outside).peak_activation_bytes
        return max(value(term, places, atoms) for term in sums)

    def _way(self, sizes: Mapping[str, int]) -> Formula:
        """The formula of the way that the program takes at these sizes; this one where there is none."""
        if self.ways:
            for way in (self, *self.ways):
                with contextlib.suppress(OutsideError):
                    way.own_point(sizes)
                    return way
        return self

    def _formula_places(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The places of the symbols at a point where values come from the formulas.

        Raises:
            OutsideError: they come from a profile there.
        """
        point = self.own_point(sizes)
        if not self.everywhere:
            raise OutsideError("the program does not take these sizes", point)
        return self.places(point)

    @_arguments.checked
    def lambdify(self, figure: str | None = None) -> object:
        """Python functions of the symbols, which take whole numbers or numpy's arrays of them.

        Where a program takes several ways, each size and each element of an array has the formula of its way.
        They raise InputError where a size, or an element of an array, is not a whole number, or one at which the
        formulas do not hold; ``at`` asks the profile there. Arrays are counted in 64 bits, and where these are too few
        in Python's own integers.

        Args:
            figure: one figure, whose function is returned; None: a mapping from each figure to its function.

        Raises:
            InputError: the figure is unknown or has no formula, or no conditions say where the formulas hold.
        """
        if figure is not None and self.term(figure) is None:
            raise InputError(f"{figure} has no formula")
        if not self.everywhere:
            raise InputError(f"{WAYS}: values come from at(), which asks the profile")
        functions: dict[str, list[Piece]] = {}
        for way in (self, *(way for way in self.ways if way.everywhere)):
            for name, piece in way.pieces(None if figure is None else [figure]).items():
                functions.setdefault(name, []).append(piece)
        joined = {
            name: checked(parts, self.own_point) for name, parts in functions.items() if self.term(name) is not None
        }
        return joined if figure is None else joined[figure]

    def pieces(self, figures: Sequence[str] | None) -> dict[str, Piece]:
        """The functions of figures on this way alone; None: of all."""
        return pieces(self._chosen(figures), self.domains, [guard for guard, _, _ in self.guards.guards])

    @_arguments.checked
    def source(self, language: str, figures: Sequence[str] | None = None) -> str:
        """Source code with a function of the symbols for each figure, and ``holds``: whether they are right there.

        Where a program takes several ways, each function has the formula of the way at its sizes.

        Args:
            language: "python", "c" or "javascript".
            figures: which; None for all that have a formula.

        Raises:
            InputError: the language or a figure is unknown.
        """
        ways = [self, *(way for way in self.ways if way.everywhere)]
        return source([way._source_of_way(figures) for way in ways], language)

    def _source_of_way(self, figures: Sequence[str] | None) -> Way:
        """The terms, domains and guards of this way alone, as its source code is written from them."""
        about = "; ".join([*self.conditions, *([] if self.everywhere else [f"not everywhere: {WAYS}"])])
        return Way(self._chosen(figures), self.domains, [guard for guard, _, _ in self.guards.guards], about)

    @_arguments.checked
    def without_formula(self, figures: Sequence[str] | None = None) -> list[str]:
        """Those of the figures (None: of those that every layer has) of which the model has no formula.

        Raises:
            InputError: a figure is unknown.
        """
        return [f for f in (self.whole.terms if figures is None else figures) if self.term(f) is None]

    @_arguments.checked
    def at_least(self, figures: Sequence[str] | None = None) -> list[str]:
        """Those of the figures (None: of those that every layer has) whose formula is a lower bound.

        Raises:
            InputError: a figure is unknown.
        """
        chosen = self.whole.terms if figures is None else figures
        return [f for f in chosen if self.term(f) is not None and not self.whole.exact(f)]

    def _chosen(self, figures: Sequence[str] | None) -> dict[str, Term]:
        terms = {f: self.term(f) for f in (figures if figures is not None else (*self.whole.terms, *OF_MODEL))}
        return {figure: term for figure, term in terms.items() if term is not None}

    @_arguments.checked
    def plot(self, symbol: str, sizes: Sequence[int], figures: Sequence[str] = ("macs",), **others: int) -> Any:
        """A figure of matplotlib with the cost against one symbol.

        Args:
            symbol: the symbol of the x axis.
            sizes: its sizes.
            figures: what is drawn, a line each.
            others: the sizes of the other symbols.

        Raises:
            InputError: matplotlib is not installed, or a symbol or figure is unknown.
        """
        lines = {}
        for figure in figures:
            self.term(figure)  # refuses what is no figure
            bound = "" if figure in OF_MODEL or self.whole.exact(figure) else "at least "
            lines[bound + figure] = [self.value(figure, **{**others, symbol: size}) for size in sizes]
        return drawn(symbol, sizes, lines, ", ".join(f"{n} = {s}" for n, s in others.items()) or self.graph.name)

    @functools.cached_property
    def layers(self) -> tuple[Group, ...]:
        """Each layer by itself, in execution order."""
        return tuple(grouped(self.rows, "layer"))

    def layer(self, group: Group, figure: str) -> Any:
        """A figure of a layer or of several as a sympy expression; None when it is not known."""
        term = self.term_of(group, figure)
        return None if term is None else self.expressions.expression(term)

    @_arguments.checked
    def by(self, key: str, depth: int | None = None) -> list[Group]:
        """The layers in groups, each with the sums of its figures.

        Args:
            key: "layer" (each by itself), "op" (by operator), "formula" (layers of one operator with the same formulas
                together), both the most expensive first; "module" (by module path, in execution order; the whole model
                first, and a module's sum includes what lies below it); or "block" (the same, with modules of one class
                and the same formulas beside each other in one group, of which ``times`` says how many they are).
            depth: with "module" and "block", how many levels of the path to show; None for all.

        Raises:
            InputError: the key is none of these.
        """
        groups = grouped(self.rows, key, depth)
        return groups if key in ("layer", "module", "block") else self.most_expensive(groups)

    def most_expensive(self, groups: Sequence[Group], at: Mapping[str, int] | None = None) -> list[Group]:
        """The groups by their count at a point: the unknown, then the largest first.

        Args:
            groups: what to sort.
            at: a size of each symbol; None: the first point of ``verified_at``.
        """
        places = self.places(self.verified_at[0] if at is None else self.named(at))
        atoms: dict[str, int] = {}

        def cost(group: Group) -> tuple[int, int]:
            term = group.terms["count"]
            return (0, 0) if term is None else (1, -value(term, places, atoms))

        return sorted(groups, key=cost)

    @_arguments.checked
    def point(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """A size for each symbol, checked, on whichever way.

        Args:
            sizes: by the symbol's name, or as it is written in the formulas.

        Raises:
            InputError: a symbol is missing or unknown, or the formulas do not hold there.
        """
        return self._way(sizes).own_point(sizes)

    @_arguments.checked
    def at(self, **sizes: int) -> Values:
        """The totals at one point: each figure as an integer, None when no layer has it.

        Where the formulas do not hold but the model takes the sizes, the totals are those of a profile there.

        Raises:
            InputError: a symbol is missing or unknown, or the formulas do not hold there.
        """
        return self.evaluate(self.whole, sizes)

    def evaluated(self, term: Term, point: Mapping[str, int]) -> int:
        """A term's value at a size of each symbol, even where the formulas do not hold."""
        return value(term, self.places(point))

    def evaluate(self, group: Group, sizes: Mapping[str, int]) -> Values:
        """The figures of a group of layers at one point, as ``at`` gives them for the model."""
        if len(group.rows) == len(self.rows) and (way := self._way(sizes)) is not self:
            return way.evaluate(way.whole, sizes)
        try:
            places, atoms = self._formula_places(sizes), {}  # type: ignore[var-annotated]
        except OutsideError as error:
            return self._profiled(group, error)
        figures = {f: None if t is None else value(t, places, atoms) for f, t in group.terms.items()}
        return Values(figures, [f for f in figures if not group.exact(f)])

    def _profile_at(self, outside: OutsideError) -> Profile:
        """The profile at a point at which the formulas do not hold.

        Raises:
            InputError: the model does not take the sizes.
        """
        point = outside.point
        whole = all(isinstance(point.get(d.name), int) for d in self.domains)
        tied = {n: value(t, point) for n, t in self.tied.items()} if whole else {}
        profile = self.elsewhere({**point, **tied}) if self.elsewhere and whole else None
        if profile is None:
            raise outside
        return profile

    def _profiled(self, group: Group, outside: OutsideError) -> Values:
        """The figures of a group from the profile at a point at which the formulas do not hold.

        Raises:
            InputError: the model does not take the sizes.
        """
        profile = self._profile_at(outside)
        ours = {id(row) for row in group.rows}
        if [r.name for r in profile.rows] == [r.name for r in self.rows]:
            rows = [other for row, other in zip(self.rows, profile.rows, strict=True) if id(row) in ours]
        elif len(group.rows) == len(self.rows):
            rows = list(profile.rows)
        else:
            raise outside
        there = Group(group.name, tuple(rows))
        figures = cast("dict[str, int | None]", there.terms)
        return Values(figures, [f for f in figures if not there.exact(f)])

    def to_dict(self) -> Json:
        """The formulas in the stable JSON schema ``flopwise.formula/1``: each as text in Python's notation, or None.

        A total is the sum of the layers that have a formula, and a lower bound when "coverage" names what is missing.
        """
        return formula_json(self)

    def text(self, term: Term, at: Mapping[str, int] | None = None) -> str:
        """A term in Python's notation, with floor, ceil, min and max.

        Args:
            term: what to write.
            at: a size of each symbol, at which the larger of two summands stands first; None: higher powers do.
        """
        return self.expressions.text(term, None if at is None else self.named(at))

    def latex(self, term: Term, at: Mapping[str, int] | None = None) -> str:
        """A term in LaTeX's mathematics, its summands as in ``text``."""
        return self.expressions.latex(term, None if at is None else self.named(at))
