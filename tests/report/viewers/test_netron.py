"""The attachment for Netron: what it holds, and what Netron itself makes of it where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.report.graphs import conv_net, graph, mystery, profiled, tensor, unresolved

import flopwise
from flopwise.graph import Body, Graph, Node, Program, Tensor
from flopwise.profiles.profile import Profile
from flopwise.report.viewers import netron

EXAMPLES = Path(__file__).parents[3] / "examples"


def items(profile: Profile, part: str, kind: str) -> dict[str, dict[str, Any]]:
    """Target -> name -> value, of one kind."""
    content = json.loads(netron.render(profile))
    assert list(content) == ["signature", "metadata", "metrics"]
    assert content["signature"] == "netron:attachment"
    found: dict[str, dict[str, Any]] = {}
    for item in content[part]:
        assert set(item) == {"kind", "target", "name", "value"}
        if item["kind"] == kind:
            told = found.setdefault(item["target"], {})
            assert item["name"] not in told
            told[item["name"]] = item["value"]
    return found


def test_model_and_graph() -> None:
    profile = mystery()
    for kind in ("model", "graph"):
        metrics = items(profile, "metrics", kind)
        assert metrics[""] == metrics["convnet"]
        assert metrics[""]["convention"] == "flops, unit FLOP"
        assert metrics[""]["input shapes"] == "image float32 1x3x8x8"
        assert metrics[""]["FLOPs"] == f">= {profile.total('flops'):,}"
        assert metrics[""]["params"] == profile.total("params")
        assert items(profile, "metadata", kind)[""]["note 1"].startswith("unknown: acme::Mystery")


def test_layers() -> None:
    profile = mystery("benanza")
    metrics = items(profile, "metrics", "node")
    assert list(metrics) == [row.name for row in profile.rows]
    assert metrics["conv1"] == {
        "FLOPs (benanza)": profile.rows[0].count,
        "MACs": profile.rows[0].macs,
        "FLOPs": profile.rows[0].flops,
        "params": 112,
        "buffers": 0,
        "weight bytes": 448,
        "activations": 256,
        "output bytes": 1024,
    }
    assert metrics["pool1"]["MACs"] == metrics["pool1"]["FLOPs (benanza)"] == "?"
    assert items(mystery(), "metadata", "node") == {"pool1": {"flopwise": "no rule"}}
    assert "FLOPs (flops)" not in items(mystery(), "metrics", "node")["conv1"]


def test_values() -> None:
    shapes, sizes = items(mystery(), "metadata", "value"), items(mystery(), "metrics", "value")
    assert shapes["image"] == {"shape": "1x3x8x8", "type": "float32"}
    assert sizes["image"] == {"elements": 192, "bytes": 768}
    assert "w" in shapes
    for other in (replace(conv_net(), program=Program()), replace(conv_net(), caffe=True)):
        assert "w" not in items(profiled(other), "metadata", "value")  # Netron has other names for stored tensors there
    lost = profiled(unresolved())
    assert items(lost, "metadata", "value")["h"]["shape"] == "?"
    assert items(lost, "metrics", "value")["h"] == {"elements": "?", "bytes": "?"}


def chain(*names: str, values: tuple[str, ...] = ()) -> Graph:
    """Layers of these names, one after the other, and the names of what they give."""
    top = x = tensor("x", (1, 4), "input")
    nodes = []
    for i, name in enumerate(names):
        below, top = top, tensor(values[i] if values else f"t{i}", (1, 4))
        nodes.append(Node("Relu", name, (below,), (top,)))
    return graph(nodes, [x], [top], "chain")


def test_layers_that_netron_cannot_tell_apart() -> None:
    profile = profiled(chain("twin", "twin", "", "first\nsecond", "alone"))
    assert list(items(profile, "metrics", "node")) == ["first", "alone"]
    sizes = items(profile, "metrics", "value")
    assert all(sizes[value]["Relu FLOPs"] == 4 for value in ("t0", "t1", "t2"))
    assert "Relu FLOPs" not in sizes["t4"]


def test_values_that_netron_cannot_tell_apart() -> None:
    same, other = tensor("blob\n2", (1, 4)), tensor("x\n2", (1, 5))
    nodes = [
        Node("Relu", "a", (tensor("x", (1, 4), "input"),), (tensor("blob", (1, 4)),)),
        Node("Relu", "b", (tensor("blob", (1, 4)),), (same,)),
        Node("acme::Grow", "c", (same,), (other,)),
    ]
    profile = profiled(graph(nodes, [tensor("x", (1, 4), "input")], [other], "net"))
    shapes = items(profile, "metadata", "value")
    assert shapes["blob"]["shape"] == "1x4"
    assert "x" not in shapes


@pytest.mark.parametrize("mark", ["@relu", "'2"])
def test_caffe_layers_that_work_in_place(mark: str) -> None:
    inputs, first = tensor("data", (1, 4), "input"), tensor("fc@1", (1, 4))
    second, last = tensor(f"fc@1{mark}", (1, 4)), tensor(f"fc@1{mark}more", (1, 4))
    flat = tensor(last.name, (4, 1))  # as the next layer sees it
    nodes = [
        Node("Relu", "fc", (inputs,), (first,)),
        Node("Relu", "relu", (first,), (second,)),
        Node("Relu", "drop", (second,), (last,)),
        Node("Relu", "out", (flat,), (tensor("out", (4, 1)),)),
    ]
    profile = profiled(Graph("net", "caffe", "", (inputs,), (), tuple(nodes), caffe=True))
    shapes = {name: told["shape"] for name, told in items(profile, "metadata", "value").items()}
    assert shapes == {"data": "1x4", "fc@1": "1x4", "out": "4x1"}


def test_numbers_that_javascript_would_round() -> None:
    profile = mystery()
    large = replace(profile, rows=(replace(profile.rows[0], params=2**60), *profile.rows[1:]))
    assert items(large, "metrics", "node")["conv1"]["params"] == f"{2**60:,}"


def test_bodies_of_control_flow() -> None:
    x, y = tensor("x", (1, 4), "input"), tensor("y", (1, 4))
    inner = Tensor("loop/body/h", (1, 4), "float32")
    nodes = [
        Node("Loop", "loop", (x,), (y,)),
        Node("Relu", "act", (x,), (inner,), within=(Body(0, "body", 3),)),
    ]
    profile = profiled(Graph("net", "onnx", "", (x,), (y,), tuple(nodes)))
    assert items(profile, "metadata", "node")["act"] == {"runs in one inference": 3}
    assert items(profile, "metrics", "node")["act"]["FLOPs"] == 12
    assert "h" in items(profile, "metadata", "value")


def test_folded_operators_say_so() -> None:
    w, v = tensor("w", (4, 4), "weight"), tensor("v", (4, 4))
    x, y = tensor("x", (1, 4), "input"), tensor("y", (1, 4))
    nodes = [Node("Transpose", "turned", (w,), (v,)), Node("MatMul", "product", (x, v), (y,))]
    profile = profiled(graph(nodes, [x], [y], "net"))
    assert list(items(profile, "metrics", "node")) == ["product"]
    remark = "not counted: it runs only once, or the convention leaves it out"
    assert items(profile, "metadata", "node") == {"turned": {"flopwise": remark}}


def panels(model: Path, profile: Profile, folder: Path) -> Any:
    """What Netron itself shows of a model with the attachment of a profile."""
    package = pytest.importorskip("netron", reason="needs Netron")
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    attachment = folder / "attachment.json"
    attachment.write_text(netron.render(profile))
    script = Path(__file__).with_name("netron_panels.mjs")
    command = [node, str(script), str(Path(package.__file__).parent), str(model), str(attachment)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_netron_shows_an_onnx_model(tmp_path: Path) -> None:
    model = EXAMPLES / "tiny_resnet.onnx"
    profile = flopwise.profile(model)
    shown = panels(model, profile, tmp_path)
    assert shown["attached"]
    assert shown["model"]["MACs"] == shown["graph"]["MACs"] == profile.total("macs")
    assert shown["model"]["convention"] == "flops, unit FLOP"
    assert list(shown["nodes"]) == [row.name for row in profile.rows]
    assert [told["MACs"] for told in shown["nodes"].values()] == [row.macs for row in profile.rows]
    assert all({"shape", "type", "elements", "bytes"} <= told.keys() for told in shown["values"].values())


def test_netron_shows_a_caffe_model(tmp_path: Path) -> None:
    model = EXAMPLES / "alexnet.prototxt"
    profile = flopwise.profile(model)
    shown = panels(model, profile, tmp_path)
    assert shown["attached"]
    assert shown["model"]["MACs"] == profile.total("macs")
    macs = {name: told["MACs"] for name, told in shown["nodes"].items()}
    assert macs == {row.name: row.macs for row in profile.rows}
    assert all("shape" in told for told in shown["values"].values())


def test_strings_have_elements_and_no_bytes() -> None:
    words = Tensor("words", (2, 3), "string", "input")
    profile = flopwise.profile(Graph("g", "hand", "", (words,), (words,), ()))
    assert items(profile, "metrics", "value")["words"] == {"elements": 6, "bytes": "?"}
