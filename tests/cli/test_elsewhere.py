"""Command lines of other tools, as their pages have them, with flopwise in place of the tool's name."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import onnx
import pytest
from tests.cli.conftest import LIGHT, Run
from tests.formats.models import array, model, node, value, weight

import flopwise


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models that the pages name: AlexNet, a ResNet-50, and a recurrent matting network with five inputs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AlexNet").mkdir()
    shutil.copy(LIGHT / "light_bvlc_alexnet.onnx", "AlexNet/model.onnx")
    onnx.save(_resnet(), "resnet50-v1-12.onnx")
    onnx.save(_matting(), "rvm_mobilenetv3_fp32.onnx")
    return tmp_path


def _resnet() -> onnx.ModelProto:
    names = ["data", "resnetv17_stage1_conv2_fwd", "resnetv17_stage1_conv3_fwd", "resnetv17_dense0_fwd"]
    nodes = [node("Conv", f"{names[i]} w{i}", names[i + 1]) for i in range(2)]
    nodes.append(node("GlobalAveragePool", names[2], names[3]))
    stored = [weight("w0", 8, 3, 3, 3), weight("w1", 4, 8, 1, 1)]
    return model(nodes, [value("data", (1, 3, 16, 16))], stored, outputs=names[3:])


def _matting() -> onnx.ModelProto:
    """The source scaled by a number that an input gives, and a state of each of four levels."""
    nodes = [
        node("Concat", "ones downsample_ratio downsample_ratio", "scales", axis=0),
        node("Resize", "src none scales", "small", mode="nearest"),
        node("AveragePool", "small", "q1", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    ]
    for i in range(1, 5):
        nodes.append(node("Conv", f"q{i} w{i}", f"f{i}"))
        nodes.append(node("Add", f"f{i} r{i}i", f"r{i}o"))
        if i < 4:
            nodes.append(node("MaxPool", f"r{i}o", f"q{i + 1}", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1))
    widths = [3, 16, 20, 40, 64]
    stored = [weight(f"w{i}", widths[i], widths[i - 1], 1, 1) for i in range(1, 5)]
    stored += [array("ones", [1.0, 1.0]), array("none", [])]
    inputs = [value(name, ("b", "c", "h", "w")) for name in ("src", "r1i", "r2i", "r3i", "r4i")]
    return model(nodes, [*inputs, value("downsample_ratio", (1,))], stored, outputs=["r4o"])


#: Command line -> what it prints, after spaces are made one.
PAGES = {
    "flopsinfo -h": "Operations of MODEL by class",
    "flopsinfo --model_path AlexNet/model.onnx": "Total FLOPs 1,314,692,000",
    "flopsinfo --model_path AlexNet/model.onnx --full --human": "conv_1 Conv 102 MFlop",
    "flopsinfo -p AlexNet/model.onnx -b 1 -f automatic": "multiply_adds 655,622,016",
    "flops -p AlexNet/model.onnx -c benanza --no_header": "Total FLOPs 1,314,692,000",
    "flopsinfo -d AlexNet -n": "comparisons 1,623,808",
    "flopsinfo --model_dir AlexNet --format=automatic": "divisions 906,984",
    "weightsinfo --model_path resnet50-v1-12.onnx": "Conv 216",
    "layersinfo -p AlexNet/model.onnx -n": "dropout_1 Dropout",
    "layerstats -p AlexNet/model.onnx": "conv4_2 Conv",
    "benchinfo -p AlexNet/model.onnx --device h100": "physical floor",
    "-h": "Usage: flopwise",
    "-i resnet50-v1-12.onnx": "convention onnx-tool, unit MAC",
    "-i resnet50-v1-12.onnx --mode profile": "convention onnx-tool, unit MAC",
    "-i rvm_mobilenetv3_fp32.onnx --mode profile --dynamic_inputs "
    "src:f32:1x3x1080x1920 r1i:f32:1x16x135x240 r2i:f32:1x20x68x120 r3i:f32:1x40x34x60 r4i:f32:1x64x17x30 "
    "downsample_ratio:f32:-1:0.25": "src float32 1×3×1080×1920",
}


@pytest.mark.parametrize("line", PAGES)
def test_a_line_of_a_page(run: Run, folder: Path, line: str) -> None:
    code, out, err = run(*shlex.split(line))
    assert code == 0, err
    assert PAGES[line] in " ".join(out.split())
    benanza = line.split()[0] in ("flopsinfo", "weightsinfo", "layersinfo", "layerstats")
    assert ("note: " in err and "-c benanza" in err) is benanza


def test_the_matting_network_is_as_large_as_its_inputs_say(run: Run, folder: Path) -> None:
    line = next(line for line in PAGES if "downsample_ratio" in line)
    found = json.loads(run(*shlex.split(line), "-f", "json").out)
    assert found["coverage"]["exact"]
    shapes = {layer["op"]: layer["outputs"][0] for layer in found["layers"]}
    assert shapes["Resize"] == [1, 3, 270, 480]
    assert shapes["Add"] == [1, 64, 17, 30]


def test_shapes_are_written_with_hidden_tensors_as_outputs(run: Run, folder: Path) -> None:
    assert run(*shlex.split("-i resnet50-v1-12.onnx -o resnet50_shapes.onnx")).code == 0
    names = "resnetv17_stage1_conv3_fwd resnetv17_stage1_conv2_fwd"
    assert run(*shlex.split(f"-i resnet50-v1-12.onnx --names {names} -o with_outputs.onnx")).code == 0
    plain, more = onnx.load("resnet50_shapes.onnx"), onnx.load("with_outputs.onnx")
    assert {i.name for i in plain.graph.value_info} == set(names.split())
    assert [o.name for o in more.graph.output] == ["resnetv17_dense0_fwd", *names.split()]


def test_a_convention_of_ones_own_wins(run: Run, folder: Path) -> None:
    code, out, err = run("flopsinfo", "-p", "AlexNet/model.onnx", "-c", "macs")
    assert (code, err) == (0, "")
    assert "convention macs" in out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-i resnet50-v1-12.onnx --mode constant_folding", "--mode constant_folding: is not done here"),
        ("-i none.onnx", "no such file"),
        ("flopsinfo", "Missing argument 'MODEL'"),
    ],
)
def test_what_is_not_done(run: Run, folder: Path, line: str, told: str) -> None:
    code, out, err = run(*shlex.split(line))
    assert (code, out) == (2, "")
    assert told in err


def test_the_conventions_figures_are_those_of_the_library(run: Run, folder: Path) -> None:
    found = json.loads(run(*shlex.split("-i AlexNet/model.onnx -f json")).out)
    assert found["totals"]["count"] == flopwise.profile("AlexNet/model.onnx", convention="onnx-tool").sum.count
