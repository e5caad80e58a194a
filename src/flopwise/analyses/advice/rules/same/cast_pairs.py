"""Conversions of element types that are taken back."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, chain, replaced
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.operators.tables import row


def find(subject: Subject) -> Iterator[Change]:
    """Two Casts with nothing but moves between them, the second to the type before the first."""
    for position, node in subject.live("Cast"):
        source, result = node.input(0), node.output()
        if source.dtype is None or not is_float(source.dtype) or not is_float(result.dtype):  # integers may be cut off
            continue
        moved, last = chain(subject, result, _moves)
        if last is None or last[1].op != "Cast" or last[1].output().dtype != source.dtype:
            continue
        end = last[1].output()
        if end.name in subject.outputs and not moved:
            continue
        after = _after(subject, moved, source, end)
        same = {} if moved else {end.name: source.name}
        text = f"{source.dtype} → {result.dtype} → {source.dtype}, and nothing computes in {result.dtype}"
        yield Change((position, *moved, last[0]), text, after, same)


def _moves(node: Node, tensor: Tensor) -> bool:
    return row(node.op).moves and node.op != "Cast" and node.input(0).name == tensor.name


def _after(subject: Subject, moved: list[int], source: Tensor, end: Tensor) -> tuple[Node, ...]:
    """The moves between two conversions, in the type that stands before and behind these."""
    after, before = [], source
    for position in moved:
        node = subject.nodes[position]
        old = node.output()
        result = end if position == moved[-1] else Tensor(old.name, old.shape, source.dtype)
        after.append(replaced(node, {node.input(0).name: before, old.name: result}))
        before = result
    return tuple(after)


RULE = Rule(
    name="cast-pairs",
    about="Leave out conversions of element types that are taken back.",
    exactness="same",
    source="arithmetic: equal up to the rounding of the type between, exact where that is the wider one",
    find=find,
)
