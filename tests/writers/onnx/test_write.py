"""ONNX models written with their shapes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import LIGHT, UNKNOWN_GROUP, conv_net, ints, model, node, number, value, with_groups
from tests.writers.onnx.writing import checked, shape, shapes, write

import flopwise
from flopwise.errors import InputError, ModelError

EXAMPLES = Path(__file__).parents[3] / "examples"


def custom(*declared: onnx.ValueInfoProto) -> onnx.ModelProto:
    """An operator that nobody knows between two that are known."""
    return model(
        [node("Relu", "x", "a"), node("Mystery", "a", "b", domain="acme"), node("Relu", "b", "y")],
        {"x": ("N", 4)},
        values=declared,
        domains={"acme": 1},
    )


def branches() -> onnx.ModelProto:
    """A condition with a branch that makes its result in two steps."""
    one = helper.make_graph([node("Exp", "x", "e"), node("Neg", "e", "t")], "then", [], [value("t", None)])
    other = helper.make_graph([node("Neg", "x", "f")], "else", [], [value("f", None)])
    net = model([node("If", "c", "r", "if", then_branch=one, else_branch=other), node("Relu", "r", "y")], {})
    net.graph.input.extend([value("c", (), TensorProto.BOOL), value("x", ("N", 4))])
    return net


# --- what is written ---


def test_every_shape(tmp_path: Path) -> None:
    net = write(conv_net(), tmp_path)
    assert shapes(net.graph) == {
        "x": (1, 3, 32, 32),
        "y": (1, 1000),
        **dict.fromkeys(("c", "n", "r"), (1, 64, 32, 32)),
        "p": (1, 64, 1, 1),
        "f": (1, 64),
    }
    assert [v.name for v in net.graph.value_info] == ["c", "n", "r", "p", "f"]


@pytest.mark.parametrize(
    ("inputs", "options", "expected"),
    [
        ({"x": (2, 3, 8, 8)}, {}, (2, 3, 8, 8)),
        ("x:f32:5x3x9x7", {}, (5, 3, 9, 7)),
        (None, {"batch_size": 7}, (7, 3, 32, 32)),
    ],
)
def test_the_inputs_that_the_user_gave(tmp_path: Path, inputs: Any, options: dict[str, Any], expected: Any) -> None:
    net = write(conv_net(), tmp_path, inputs, **options)
    assert shapes(net.graph)["x"] == expected
    assert shapes(net.graph)["n"] == (expected[0], 64, *expected[2:])
    assert shapes(net.graph)["y"] == (expected[0], 1000)


@pytest.mark.parametrize("annotate", [False, True])
def test_fields_that_nobody_knows_stay(annotate: bool, tmp_path: Path) -> None:
    data = with_groups(conv_net())
    net = write(data, tmp_path, annotate=annotate)
    assert (tmp_path / "written.onnx").read_bytes().count(UNKNOWN_GROUP) >= data.count(UNKNOWN_GROUP)
    assert shapes(net.graph) == shapes(write(conv_net(), tmp_path).graph)


def test_symbols_become_numbers(tmp_path: Path) -> None:
    net = model([node("Relu", "x", "r"), node("Relu", "r", "y")], {"x": ("N", 4)}, values=[value("r", ("N", 4))])
    assert shapes(write(net, tmp_path, dims={"N": 6}).graph) == dict.fromkeys("xry", (6, 4))


def test_what_nobody_knows_stays_as_the_file_has_it(tmp_path: Path) -> None:
    net = write(custom(value("b", (3, 5))), tmp_path, dims={"N": 3})
    assert shapes(net.graph) == {"x": (3, 4), "a": (3, 4), "b": (3, 5), "y": (3, 5)}


def test_what_nobody_knows_has_no_entry(tmp_path: Path) -> None:
    assert flopwise.write_shapes(custom(), tmp_path / "y.onnx", dims={"N": 3}).unresolved == ("b", "y")
    net = write(custom(), tmp_path, check=False, dims={"N": 3})
    assert shapes(net.graph) == {"x": (3, 4), "a": (3, 4), "y": None}


def test_a_shape_for_other_inputs_is_taken_out(tmp_path: Path) -> None:
    net = custom(value("b", (3, 5)))
    net.graph.input[0].CopyFrom(value("x", (3, 4)))
    assert shapes(write(net, tmp_path).graph)["b"] == (3, 5)
    assert shapes(write(net, tmp_path, {"x": (8, 4)}, check=False).graph)["b"] is None


def test_a_wrong_shape_is_put_right(tmp_path: Path) -> None:
    net = conv_net()
    net.graph.value_info.extend([value("n", (1, 64, 9, 9)), value("f", ("rows", 64))])
    assert flopwise.write_shapes(net, tmp_path / "x.onnx").warnings[0].startswith("the file says that 'n' has shape")
    written = write(net, tmp_path)
    assert shapes(written.graph)["n"] == (1, 64, 32, 32)
    assert shapes(written.graph)["f"] == (1, 64)
    assert len({v.name for v in written.graph.value_info}) == len(written.graph.value_info) == 5


def test_what_else_a_value_says_stays(tmp_path: Path) -> None:
    net = conv_net()
    noted = value("n", None)
    noted.doc_string = "about n"
    noted.metadata_props.add(key="who", value="me")
    net.graph.value_info.append(noted)
    net.graph.value_info.append(value("conv.w", (64, 3, 3, 3)))  # as PyTorch's exporter does
    net.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    written = write(net, tmp_path, batch_size=2).graph
    assert written.value_info[0].doc_string == "about n"
    assert written.value_info[0].metadata_props[0].value == "me"
    assert shape(written.value_info[0]) == (2, 64, 32, 32)
    assert written.value_info[1] == net.graph.value_info[1]
    assert written.input[0].type.tensor_type.shape.dim[0].denotation == "DATA_BATCH"


def test_upper_bounds_are_no_shapes(tmp_path: Path) -> None:
    net = model([node("NonZero", "x", "i"), node("Cast", "i", "y", to=1)], {"x": (3, 4)})
    assert shapes(write(net, tmp_path).graph) == {"x": (3, 4), "i": (2, None), "y": (2, None)}


def test_sequences_have_their_type(tmp_path: Path) -> None:
    net = model([node("SplitToSequence", "x", "s"), node("SequenceAt", "s i", "y")], {"x": (4, 6)}, [ints("i", 0)])
    net.graph.initializer[0].ClearField("dims")
    (entry,) = write(net, tmp_path).graph.value_info
    assert entry.type.sequence_type.elem_type.tensor_type.elem_type == TensorProto.FLOAT


def test_bodies(tmp_path: Path) -> None:
    net = write(branches(), tmp_path, {"x": (3, 4)})
    inner = {a.name: a.g for a in net.graph.node[0].attribute}
    assert shapes(inner["then_branch"])["e"] == (3, 4)
    assert shapes(net.graph)["r"] == shapes(net.graph)["y"] == (3, 4)


def test_bodies_whose_iterations_differ(tmp_path: Path) -> None:
    """A loop that appends a row each time: what grows has no one shape."""
    body = helper.make_graph(
        [
            node("Identity", "go", "goes"),
            node("Exp", "row", "e"),
            node("Concat", "grown e", "more", axis=0),
            node("Relu", "more", "out"),
        ],
        "body",
        [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("grown", None)],
        [value("goes", (), TensorProto.BOOL), value("out", None)],
    )
    net = model(
        [node("Loop", "trips _ x", "y", "loop", body=body)],
        {"x": (2, 4), "row": (1, 4)},
        [ints("trips", 3)],
        outputs=["y"],
    )
    net.graph.initializer[0].ClearField("dims")
    written = write(net, tmp_path).graph
    assert shapes(written)["y"] == (5, 4)
    inner = shapes(written.node[0].attribute[0].g)
    assert inner["e"] == (1, 4)
    assert inner["more"] is None


def test_a_branch_that_is_not_looked_at_keeps_no_shape_for_other_inputs(tmp_path: Path) -> None:
    net = branches()
    net.graph.input[1].CopyFrom(value("x", (3, 4)))
    del net.graph.input[0]
    net.graph.initializer.append(onnx.numpy_helper.from_array(numpy.array(False), "c"))
    net.graph.node[0].attribute[0 if net.graph.node[0].attribute[0].name == "then_branch" else 1].g.value_info.append(
        value("e", (3, 4))
    )
    for given, kept in ((None, (3, 4)), ({"x": (8, 4)}, None)):
        inner = {a.name: a.g for a in write(net, tmp_path, given).graph.node[0].attribute}
        assert shapes(inner["then_branch"])["e"] == kept


def squeezed() -> onnx.ModelProto:
    """What PyTorch's exporters make of ``relu(x).squeeze(1)`` where nobody knows the extent."""
    one = helper.make_graph([node("Squeeze", "h axis", "t")], "then", [], [value("t", None)])
    other = helper.make_graph([node("Identity", "h", "f")], "else", [], [value("f", None)])
    nodes = [
        node("Relu", "x", "h"),
        node("Shape", "h", "extents"),
        node("Gather", "extents axis", "extent"),
        node("Equal", "extent axis", "c"),
        node("If", "c", "r", "if", then_branch=one, else_branch=other),
        node("Exp", "r", "y"),
        node("Exp", "z", "v"),
    ]
    return model(nodes, {"x": ("N", "C"), "z": ("N", "C")}, [ints("axis", 1)], outputs=["y", "v"])


