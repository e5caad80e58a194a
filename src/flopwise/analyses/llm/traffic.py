"""Bytes of weights that one step touches: whole tensors, but of a table the rows, and of experts those with tokens."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flopwise.graph import Node, Tensor
from flopwise.memory.experts import Experts, experts_of
from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile

#: Look-ups of rows in a stored table.
_LOOK_UPS = frozenset({"Gather", "aten::embedding"})


@dataclass(frozen=True)
class WeightTraffic:
    """Bytes of weights that a step touches, and elements of weights that one token is multiplied with."""

    #: Bytes at most, and on average under uniform routing.
    most: int
    expected: int
    #: Elements of trained weights that are active: of experts those that are chosen, of tables all.
    active: int
    experts: tuple[Experts, ...] = ()


def weight_traffic(profile: Profile, tokens: int, widths: dict[str, Fraction] | None = None) -> WeightTraffic:
    """What a step touches of the stored tensors.

    Args:
        profile: the step.
        tokens: tokens that are fed in it, over all sequences.
        widths: bytes of each element by tensor name, where they differ from those of the tensor's type.
    """
    folding = fold(profile.graph)
    most: dict[str, Fraction] = {}
    expected: dict[str, Fraction] = {}
    active: dict[str, Fraction] = {}
    experts: list[Experts] = []
    for row in profile.rows:
        if all(t.name in folding.sources for t in row.node.known_outputs):
            continue  # a view of a weight is not a use of it
        stack = experts_of(row.name, row.node)
        experts += [stack] if stack else []
        for tensor in folding.stored(row.node):
            if tensor.kind not in ("weight", "buffer") or not tensor.sized:
                continue
            shares = _shares(row.node, tensor, stack, tokens)
            for shared, share in zip((most, expected, active), shares, strict=True):
                shared[tensor.name] = max(shared.get(tensor.name, Fraction(0)), share)
    tensors = {t.name: t for row in profile.rows for t in folding.stored(row.node)}
    width = {name: (widths or {}).get(name) for name in tensors}

    def nbytes(name: str) -> Fraction:
        per_element = width[name]
        return Fraction(tensors[name].nbytes) if per_element is None else tensors[name].numel * per_element

    return WeightTraffic(
        most=_whole(sum(nbytes(name) * share for name, share in most.items())),
        expected=_whole(sum(nbytes(name) * share for name, share in expected.items())),
        active=_whole(sum(tensors[n].numel * share for n, share in active.items() if tensors[n].kind == "weight")),
        experts=tuple(experts),
    )


def _shares(node: Node, tensor: Tensor, stack: Experts | None, tokens: int) -> tuple[Fraction, Fraction, Fraction]:
    """Parts of a tensor that a step touches at most and on average, and the part that one token is multiplied with."""
    one = Fraction(1)
    if stack is not None and stack.hold(tensor):
        return Fraction(stack.touched, stack.matrices), stack.expected(tokens) / stack.matrices, stack.active(tokens)
    if node.op in _LOOK_UPS and node.has_input(0) and node.input(0).name == tensor.name and node.outputs[0] is not None:
        picked = min(one, Fraction(node.output().numel, max(tensor.numel, 1)))
        return picked, picked, one
    return one, one, one


def _whole(number: Fraction | int) -> int:
    return round(number)
