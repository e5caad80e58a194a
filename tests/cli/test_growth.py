"""Every command is linear in the number of operators, tensors, modules and models: twice the work, counted in lines."""

from __future__ import annotations

import io
import itertools
import json
import struct
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.tensorflow.protobuf import field, function, graph, node, placeholder
from tests.tflite_models import Net
from tests.work import growth

import flopwise
from flopwise.cli import main

#: Twice the size may take so many times the work.
MOST = 2.3

#: The smallest of three sizes, each twice the one before.
SIZE = 24


def model(nodes: list[onnx.NodeProto], stored: list[TensorProto] | None = None, **more: object) -> bytes:
    ends = [helper.make_tensor_value_info("x", 1, [4, 8])], [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "g", *ends, stored or [])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8, **more).SerializeToString())


def tensor(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(numpy.full(shape, 1.5, "f"), name)


def chain(size: int, make: Callable[[int, str, str], list[onnx.NodeProto]]) -> list[onnx.NodeProto]:
    return [node for i in range(size) for node in make(i, f"y{i - 1}" if i else "x", f"y{i}")]


def layers(size: int) -> bytes:
    """Layers with weights of their own, all alike."""
    nodes = chain(size, lambda i, x, y: [helper.make_node("MatMul", [x, f"w{i}"], [y], name=f"block.{i}/MatMul")])
    return model(nodes, [tensor(f"w{i}", 8, 8) for i in range(size)])


def shapes(size: int) -> bytes:
    """Shape arithmetic, each time on another size."""

    def block(i: int, x: str, y: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Concat", [x, "x"], [f"c{i}"], axis=0),
            helper.make_node("Shape", [f"c{i}"], [f"s{i}"]),
            helper.make_node("Reshape", [f"c{i}", f"s{i}"], [y]),
        ]

    return model(chain(size, block))


def constants(size: int) -> bytes:
    """Constants of one name."""
    made = numpy_helper.from_array(numpy.full((4, 8), 1.5, "f"), "value")

    def block(i: int, x: str, y: str) -> list[onnx.NodeProto]:
        return [helper.make_node("Constant", [], [f"c{i}"], value=made), helper.make_node("Add", [x, f"c{i}"], [y])]

    return model(chain(size, block))


def functions(size: int) -> bytes:
    """Large constants of one name in a function that nobody calls."""
    nodes = [helper.make_node("Constant", [], [f"c{i}"], value=tensor("w", 16, 8)) for i in range(size)]
    nodes.append(helper.make_node("Relu", ["a"], ["b"]))
    unused = helper.make_function("my", "F", ["a"], ["b"], nodes, [helper.make_opsetid("", 17)])
    return model([helper.make_node("Relu", ["x"], ["y"])], functions=[unused])


def bodies(size: int) -> bytes:
    """Control flow with tensors of one name in its branches."""

    def branch(x: str) -> onnx.GraphProto:
        end = helper.make_tensor_value_info("o", 1, None)
        return helper.make_graph([helper.make_node("Add", [x, "w"], ["o"])], "b", [], [end], [tensor("w", 4, 8)])

    def block(i: int, x: str, y: str) -> list[onnx.NodeProto]:
        return [helper.make_node("If", ["c"], [y], then_branch=branch(x), else_branch=branch(x))]

    return model(chain(size, block), [numpy_helper.from_array(numpy.array(True), "c")])


def tensors(size: int, name: Callable[[int], str] = lambda i: f"layers.{i}.weight", dtype: str = "F32") -> bytes:
    """A file of small tensors."""
    width = {"F32": 4, "BF16": 2, "I8": 1}[dtype] * 20
    head = {
        name(i): {"dtype": dtype, "shape": [4, 5], "data_offsets": [i * width, (i + 1) * width]} for i in range(size)
    }
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + bytes(width * size)


NETWORKS = {"layers": layers, "shapes": shapes, "constants": constants, "functions": functions, "bodies": bodies}
FILES: dict[str, Callable[[int], bytes]] = {
    "tensors": tensors,
    "experts": lambda size: tensors(size, lambda i: f"model.layers.0.experts.{i}.w"),
    "one layer": lambda size: tensors(size, lambda i: f"layer.w{i}"),
    "bfloat16": lambda size: tensors(size, dtype="BF16"),
    "integers": lambda size: tensors(size, dtype="I8"),
}


def run(words: list[str], make: Callable[[int], bytes], path: Path) -> Callable[[int], None]:
    """The command on a model of some size."""

    def of(size: int) -> None:
        file = path.with_stem(f"m{size}")
        if not file.exists():
            file.write_bytes(make(size))
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = main([str(file) if word == "MODEL" else word for word in words])
        assert not status, errors.getvalue()

    return of


def check(work: Callable[[int], object], size: int = SIZE) -> None:
    whole, steep = growth(work, size)
    assert whole <= MOST
    assert not steep


#: Commands of which each works on the graph in another way.
THOROUGH = ("profile MODEL", "shapes MODEL", "memory MODEL", "weights MODEL")

#: Those that show the rows of a profile in other ways.
SHOWING = (
    "profile MODEL -f html",
    "profile MODEL -f json",
    "profile MODEL -f csv",
    "profile MODEL --by op",
    "profile MODEL --by module",
    "profile MODEL --sort macs --top 5",
    "profile MODEL --train",
    "profile MODEL -c fvcore",
    "profile MODEL -c onnx-tool",
    "flops MODEL",
    "layers MODEL",
    "weights MODEL --by tensor",
    "explain MODEL -c fvcore -c ptflops",
    "compare MODEL MODEL",
    "bound MODEL --device h100",
)


@pytest.mark.parametrize(
    ("kind", "words"),
    [*itertools.product(NETWORKS, THOROUGH), *itertools.product(("layers", "bodies"), SHOWING)],
)
def test_networks(kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.profiles.count.MANY", 0)  # alike operators are counted once in every size
    size = 2 * SIZE if "html" in words else SIZE  # a page looks for repeats in a window that small models do not fill
    check(run(words.split(), NETWORKS[kind], tmp_path / "m.onnx"), size)


@pytest.mark.parametrize("words", ["weights MODEL", "weights MODEL --by tensor", "weights MODEL -f json"])
@pytest.mark.parametrize("kind", FILES)
def test_files_of_weights(kind: str, words: str, tmp_path: Path) -> None:
    check(run(words.split(), FILES[kind], tmp_path / "m.safetensors"))


def network(size: int) -> object:
    """Modules in modules, some of them called twice."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.LayerNorm(8))) for _ in range(size)]
    with torch.device("meta"):
        return nn.Sequential(*blocks, blocks[0])


@pytest.mark.parametrize("options", [{}, {"train": True}, {"convention": "ptflops"}, {"convention": "fvcore"}])
def test_modules(options: dict[str, object]) -> None:
    def work(size: int) -> None:
        profile = flopwise.profile(network(size), (2, 8), **options)  # type: ignore[arg-type] # options of it
        profile.by("module")
        flopwise.render(profile, "table", by="module")
        profile.to_dict()

    check(work)


@pytest.mark.parametrize("words", ["compare", "table", "compare -f json", "table -f markdown"])
def test_models_side_by_side(words: str, tmp_path: Path) -> None:
    """A column, or a line, for each model."""
    command, *options = words.split()

    def work(size: int) -> None:
        files = [tmp_path / f"{i}.onnx" for i in range(size)]
        for file in files:
            if not file.exists():
                file.write_bytes(layers(3))
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert not main([command, *map(str, files), *options])

    check(work, 24)  # past the width of a line, from which on lists are written in several


def tflite(size: int) -> bytes:
    """Operators in a row, and as many inputs of one tensor."""
    net = Net()
    last = net.main.tensor((1, 4), name="x")
    net.main.inputs = [last] * size
    for i in range(size):
        made = net.main.tensor((1, 4), name=f"y{i}")
        net.main.add("TANH", [last], [made])
        last = made
    net.main.outputs = [last]
    return bytes(net.bytes())


def tensorflow(size: int) -> bytes:
    """Nodes in a row, and a function that each second one calls."""
    nodes = [placeholder("x", 2)]
    for i in range(size):
        op = ("PartitionedCall", f"n{i - 1}" if i else "x", {"f": field(10, field(1, "g"))})
        nodes.append(node(f"n{i}", op[0], op[1], **op[2]) if i % 2 else node(f"n{i}", "Relu", op[1]))
    called = function("g", "x", "r:activations:0", node("r", "Relu", "x"))
    return bytes(graph(*nodes, functions=(called,)))


def events(size: int) -> bytes:
    """Operators of a recording, one in the other and one after the other."""
    made = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}
        for i in range(size)
        for ts, dur in ((i, 4 * size - 2 * i), (10 * size + 2 * i, 1))
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": made}).encode()


OTHERS = {
    "tflite": (tflite, "m.tflite", "profile MODEL"),
    "tensorflow": (tensorflow, "m.pb", "profile MODEL"),
    "trace": (events, "m.json", "trace MODEL"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_files_of_other_formats(kind: str, tmp_path: Path) -> None:
    make, name, words = OTHERS[kind]
    check(run(words.split(), make, tmp_path / name))
