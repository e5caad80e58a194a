"""The reader as a whole."""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import LIGHT, array, conv_net, fields, model, node, number, shapes, value, weight
from tests.formats.process import MEGABYTES, outcomes
from tests.work import calls_at_most

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.formats.kit.read import graph_of
from flopwise.formats.onnx.read import resolve_onnx
from flopwise.graph import Graph


def same(graph: Graph) -> Any:
    """What must not depend on where the model came from."""
    return graph.inputs, graph.outputs, graph.nodes, sorted(graph.weights), graph.warnings, graph.format


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(conv_net(), path)
    return path


def test_every_source_gives_the_same_graph(path: Path) -> None:
    data = path.read_bytes()
    expected = read(path)
    with open(path, "rb") as file, open(path, "rb", buffering=0) as raw:
        file.seek(5)
        raw.seek(7)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        sources = [str(path), os.fsencode(path).decode(), data, bytearray(data), memoryview(data)]
        for source in (*sources, file, raw, io.BytesIO(data), mapped, onnx.load(path), conv_net()):
            assert same(read(source)) == same(expected), source
        assert (file.tell(), raw.tell()) == (5, 7)
        assert not file.closed


def test_a_model_may_lose_its_nodes_to_the_graph(path: Path) -> None:
    resolved = resolve_onnx(path)
    first, last = graph_of(resolved), graph_of(resolved, last=True)
    assert same(first) == same(last) == same(read(path))
    assert first.nodes
    assert not resolved.model.graph.nodes


