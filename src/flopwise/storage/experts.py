"""Mixtures of experts: the stacks of matrices of which each token takes a few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators.tables import row

if TYPE_CHECKING:  # loaded at every start, used for few models
    from fractions import Fraction

#: The product of groups of rows with one matrix of a stack for each group.
GROUPED = "aten::_grouped_mm"


class Experts(NamedTuple):
    """A stack of expert matrices that one operator multiplies with."""

    layer: str
    #: Matrices in the stack, and rows of tokens that are routed to them all together.
    matrices: int
    rows: int

    @property
    def touched(self) -> int:
        """Experts that get a row, at most."""
        return min(self.matrices, self.rows)

    def expected(self, tokens: int) -> Fraction:
        """Experts that get a row on average, if every token chose its experts uniformly and without repetition.

        That is E (1 - (1 - k/E)**T); where T k/E is over 100, less than e**-100 of them get none.
        """
        from fractions import Fraction

        per_token = Fraction(self.rows, max(tokens, 1))
        if per_token >= self.matrices or self.rows > 100 * self.matrices:
            return Fraction(self.matrices)
        return self.matrices * (1 - (1 - per_token / self.matrices) ** tokens)

    def active(self, tokens: int) -> Fraction:
        """The part of the stack that one token is multiplied with."""
        from fractions import Fraction

        return min(Fraction(1), Fraction(self.rows, max(tokens, 1) * self.matrices))

    def hold(self, tensor: Tensor) -> bool:
        """True where a stored tensor is divided among the experts."""
        return self.matrices in tensor.dims


def experts_of(layer: str, node: Node) -> Experts | None:
    """The stack of experts that an operator multiplies with; None for any other operator."""
    if node.op != GROUPED or not (node.has_input(0) and node.has_input(1)):
        return None
    rows, stack = node.input(0).shape, node.input(1).shape
    if rows is None or stack is None or len(stack) != 3:
        return None
    return Experts(layer, int(stack[0]), int(rows[0]))


def picked_for(node: Node, tensor: Tensor, stacks: Mapping[str, Experts]) -> Experts | None:
    """The stack of experts for whose rows a node picks from a table with an entry for each expert, such as biases.

    Args:
        node: the operator.
        tensor: the table.
        stacks: the stacks of experts by the module that multiplies with them.
    """
    stack = stacks.get(node.module)
    if stack is None or not (tensor.dims and tensor.dims[0] == stack.matrices):
        return None
    picked = node.has_input(0) and node.input(0).name == tensor.name and node.has_input(1)
    return stack if picked and node.outputs[0] is not None and node.output().dims[:1] == (stack.rows,) else None


def routing(graph: Graph) -> frozenset[int]:
    """Positions of the nodes that sort or select scores to route tokens to experts.

    Their work does not depend on the data: every score takes part in the same comparisons (see ``TopK``), and as many
    are selected whatever they are. A result counts as routing where it reaches the product of a stack of experts
    without another product in between.
    """
    selecting = [place for place, node in enumerate(graph.nodes) if node.op == "TopK"]
    routes: set[int] = set()
    reaching: set[str] = set()
    for place in range(len(graph.nodes) - 1, selecting[0] - 1 if selecting else len(graph.nodes) - 1, -1):
        node = graph.nodes[place]
        product = row(node.op).inputs.has_factors or node.op == GROUPED
        if _of_experts(node) if product else any(t.name in reaching for t in node.known_outputs):
            reaching.update(t.name for t in node.known_inputs)
            if node.op == "TopK":
                routes.add(place)
    return frozenset(routes)


def _of_experts(node: Node) -> bool:
    """True where a product is one with a stack of stored matrices."""
    stacks = [t for t in node.known_inputs if t.kind in STORED and t.shape is not None and len(t.shape) == 3]
    return node.op == GROUPED or (node.op == "MatMul" and bool(stacks))
