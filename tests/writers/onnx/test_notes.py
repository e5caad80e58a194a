"""What operators cost, noted on them."""

from __future__ import annotations

from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import conv_net, ints, model, node, value, weight
from tests.writers.onnx.writing import notes, write

import flopwise

EXAMPLES = Path(__file__).parents[3] / "examples"

KEYS = ["flopwise.params", "flopwise.macs", "flopwise.flops", "flopwise.bytes"]


def test_figures_by_hand(tmp_path: Path) -> None:
    conv = notes(write(conv_net(), tmp_path, annotate=True).graph.node[0])
    macs = 64 * 32 * 32 * 3 * 3 * 3
    assert conv == {
        "flopwise.params": str(64 * 27 + 64),
        "flopwise.macs": str(macs),
        "flopwise.flops": str(2 * macs + 64 * 32 * 32),
        "flopwise.bytes": str(4 * (64 * 27 + 64 + 64 * 32 * 32)),
    }


@pytest.mark.parametrize("name", ["tiny_resnet", "transformer_block"])
def test_they_add_up(tmp_path: Path, name: str) -> None:
    inputs = {"hidden_states": (2, 7, 40)} if name == "transformer_block" else None
    path = EXAMPLES / f"{name}.onnx"
    net = write(path, tmp_path, inputs, annotate=True)
    profile = flopwise.profile(path, inputs)
    for key in KEYS[:3]:
        total = sum(int(found[key]) for n in net.graph.node if key in (found := notes(n)))
        assert total == profile.total(key.removeprefix("flopwise."))
    assert sum(bool(notes(n)) for n in net.graph.node) == len(profile.rows)


def test_other_metadata_stays_and_ours_is_replaced(tmp_path: Path) -> None:
    net = conv_net()
    net.graph.node[0].metadata_props.add(key="namespace", value="stem")
    first = write(net, tmp_path, annotate=True)
    again = write(first, tmp_path, batch_size=2, annotate=True)
    assert list(notes(again.graph.node[0])) == ["namespace", *KEYS]
    assert len(again.graph.node[0].metadata_props) == 5
    once, twice = (int(notes(m.graph.node[0])["flopwise.macs"]) for m in (first, again))
    assert twice == 2 * once
    assert again.ir_version == net.ir_version


def test_unknown_is_never_zero(tmp_path: Path) -> None:
    net = model(
        [node("Mystery", "x", "a", domain="acme"), node("Relu", "a", "y")],
        {"x": (2, 3)},
        domains={"acme": 1},
    )
    written = write(net, tmp_path, annotate=True, check=False).graph
    assert notes(written.node[0]) == {
        "flopwise.params": "0",
        "flopwise.macs": "unknown (no rule)",
        "flopwise.flops": "unknown (no rule)",
        "flopwise.bytes": "unknown (a shape is missing)",
    }
    assert notes(written.node[1])["flopwise.macs"].startswith("unknown (the shape of")
    rules = {"acme::Mystery": lambda node: flopwise.Counts(mac=6)}
    known = write(net, tmp_path, annotate=True, check=False, rules=rules).graph
    assert notes(known.node[0])["flopwise.macs"] == "6"


def test_what_runs_once_has_no_note(tmp_path: Path) -> None:
    net = model(
        [node("Transpose", "w", "t"), node("Shape", "x", "s"), node("MatMul", "x t", "h"), node("Reshape", "h s", "y")],
        {"x": (4, 4)},
        [weight("w", 4, 4)],
    )
    written = write(net, tmp_path, annotate=True).graph
    assert [bool(notes(n)) for n in written.node] == [False, False, True, True]
    assert notes(written.node[2])["flopwise.params"] == "16"


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_function("acme", name, ["a", "b"], ["c", "d"], list(nodes), opsets)


