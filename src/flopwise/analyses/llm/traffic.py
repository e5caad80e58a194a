"""Bytes of weights that one step touches: whole tensors, but of a table the rows, and of experts those with tokens."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flopwise.graph import Node, Tensor
from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile

#: Products of groups of rows with one matrix of a stack for each: the experts of a mixture.
GROUPED = frozenset({"aten::_grouped_mm", "aten::_scaled_grouped_mm"})

#: Look-ups of rows in a stored table.
_LOOK_UPS = frozenset({"Gather", "aten::embedding"})


@dataclass(frozen=True)
class Experts:
    """A stack of expert matrices that one operator multiplies with."""

    layer: str
    #: Matrices in the stack, and rows of tokens that are routed to them all together.
    count: int
    rows: int

    @property
    def touched(self) -> int:
        """Experts that get a row, at most."""
        return min(self.count, self.rows)

    def expected(self, tokens: int) -> Fraction:
        """Experts that get a row on average, if every token chose its experts uniformly and without repetition."""
        per_token = Fraction(self.rows, max(tokens, 1))
        if per_token >= self.count:
            return Fraction(self.count)
        return self.count * (1 - (1 - per_token / self.count) ** tokens)


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


def experts_of(layer: str, node: Node) -> Experts | None:
    """The stack of experts that an operator multiplies with; None for any other operator."""
    if node.op not in GROUPED or not (node.has_input(0) and node.has_input(1)):
        return None
    rows, stack = node.input(0).shape, node.input(1).shape
    if rows is None or stack is None or len(stack) != 3:
        return None
    return Experts(layer, int(stack[0]), int(rows[0]))


def _shares(node: Node, tensor: Tensor, stack: Experts | None, tokens: int) -> tuple[Fraction, Fraction, Fraction]:
    """Parts of a tensor that a step touches at most and on average, and the part that one token is multiplied with."""
    one = Fraction(1)
    if stack is not None and tensor.shape and stack.count in tensor.shape:
        chosen = Fraction(stack.rows, max(tokens, 1) * stack.count)
        return Fraction(stack.touched, stack.count), stack.expected(tokens) / stack.count, min(one, chosen)
    if node.op in _LOOK_UPS and node.has_input(0) and node.input(0).name == tensor.name and node.outputs[0] is not None:
        picked = min(one, Fraction(node.output().numel, max(tensor.numel, 1)))
        return picked, picked, one
    return one, one, one


def _whole(number: Fraction | int) -> int:
    return round(number)
