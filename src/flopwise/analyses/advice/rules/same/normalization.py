"""Layer normalisation as operators of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.graph import Node, Tensor


class _Statistics(NamedTuple):
    """Divisors of a normalisation: mean squares of a tensor, with an epsilon."""

    squared: Tensor
    epsilon: float
    positions: tuple[int, ...]


def find(subject: Subject) -> Iterator[Change]:
    """(x - mean) / sqrt(mean((x - mean)²) + ε) along the last axis, with weight and bias behind it; or without mean."""
    for position, node in subject.live("Sqrt"):
        statistics = _statistics(subject, node)
        taker = subject.only_taker(node.output())
        if statistics is None or taker is None:
            continue
        divided = _divided(subject, statistics.squared, node.output(), taker)
        if divided is None:
            continue
        quotient, more = divided
        yield from _changes(subject, statistics, quotient, (position, *more))


def _statistics(subject: Subject, root: Node) -> _Statistics | None:
    """Tensor below a square root: the mean of squares over the last axis, and an epsilon."""
    added = subject.maker(root.input(0))
    if added is None or added[1].op != "Add":
        return None
    for one, other in (added[1].inputs, added[1].inputs[::-1]):
        epsilon, mean = subject.setting(other), subject.maker(one)
        if epsilon is None or len(epsilon) != 1 or mean is None or not _is_mean(subject, mean[1]):
            continue
        square = subject.maker(mean[1].input(0))
        if square is None:
            return None
        node = square[1]
        twice = node.op == "Mul" and node.has_input(1) and node.input(0).name == node.input(1).name
        if twice or (node.op == "Pow" and subject.setting(node.input(1)) == [2.0]):
            return _Statistics(node.input(0), epsilon[0], (square[0], mean[0], added[0]))
    return None


def _is_mean(subject: Subject, node: Node) -> bool:
    """True for the mean over the last axis."""
    if node.op != "ReduceMean":
        return False
    rank = len(node.input(0).dims)
    axes = node.attrs.get("axes") or (subject.setting(node.input(1)) if node.has_input(1) else None)
    return axes is not None and [int(axis) % rank for axis in axes] == [rank - 1]


def _divided(
    subject: Subject, tensor: Tensor, root: Tensor, taker: tuple[int, Node]
) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor divided by its root, and the positions of the operators that do it."""
    position, node = taker
    if node.op == "Div" and node.input(0).name == tensor.name and node.input(1).name == root.name:
        return node.output(), (position,)
    one = node.op == "Reciprocal" or (node.op == "Div" and subject.setting(node.input(0)) == [1.0])
    product = subject.only_taker(node.output()) if one else None
    if product is None or product[1].op != "Mul" or tensor.name not in {t.name for t in product[1].known_inputs}:
        return None
    return product[1].output(), (position, product[0])


def _changes(subject: Subject, statistics: _Statistics, quotient: Tensor, divided: tuple[int, ...]) -> Iterator[Change]:
    """One normalisation in place of the operators; none where others take what lies between."""
    centred = _centring(subject, statistics.squared)
    if centred is None:
        return
    source, before = centred
    centring = bool(before)
    factors, behind, end = _scaling(subject, quotient, source, ("Mul", "Add") if centring else ("Mul",))
    positions = [*statistics.positions, *divided, *before, *behind]
    last = [p for p in positions if end.name in {t.name for t in subject.nodes[p].known_outputs}]
    if not factors or not all(p in last or subject.is_private(p, positions) for p in positions):
        return
    op = "LayerNormalization" if centring else "RMSNormalization"
    attributes = {"axis": -1, "epsilon": statistics.epsilon}
    version = 17 if centring else 23  # of the operator set that has it
    after = Node(op, f"{end.name}.norm", (source, *factors), (end,), attributes, version=version)
    text = f"{len(positions)} passes over {source.numel:,} elements, in place of one {op}"
    yield Change(tuple(sorted(positions)), text, (after,))


def _centring(subject: Subject, squared: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor whose mean is taken off, and the positions of the operators that do it: () where none is.

    None where the mean of another tensor is taken off.
    """
    centred = subject.maker(squared)
    if centred is None or centred[1].op != "Sub":
        return squared, ()
    mean, source = subject.maker(centred[1].input(1)), centred[1].input(0)
    if mean is None or not _is_mean(subject, mean[1]):
        return squared, ()
    return (source, (mean[0], centred[0])) if mean[1].input(0).name == source.name else None


def _scaling(
    subject: Subject, quotient: Tensor, source: Tensor, ops: Sequence[str]
) -> tuple[list[Tensor], list[int], Tensor]:
    """The stored rows that a quotient is multiplied by and that are added, where this is done, and the last result."""
    factors: list[Tensor] = []
    positions: list[int] = []
    end = quotient
    for op in ops:
        following = subject.only_taker(end)
        if following is None or following[1].op != op:
            break
        other = next((t for t in following[1].known_inputs if t.name != end.name), None)
        if other is None or not subject.stored(other) or other.shape != source.dims[-1:]:
            break
        factors.append(other)
        positions.append(following[0])
        end = following[1].output()
    return factors, positions, end


def _code(change: Change) -> str:
    """The normalisation as a module of PyTorch."""
    node = change.after[0]
    kind = "LayerNorm" if node.op == "LayerNormalization" else "RMSNorm"
    return f"nn.{kind}({node.input(0).dims[-1]}, eps={node.attrs['epsilon']:g})"


RULE = Rule(
    name="normalization",
    about="Use one LayerNormalization or RMSNormalization for the operators that spell it out.",
    exactness="same",
    source="arithmetic, up to rounding; onnxruntime fuses the spellings that it knows at level extended",
    find=find,
    code=_code,
)