def test_a_branch_that_contradicts_the_shapes(tmp_path: Path) -> None:
    """onnxruntime would refuse the model for a branch that never runs: what the branch follows from stays open."""
    runtime = pytest.importorskip("onnxruntime")
    x = numpy.ones((2, 3), numpy.float32)
    net = write(squeezed(), tmp_path, {"x": (2, 3), "z": (2, 3)})
    assert shapes(net.graph) == {
        "x": ("N", "C"),
        "z": (2, 3),
        "extents": (2,),
        "extent": (1,),
        "c": (1,),
        "r": (2, 3),
        "y": (2, 3),
        "v": (2, 3),
    }
    session = runtime.InferenceSession(str(tmp_path / "written.onnx"))
    assert session.run(None, {"x": x, "z": x})[0].shape == (2, 3)
    told = flopwise.write_shapes(squeezed(), tmp_path / "y.onnx", {"x": (2, 3), "z": (2, 3)})
    assert (told.unresolved, told.left) == ((), ("x", "h"))
    assert told.messages[0].startswith("unchanged: 2 tensors, the first is 'x'; a branch that does not run")
    assert shapes(write(squeezed(), tmp_path, {"x": (2, 1), "z": (2, 1)}).graph)["x"] == (2, 1)


def test_functions_stay(tmp_path: Path) -> None:
    """Only tensors of the file get an entry, not those that inlining makes."""
    function = helper.make_function(
        "acme", "Twice", ["a"], ["b"], [node("Exp", "a", "t"), node("Exp", "t", "b")], [helper.make_opsetid("", 17)]
    )
    net = model(
        [node("Twice", "x", "h", "call", domain="acme"), node("Relu", "h", "y")],
        {"x": ("N", 4)},
        functions=[function],
        domains={"acme": 1},
    )
    written = write(net, tmp_path, dims={"N": 2})
    assert shapes(written.graph) == dict.fromkeys("xhy", (2, 4))
    assert list(written.functions) == [function]


