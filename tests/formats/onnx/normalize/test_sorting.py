from __future__ import annotations

import random
import re

import onnx
import pytest
from onnx import helper
from tests.formats.models import conv_net, model, node, shapes, value, weight

from flopwise.api.read import read
from flopwise.errors import ModelError


def order(net: onnx.ModelProto) -> list[str]:
    return [n.name for n in read(net).nodes if not n.within]


def mixed(net: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The model with its nodes in another order."""
    nodes = list(net.graph.node)
    random.Random(seed).shuffle(nodes)
    del net.graph.node[:]
    net.graph.node.extend(nodes)
    return net


def test_the_order_of_the_file_is_kept_where_it_holds() -> None:
    branches = [node("Relu", "x", f"r{i}", f"relu{i}") for i in (3, 1, 2)]
    net = model([*branches, node("Sum", "r1 r2 r3", "y", "sum")], {"x": (1,)})
    assert order(net) == ["relu3", "relu1", "relu2", "sum"]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_in_any_order(seed: int) -> None:
    net = mixed(conv_net(), seed)
    graph = read(net)
    assert [n.name for n in graph.nodes] == ["conv", "bn", "relu", "pool", "flat", "fc"]
    assert shapes(graph)["y"] == (1, 1000)


def test_of_those_that_can_run_the_first_in_the_file_does() -> None:
    net = model(
        [node("Sum", "a b", "y", "sum"), node("Relu", "x", "b", "second"), node("Relu", "x", "a", "third")],
        {"x": (1,)},
        outputs=["y"],
    )
    assert order(net) == ["second", "third", "sum"]


def test_a_body_waits_for_what_it_takes_from_outside() -> None:
    inner = helper.make_graph([node("Relu", "late", "o")], "b", [], [value("o", None)])
    outer = helper.make_graph([node("If", "c", "o", then_branch=inner, else_branch=inner)], "b", [], [value("o", None)])
    net = model(
        [node("If", "c", "y", "if", then_branch=outer, else_branch=outer), node("Relu", "x", "late", "late")],
        {"x": (1,), "c": ()},
        outputs=["y"],
    )
    assert order(net) == ["late", "if"]


BAD = {
    "cycle": (
        [
            node("Relu", "x", "a", "in"),
            node("Add", "a d", "b", "p"),
            node("Relu", "b", "c", "q"),
            node("Relu", "c", "d", "r"),
            node("Relu", "d", "y", "out"),
        ],
        "the graph has a cycle: Add 'p' -> Relu 'q' -> Relu 'r' -> Add 'p'",
    ),
    "own output": ([node("Add", "x y", "y", "self")], "the graph has a cycle: Add 'self' -> Add 'self'"),
    "long cycle": (
        [node("Relu", f"t{i}", f"t{(i + 1) % 50}", f"n{i}") for i in range(50)],
        "Relu 'n0' -> Relu 'n1' -> Relu 'n2' -> Relu 'n3' -> Relu 'n4' -> Relu 'n5' -> 44 more -> Relu 'n0'",
    ),
    "from nowhere": (
        [node("Add", "x ghost", "y", "sum")],
        "Add 'sum' takes 'ghost', which nothing produces",
    ),
    "from nowhere, unnamed": ([node("Add", "x ghost", "y")], "Add 'y' takes 'ghost', which nothing produces"),
    "made twice": (
        [node("Relu", "x", "y", "one"), node("Tanh", "x", "y", "two")],
        "tensor 'y' is produced twice, by Relu 'one' and by Tanh 'two'",
    ),
    "made and stored": (
        [node("Relu", "x", "w", "one"), node("Relu", "w", "y")],
        "tensor 'w' is produced twice, as a stored tensor or input and by Relu 'one'",
    ),
    "made and given": (
        [node("Relu", "w", "x", "one"), node("Relu", "x", "y")],
        "tensor 'x' is produced twice, as a stored tensor or input and by Relu 'one'",
    ),
    "no outputs": ([node("Relu", "x", "z")], "nothing produces the output 'y' of the model"),
}


@pytest.mark.parametrize("case", BAD)
def test_graphs_that_cannot_run(case: str) -> None:
    nodes, told = BAD[case]
    net = model(nodes, {"x": (1,)}, [weight("w", 1)], outputs=["t0" if case == "long cycle" else "y"])
    with pytest.raises(ModelError, match=re.escape(told)):
        read(net)


def test_names_do_not_matter() -> None:
    same = model([node("Relu", "x", "a", "n"), node("Relu", "a", "y", "n")], {"x": (1,)})
    none = model([node("Relu", "x", "a"), node("Relu", "a", "y")], {"x": (1,)})
    assert order(same) == ["n", "n"]
    assert order(none) == ["", ""]


def test_what_is_left_out_is_made_by_nobody() -> None:
    net = model(
        [node("Dropout", "x _ _", "a _"), node("Clip", "a _ _", "b"), node("Dropout", "b", "y _")], {"x": (1,)},
        outputs=["y"],
    )  # fmt: skip
    assert len(read(net).nodes) == 3


def test_a_model_that_passes_its_input_on() -> None:
    net = model([node("Relu", "x", "y")], {"x": (1,)}, [weight("w", 2)], outputs=["x", "w", "y"])
    assert [(t.name, t.kind) for t in read(net).outputs] == [("x", "input"), ("w", "weight"), ("y", "activation")]
