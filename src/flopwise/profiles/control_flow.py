"""Rows in the bodies of control flow: how often each runs, and which branch counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from flopwise.graph import Body, Graph
from flopwise.rows import Row

#: Figures that add up over the runs of a body; weights are there once.
_REPEATED = ("counts", "needed", "view", "count", "input_bytes", "output_bytes", "activations")


def settle_control_flow(graph: Graph, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The rows with their figures for all runs in one inference.

    Of several branches the most expensive counts, by the convention's count and then by floating-point operations. The
    rows of the others stay, run 0 times, and cost nothing; a note says what each branch costs.

    Args:
        graph: the graph that the rows are of.
        rows: with figures for one run, in execution order.

    Returns:
        The rows, and a note for each operator of which one branch counts.
    """
    if not any(row.node.within for row in rows):
        return list(rows), []
    names = {id(row.node): row.name for row in rows}
    owners = {b.owner: graph.nodes[b.owner] for one in {id(r.node.within): r for r in rows}.values()
              for b in one.node.within}  # fmt: skip
    left_out, notes = _left_out(rows, {p: names.get(id(n), n.name) for p, n in owners.items()})
    settled = []
    around: dict[int, tuple[tuple[str, ...], int | None, bool]] = {}  # names, runs and openness of the bodies
    for row in rows:
        if not row.node.within:
            settled.append(row)
            continue
        if id(row.node.within) not in around:
            bodies = row.node.within
            within = tuple(f"{names.get(id(owners[b.owner]), owners[b.owner].name)}/{b.part}" for b in bodies)
            times = 0 if any((b.owner, b.part) in left_out for b in bodies) else row.node.times
            around[id(bodies)] = within, times, any(b.branch or b.bound for b in bodies)
        within, times, open_ended = around[id(row.node.within)]
        settled.append(_repeated(replace(row, within=within, bound=row.bound or open_ended), times))
    return settled, notes


class _Sum:
    """What the rows in one body cost in one run of the body around it at some level."""

    def __init__(self, within: tuple[Body, ...]) -> None:
        self.within, self.count, self.flops = within, 0, 0
        self._level = len(within)

    def add(self, row: Row) -> None:
        self.count += row.count or 0
        self.flops += row.flops or 0

    def settle(self, level: int, left_out: Collection[tuple[int, str]]) -> None:
        """Go out to a level: the runs of the bodies on the way are in the sums from then on."""
        for body in self.within[level + 1 : self._level]:
            runs = 0 if (body.owner, body.part) in left_out else body.trips or 0
            self.count, self.flops = self.count * runs, self.flops * runs
        self._level = level + 1


def _left_out(rows: Sequence[Row], names: dict[int, str]) -> tuple[set[tuple[int, str]], list[str]]:
    """Branches that do not count, innermost operators first, and what each branch costs."""
    left_out: set[tuple[int, str]] = set()
    notes: list[str] = []
    sums: dict[int, _Sum] = {}
    for row in rows:
        if row.node.within:  # which the rows in one body share
            sums.setdefault(id(row.node.within), _Sum(row.node.within)).add(row)
    forks: dict[int, list[tuple[int, _Sum]]] = {}  # the sums in each fork, and how deep it is around them
    for one in sums.values():
        for level, body in enumerate(one.within):
            if body.branch or body.owner in forks:
                forks.setdefault(body.owner, []).append((level, one))
    for owner in sorted(forks, key=lambda owner: -owner):  # what lies inside comes later
        costs: dict[str, tuple[int, int]] = {}
        for level, one in forks[owner]:
            one.settle(level, left_out)
            part = one.within[level].part
            count, flops = costs.get(part, (0, 0))
            costs[part] = count + one.count, flops + one.flops
        costliest = max(costs, key=lambda part: costs[part])
        left_out |= {(owner, part) for part in costs if part != costliest}
        shown = ", ".join(f"{part} {count:,}" for part, (count, _) in costs.items())
        notes.append(f"{names[owner]!r} takes one of its branches, and the most expensive counts: {shown}")
    return left_out, notes[::-1]


def _repeated(row: Row, times: int | None) -> Row:
    """A row with its figures for ``times`` runs."""
    if times is None:
        why = row.note or "it is not known how often it runs"
        unknown: dict[str, Any] = dict.fromkeys(_REPEATED)
        return replace(row, **unknown, times=None, missing=row.missing or "fact", note=why)
    once = {key: getattr(row, key) for key in _REPEATED}
    figures: dict[str, Any] = {key: None if value is None else value * times for key, value in once.items()}
    return replace(row, **figures, times=times)


def copied(row: Row) -> Row:
    """A row with its figures for all operators that its node stands for, each with stored tensors of its own."""
    names = (*_REPEATED, "params", "buffers", "weight_bytes")
    once = {key: getattr(row, key) for key in names}
    times = row.node.copies
    figures: dict[str, Any] = {key: None if value is None else value * times for key, value in once.items()}
    return replace(row, **figures, times=None if row.times is None else row.times * times)