def test_a_call_costs_what_its_function_does(tmp_path: Path) -> None:
    """Functions in functions, outputs that are left out, and the same function twice in a row."""
    inner = function("Inner", node("MatMul", "a b", "t"), node("Relu", "t", "c"), node("Exp", "t", "d"))
    outer = function("Outer", node("Inner", "a b", "u d", domain="acme"), node("Add", "u a", "c"))
    net = model(
        [
            node("Outer", "x x", "p _", "one", domain="acme"),
            node("Outer", "p x", "q r", "two", domain="acme"),
            node("Relu", "q", "y", "three"),
        ],
        {"x": (4, 4)},
        functions=[inner, outer],
        domains={"acme": 1},
    )
    written = write(net, tmp_path, annotate=True)
    found = [notes(n) for n in written.graph.node]
    assert [f["flopwise.macs"] for f in found] == ["64", "64", "0"]
    assert [f["flopwise.flops"] for f in found] == [str(2 * 64 + 3 * 16)] * 2 + ["16"]
    assert sum(int(f["flopwise.flops"]) for f in found) == flopwise.profile(net).total("flops")
    assert not any(notes(n) for f in written.functions for n in f.node)


def test_operators_of_no_certain_call_are_told(tmp_path: Path) -> None:
    lost = function("Lost", node("Relu", "a", "c"), node("Exp", "b", "unused"), node("Neg", "b", "d"))
    net = model([node("Lost", "x x", "y z", domain="acme")], {"x": (4,)}, functions=[lost], domains={"acme": 1})
    written = flopwise.write_shapes(net, tmp_path / "m.onnx", annotate=True)
    assert written.unannotated == 1
    assert written.messages == ("unannotated: 1 operator in a function is shared by several calls",)


def test_control_flow_costs_what_is_in_it(tmp_path: Path) -> None:
    body = helper.make_graph(
        [node("Identity", "go", "goes"), node("MatMul", "state w", "h"), node("Relu", "h", "out")],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("state", (4, 4))],
        [value("goes", (), TensorProto.BOOL), value("out", (4, 4))],
    )
    trips = ints("trips", 5)
    trips.ClearField("dims")
    net = model([node("Loop", "trips _ x", "y", "loop", body=body)], {"x": (4, 4)}, [trips, weight("w", 4, 4)])
    loop = write(net, tmp_path, annotate=True).graph.node[0]
    inside = [notes(n) for n in loop.attribute[0].g.node]
    assert [f.get("flopwise.macs") for f in inside] == ["0", str(5 * 64), "0"]
    assert notes(loop)["flopwise.macs"] == str(5 * 64)
    assert notes(loop)["flopwise.params"] == "16"


def test_a_branch_that_does_not_count_has_no_note(tmp_path: Path) -> None:
    dear = helper.make_graph([node("MatMul", "x x", "t")], "then", [], [value("t", (4, 4))])
    cheap = helper.make_graph([node("Neg", "x", "f")], "else", [], [value("f", (4, 4))])
    net = model([node("If", "c", "y", "if", then_branch=dear, else_branch=cheap)], {})
    net.graph.input.extend([value("c", (), TensorProto.BOOL), value("x", (4, 4))])
    fork = write(net, tmp_path, annotate=True).graph.node[0]
    inside = {a.name: notes(a.g.node[0]) for a in fork.attribute}
    assert inside["then_branch"]["flopwise.macs"] == "64"
    assert inside["else_branch"] == {}
    assert notes(fork)["flopwise.macs"] == "64"


def test_onnxruntime_takes_it(tmp_path: Path) -> None:
    """Metadata of operators came with IR version 10; older readers skip it, so the version stays."""
    runtime = pytest.importorskip("onnxruntime")
    net = model([node("MatMul", "x w", "h"), node("Relu", "h", "y")], {"x": (4, 4)}, [weight("w", 4, 4)])
    assert net.ir_version < 10
    feeds = {"x": numpy.ones((4, 4), numpy.float32)}
    (before,) = runtime.InferenceSession(net.SerializeToString()).run(None, feeds)
    write(net, tmp_path, annotate=True)
    (after,) = runtime.InferenceSession(str(tmp_path / "written.onnx")).run(None, feeds)
    assert numpy.array_equal(before, after)
