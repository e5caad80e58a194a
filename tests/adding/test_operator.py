"""The sections about operators of ``adding.md``, carried out: a row in a table, and rows of the user's own."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tests.adding.page import blocks, built, check_commands

import flopwise

TITLE = "An operator"
OWN = "Your own operator, without touching flopwise"


def test_the_section_works(tmp_path: Path) -> None:
    check_commands(TITLE, built(TITLE, tmp_path))


def model() -> onnx.ModelProto:
    """y = MyOp(MatMul(x, w), v): nobody else knows the shape of MyOp's result, nor what v is."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MyOp", ["h", "v"], ["m"], domain="acme"),
        helper.make_node("MatMul", ["m", "u"], ["y"]),
    ]
    stored = [
        helper.make_tensor(name, TensorProto.FLOAT, dims, [0.5] * (dims[0] * dims[-1]))
        for name, dims in (("w", (4, 4)), ("v", (4, 4)), ("u", (4, 4)))
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")], stored)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_the_examples_of_ones_own_operator_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "model.onnx")
    names: dict[str, object] = {}
    for block in blocks(OWN):
        exec(block.text, names)
    row = names["row"]
    assert isinstance(row, flopwise.Operator)
    known = flopwise.profile("model.onnx", rules={"acme::MyOp": row}, train=True)
    assert known.exact
    assert known.training is not None
    assert known.training.exact
    assert [r.macs for r in known.rows] == [64, 0, 64]
    middle = known.rows[1]
    assert middle.counts == flopwise.Counts(mul=16, add=16)
    assert middle.backward_counts == flopwise.Counts(mul=32, add=32)
    assert known.graph.nodes[1].output().shape == (4, 4)
    bare = flopwise.profile("model.onnx", rules={"acme::MyOp": row.rule})
    assert not bare.exact, "the shape behind it is open"
    assert not flopwise.profile("model.onnx").exact, "nothing lasts"
    Path("rules.py").write_text(
        "from flopwise import Counts, Operator\nfrom flopwise.operators import shape\n"
        "RULES = {'acme::MyOp': Operator(lambda node: Counts(mul=node.output().numel), shape=shape.alike)}\n"
    )
    from flopwise.cli import main

    assert main(["profile", "model.onnx", "--rules", "rules.py", "--strict"]) == 0
    assert main(["profile", "model.onnx", "--strict"]) != 0
