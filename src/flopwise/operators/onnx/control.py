"""Control flow: the operators in its bodies cost, not the operator around them."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.operator import Operator


def _around(node: Node) -> Counts:
    """No operations of its own: those of its bodies count.

    Raises:
        ShapeError: the reader could make nothing of them.
    """
    if node.attrs.get("bodies", ()) is None:
        raise ShapeError(f"nothing is known about the body of {node.op} {node.name!r}")
    return Counts()


def _control(reason: str) -> Operator:
    return Operator(_around, reason, "nothing", effects=frozenset({"bodies"}))


OPERATORS: Mapping[str, Operator] = {
    "If": _control(
        "runs one of its branches; the branch's operators count, where either can run those of the larger cost"
    ),
    "Loop": _control("runs its body; the body's operators count once for each trip"),
    "Scan": _control("runs its body; the body's operators count once for each scanned element"),
    "SequenceMap": _control("runs its body; the body's operators count once for each member of the sequence"),
}
