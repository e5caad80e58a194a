"""Long chains take time and memory in proportion to their length."""

from __future__ import annotations

from tests.readers.models import model, node, weight

from flopwise.readers.onnx.build.roles import uses
from flopwise.readers.onnx.listing import listed


def test_uses_do_not_pile_up() -> None:
    nodes = []
    for i in range(2000):
        nodes += [node("Identity", f"t{i}", f"t{i + 1}"), node("Relu", f"t{i}", f"r{i}")]
    net = model(nodes, {"x": (1,)}, [weight("t0", 1)], outputs=["t2000"])
    taken = uses(listed(net.graph), ["t0"])
    assert max(map(len, taken.values())) <= 2
