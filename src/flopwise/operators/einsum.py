"""Einsum: an engine multiplies its operands two at a time, and each pair costs what its extents say.

PyTorch and onnxruntime's CPU and CUDA kernels take the operands from left to right; PyTorch takes the order that
opt_einsum finds where that is installed. Both sum an index that nobody else needs before the product
(``aten/src/ATen/native/Linear.cpp``, ``onnxruntime/core/providers/cpu/math/einsum_utils``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.extents import integers, product, required, wider

#: Extents by label.
Extents: TypeAlias = Mapping[str, Dim]


class Factor(NamedTuple):
    """One side of a product: an operand, or what was computed of some."""

    extents: Extents
    #: The places of the operands in it.
    operands: frozenset[int]
    is_operand: bool = True

    @property
    def numel(self) -> int:
        """Elements."""
        return product(self.extents.values())


class Pair(NamedTuple):
    """Two factors that are multiplied."""

    #: They have been summed over each label that one of them alone has and nobody needs.
    factors: tuple[Factor, Factor]
    #: Elements of the factors that were summed.
    summed: int
    #: The extents of all labels of the product.
    extents: Extents
    #: Labels that the product is summed over: both have them.
    contracted: frozenset[str]

    @property
    def terms(self) -> int:
        """The number of pairs of elements that are multiplied."""
        return product(self.extents.values())

    @property
    def result(self) -> Factor:
        """The product of the pair."""
        left, right = self.factors
        extents = {label: dim for label, dim in self.extents.items() if label not in self.contracted}
        return Factor(extents, left.operands | right.operands, is_operand=False)


def einsum(node: Node) -> Counts:
    """for each two operands from left to right, P the product of the extents of all their indices, P mac where an index
    is summed that both have, else P mul; numel add for an operand that is summed beforehand, over an index that nothing
    else has. One operand: numel(X) add where an index is summed, else nothing.

    That is the order of PyTorch and of onnxruntime. ``path`` is the one that PyTorch took from opt_einsum.

    https://onnx.ai/onnx/operators/onnx__Einsum.html
    """
    operands, result_labels = indices(node)
    counts = Counts()
    for pair in pairs(operands, result_labels, order(node)):
        terms = pair.terms
        counts += Counts(mac=terms, add=pair.summed) if pair.contracted else Counts(mul=terms, add=pair.summed)
    if len(operands) == 1 and not operands[0].keys() <= result_labels:
        counts += Counts(add=product(operands[0].values()))
    return counts


def indices(node: Node) -> tuple[list[Extents], frozenset[str]]:
    """The extents of each operand by label, and the labels of the result.

    An operand does not have a label along which it is broadcast. Labels in place of ``...`` are numbered from the last.

    Raises:
        ShapeError: the equation does not fit the operands.
    """
    left, arrow, right = required(node, "equation").replace(" ", "").partition("->")
    terms, tensors = left.split(","), node.known_inputs
    if len(terms) != len(tensors):
        raise ShapeError(f"Einsum {node.name!r}: {left!r} has {len(terms)} terms for {len(tensors)} operands")
    named = [_labels(node, term, tensor) for term, tensor in zip(terms, tensors, strict=True)]
    extents: dict[str, Dim] = {}
    for labels, tensor in zip(named, tensors, strict=True):
        for label, dim in zip(labels, tensor.dims, strict=True):
            extents[label] = wider(extents.get(label, 1), dim)
    operands: list[Extents] = [
        {
            label: extents[label]
            for label, dim in zip(labels, tensor.dims, strict=True)
            if _is_one(extents[label]) or not _is_one(dim)
        }
        for labels, tensor in zip(named, tensors, strict=True)
    ]
    if not arrow:
        right = "..." + "".join(label for label, times in Counter(left).items() if times == 1)
    return operands, frozenset(label for label in extents if (label if len(label) == 1 else "...") in right)


def _labels(node: Node, term: str, tensor: Tensor) -> Sequence[str]:
    """One label per axis; those that ``...`` stands for are numbered from the right, as they broadcast."""
    before, dots, after = term.partition("...")
    hidden = len(tensor.dims) - len(before) - len(after)
    if hidden < 0 or (hidden > 0 and not dots):
        raise ShapeError(f"Einsum {node.name!r}: {term!r} does not fit {tensor.name!r} of shape {tensor.dims}")
    return [*before, *(f"...{i}" for i in range(hidden, 0, -1)), *after]


def _is_one(dim: Dim) -> bool:
    """True where an extent is the number 1; False for an expression."""
    return type(dim) is int and dim == 1


def order(node: Node) -> list[int]:
    """The places of each two factors among those that are left, behind which results go; empty: from left to right.

    Raises:
        ShapeError: there are no such places.
    """
    path = integers(node, "path") if node.attrs.get("path") else []
    number = len(node.known_inputs)
    if path and (len(path) != 2 * (number - 1) or not _takes_two(path, number)):
        raise ShapeError(f"Einsum {node.name!r}: the path {path} does not take {number} operands, two at a time")
    return path


def _takes_two(path: Sequence[int], operands: int) -> bool:
    """True where a path takes two places at each step, of ``operands`` at first."""
    steps = zip(path[::2], path[1::2], range(operands, 1, -1), strict=True)
    return all(one != other and min(one, other) >= 0 and max(one, other) < left for one, other, left in steps)


def pairs(operands: Sequence[Extents], result_labels: Collection[str], path: Sequence[int] = ()) -> Iterator[Pair]:
    """The products of two factors, one after the other.

    Args:
        operands: the extents of each by label.
        result_labels: the labels of the result.
        path: as ``order`` gives it.
    """
    factors = [Factor(extents, frozenset([place])) for place, extents in enumerate(operands)]
    holders = Counter(label for extents in operands for label in extents)
    steps = iter(path)
    while len(factors) > 1:
        one, other = sorted((next(steps), next(steps))) if path else (0, 1)
        right, left = factors.pop(other), factors.pop(one)
        holders.subtract([*left.extents, *right.extents])
        pair = _pair(left, right, lambda label: label in result_labels or holders[label] > 0)
        yield pair
        result = pair.result
        holders.update(result.extents.keys())
        factors.insert(len(factors) if path else 0, result)


def _pair(left: Factor, right: Factor, is_needed: Callable[[str], bool]) -> Pair:
    """Two factors, summed over the labels that nobody else has, and the extents of their product."""
    summed = 0
    factors: list[Factor] = []
    for factor, partner in ((left, right), (right, left)):
        extents = {label: dim for label, dim in factor.extents.items() if label in partner.extents or is_needed(label)}
        if len(extents) < len(factor.extents):
            summed += factor.numel
            factor = Factor(extents, factor.operands, is_operand=False)
        factors.append(factor)
    extents = {**factors[0].extents, **factors[1].extents}
    contracted = frozenset(label for label in extents if not is_needed(label))
    return Pair((factors[0], factors[1]), summed, extents, contracted)