def test_weights_are_the_same_from_every_source(path: Path) -> None:
    whole = {t.name: onnx.numpy_helper.to_array(t).tolist() for t in onnx.load(path).graph.initializer}
    with open(path, "rb") as file:
        for source in (path, path.read_bytes(), file, io.BytesIO(path.read_bytes()), onnx.load(path)):
            assert {name: w.array().tolist() for name, w in read(source).weights.items()} == whole


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs a list of open files")
def test_no_file_stays_open(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    graph = read(path)
    for stored in graph.weights.values():
        stored.array()
    with pytest.raises(ModelError):
        read(path.with_name("none"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_graph_says_of_itself(path: Path) -> None:
    graph = read(path)
    assert (graph.name, graph.format, graph.source) == ("net", "onnx", str(path))
    assert (read(path.read_bytes()).name, read(path.read_bytes()).source) == ("g", "<bytes>")
    assert (read(conv_net()).name, read(conv_net()).source) == ("g", "g")
    assert [(t.name, t.shape, t.dtype, t.kind) for t in graph.inputs] == [("x", (1, 3, 32, 32), "float32", "input")]
    assert [(t.name, t.shape, t.kind) for t in graph.outputs] == [("y", (1, 1000), "activation")]
    conv = graph.nodes[0]
    assert (conv.op, conv.name, conv.origin, conv.version) == ("Conv", "conv", "Conv", 17)
    assert conv.attrs == {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def test_attributes_as_python_values() -> None:
    attrs = {"i": 3, "f": 0.5, "s": "text", "ints": [1, 2], "floats": [0.5, 1.0], "strings": ["a", "b"]}
    thing = node("Thing", "x", "y", domain="my", **attrs, t=weight("w", 3))
    thing.attribute.add(name="bad", type=onnx.AttributeProto.STRING, s=b"\xff")
    thing.attribute.add(name="none")
    found = read(model([thing], {"x": (1,)}, domains={"my": 1})).nodes[0]
    assert found.attrs == {**attrs, "bad": "\ufffd"}
    assert found.op == "my::Thing"


def test_inputs_and_outputs_that_are_left_out() -> None:
    clip = node("Clip", "x _ high", "y")
    graph = read(model([clip, node("Dropout", "y", "z _")], {"x": (2,)}, [array("high", 1)], outputs=["z"]))
    assert [t and t.name for t in graph.nodes[0].inputs] == ["x", None, "high"]
    assert [t and t.name for t in graph.nodes[1].outputs] == ["z", None]


def test_each_step_is_told(path: Path) -> None:
    steps: list[str] = []
    read(path, progress=steps.append)
    assert steps == ["reading the graph", "resolving shapes", "building the graph"]


def test_models_with_all_that_nobody_counts() -> None:
    net = conv_net()
    expected = same(read(net))
    net.doc_string = "d"
    net.metadata_props.add(key="k", value="v")
    net.training_info.add().algorithm.node.append(node("Relu", "nowhere", "y"))
    net.graph.quantization_annotation.add(tensor_name="c").quant_parameter_tensor_names.add(key="k", value="v")
    net.graph.doc_string = net.graph.node[0].doc_string = "d"
    net.configuration.add(name="c", num_devices=2)
    net.graph.node[0].device_configurations.add(configuration_id="c")
    assert same(read(net)) == expected
    assert same(read(net.SerializeToString())) == expected


def test_values_that_are_no_tensors() -> None:
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("SequenceLength", "s", "n"),
        node("SequenceAt", "s n", "a"),
        node("Optional", "x", "o"),
        node("OptionalGetElement", "o", "e"),
        node("Relu", "e", "y"),
    ]
    graph = read(model(nodes, {"x": (2, 3)}))
    found = shapes(graph)
    assert (found["s"], found["o"]) == (None, (2, 3))
    sequence = graph.nodes[0].output()
    assert [t.shape for t in sequence.items or ()] == [(2, 3), (2, 3)]
    assert (sequence.resolved, sequence.numel, sequence.nbytes) == (True, 12, 48)
    assert (found["n"], found["e"], found["y"]) == ((), (2, 3), (2, 3))


# --- files of any size ---


def big(path: Path, gigabytes: int) -> None:
    """A model with inline weights that are a hole in the file, so that it takes no room on the disk."""
    side = 1 << 14
    count = gigabytes  # of 1 GB each
    head = number(1, side) + number(1, side) + number(2, TensorProto.FLOAT)
    names = [f"w{i}" for i in range(count)]
    length = 4 * side * side
    stored = [fields(8, n) + head + b"\x4a" + varint(length) for n in names]  # all but the elements, which come last
    nodes = b"".join(
        fields(1, node("MatMul", f"t{i} {n}", f"t{i + 1}", f"mm{i}").SerializeToString()) for i, n in enumerate(names)
    )
    ends = fields(11, value("t0", (1, side)).SerializeToString())
    ends += fields(12, value(f"t{count}", (1, side)).SerializeToString())
    inner = sum(1 + len(varint(len(s) + length)) + len(s) + length for s in stored)
    with open(path, "wb") as file:
        file.write(number(1, 8) + fields(8, number(2, 17)))
        file.write(b"\x3a" + varint(len(nodes) + inner + len(ends)) + nodes)
        for part in stored:
            file.write(b"\x2a" + varint(len(part) + length) + part)
            file.seek(length, os.SEEK_CUR)
        file.write(ends)


def varint(content: int) -> bytes:
    return number(0, content)[1:]


def test_a_file_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "big.onnx"
    big(path, 5)
    assert os.path.getsize(path) > 5 << 30
    (outcome,) = outcomes(path)
    assert outcome.error == ""
    assert outcome.params == 5 << 28
    assert outcome.megabytes < MEGABYTES / 2
    graph = read(path)
    assert graph.weights.keys() == {f"w{i}" for i in range(5)}
    with calls_at_most(20_000):
        read(path)


def test_cost_follows_the_graph_not_the_weights(tmp_path: Path) -> None:
    """Bytes read do not depend on the size of the weights."""

    class Counter(io.BytesIO):
        total = 0

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            self.total += len(data)
            return data

    totals = []
    for width in (500, 1000, 2000):
        nodes = [node("MatMul", f"t{i} w{i}", f"t{i + 1}") for i in range(10)]
        net = model(nodes, {"t0": (1, width)}, [weight(f"w{i}", width, width) for i in range(10)])
        stream = Counter(net.SerializeToString())
        profile(stream)
        totals.append(stream.total)
    assert max(totals) < 10_000
    assert max(totals) - min(totals) < 100


@pytest.mark.parametrize("light", sorted(LIGHT.glob("*.onnx"))[:4], ids=lambda p: p.stem)
def test_reading_twice_gives_the_same(light: Path) -> None:
    assert same(read(light)) == same(read(light))


def test_a_condition_that_the_file_states() -> None:
    body = helper.make_graph([node("Relu", "x", "o")], "b", [], [value("o", None)])
    net = model(
        [node("If", "yes", "a", then_branch=body, else_branch=body), node("Relu", "a", "y")],
        {"x": (2, 3)},
        [array("yes", True, bool)],
    )
    counted = profile(net)
    assert counted.exact
    assert [(r.name, r.within, r.times) for r in counted.rows] == [
        ("if_1", (), 1),
        ("relu_1", ("if_1/then_branch",), 1),
        ("relu_2", (), 1),
    ]
    assert counted.total("flops") == 12


@pytest.mark.parametrize("leaves", [2, 5000])
def test_tensors_in_attributes_of_a_forest_are_parameters(leaves: int) -> None:
    """Splits and leaves are trained; children, features and modes are the tree's form. Texts have no width."""
    double, byte = TensorProto.DOUBLE, TensorProto.UINT8
    inner, numbers = leaves - 1, list(range(leaves - 1))
    forest = {
        "n_targets": 1,
        "tree_roots": [0],
        **{f"nodes_{name}": numbers for name in ("featureids", "truenodeids", "falsenodeids")},
        **{f"nodes_{name}": [1] * inner for name in ("trueleafs", "falseleafs")},
        "nodes_splits": helper.make_tensor("", double, [inner], [0.5] * inner),
        "nodes_modes": helper.make_tensor("", byte, [inner], [0] * inner),
        "leaf_targetids": [0] * leaves,
        "leaf_weights": helper.make_tensor("", double, [leaves], [1.0] * leaves),
    }
    table = {
        "keys_tensor": helper.make_tensor("", double, [2], [0.0, 1.0]),
        "values_tensor": helper.make_tensor("", TensorProto.STRING, [2], [b"no", b"yes"]),
    }
    trees = helper.make_node("TreeEnsemble", ["x"], ["y"], "trees", domain="ai.onnx.ml", **forest)
    x = value("x", [4, 3], double)
    names = helper.make_node("LabelEncoder", ["y"], ["z"], domain="ai.onnx.ml", **table)
    graph = helper.make_graph([trees, names], "forest", [x], [value("z", [4, 1], TensorProto.STRING)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    done = profile(helper.make_model(graph, opset_imports=opsets))
    assert done.total("params") == inner + leaves
    form, keys = 8 * (5 * inner + leaves + 1) + inner, 8 * 2
    assert done.total("weight_bytes") == 8 * (inner + leaves) + form + keys
