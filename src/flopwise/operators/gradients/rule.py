"""The shape of a row in the tables of gradients: a rule, its formula in words, and what the forward pass must keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.operator import words

#: Positions of a node's inputs whose gradient is asked for; never empty when a rule is called.
Wanted: TypeAlias = frozenset[int]

#: What the backward pass of one operator executes, given the gradients of its outputs.
#: Raises ShapeError when a shape it needs is unresolved.
BackwardRule: TypeAlias = Callable[[Node, Wanted], Counts]

#: What the forward pass keeps for it: tensors of the node, or bytes of storage that only the backward pass sees.
Keeps: TypeAlias = Callable[[Node, Wanted], "Iterable[Tensor | int]"]


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """One row of a table of gradients. X is input 0, Y output 0, G the gradient of Y."""

    rule: BackwardRule
    #: The count in words; where nothing is computed, the reason.
    formula: str
    keeps: Keeps


def none(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """Nothing is kept."""
    return ()


def x(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """Input 0 is kept."""
    return (node.input(0),)


def y(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """Output 0 is kept."""
    return (node.output(),)


def both(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """Input 0 and output 0 are kept."""
    return node.input(0), node.output()


def factors(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """Of inputs 0 and 1 each is kept for the gradient of the other."""
    return [node.input(1 - i) for i in sorted(wanted & {0, 1})]


def nothing(reason: str, keeps: Keeps = none) -> Backward:
    """A row for an operator whose gradient is moved, spread or zero, with the reason."""
    return Backward(lambda node, wanted: Counts(), reason, keeps)


def by(rule: BackwardRule, keeps: Keeps) -> Backward:
    """A row for a rule function; the first paragraph of its docstring is the formula."""
    first = (rule.__doc__ or "").strip().split("\n\n")[0]
    return Backward(rule, " ".join(first.split()), keeps)


def each(note: str, keeps: Keeps, /, **classes: int) -> Backward:
    """A row for a function of one tensor: the given operations for each element of Y."""
    once = Counts(**classes)
    return Backward(lambda node, wanted: once * node.output().numel, f"numel(Y) × {words(once)}: {note}", keeps)


def spread(node: Node, position: int) -> bool:
    """Whether an input is repeated along an axis to reach the shape of Y."""
    before, after = node.input(position).dims, node.output().dims
    return len(before) != len(after) or any(n != m for n, m in zip(before, after, strict=True))


def summed(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) add for each input that is broadcast: its gradient is the sum over where it was used."""
    return Counts(add=node.output().numel * sum(node.has_input(i) and spread(node, i) for i in wanted))
