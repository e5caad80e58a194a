"""The section "A rule of advice" of ``adding.md``, carried out: a rule in the table, and one that is given."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto
from tests.adding.page import blocks, built, check_commands
from tests.analyses.advice.planted import Network

from flopwise.cli import main

TITLE = "A rule of advice"


def test_the_section_works(tmp_path: Path) -> None:
    check_commands(TITLE, built(TITLE, tmp_path))


def test_the_rule_is_given_as_a_file(tmp_path: Path) -> None:
    rule, model, leaner = (tmp_path / name for name in ("double_relu.py", "model.onnx", "leaner.onnx"))
    rule.write_text(blocks(TITLE)[0].text, "utf-8")
    net = Network(inputs={"x": (TensorProto.FLOAT, (4, 8))})
    net.add("Relu", "x", "a")
    net.add("Relu", "a", "b")
    net.add("Exp", "b", "y")
    onnx.save(net.model(), model)
    assert main(["advise", str(model), "--rule", str(rule), "-o", str(leaner)]) == 0
    assert [node.op_type for node in onnx.load(leaner).graph.node] == ["Relu", "Exp"]
