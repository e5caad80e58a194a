"""The gradient in the row of an operator: a rule, its formula in words, and what the forward pass must keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts, Note, first_paragraph, text, words
from flopwise.operators.late import Late

#: Positions of a node's inputs whose gradient is asked for; never empty when a rule is called.
Wrt: TypeAlias = frozenset[int]

#: What the backward pass of one operator executes, given the gradients of its outputs.
#: Raises ShapeError when a shape it needs is unresolved.
BackwardRule: TypeAlias = Callable[[Node, Wrt], Counts]

#: What the forward pass keeps for it: tensors of the node, or bytes of storage that only the backward pass sees.
Keeps: TypeAlias = Callable[[Node, Wrt], "Iterable[Tensor | int]"]


class Gradient(NamedTuple):
    """The backward pass of an operator. X is input 0, Y output 0, G the gradient of Y."""

    rule: BackwardRule
    keeps: Keeps
    #: The count in words, where nothing is computed the reason; "" when the rule's docstring says it.
    note: Note = ""
    #: Whether it follows from Y as well as from X: then Y is kept where it overwrites X.
    from_result: bool = False
    #: What of the rule's count the forward pass computed already and did not keep; None: nothing.
    again: Callable[[Node], Counts] | None = None

    @property
    def formula(self) -> str:
        """The count in words; where nothing is computed, the reason."""
        return text(self.note) or first_paragraph(self.rule.target() if isinstance(self.rule, Late) else self.rule)


def none(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """No tensor is kept."""
    return ()


def x(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Input 0 is kept."""
    return (node.input(0),)


def y(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Output 0 is kept."""
    return (node.output(),)


def both(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Input 0 and output 0 are kept."""
    return node.input(0), node.output()


def factors(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Of inputs 0 and 1 each is kept for the gradient of the other."""
    return [node.input(1 - i) for i in sorted(wrt & {0, 1})]


def inputs(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """All inputs are kept."""
    return node.known_inputs


def all_of_it(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """All inputs and Y are kept."""
    return (*node.known_inputs, node.output())


def inputs_at(*places: int) -> Keeps:
    """The inputs at some places are kept, those of them that there are."""

    def keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
        return [node.input(i) for i in places if node.has_input(i)]

    keeps.__qualname__ = f"inputs_at{places}"
    return keeps


#: Input 1, the indices, is kept.
indices = inputs_at(1)


def first_two(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Inputs 0 and 1 are kept, both in any case, as PyTorch keeps them for a convolution."""
    return node.known_inputs[:2]


def picks(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """Output 1, the places that were picked, is kept."""
    return [t for t in node.outputs[1:2] if t is not None]


def nothing(reason: str, keeps: Keeps | str = none) -> Gradient:
    """A gradient that is moved, spread or zero, with the reason."""
    return Gradient(_no_counts, _late(keeps), reason)


def _no_counts(node: Node, wrt: Wrt) -> Counts:
    return Counts()


def _late(function: Keeps | str) -> Keeps:
    return Late(f"gradients.{function}") if isinstance(function, str) else function


#: What flat functions have: steps, roundings.
FLAT = nothing("the derivative is 0 almost everywhere")

#: What operators have that move elements.
GOES_BACK = nothing("G goes back to where the elements came from")


def by(rule: BackwardRule | str, keeps: Keeps | str, again: str = "") -> Gradient:
    """A gradient by a rule function, whose docstring is the formula.

    Args:
        rule: the function, or "module:function" of ``operators/gradients``, which is loaded at the first use.
        keeps: what is kept, or where the function is that says so.
        again: where the function is that says what is computed once more; "" where nothing is.
    """
    repeated = Late(f"gradients.{again}") if again else None
    return Gradient(Late(f"gradients.{rule}") if isinstance(rule, str) else rule, _late(keeps), again=repeated)


def each(note: str, keeps: Keeps | str, /, from_result: bool = False, **classes: int) -> Gradient:
    """The gradient of a function of one tensor: the given operations for each element of Y."""
    once = Counts(**classes)
    rule = lambda node, wrt: once * node.output().numel  # noqa: E731 # a function of its own is one more name
    formula = lambda: f"numel(Y) × {words(once)}: {note}"  # noqa: E731
    return Gradient(rule, _late(keeps), formula, from_result)


def reduced(note: str, keeps: Keeps | str, per_element: Counts, per_result: Counts | None = None) -> Gradient:
    """The gradient of a reduction: the given operations for each element of X, and for each of Y."""
    closing = per_result or Counts()

    def rule(node: Node, wrt: Wrt) -> Counts:
        return per_element * node.input(0).numel + closing * node.output().numel

    def formula() -> str:
        terms = [f"numel({of}) × {words(c)}" for of, c in (("X", per_element), ("Y", closing)) if any(c)]
        return f"{' + '.join(terms)}: {note}"

    return Gradient(rule, _late(keeps), formula)


def operands(note: str, keeps: Keeps, *of: Counts, once: Counts | None = None) -> Gradient:
    """The gradient of a function of several broadcast tensors.

    Args:
        note: the derivatives.
        keeps: what is kept.
        of: for each operand, the operations for each element of Y when its gradient is asked for.
        once: operations for each element that the gradients share.
    """
    common = once or Counts()

    def rule(node: Node, wrt: Wrt) -> Counts:
        per = common
        for place in wrt:
            per += of[min(place, len(of) - 1)]
        return per * node.output().numel + summed(node, wrt)

    def formula() -> str:
        parts = ", ".join([words(c) or "nothing" for c in of])
        shared = f"{words(common)} for all; " if any(common) else ""
        return f"numel(Y) × ({shared}for each input in turn {parts}); a broadcast input numel(Y) add: {note}"

    return Gradient(rule, keeps, formula)


def spread(node: Node, position: int) -> bool:
    """True where an input is repeated along an axis to reach the shape of Y."""
    before, after = node.input(position).dims, node.output().dims
    return len(before) != len(after) or any(n != m for n, m in zip(before, after, strict=True))


def summed(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) add for each input that is broadcast: its gradient is the sum over where it was used."""
    return Counts(add=node.output().numel * sum(node.has_input(i) and spread(node, i) for i in wrt))