# --- the file ---


def test_all_else_is_copied_byte_for_byte(tmp_path: Path) -> None:
    net = conv_net()
    net.doc_string = "about"
    net.metadata_props.add(key="k", value="v")
    net.graph.doc_string = "graph"
    net.graph.quantization_annotation.add(tensor_name="x")
    for made in (net, net.SerializeToString()):
        written = write(made, tmp_path)
        del written.graph.value_info[:]
        written.graph.output[0].CopyFrom(net.graph.output[0])
        assert written == net


def test_fields_of_later_versions_stay(tmp_path: Path) -> None:
    net = conv_net()
    net.graph.node[0].MergeFromString(number(99, 5))
    data = net.SerializeToString() + number(999, 7)
    path = tmp_path / "y.onnx"
    flopwise.write_shapes(data, path, annotate=True)
    assert path.read_bytes().endswith(number(999, 7))
    assert number(99, 5) in path.read_bytes()


def test_a_graph_in_several_messages(tmp_path: Path) -> None:
    """protobuf reads several graphs as one."""
    net = conv_net()
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(net)
    del first.graph.initializer[:]
    second.graph.initializer.extend(net.graph.initializer)
    written = write(first.SerializeToString() + second.SerializeToString(), tmp_path)
    assert list(written.graph.initializer) == list(net.graph.initializer)
    assert len(written.graph.value_info) == 5


