"""Models are read, written and looked into where neither onnx nor protobuf is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.models import LIGHT, array, ints, model, node, value

#: Makes packages look as if they were not installed.
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("onnx", "google", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import flopwise
"""


def run(code: str) -> None:
    """Run a script where the packages are not installed."""
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Models with a function, control flow, sequences, narrow floats, and weights in a file beside one."""
    body = helper.make_graph(
        [node("Add", "s one", "t"), node("Identity", "c", "k")],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("s", (2,))],
        [value("k", (), TensorProto.BOOL), value("t", (2,))],
        [array("one", [1.0, 1.0])],
    )
    loop = model(
        [
            node("Loop", "n _ x", "l", body=body),
            node("SplitToSequence", "l", "q", axis=0),
            node("ConcatFromSequence", "q", "y", axis=0),
        ],
        {"x": (2,)},
        [array("n", 3, numpy.int64)],
    )
    opsets = [helper.make_opsetid("", 17)]
    called = helper.make_function("my", "Twice", ["a"], ["b"], [node("Relu", "a", "r"), node("Exp", "r", "b")], opsets)
    function = model([node("Twice", "x", "y", domain="my")], {"x": (2,)}, functions=[called], domains={"my": 1})
    wide = numpy.arange(64, dtype="f").reshape(8, 8)
    narrow = helper.make_tensor("w", TensorProto.FLOAT8E5M2, [8, 8], wide.ravel().tolist())
    cast = [node("Cast", "w", "v", to=TensorProto.FLOAT), node("MatMul", "x v", "y")]
    beside = model([node("Reshape", "x t", "r"), node("MatMul", "r w", "y")], {"x": (8, 8)}, [ints("t", 4, 16)])
    beside.graph.initializer.append(numpy_helper.from_array(numpy.ones((16, 4), "f"), "w"))
    onnx.save(loop, tmp_path / "loop.onnx")
    onnx.save(function, tmp_path / "function.onnx")
    onnx.save(model(cast, {"x": (8, 8)}, [narrow], opset=21, ir=10), tmp_path / "narrow.onnx")
    onnx.save(beside, tmp_path / "beside.onnx", save_as_external_data=True, location="b.bin", size_threshold=0)
    return tmp_path


def test_models_are_read_written_and_looked_into(folder: Path) -> None:
    run(
        f"""
from pathlib import Path
folder = Path({str(folder)!r})
for path in sorted(folder.glob("*.onnx")):
    profile = flopwise.profile(str(path))
    assert all(t.shape is not None or t.items is not None for n in profile.graph.nodes for t in n.known_outputs), path
    for tensor in profile.graph.weights.values():
        assert tensor.array().shape == tensor.shape
    flopwise.weights(str(path)).to_dict()
    for more in ({{}}, {{"annotate": True}}, {{"weights": False}}):
        written = folder / "written.onnx"
        flopwise.write_shapes(str(path), written, **more)
        assert flopwise.profile(str(written)).total("macs") == profile.total("macs"), (path, more)
        written.unlink()
assert not {{"onnx", "google.protobuf", "rich"}} & set(sys.modules)
"""
    )


def test_whole_networks_are_read() -> None:
    run(f"""
from pathlib import Path
for path in sorted(Path({str(LIGHT)!r}).glob("*.onnx")):
    assert flopwise.profile(str(path)).total("macs") > 0, path
assert not {{"onnx", "google.protobuf", "numpy", "rich"}} & set(sys.modules)
""")
