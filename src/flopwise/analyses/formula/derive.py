"""From a model that can be read at any sizes to its formula: sample, fit, count, and compare at further points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from flopwise.analyses.formula.fitting import Fitter
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.points import Explorer, Point, Sample
from flopwise.analyses.formula.polynomial import Polynomial, Term, closed, substituted, symbol
from flopwise.analyses.formula.rows import NO_FORMULA, Counting, Known, differing, expressed, fitted, unknown_row
from flopwise.analyses.formula.shapes import Fitted
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.rows import Row

#: Name, element type and shape of an input, in the sizes of the symbols.
Shape = tuple[str, "str | None", "tuple[Term, ...]"]

#: Points at which formulas are compared and to which nothing was fitted; one less for a model with more layers.
FRESH = 3

#: How often a fit is tried again with more points.
ROUNDS = 16

#: Further points where sizes follow no expression yet.
MORE = 6

#: How often rows that the rules cannot count with expressions are fitted again, and points to compare each fit with.
REFITS, REFRESHED = 4, 6

#: How often the least sizes are raised.
RAISES = 12

#: Of a model with more layers, not all points to which shapes were fitted are compared but the first and the farthest.
SMALL = 600


def derive(
    names: Sequence[str],
    read: Callable[[Point], Graph],
    counting: Counting,
    hints: Mapping[str, int] | None = None,
    shapes: Sequence[Shape] = (),
    progress: Callable[[str], None] = lambda step: None,
) -> Formula:
    """The formula of a model.

    Args:
        names: the symbols.
        read: the graph for a size of each symbol; raises FlopwiseError where the model cannot have these sizes.
        counting: how to count.
        hints: sizes that the model is known to take.
        shapes: name, element type and shape of each open input, for the report.
        progress: called with the name of each step.

    Raises:
        InputError: no sizes were found that the model takes.
        ModelError: the model cannot be read.
    """
    progress("finding sizes that the model takes")
    explorer = Explorer(names, read, hints or {})
    explorer.explore()
    progress("fitting the shapes")
    found, used = _shapes(explorer)
    progress("counting")
    return _Derivation(explorer, found, used, counting).formula(shapes)


def _inner(explorer: Explorer) -> list[Sample]:
    return [s for s in explorer.samples if not s.edge]


def _shapes(explorer: Explorer) -> tuple[Fitted, int]:
    """The sizes as expressions that hold at fresh points too, and to how many samples they were fitted."""
    more = 0
    for _ in range(ROUNDS):
        samples = _inner(explorer)
        fitter = Fitter([explorer.places(s.point) for s in samples])
        found = Fitted([s.graph for s in samples], fitter)
        if found.failures and more < MORE:
            more += 2
            if explorer.fresh() and explorer.fresh():
                continue
        if (wishes := _wishes(fitter)) and explorer.fresh(wishes):
            continue
        few = FRESH if len(samples[0].graph.nodes) <= SMALL else FRESH - 1
        fresh = [sample for _ in range(few) if (sample := explorer.fresh())]
        if not fresh and sum(d.low != d.high for d in explorer.domains.values()) > 1:
            raise InputError(
                "the model takes no further sizes at which formulas could be compared; fix some with --dim"
            )
        if all(found.agrees(s.graph, explorer.places(s.point)) for s in fresh):
            break
    return found, len(samples)


def _wishes(fitter: Fitter) -> dict[str, tuple[int, int]]:
    """Symbol -> the residue and modulus that settles most of what is open about it."""
    widest = sorted(fitter.doubts, key=lambda doubt: doubt.open)
    return {doubt.symbol: (doubt.residue, doubt.parts) for doubt in widest}


class _Derivation:
    """The counting half: rows, compared and mended."""

    def __init__(self, explorer: Explorer, found: Fitted, used: int, counting: Counting) -> None:
        self.explorer = explorer
        self.found = found
        self.counting = counting
        samples = _inner(explorer)
        self.fit, self.fresh = samples[:used], samples[used:]
        self.edges = [s for s in explorer.samples if s.edge]
        self._profiles: dict[int, Known] = {}
        self.compared: list[Point] = []

    def known(self, sample: Sample) -> Known:
        """The concrete profile at a sample."""
        if id(sample) not in self._profiles:
            self._profiles[id(sample)] = Known(sample.point, self.counting.profile(sample.graph))
        return self._profiles[id(sample)]

    def formula(self, shapes: Sequence[Shape]) -> Formula:
        base = self.known(self.fit[0]).profile
        rows = expressed(self.counting, self.found.graph(), base.rows)
        few = self.fit if len(rows) <= SMALL else [self.fit[0], max(self.fit, key=lambda s: sum(s.point.values()))]
        wrong = {i for s in (*few, *self.fresh) for i in self._differing(rows, s)}
        for _ in range(REFITS):
            if not wrong:
                break
            fitter = self._fitter()
            fitted(rows, wrong, [self.known(s) for s in self.fit], fitter, self._near)
            wrong = {i for s in self.fresh for i in self._differing(rows, s)}
        for i in wrong:
            rows[i] = unknown_row(base.rows[i])
        self._lower_bounds(rows)
        return Formula(
            graph=base.graph,
            convention=self.counting.convention,
            domains=tuple(self.explorer.domains.values()),
            inputs=tuple((name, dtype, tuple(map(self._scaled, dims))) for name, dtype, dims in shapes),
            conditions=tuple(self.explorer.conditions()),
            rows=tuple(rows),
            unresolved=base.unresolved,
            verified_at=tuple(dict(p) for p in self.compared),
            notes=tuple(self._notes(rows, base.notes)),
        )

    def _scaled(self, term: Term) -> Term:
        """A term in the sizes of all symbols on the scales of the free ones."""
        scales = {n: d.step * symbol(n) + d.offset for n, d in self.explorer.domains.items()}
        return substituted(substituted(term, self.explorer.tied), scales)

    def _differing(self, rows: Sequence[Row], sample: Sample) -> set[int]:
        """Rows that differ at a sample, those without any formula left out where a profile has no figure either."""
        if sample.point not in self.compared:
            self.compared.append(sample.point)
        return differing(rows, self.known(sample), self.explorer.places(sample.point))

    def _fitter(self) -> Fitter:
        """A fitter for rows, over all samples so far; as many new ones are taken to compare with."""
        self.fit = [*self.fit, *self.fresh]
        self.fresh = [sample for _ in range(REFRESHED) if (sample := self.explorer.fresh())]
        fitter = Fitter([self.explorer.places(s.point) for s in self.fit])
        for term in dict.fromkeys(t for terms in self.found.found.values() for t in terms):
            if isinstance(term, Polynomial) and closed(term):
                fitter.learn(term)
        return fitter

    def _near(self, row: Row) -> list[Term]:
        return [d for t in (*row.node.known_inputs, *row.node.known_outputs) for d in self.found.found.get(id(t), ())]

    def _lower_bounds(self, rows: Sequence[Row]) -> None:
        """Raise the least sizes until the formulas hold there."""
        lacking = {i for i, row in enumerate(rows) if row.note == NO_FORMULA}
        explorer, first, small = self.explorer, self.fit[0].point, len(rows) <= SMALL

        def holds(point: Point) -> bool:
            sample = next(s for s in explorer.samples if s.point == point)
            return self._differing(rows, sample) <= lacking

        for _ in range(RAISES):
            lows = {n: d.low for n, d in explorer.domains.items()}
            corners = [lows, *({**first, n: low} for n, low in lows.items() if small)]
            inside = [sample.point for _ in range(FRESH if small else 1) if (sample := explorer.below())]
            if all((explorer.takes(p, True) and holds(p)) for p in (*corners, *inside)):
                break
            self._raise(first, holds)
        self.compared = [p for p in self.compared if all(d.holds(p[n]) for n, d in explorer.domains.items())]

    def _raise(self, first: Point, holds: Callable[[Point], bool]) -> None:
        """Raise the least size of each symbol that is too small by itself; if none is, of all."""
        explorer, raised = self.explorer, False
        for name, domain in list(explorer.domains.items()):
            point = {**first, name: domain.low}
            if domain.low < first[name] and not (explorer.takes(point, True) and holds(point)):
                raised = True
                low = explorer.edge(name, first, domain.low, True, holds)
                explorer.domains[name] = replace(domain, low=low)
        for name, domain in () if raised else list(explorer.domains.items()):
            half = (domain.place(domain.low) + domain.place(first[name]) + 1) // 2
            explorer.domains[name] = replace(domain, low=max(domain.low, min(first[name], domain.size(half))))

    def _notes(self, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[str]:
        elsewhere = {note for sample in self.fresh[:1] for note in self.known(sample).profile.notes} or set(notes)
        place = ", ".join(f"{n} = {s}" for n, s in self.fit[0].point.items())
        yield from (note if note in elsewhere else f"at {place}: {note}" for note in notes)
        lacking = [row.name for row in rows if row.note == NO_FORMULA]
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            yield f"uncounted: {lacking[0]!r}{more}: {NO_FORMULA}; totals are lower bounds"
        for gap in self.explorer.gaps[:1]:
            sizes = ", ".join(f"{n} = {s}" for n, s in gap.items())
            yield f"the model does not take every combination of sizes, such as {sizes}"