def test_twice(tmp_path: Path) -> None:
    old, once, twice = (tmp_path / f"{name}.onnx" for name in ("old", "once", "twice"))
    onnx.save(conv_net(), old)
    flopwise.write_shapes(old, once)
    flopwise.write_shapes(str(once), str(twice))
    assert once.read_bytes() == twice.read_bytes()
    assert len(checked(twice).graph.value_info) == 5
    assert len(os.listdir(tmp_path)) == 3


def test_a_source_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise ModelError("changed while it was read")

    monkeypatch.setattr("flopwise.writers.onnx.write.Pieces.write", fail)
    with pytest.raises(ModelError, match="changed"):
        flopwise.write_shapes(conv_net(), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("m.pb", "models are written as .onnx files"), ("none/m.onnx", "no such directory"), ("d.onnx", "is a directory")],
)
def test_places_that_are_refused(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "d.onnx").mkdir()
    with pytest.raises(InputError, match=told):
        flopwise.write_shapes(conv_net(), tmp_path / name)


# --- hidden tensors ---


def test_hidden_tensors_become_outputs(tmp_path: Path) -> None:
    net = conv_net()
    net.graph.value_info.append(value("n", None))
    written = write(net, tmp_path, tensors=["n", "p", "n", "y"]).graph
    assert [o.name for o in written.output] == ["y", "n", "p"]
    assert shapes(written)["p"] == (1, 64, 1, 1)
    assert {"n", "p"}.isdisjoint(v.name for v in written.value_info)


@pytest.mark.parametrize(
    ("net", "name", "told"),
    [
        (conv_net(), "conv.x", r"no operator produces a tensor 'conv.x'; flopwise shapes lists them"),
        (model([node("Relu", "x", "hidden_1"), node("Relu", "hidden_1", "y")], {"x": (1,)}), "hidden_2", "'hidden_1'"),
        (branches(), "e", "tensor 'e' is inside control flow"),
        (custom(), "b", "tensor 'b' cannot be an output: its element type is unknown"),
    ],
)
def test_tensors_that_cannot(tmp_path: Path, net: onnx.ModelProto, name: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        flopwise.write_shapes(net, tmp_path / "m.onnx", batch_size=1, tensors=[name])
    assert not os.listdir(tmp_path)


# --- what runs, runs as before ---


@pytest.mark.parametrize(
    ("path", "feeds"),
    [
        (EXAMPLES / "tiny_resnet.onnx", {"image": (1, 3, 64, 64)}),
        (EXAMPLES / "transformer_block.onnx", {"hidden_states": (2, 7, 40)}),
        (LIGHT / "light_squeezenet.onnx", {"data_0": (1, 3, 224, 224)}),
        (LIGHT / "light_shufflenet.onnx", {"gpu_0/data_0": (1, 3, 224, 224)}),
    ],
    ids=lambda p: p.stem if isinstance(p, Path) else "",
)
def test_the_same_outputs(tmp_path: Path, path: Path, feeds: dict[str, tuple[int, ...]]) -> None:
    """In onnxruntime: the outputs are the same, and each hidden tensor has the shape that the file states."""
    runtime = pytest.importorskip("onnxruntime")
    given = {k: numpy.random.default_rng(0).standard_normal(s).astype(numpy.float32) for k, s in feeds.items()}

    def outputs(file: Path) -> dict[str, Any]:
        session = runtime.InferenceSession(str(file))
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))

    before = outputs(path)
    written = write(path, tmp_path, feeds, annotate=True)
    after = outputs(tmp_path / "written.onnx")
    assert list(before) == list(after)
    assert all(numpy.array_equal(before[k], after[k]) for k in before)
    hidden = [v.name for v in written.graph.value_info]
    stated = shapes(write(path, tmp_path, feeds, tensors=hidden).graph)
    found = outputs(tmp_path / "written.onnx")
    assert len(found) == len(hidden) + len(before)
    assert {name: array.shape for name, array in found.items()} == {name: stated[name] for name in found}
