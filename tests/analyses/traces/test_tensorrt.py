"""Profiles of TensorRT's engines: those that others recorded, and a small one by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.analyses.traces.nets import Net, cnn, residual
from tests.torch_golden import MACS

from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.format import format_of
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.tensorrt import read
from flopwise.analyses.traces.trace import Recording
from flopwise.api.profile import profile
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile

RECORDED = Path(__file__).parents[4] / "shared" / "traces"
recorded = pytest.mark.skipif(not RECORDED.exists(), reason="the recorded traces of others are not here")


def recording(trace: Path, layers: Path | None, counted: Profile | None = None) -> Recording:
    with Scan(trace) as scan:
        assert format_of(scan).name == "tensorrt"
        if layers is None:
            return read(scan, counted)
        with Scan(layers) as beside:
            return read(scan, counted, [beside])


def resnet18(batch: int = 32) -> onnx.ModelProto:
    """ResNet-18 with its norms folded, its nodes named by operator and position as in 2022."""
    net = Net(x=(batch, 3, 224, 224))

    def conv(x: str, into: int, out: int, kernel: int = 3, stride: int = 1) -> str:
        return net.conv(x, into, out, kernel, strides=[stride, stride])

    x = net.add("Relu", conv("x", 3, 64, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    into = 64
    for out in (64, 64, 128, 128, 256, 256, 512, 512):
        stride = out // into
        y = conv(net.add("Relu", conv(x, into, out, 3, stride)), out, out)
        x = net.add("Relu", net.add("Add", y, conv(x, into, out, 1, stride) if stride > 1 else x))
        into = out
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    model = net.model(net.add("Gemm", x, net.weight(1000, 512), net.weight(1000), transB=1))
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
    return model


@recorded
@pytest.mark.parametrize(
    ("name", "macs"),
    [
        ("mobilenet_qat", MACS["mobilenet_v2"]),
        ("resnet_a100_fp16", 32 * MACS["resnet18"]),
        ("resnet_a100_fp32", 32 * MACS["resnet18"]),
    ],
)
def test_the_layers_of_others_engines_multiply_as_often_as_the_network(name: str, macs: int) -> None:
    trace, layers = RECORDED / f"tensorrt_{name}.profile.json", RECORDED / f"tensorrt_{name}.graph.json"
    found = recording(trace, layers)
    assert sum(layer.macs or 0 for layer in found.layers) == macs
    entries = json.loads(trace.read_text())[1:]
    result = trace_of(found, "", "tensorrt")
    assert [row.name for row in result.rows] == [entry["name"] for entry in entries]
    assert result.rows_ns == result.covered_ns
    assert result.rows_ns == pytest.approx(1e6 * sum(entry["averageMs"] for entry in entries), abs=len(entries))


@recorded
@pytest.mark.parametrize("name", ["resnet_a100_fp16", "resnet_a100_fp32"])
@pytest.mark.parametrize("beside", [True, False])
def test_every_layer_of_a_resnet_is_a_row_or_layout(name: str, beside: bool) -> None:
    trace, layers = RECORDED / f"tensorrt_{name}.profile.json", RECORDED / f"tensorrt_{name}.graph.json"
    found = recording(trace, layers if beside else None, profile(resnet18()))
    result = trace_of(found, "resnet18", "tensorrt")
    assert result.remainder.keys() <= {"layout"}
    assert result.matched.product_time_share == (1.0 if beside else None)
    assert [row.name for row in result.rows if row.status == "absent"] == []
    assert ("Conv_5", "Add_6", "Relu_7") in [segment.layers for segment in result.segments]


@recorded
def test_other_models_and_batches_are_refused() -> None:
    trace, layers = (RECORDED / f"tensorrt_resnet_a100_fp16.{kind}.json" for kind in ("profile", "graph"))
    with pytest.raises(ModelError, match="the trace's batch is 32, the model's 1: -b 32"):
        recording(trace, layers, profile(resnet18(1)))
    with pytest.raises(ModelError, match="the profile is of another model"):
        recording(trace, layers, profile(cnn()))
    with pytest.raises(ModelError, match="none of its layers are in"):
        recording(trace, RECORDED / "tensorrt_mobilenet_qat.graph.json")
    with pytest.raises(ModelError, match="layers of an engine, without times"):
        recording(layers, None)


#: An engine of the residual network, its bottlenecks in one layer each.
TIMES = {
    "Reformatting CopyNode for Input Tensor 0 to node_conv_1 + PWN(node_relu_1)": 0.25,
    "node_conv_1 + PWN(node_relu_1)": 0.5,
    "{ForeignNode[node_conv_2...node_relu_4]}": 1.125,
    "__myl_Conv_0x1": 2.0,
    "node_globalaveragepool_1": 0.0625,
}


def engine(folder: Path) -> tuple[Path, Path]:
    """The profile of that engine, and its layers as newer releases describe them."""
    entries = [{"name": n, "timeMs": 4 * t, "averageMs": t, "medianMs": t, "percentage": 1} for n, t in TIMES.items()]
    rest = ("conv_5", "relu_5", "conv_6", "relu_6", "conv_7", "add_2", "relu_7")
    named = "\x1f".join(f"[ONNX Layer: node_{name}]" for name in rest)
    layers: list[dict[str, Any]] = [{"Name": name, "LayerType": "kgen"} for name in TIMES]
    layers[0]["LayerType"] = "Reformat"
    layers[3]["Metadata"] = named
    trace, beside = folder / "profile.json", folder / "layers.json"
    trace.write_text(json.dumps([{"count": 4}, *entries]))
    beside.write_text(json.dumps({"Layers": layers, "Bindings": ["x"]}))
    return trace, beside


def test_names_say_which_rows_a_layer_does(tmp_path: Path) -> None:
    result = trace_of(recording(*engine(tmp_path), profile(residual())), "net", "tensorrt")
    assert result.steps == ("average of 4 runs",)
    assert result.remainder == {"layout": 250_000}
    assert {s.layers[-1]: (len(s.layers), s.time_ns) for s in result.segments} == {
        "node_relu_1": (2, 500_000),
        "node_relu_4": (7, 1_125_000),
        "node_relu_7": (7, 2_000_000),
    }
    assert result.covered_ns == 3_937_500


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"count": 4}], "the profile has no layers"),
        ([{"count": "many"}], "entry 1 is not of TensorRT's profile"),
        ([{"count": 1}, {"name": "a", "averageMs": -1}], "entry 2 is not of TensorRT's profile: .* below 0"),
        ([{"count": 1}, {"name": "a", "averageMs": None}], "entry 2 is not of TensorRT's profile"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, entries: list[dict[str, Any]], message: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(entries))
    with pytest.raises(ModelError, match=message):
        recording(path, None)


def test_layers_without_information_say_how_to_get_it(tmp_path: Path) -> None:
    trace, beside = engine(tmp_path)
    beside.write_text(json.dumps({"Layers": [{"Name": name} for name in TIMES]}))
    with pytest.raises(ModelError, match="--profilingVerbosity=detailed"):
        recording(trace, beside)
