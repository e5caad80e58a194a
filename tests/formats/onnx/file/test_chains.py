"""Long chains take time and memory in proportion to their length."""

from __future__ import annotations

from flopwise.formats.kit.program import Node, Operation
from flopwise.formats.kit.stored import uses


def test_uses_do_not_pile_up() -> None:
    nodes = []
    for i in range(2000):
        nodes.append(Node(Operation("Identity"), "", (f"t{i}",), (f"t{i + 1}",)))
        nodes.append(Node(Operation("Relu"), "", (f"t{i}",), (f"r{i}",)))
    taken = uses(nodes, ["t0"], {node.operation for node in nodes})
    assert max(map(len, taken.values())) <= 2
