"""Bytes of weights that one step touches: whole tensors, but of a table the rows, and of experts those with tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from flopwise.graph import Node, Tensor
from flopwise.memory.experts import Experts, experts_of, picked_for
from flopwise.operators.folding import constant
from flopwise.profiles.profile import Profile

#: Look-ups of rows in a stored table.
_LOOK_UPS = frozenset({"Gather", "aten::embedding"})


@dataclass(frozen=True)
class WeightTraffic:
    """Bytes of weights that a step touches, and elements of weights that one token is multiplied with."""

    #: Bytes at most, on average under uniform routing, and at least: where all tokens choose the same experts.
    most: int
    expected: int
    least: int
    #: Elements of trained weights that are active: of experts those that are chosen, of tables all.
    active: int
    experts: tuple[Experts, ...] = ()


class Touched(NamedTuple):
    """The parts of the stored tensors that a step touches."""

    #: By the name of a tensor: the parts that are touched at most, on average and at least, and the part that one token
    #: is multiplied with.
    shares: Mapping[str, tuple[Fraction, ...]]
    experts: tuple[Experts, ...]


def touched(profile: Profile, tokens: int) -> Touched:
    """The parts of the stored tensors that a step touches.

    Args:
        profile: the step.
        tokens: tokens that are fed in it, over all sequences.
    """
    folding = constant(profile.graph)
    shares_by_name: dict[str, tuple[Fraction, ...]] = {}
    experts: list[Experts] = []
    stacks = {row.node.module: stack for row in profile.rows if (stack := experts_of(row.name, row.node))}
    for row in profile.rows:
        if all(t.name in folding.sources for t in row.node.known_outputs):
            continue  # a view of a weight is not a use of it
        stack = experts_of(row.name, row.node)
        experts += [stack] * row.node.copies if stack else []
        for tensor in folding.stored(row.node):
            if tensor.kind in ("weight", "buffer") and tensor.sized:
                shares = _shares(row.node, tensor, stack or picked_for(row.node, tensor, stacks), tokens)
                shares_by_name[tensor.name] = tuple(map(max, shares_by_name.get(tensor.name, shares), shares))
    return Touched(shares_by_name, tuple(experts))


def weight_traffic(touched: Touched, profile: Profile, nbytes: Mapping[str, Fraction]) -> WeightTraffic:
    """Bytes of the stored tensors that a step touches.

    Args:
        touched: the parts of them.
        profile: the step.
        nbytes: bytes of each stored tensor, by name.
    """
    shares = touched.shares
    most, expected, least = (sum(nbytes[name] * parts[i] for name, parts in shares.items()) for i in range(3))
    active = Fraction(0)
    for name, (tensor, copies) in stored_tensors(profile).items():
        if tensor.kind == "weight" and name in shares:
            active += copies * tensor.numel * shares[name][3]
    return WeightTraffic(round(most), round(expected), round(least), round(active), touched.experts)


def _shares(
    node: Node, tensor: Tensor, stack: Experts | None, tokens: int
) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Parts of a tensor that a step touches at most, on average and at least, and the part that one token is multiplied
    with."""
    one = Fraction(1)
    if stack is not None and stack.hold(tensor):
        one_token = stack.active(tokens)
        return (
            Fraction(stack.touched, stack.matrices),
            stack.expected(tokens) / stack.matrices,
            one_token,
            one_token,
        )
    if node.op in _LOOK_UPS and node.has_input(0) and node.input(0).name == tensor.name and node.outputs[0] is not None:
        picked = min(one, Fraction(node.output().numel, max(tensor.numel, 1)))
        return picked, picked, picked, one
    return one, one, one, one


def stored_bytes(profile: Profile, widths: Mapping[str, Fraction]) -> int:
    """Bytes of the stored tensors of a call.

    Args:
        profile: the call.
        widths: bytes of each element of stored tensors, by name, where they are not stored in the program's type.
    """
    if not widths:
        return profile.total("weight_bytes")
    return round(sum(bytes_by_name(profile, widths).values()))


def bytes_by_name(profile: Profile, widths: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Bytes of each weight and buffer of a call, by name; see ``stored_bytes``."""
    tensors = stored_tensors(profile).items()
    return {name: n * bytes_of(t, widths) for name, (t, n) in tensors if t.kind in ("weight", "buffer")}


def stored_tensors(profile: Profile) -> dict[str, tuple[Tensor, int]]:
    """The stored tensors of a call, and for how many each stands, by name."""
    folding = constant(profile.graph)
    return {t.name: (t, row.node.copies) for row in profile.rows for t in folding.stored(row.node) if t.sized}


def bytes_of(tensor: Tensor, widths: Mapping[str, Fraction]) -> Fraction:
    """Bytes of a stored tensor in the width that it is stored in: that of its type, where ``widths`` names no other."""
    return tensor.numel * widths[tensor.name] if tensor.name in widths else Fraction(tensor.nbytes)
