"""Arithmetic on weights alone, done in every inference."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.graph import STORED, Node
from flopwise.operators.tables import row


def find(subject: Subject) -> Iterator[Change]:
    """Operators that depend on stored tensors alone, up to the result that others take.

    Weights that are dequantised or widened stay as they are: to store the result would move more bytes, not fewer.
    """
    groups: dict[str, list[int]] = {}
    behind: dict[str, list[int]] = {}
    folded = subject.folding.positions
    for position, node in _arithmetic(subject):
        before = [p for t in node.known_inputs for p in behind.get(t.name, ())]
        for tensor in node.known_outputs:
            behind[tensor.name] = [*dict.fromkeys([*before, position])]
            if any(taker not in folded for taker in subject.takers(tensor)) or tensor.name in subject.outputs:
                groups[tensor.name] = behind[tensor.name]
    seen: set[int] = set()
    for positions in groups.values():
        new = tuple(p for p in positions if p not in seen)
        seen.update(new)
        if new:
            yield Change(new, "it depends on stored tensors alone: store the result", stored=True)


def _arithmetic(subject: Subject) -> Iterator[tuple[int, Node]]:
    """The operators on stored tensors alone, with their positions, but for what widens them or asks for a shape."""
    wide: set[str] = set()
    for position, node in enumerate(subject.nodes):
        if position not in subject.folding.positions or node.within:
            continue
        if all(t.kind in STORED for t in node.known_outputs):
            continue
        effects = row(node.op).effects
        if "dequantizes" in effects or not wide.isdisjoint(t.name for t in node.known_inputs) or _widens(node):
            wide.update(t.name for t in node.known_outputs)
        elif "shape query" not in effects:
            yield position, node


def _widens(node: Node) -> bool:
    """True for an operator that gives the elements of its one tensor in a wider type."""
    inputs, outputs = node.known_inputs, node.known_outputs
    if len(inputs) != 1 or len(outputs) != 1 or inputs[0].dtype == outputs[0].dtype:
        return False
    before, after = inputs[0], outputs[0]
    if not (before.resolved and after.resolved):
        return False
    return before.numel == after.numel and after.nbytes > before.nbytes


RULE = Rule(
    name="constant-work",
    about="Store what is computed from weights and constants alone, in place of computing it in every inference.",
    exactness="same",
    source="arithmetic (constant folding); onnxruntime does it from level basic on, PyTorch without a compiler never",
    find=find,
    trained=False,
)
