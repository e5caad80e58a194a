"""Operators that compute what another one has computed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.graph import Node, Tensor
from flopwise.operators.tables import row

#: Effects of operators that may differ, or that engines repeat on purpose, as they do with what dequantises.
_KEPT = frozenset({"random", "bodies", "updates", "dequantizes"})


def find(subject: Subject) -> Iterator[Change]:
    """Operators with equal inputs and attributes, all but the first; what follows from equal results is equal, too."""
    first: dict[Hashable, int] = {}
    same: dict[str, str] = {}
    for position, node in subject.live():
        if not row(node.op).effects.isdisjoint(_KEPT) or _writes(node):
            continue
        if not node.known_inputs or not node.known_outputs:
            continue
        key = _key(node, same)
        original = first.setdefault(key, position)
        if original == position:
            continue
        results = dict(zip(_names(node.known_outputs), _names(subject.nodes[original].known_outputs), strict=False))
        if subject.outputs.isdisjoint(results):
            same |= results
            yield Change((position,), f"computed before, by {subject.nodes[original].name}", same=results)


def _names(tensors: tuple[Tensor, ...]) -> list[str]:
    return [tensor.name for tensor in tensors]


def _writes(node: Node) -> bool:
    return bool(node.attrs.get("writes")) or (node.origin.endswith("_") and not node.origin.endswith("__"))


def _key(node: Node, same: dict[str, str]) -> Hashable:
    inputs = tuple(None if t is None else same.get(t.name, t.name) for t in node.inputs)
    outputs = tuple(None if t is None else (t.shape, t.dtype) for t in node.outputs)
    attributes = sorted((key, repr(value)) for key, value in node.attrs.items() if key != "args")
    plain = sorted((key, repr(v)) for key, v in node.arguments.items() if not _holds_tensors(v))
    return node.op, node.origin, inputs, outputs, repr(attributes), repr(plain)


def _holds_tensors(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_tensors, value)) and not isinstance(value, str)
    return isinstance(value, Tensor) or "Tensor(" in repr(value)


RULE = Rule(
    name="repeated-work",
    about="Compute equal results once: the same operator, inputs and attributes.",
    exactness="same",
    source="arithmetic (common subexpressions); onnxruntime does it from level basic on",
    find=find,
)
