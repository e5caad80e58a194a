"""Layer normalisation as operators of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, argument
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import is_float


class _Statistics(NamedTuple):
    """Divisors of a normalisation: mean squares of a tensor, with an epsilon."""

    squared: Tensor
    epsilon: float
    positions: tuple[int, ...]


def find(subject: Subject) -> Iterator[Change]:
    """(x - mean) / sqrt(mean((x - mean)²) + ε) along the last axis, with weight and bias behind it; or without mean."""
    for position, node in subject.live("Sqrt", "aten::rsqrt"):
        statistics = _statistics(subject, node)
        taker = subject.only_taker(node.output())
        if statistics is None or taker is None:
            continue
        divided = _divided(subject, statistics.squared, node, taker)
        if divided is None:
            continue
        quotient, more = divided
        yield from _changes(subject, statistics, quotient, (position, *more))


def _statistics(subject: Subject, root: Node) -> _Statistics | None:
    """Tensor below a square root: the mean of squares over the last axis, and an epsilon."""
    added = subject.maker(root.input(0))
    if added is None or added[1].op != "Add" or argument(added[1], "alpha", 1) != 1:
        return None
    for one in added[1].known_inputs:
        epsilon, mean = _other_number(subject, added[1], one), subject.maker(one)
        if epsilon is None or mean is None or not _is_mean(subject, mean[1]):
            continue
        square = subject.maker(mean[1].input(0))
        if square is None:
            return None
        if _squares(subject, square[1]):
            return _Statistics(square[1].input(0), epsilon, (square[0], mean[0], added[0]))
    return None


def _other_number(subject: Subject, node: Node, tensor: Tensor) -> float | None:
    """The number that an operator of two factors takes beside a tensor; None where it takes another tensor."""
    others = [t for t in node.known_inputs if t.name != tensor.name]
    if others:
        elements = subject.setting(others[0])
        return elements[0] if elements is not None and len(elements) == 1 else None
    numbers = [argument(node, key) for key in ("input", "other")]
    return next((float(n) for n in numbers if isinstance(n, int | float)), None)


def _squares(subject: Subject, node: Node) -> bool:
    """True for x², x·x and a power of 2."""
    twice = node.op == "Mul" and node.has_input(1) and node.input(0).name == node.input(1).name
    power = node.op == "Pow" and node.has_input(1) and subject.setting(node.input(1)) == [2.0]
    return twice or power or node.op == "aten::square"


def _is_mean(subject: Subject, node: Node) -> bool:
    """True for the mean over the last axis, which is kept."""
    if node.op != "ReduceMean" or len(node.output().dims) != len(node.input(0).dims):
        return False
    rank = len(node.input(0).dims)
    axes = node.attrs.get("axes") or (subject.setting(node.input(1)) if node.has_input(1) else None)
    if axes is None:
        dim = argument(node, "dim", argument(node, "arg1"))
        axes = [dim] if isinstance(dim, int) else dim
    return isinstance(axes, Sequence) and [int(axis) % rank for axis in axes] == [rank - 1]


def _divided(
    subject: Subject, tensor: Tensor, root: Node, taker: tuple[int, Node]
) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor divided by its root, and the positions of the operators that do it."""
    position, node = taker
    names = [t.name for t in node.known_inputs]
    if root.op == "aten::rsqrt":
        return (node.output(), (position,)) if node.op == "Mul" and tensor.name in names else None
    if node.op == "Div" and names == [tensor.name, root.output().name]:
        return node.output(), (position,)
    by_one = subject.setting(node.input(0)) == [1.0] or argument(node, "input") == 1.0
    one = node.op == "Reciprocal" or (node.op == "Div" and by_one)
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
    source, quotient, casts = _narrowed(subject, source, quotient)
    factors, behind, end = _scaling(subject, quotient, source, ("Mul", "Add") if centring else ("Mul",))
    positions = [*statistics.positions, *divided, *before, *casts, *behind]
    last = [p for p in positions if end.name in {t.name for t in subject.nodes[p].known_outputs}]
    if not factors or not all(p in last or subject.is_private(p, positions) for p in positions):
        return
    op = "LayerNormalization" if centring else "RMSNormalization"
    if (
        subject.of_program and not centring and subject.processor == "cpu"
    ):  # where PyTorch takes as many passes by itself
        return
    attributes = {"axis": -1, "epsilon": statistics.epsilon}
    version = 17 if centring else 23  # of the operator set that has it
    after = Node(op, f"{end.name}.norm", (source, *factors), (end,), attributes, version=version)
    text = f"{len(positions)} passes over {source.numel:,} elements, in place of one {op}"
    text += " on a GPU" if subject.of_program and not centring and subject.processor is None else ""
    yield Change(tuple(sorted(positions)), text, (after,))


def _centring(subject: Subject, squared: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """The tensor whose mean is taken off, and the positions of the operators that do it: () where none is.

    None where the mean of another tensor is taken off.
    """
    centred = subject.maker(squared)
    if centred is None or centred[1].op != "Sub" or not centred[1].has_input(1):
        return squared, ()
    mean, source = subject.maker(centred[1].input(1)), centred[1].input(0)
    if mean is None or not _is_mean(subject, mean[1]):
        return squared, ()
    return (source, (mean[0], centred[0])) if mean[1].input(0).name == source.name else None


def _narrowed(subject: Subject, source: Tensor, quotient: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """The tensor before it was widened, the quotient after it is narrowed again, and the positions of both Casts.

    As they are, with (), where they are not widened.
    """
    wider, narrower = subject.maker(source), subject.only_taker(quotient)
    if wider is None or narrower is None or wider[1].op != "Cast" or narrower[1].op != "Cast":
        return source, quotient, ()
    before, after = wider[1].input(0), narrower[1].output()
    if before.dtype != after.dtype or not is_float(before.dtype):
        return source, quotient, ()
    return before, after, (wider[0], narrower[0])


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
    source="arithmetic, up to rounding; onnxruntime fuses the spellings that it knows at level extended; of PyTorch "
    "2.13's own, LayerNorm is one kernel, RMSNorm on GPUs alone",
    find=find,
    code=_code,
)
