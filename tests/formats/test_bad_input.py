"""Bad files: each ends with one line that helps, quickly, and never takes more memory than is allowed."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import LIGHT, array, conv_net, fields, ints, model, node, number, value, weight
from tests.formats.process import MEGABYTES, outcomes
from tests.operators.elements.test_arithmetic import GIANT

from flopwise.api.profile import profile
from flopwise.errors import FlopwiseError
from flopwise.operators.tables import OPERATORS

B = 1 << 62
NET = conv_net().SerializeToString()
RELU = node("Relu", "x", "y")


def of(nodes: list[onnx.NodeProto], inputs: Any, *stored: TensorProto, **options: Any) -> bytes:
    return model(nodes, inputs, stored, **options).SerializeToString()


def stored(*dims: int, location: str = "") -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    if location:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
    return tensor


def external(location: str) -> bytes:
    return of([node("Add", "x w", "y")], {"x": (30, 40)}, stored(30, 40, location=location))


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model.onnx", NET)
    return buffer.getvalue()


def nested(depth: int, filler: str = "") -> bytes:
    content = b""
    for _ in range(depth):
        content = fields(1, fields(5, fields(1, "then_branch") + fields(6, content + fields(10, filler))))
    return number(1, 8) + fields(8, number(2, 17)) + fields(7, content)


#: What is in the file -> a part of the one line that is told.
REFUSED: dict[str, tuple[bytes, str]] = {
    # something else
    "empty": (b"", "the file is empty"),
    "zip": (zipped(), "not an ONNX model but a ZIP archive (a PyTorch checkpoint or TorchScript file?); export the"),
    "pickle": (pickle.dumps({"w": [1, 2]}), "not an ONNX model but a Python pickle, which is never loaded; export"),
    "old pickle": (pickle.dumps([1], protocol=2), "not an ONNX model but a Python pickle, which is never loaded"),
    "html": (b"<!DOCTYPE html><html>404</html>", "not an ONNX model but an HTML page; the download went wrong"),
    "gzip": (gzip.compress(NET), "not an ONNX model but gzip data; unpack it first"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer; fetch the file with 'git lfs pull'"),
    "gguf": (b"GGUF\x03\0\0\0", "not an ONNX model but a GGUF weight file; it holds no graph"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "not an ONNX model but a TensorFlow Lite model; name it tflite.tflite"),
    "text": (b"hello, world\n", "not an ONNX model but text"),
    "json": (b'{"graph": {}}', "not an ONNX model but text"),
    "zeros": (bytes(5000), "truncated or damaged at byte 0 (field number 0)"),
    "ones": (b"\xff" * 5000, "truncated or damaged at byte 0 (a number does not end)"),
    "caffemodel": (fields(1, "LeNet") + fields(100, "layer"), "not an ONNX model (field 1 at byte 0)"),
    "a node": (RELU.SerializeToString(), "not an ONNX model (field 1 at byte 0)"),
    "no graph": (number(1, 8) + fields(8, number(2, 17)), "not an ONNX model (it holds no graph)"),
    "empty graph": (number(1, 8) + fields(8, number(2, 17)) + fields(7, ""), "the graph is empty"),
    "no operator set": (number(1, 8) + fields(7, fields(1, RELU.SerializeToString())), "names no operator set version"),
    # files that the model points to
    "outside": (external("../w.bin"), "the data of tensor 'w' are in '../w.bin', outside the model's folder; refused"),
    "absolute": (external("/etc/passwd"), "are in '/etc/passwd', outside the model's folder; refused"),
    "drive": (external("C:\\w.bin"), "outside the model's folder; refused"),
    # dims
    "weight": (
        of([node("Add", "x w", "y")], {"x": (1,)}, stored(B, B)),
        "'w' of shape (4611686018427387904, 46116860184",
    ),
    "input": (
        of([RELU], {"x": (B, 3)}),
        "tensor 'x' of shape (4611686018427387904, 3) has more elements than any memory",
    ),
    "product": (of([RELU], {"x": [1 << 20] * 50}), "has more elements than any memory can hold"),
    "many dims": (of([RELU], {"x": [7] * 99_999}), "of shape (7, 7, 7, 7, 7, 7, 7, 7, ...) has more elements than any"),
    "negative": (of([RELU], {}, stored(3, -4)), "tensor 'w' has a negative dimension: (3, -4)"),
    "rank": (of([RELU], {}, stored(*[1] * 500)), "tensor 'w' has 65 dimensions; more than 64 are not possible"),
    "asked for": (
        of([node("Expand", "x s", "y")], {"x": (1,)}, ints("s", B, B)),
        "tensor 'y' of shape (4611686018427387904, 4611686018427387904) has more elements than any memory can hold",
    ),
    # inputs
    "open": (of([RELU], {"x": ("N", 3)}), "(N x 3); give them with --dim N=1, or with -i x:float32:1x3"),
    "no shape": (
        of([RELU], {"x": None}),
        "input 'x' has no shape; give it with -i x:float32:SHAPE, such as 1x3x224x224",
    ),
    # graphs
    "cycle": (
        of([node("Add", "x b", "a", "p"), node("Relu", "a", "b", "q")], {"x": (1,)}, outputs=["b"]),
        "the graph has a cycle: Add 'p' -> Relu 'q' -> Add 'p'",
    ),
    "twice": (
        of([RELU, node("Tanh", "x", "y")], {"x": (1,)}),
        "tensor 'y' is produced twice, by Relu 'y' and by Tanh 'y'",
    ),
    "nowhere": (of([node("Add", "x z", "y")], {"x": (1,)}), "Add 'y' takes 'z', which nothing produces"),
    "deep": (nested(40, "x" * 400), "control flow nests deeper than 32"),
    "deep but small": (nested(60), "control flow nests deeper than 32"),
    "no operator": (of([node("", "x", "y", "n")], {"x": (1,)}), "node 'n' names no operator; the file is damaged"),
    "operator set 0": (NET.replace(number(2, 17), number(2, 0)), "operator set version 0 does not exist"),
    # names
    "not UTF-8": (NET.replace(b"conv.w", b"conv.\xff"), "a name is not UTF-8"),
    "control characters": (
        of([helper.make_node("A\ndd", ["x", "a\nb\x1b[31m"], ["y"], "n\r\n")], {"x": (1,)}),
        r"A dd 'n\r\n' takes 'a\nb\x1b[31m', which nothing produces",
    ),
    "giant name": (of([node("Add", "x " + "z" * 1_000_000, "y")], {"x": (1,)}), "zzz..."),
}


def files(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    paths = [folder / f"{name}.onnx" for name in contents]
    for path, data in zip(paths, contents.values(), strict=True):
        path.write_bytes(data)
    return paths


def test_refused_in_one_line(tmp_path: Path) -> None:
    """All of them in one process, so that memory not given back would be seen."""
    paths = files(tmp_path, {name: data for name, (data, _) in REFUSED.items()})
    found = outcomes(*paths, tmp_path / "none.onnx", tmp_path)
    told = [*(text for _, text in REFUSED.values()), "no such file", "is a directory"]
    for path, outcome, text in zip((*paths, tmp_path / "none.onnx", tmp_path), found, told, strict=True):
        assert text in outcome.error, path
        assert outcome.error.startswith(f"{path}: "), path
        assert outcome.error.isprintable(), path
        assert len(outcome.error) < 1000, path
        assert outcome.seconds < 5, path
    assert found[-1].megabytes < MEGABYTES


def test_giants_from_constants(tmp_path: Path) -> None:
    extra = [node("NonZero", "x", "n"), node("Relu", "x", "y")]
    nets = {
        name: model([*nodes, *extra], {"x": (1,)}, some, opset=18 if name == "Split" else 17).SerializeToString()
        for name, (nodes, some) in GIANT.items()
    }
    found = outcomes(*files(tmp_path, nets))
    assert len(found) == len(GIANT)
    assert max(o.seconds for o in found) < 5
    assert found[-1].megabytes < MEGABYTES


# --- files cut off and changed ---


def small_net() -> onnx.ModelProto:
    """A network with shape arithmetic, control flow and a constant, in 2 kB."""
    body = helper.make_graph([node("Relu", "f", "o")], "b", [], [value("o", None)], [weight("bw", 3)])
    nodes = [
        node("Conv", "x w", "c", "conv", kernel_shape=[3, 3], strides=[2, 2]),
        node("Shape", "c", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n rest", "t", axis=0),
        node("Reshape", "c t", "f"),
        node("Constant", "", "k", value=weight("k", 18, 5)),
        node("Gemm", "f k", "g"),
        node("If", "yes", "h", then_branch=body, else_branch=body),
        node("Softmax", "g", "y", axis=-1),
    ]
    some = [weight("w", 2, 3, 3, 3), ints("zero", 0), ints("rest", -1), array("yes", True, bool)]
    return model(nodes, {"x": (1, 3, 8, 8)}, some, outputs=["y", "h"], values=[value("c", (1, 2, 3, 3))])


def test_cut_off_at_every_kilobyte(tmp_path: Path) -> None:
    whole = {"squeezenet": (LIGHT / "light_squeezenet.onnx").read_bytes(), "inline": NET}
    contents = {f"{name}{cut}": data[:cut] for name, data in whole.items() for cut in range(0, len(data) - 1, 1000)}
    paths = files(tmp_path, contents)
    found = outcomes(*paths)
    assert len(found) == len(contents) > 250
    for path, outcome in zip(paths, found, strict=True):
        assert outcome.error.startswith(f"{path}: "), path
        assert outcome.error.isprintable(), path
    assert found[-1].megabytes < MEGABYTES


def test_cut_off_at_every_byte() -> None:
    data = small_net().SerializeToString()
    profile(data)
    for cut in range(len(data)):
        with pytest.raises(FlopwiseError):
            profile(data[:cut])


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three changes of every kind that damage or malice makes."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        if not out:
            break
        at, length = rng.randrange(len(out)), rng.randrange(1, 40)
        kind = rng.randrange(7)
        if kind == 0:
            out[at] = rng.randrange(256)
        elif kind == 1:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at : at + length]
        elif kind == 3:
            out[at:at] = rng.randbytes(length)
        elif kind == 4:
            out[at : at + length] = out[(other := rng.randrange(len(out))) : other + length]
        elif kind == 5:  # a number as large as can be
            out[at : at + 1] = b"\xff" * rng.randrange(1, 10) + b"\x7f"
        else:
            del out[at + 1 :]
    return bytes(out)


def test_changed_anywhere(tmp_path: Path) -> None:
    rng = random.Random(0)
    nets = [small_net().SerializeToString(), (LIGHT / "light_squeezenet.onnx").read_bytes()[:3000]]
    nets += [rng.randbytes(1000), b"\x08\x08" + rng.randbytes(1000)]
    contents = {str(i): mutated(nets[0] if i % 10 else rng.choice(nets[1:]), rng) for i in range(2000)}
    found = outcomes(*files(tmp_path, contents))
    assert len(found) == 2000
    assert all(o.error.isprintable() and len(o.error) < 1000 for o in found)
    assert 500 < sum(1 for o in found if o.error) < 2000
    assert max(o.seconds for o in found) < 5
    assert found[-1].megabytes < MEGABYTES


# --- operators that make no sense ---

X, W = (1, 4, 8, 8), (6, 4, 3, 3)

NONSENSE: dict[str, onnx.NodeProto] = {
    "axis as text": node("Softmax", "x", "y", axis="last"),
    "axis out of range": node("Softmax", "x", "y", axis=9),
    "axes as a number": node("ReduceSum", "x", "y", axes=1),
    "no axis": node("Concat", "x x", "y"),
    "no kernel shape": node("MaxPool", "x", "y"),
    "kernel shape too short": node("MaxPool", "x", "y", kernel_shape=[3]),
    "kernel shape too long": node("Conv", "x w", "y", kernel_shape=[3, 3, 3]),
    "kernel shape as text": node("AveragePool", "x", "y", kernel_shape="3x3"),
    "kernel of zeros": node("AveragePool", "x", "y", kernel_shape=[0, 0]),
    "no groups": node("Conv", "x w", "y", group=0),
    "groups as a list": node("Conv", "x w", "y", group=[1]),
    "negative groups": node("ConvTranspose", "x w", "y", group=-1),
    "no strides": node("Conv", "x w", "y", strides=[0, 0]),
    "no weight": node("Conv", "x", "y"),
    "a weight of the wrong rank": node("Conv", "x b", "y"),
    "an input of the wrong rank": node("Conv", "b w", "y"),
    "a scalar": node("MatMul", "one one", "y"),
    "ranks that do not fit": node("Gemm", "x w", "y"),
    "no inputs": node("Gemm", "", "y"),
    "inputs left out": node("Gemm", "_ _", "y"),
    "no outputs": node("Conv", "x w", ""),
    "outputs left out": node("LSTM", "x w w", "_ _ _"),
    "no hidden size": node("LSTM", "x w w", "y"),
    "an equation that is a number": node("Einsum", "x x", "y", equation=5),
    "an equation that is none": node("Einsum", "x x", "y", equation="->->"),
    "statistics of the wrong shape": node("BatchNormalization", "x x x x x", "y"),
    "a name from another world": node("Frobnicate", "x", "y"),
    "heads of nothing": node("Attention", "x x x", "y", q_num_heads=0, kv_num_heads=0),
    "block size 0": node("SpaceToDepth", "x", "y", blocksize=0),
    "a permutation of one": node("Transpose", "x", "y", perm=[7]),
    "a shape that is text": node("Reshape", "x t", "y"),
    "a tensor where a number belongs": node("Flatten", "x", "y", axis=weight("axis", 2)),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nodes_that_make_no_sense(case: str) -> None:
    """A row that cannot be counted says so, and the rest is counted."""
    some = [weight("w", *W), weight("b", 6), array("one", 1), TensorProto(name="t", data_type=8, string_data=[b"a"])]
    nodes = [node("Relu", "x", "before"), NONSENSE[case], node("Relu", "x", "after")]
    counted = profile(model(nodes, {"x": X}, some, opset=23, outputs=["before", "after"]))
    assert [r.node.op for r in counted.rows if r.name.startswith("relu")] == ["Relu", "Relu"]
    assert all(note.isprintable() for note in counted.notes)
    assert counted.total("flops") >= 2 * 256


def test_attributes_of_every_wrong_type() -> None:
    """Whatever an operator's attributes hold, nothing but an error of ours comes out."""
    rng = random.Random(0)
    anything = ["text", b"\xff", 3, -1, 0, 1 << 62, 0.5, [1, 2], [-1], [0.5], ["a"], [1 << 62] * 3]
    shapes = [(), (2,), (2, 3), (1, 4, 8), X, (0, 0), (1, 1, 1, 1, 1)]
    for op in sorted(o for o in OPERATORS if "::" not in o):
        for _ in range(4):
            known = onnx.defs.get_schema(op).attributes if onnx.defs.has(op) else {}
            attrs = {name: rng.choice(anything) for name in known if rng.random() < 0.7}
            inputs = [f"i{i}" for i in range(rng.randrange(5))]
            made = helper.make_node(op, inputs, ["y"][: rng.randrange(5)], **attrs)
            net = model([made, RELU], {"x": (3,), **{i: rng.choice(shapes) for i in inputs}}, opset=23, outputs=["x"])
            try:
                told = profile(net).notes
            except FlopwiseError as error:
                told = (str(error),)
            assert all(text.isprintable() for text in told), net
