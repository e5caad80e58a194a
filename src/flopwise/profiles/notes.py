"""What a reader of a profile should know, one line each: what is unknown, bounded, masked or left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from flopwise.conventions.convention import Convention, guarded
from flopwise.errors import counted
from flopwise.graph import Graph
from flopwise.operators.tables import count
from flopwise.operators.tables import row as row_of
from flopwise.rows import Row

#: Which scores of an attention count: all that a kernel computes, or those that its masks leave.
Masked: TypeAlias = Literal["executed", "needed"]


def notes(
    graph: Graph,
    convention: Convention,
    rows: Sequence[Row],
    folded: int,
    unresolved: int,
    masked: Masked,
    routes: frozenset[int],
) -> Iterator[str]:
    """What a reader of the report should know, one line each."""
    yield from graph.warnings
    yield from convention.notes
    yield from convention.whole.remarks(graph) if convention.whole else ()
    groups: dict[tuple[str, str], list[Row]] = {}
    endless = [row for row in rows if row.times is None]
    if endless:
        those = f"{len(endless)} operators run" if len(endless) > 1 else f"{endless[0].node.op} runs"
        yield f"uncounted: {those} an unknown number of times, first {endless[0].name!r}; totals are lower bounds"
    for row in rows:
        if row.missing and row.times is not None:
            groups.setdefault((row.missing, row.node.op), []).append(row)
    for (missing, op), alike in groups.items():
        first, word = alike[0], "unknown" if missing == "rule" else "uncounted"
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        yield f"{word}: {op} at {first.name!r}{more} ({first.note}); totals are lower bounds"
    if unresolved:
        those_have = "tensors have" if unresolved > 1 else "tensor has"
        yield f"unresolved: {unresolved} {those_have} no shape; totals are lower bounds"
    made = [t for row in rows for t in row.node.outputs if t is not None]
    listed = (t for t in (*graph.inputs, *made) if t.dtype == "string" or t.items is not None)
    texts = [t.name for t in listed if not t.sized and t.resolved]
    if texts:
        hold = f"{len(texts)} tensors hold strings" if len(texts) > 1 else "1 tensor holds strings"
        yield f"unknown bytes: {hold}, the first is {texts[0]!r}; bytes are lower bounds"
    bounded = [t.name for t in made if t.bound]
    if bounded:
        many = f"{len(bounded)} tensors are" if len(bounded) > 1 else "1 tensor is"
        yield f"upper bounds: the data decide how large {many}; the first is {bounded[0]!r}"
    yield from _masks(rows, convention, masked)
    if folded:
        run, are = ("runs", "is") if folded == 1 else ("run", "are")
        those = f"{counted(folded, 'operator')} on weights, constants and shapes alone"
        yield f"{those} {run} once and {are} not counted (--no-fold)"
    positions = {id(graph.nodes[place]) for place in routes}
    ops = {row.node.op for row in rows if not positions or id(row.node) not in positions}
    bounds = sorted(op for op in ops if row_of(op).claim == "bound")
    if bounds:
        yield f"upper bounds, because the work depends on the data: {', '.join(bounds)}"


def _masks(rows: Sequence[Row], convention: Convention, masked: Masked) -> Iterator[str]:
    """What the masks of attention leave of its multiply-adds, in one line."""
    those = [row for row in rows if row.needed is not None and row.times != 0]
    all_scores = [guarded(lambda row=row: count(row.node), "")[0] for row in those]  # type: ignore[misc]
    executed = sum(c.mac * (row.times or 0) for c, row in zip(all_scores, those, strict=True) if c is not None)
    left = sum(row.needed_macs or 0 for row in those)
    if int(left) < int(executed):  # a note is no reason for a condition
        rows_execute = f"{len(those)} attention rows execute" if len(those) > 1 else "1 attention row executes"
        share = f"{rows_execute} {executed:,} MACs, of which masks leave {left:,}"
        if masked == "executed":
            yield f"masks: {share} (--masked needed counts those)"
        elif convention.plain:
            yield f"masks: {share}; those are counted (--masked needed)"
        else:
            yield f"masks: {share}; {convention.name} counts as its tool does, whatever --masked says"
