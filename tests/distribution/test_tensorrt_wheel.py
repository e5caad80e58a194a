"""The second wheel, ``flopwise-tensorrt``: built, installed beside flopwise, and found by its entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORDED = ROOT.parent / "shared" / "traces"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel is installed, offline."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    quiet: Any = {"check": True, "capture_output": True, "timeout": 120}
    built = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, ROOT / "packaging" / "tensorrt"]
    subprocess.run(built, **quiet)
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*pip, target, wheel], **quiet)
    return target


def profile(site: Path, file: Path) -> Any:
    """What the command line says of a file with the wheel installed: its document, or its error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")])}
    command = [sys.executable, "-m", "flopwise", "profile", file, "-f", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=site, timeout=120, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else (done.returncode, done.stderr)


def _layer(name: str, kind: str, taken: list[list[int]], made: list[int], **more: Any) -> dict[str, Any]:
    def described(side: str, shape: list[int]) -> dict[str, Any]:
        return {"Name": side, "Dimensions": shape, "Format/Datatype": "Row major linear FP16 format"}

    sides = [described(f"{name} {i}" if i else "x", shape) for i, shape in enumerate(taken)]
    return {"Name": name, "LayerType": kind, "Inputs": sides, "Outputs": [described(name, made)], **more}


def test_an_engine_by_hand(site: Path, tmp_path: Path) -> None:
    convolution = _layer(
        "conv + add + relu", "CaskConvolution", [[2, 3, 8, 8], [2, 4, 8, 8]], [2, 4, 8, 8], ParameterType="Convolution",
        Kernel=[3, 3], PrePadding=[1, 1], PostPadding=[1, 1], Stride=[1, 1], OutMaps=4, Groups=1, Activation="RELU",
        Weights={"Type": "Half", "Count": 108}, Bias={"Type": "Half", "Count": 4},
    )  # fmt: skip
    other = _layer("myelin", "Myelin", [[2, 4, 8, 8]], [2, 4])
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"Layers": [convolution, other], "Bindings": ["x", "myelin"]}))
    document = profile(site, path)
    assert document["model"]["format"] == "tensorrt"
    assert document["totals"]["macs"] == 2 * 64 * 4 * 27
    assert document["totals"]["params"] == 112
    assert document["coverage"]["unknown"] == {"tensorrt::Myelin": 1}
    assert [layer["op"] for layer in document["layers"]] == ["Conv", "Add", "Relu", "tensorrt::Myelin"]
    path.write_text(json.dumps({"Layers": [convolution], "Bindings": 2**63}))
    assert profile(site, path)["totals"]["macs"] == 2 * 64 * 4 * 27
    path.write_text(json.dumps({"Layers": [{**convolution, "Kernel": "wide"}]}))
    code, error = profile(site, path)
    assert (code, error.count("\n")) == (2, 1)
    assert "layer 1 is none of TensorRT's" in error


@pytest.mark.skipif(not RECORDED.is_dir(), reason="engines that others recorded are not at hand")
@pytest.mark.parametrize(
    ("name", "macs"),
    [("resnet_a100_fp16", 32 * 1_814_073_344), ("resnet_a100_fp32", 32 * 1_814_073_344)],
)
def test_engines_of_others(site: Path, name: str, macs: int) -> None:
    document = profile(site, RECORDED / f"tensorrt_{name}.graph.json")
    assert document["totals"]["macs"] == macs
    assert not document["coverage"]["unknown"]
