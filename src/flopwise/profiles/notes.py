"""Notes on a profile, one line each: what is unknown, bounded, masked or left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from flopwise.conventions.convention import Convention, guarded
from flopwise.errors import counted
from flopwise.graph import Graph, Tensor
from flopwise.operators.complex import takes_or_makes
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
    """Notes for the reader of the report, one line each."""
    yield from graph.warnings
    yield from _empty_inputs(graph)
    yield from convention.notes
    yield from convention.whole.remarks(graph) if convention.whole else ()
    yield from _uncounted(rows)
    if unresolved:
        tensors = _several(unresolved, "tensor", "have", "has")
        yield f"unresolved: {tensors} no shape{_origin(rows, graph.inputs)}; totals are lower bounds"
    yield from _sizes(graph, [t for row in rows for t in row.node.outputs if t is not None])
    yield from _masks(rows, convention, masked)
    yield from _orders(rows, convention)
    yield from _complex(rows, convention)
    if folded:
        run, are = ("runs", "is") if folded == 1 else ("run", "are")
        operators = f"{counted(folded, 'operator')} on weights, constants and shapes alone"
        yield f"{operators} {run} once and {are} not counted (--no-fold)"
    positions = {id(graph.nodes[place]) for place in routes}
    ops = {row.node.op for row in rows if not positions or id(row.node) not in positions}
    bounds = sorted(op for op in ops if row_of(op).claim == "bound")
    if bounds:
        yield f"upper bounds, because the work depends on the data: {', '.join(bounds)}"


def _empty_inputs(graph: Graph) -> Iterator[str]:
    """A line for each input of a file without elements: symbols stay undecided, a program was handed what it has."""
    for tensor in () if graph.program.recorded else graph.inputs:
        if tensor.kind != "state" and any(type(extent) is int and not extent for extent in tensor.shape or ()):
            yield f"input {tensor.name!r} has a dimension of 0, so most costs are 0; give its shape with -i"


def _origin(rows: Sequence[Row], inputs: Sequence[Tensor]) -> str:
    """A note on the origin of the first tensor without a shape, and on what would give it one.

    Args:
        rows: of the model.
        inputs: its own; a file of weights alone has none.
    """
    for row in rows:
        node = row.node
        if all(t is None or t.resolved for t in node.outputs):
            continue
        if not all(t.resolved for t in node.known_inputs):
            return "; give the input shapes with -i NAME:DTYPE:SHAPE" if inputs else ""
        own = "" if row_of(node.op).shape is not None else ": give it a rule with shape= (flopwise.Operator)"
        return f", from {node.op} at {row.name!r} on{own}"
    return ""


def _uncounted(rows: Sequence[Row]) -> Iterator[str]:
    """A line for the operators that run an unknown number of times, and one for each kind that has no figure."""
    endless = [row for row in rows if row.times is None]
    if endless:
        operators = f"{len(endless)} operators run" if len(endless) > 1 else f"{endless[0].node.op} runs"
        yield f"uncounted: {operators} an unknown number of times, first {endless[0].name!r}; totals are lower bounds"
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.missing and row.times is not None:
            kinds.setdefault((row.missing, row.node.op), []).append(row)
    for (missing, op), alike in kinds.items():
        first, word = alike[0], "unknown" if missing == "rule" else "uncounted"
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        yield f"{word}: {op} at {first.name!r}{more} ({first.note}); totals are lower bounds"


def _sizes(graph: Graph, results: Sequence[Tensor]) -> Iterator[str]:
    """A line for the tensors without a size in bytes (texts, and sequences of them), and for those that data size."""
    tensors = [*graph.inputs, *results]
    texts = [t.name for t in tensors if (t.dtype == "string" or t.items is not None) and t.resolved and not t.sized]
    if texts:
        hold = _several(len(texts), "tensor", "hold", "holds")
        yield f"unknown bytes: {hold} strings, the first is {texts[0]!r}; bytes are lower bounds"
    bounded = [t.name for t in results if t.bound]
    if bounded:
        are = _several(len(bounded), "tensor", "are", "is")
        yield f"upper bounds: the data decide how large {are}; the first is {bounded[0]!r}"
    stated = [t.name for t in results if t.name in graph.stated]
    if stated:
        are = _several(len(stated), "tensor", "are", "is")
        yield f"stated: the data decide how large {are}, and the file alone says it; the first is {stated[0]!r}"


def _several(number: int, thing: str, plural: str, singular: str) -> str:
    """A number of things and the verb that goes with it."""
    return f"{number} {thing}s {plural}" if number > 1 else f"1 {thing} {singular}"


def _orders(rows: Sequence[Row], convention: Convention) -> Iterator[str]:
    """In which order products of three operands and more are counted, in one line for each."""
    if convention.whole or convention.others != "canonical" or "Einsum" in convention.overrides:
        return
    products = [row for row in rows if row.node.op == "Einsum" and len(row.node.inputs) > 2]
    for has_path, words in ((False, "from left to right, as PyTorch and onnxruntime do"), (True, "as opt_einsum says")):
        those = [row for row in products if ("path" in row.node.attrs) == has_path]
        if those:
            more = f" and {len(those) - 1} more multiply" if len(those) > 1 else " multiplies"
            yield f"einsum: {those[0].name!r}{more} operands two at a time, {words}"


def _complex(rows: Sequence[Row], convention: Convention) -> Iterator[str]:
    """A line for the operators on complex numbers that compute something."""
    complexes = [row for row in rows if takes_or_makes(row.node)]  # first: of others no count is asked whether it is 0
    computing = [row for row in complexes if row.counts is not None and any(row.counts)]
    if computing and convention.plain:
        operators = counted(len(computing), "operator") + (" is" if len(computing) == 1 else " are")
        yield f"complex numbers: {operators} counted in real operations (a product is 4 mul + 2 add)"


def _masks(rows: Sequence[Row], convention: Convention, masked: Masked) -> Iterator[str]:
    """A note on how many of attention's multiply-adds its masks leave."""
    those = [row for row in rows if row.needed is not None and row.times != 0]
    all_scores = [guarded(lambda row=row: count(row.node), "")[0] for row in those]  # type: ignore[misc]
    executed = sum(c.mac * (row.times or 0) for c, row in zip(all_scores, those, strict=True) if c is not None)
    left = sum(row.needed_macs or 0 for row in those)
    if int(left) < int(executed):  # a note is no reason for a condition
        execute = _several(sum(row.node.copies for row in those), "attention layer", "execute", "executes")
        share = f"{execute} {executed:,} MACs, {left:,} after masking"
        if masked == "executed":
            yield f"masks: {share} (--masked needed counts these)"
        elif convention.plain:
            yield f"masks: {share}; these are counted (--masked needed)"
        else:
            yield f"masks: {share}; {convention.name} counts as its tool does, whatever --masked says"
