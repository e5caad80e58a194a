"""Rows in the bodies of control flow: how often each runs, and which branch counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    owners = {b.owner: graph.nodes[b.owner] for row in rows for b in row.node.within}
    left_out, notes = _left_out(rows, {p: names.get(id(n), n.name) for p, n in owners.items()})
    settled = []
    for row in rows:
        within = tuple(f"{names.get(id(owners[b.owner]), owners[b.owner].name)}/{b.part}" for b in row.node.within)
        times = 0 if any((b.owner, b.part) in left_out for b in row.node.within) else row.node.times
        open_ended = row.bound or any(b.branch or b.bound for b in row.node.within)
        settled.append(_repeated(replace(row, within=within, bound=open_ended), times) if within else row)
    return settled, notes


def _left_out(rows: Sequence[Row], names: dict[int, str]) -> tuple[set[tuple[int, str]], list[str]]:
    """Branches that do not count, innermost operators first, and what each branch costs."""
    left_out: set[tuple[int, str]] = set()
    notes: list[str] = []
    forks: dict[int, list[tuple[int, Row]]] = {}  # the rows in each fork, and how deep it is around them
    for row in rows:
        for level, body in enumerate(row.node.within):
            if body.branch or body.owner in forks:
                forks.setdefault(body.owner, []).append((level, row))
    for owner in sorted(forks, key=lambda owner: -owner):  # what lies inside comes later
        costs: dict[str, tuple[int, int]] = {}
        for level, row in forks[owner]:
            deeper: tuple[Body, ...] = row.node.within[level + 1 :]
            trips = [b.trips for b in deeper]
            runs = 0 if any((b.owner, b.part) in left_out for b in deeper) else math.prod(t or 0 for t in trips)
            part = row.node.within[level].part
            count, flops = costs.get(part, (0, 0))
            costs[part] = count + (row.count or 0) * runs, flops + (row.flops or 0) * runs
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
