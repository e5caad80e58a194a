"""Models written without the elements of their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.models import array, conv_net, ints, model, node, value, weight
from tests.writers.onnx.writing import checked, notes, write

import flopwise
from flopwise.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples"

#: Types that a weight may have, and the first operator set whose Identity takes it.
TYPES = {
    "FLOAT": 11,
    "FLOAT16": 11,
    "DOUBLE": 11,
    "BFLOAT16": 14,
    "INT8": 11,
    "UINT8": 11,
    "BOOL": 11,
    "INT64": 11,
    "FLOAT8E4M3FN": 19,
    "INT4": 21,
    "COMPLEX64": 13,
}


def report(path: Path, inputs: Any = None) -> dict[str, Any]:
    """The profile without what the file is called."""
    found = flopwise.profile(path, inputs).to_dict()
    del found["model"]
    return found


def same(net: onnx.ModelProto, folder: Path, inputs: Any = None) -> onnx.ModelProto:
    """The model without weights; its report is that of the model with them."""
    onnx.save(net, folder / "whole.onnx")
    written = write(folder / "whole.onnx", folder, inputs, weights=False)
    assert report(folder / "written.onnx") == report(folder / "whole.onnx", inputs)
    again = flopwise.write_shapes(folder / "written.onnx", folder / "again.onnx", weights=False)
    assert not again.unresolved
    assert report(folder / "again.onnx") == report(folder / "written.onnx")
    return written


def test_names_shapes_and_types_stay(tmp_path: Path) -> None:
    net = conv_net()
    written = same(net, tmp_path)
    assert not written.graph.initializer
    constants = {n.output[0]: n.attribute[0].sparse_tensor for n in written.graph.node if n.op_type == "Constant"}
    assert {k: (tuple(s.dims), s.values.data_type) for k, s in constants.items()} == {
        t.name: (tuple(t.dims), t.data_type) for t in net.graph.initializer
    }
    assert (tmp_path / "written.onnx").stat().st_size < 3000 < len(net.SerializeToString()) // 10


@pytest.mark.parametrize("name", TYPES)
def test_types(tmp_path: Path, name: str) -> None:
    code = TensorProto.DataType.Value(name)
    content = numpy.ones((10, 3), onnx.helper.tensor_dtype_to_np_dtype(code))
    net = model([node("Identity", "w", "v"), node("Relu", "x", "y")], {"x": (1,)}, opset=TYPES[name], ir=10)
    net.graph.initializer.append(numpy_helper.from_array(content, "w"))
    net.graph.output.append(value("v", (10, 3), code))
    same(net, tmp_path)


def test_small_tensors_and_words_stay(tmp_path: Path) -> None:
    words = numpy_helper.from_array(numpy.array(["one", "two"] * 8, object), "words")
    net = model(
        [
            node("Reshape", "x target", "r"),
            node("Clip", "r low", "c"),
            node("MatMul", "c w", "y"),
            node("Identity", "words", "v"),
        ],
        {"x": (2, 12)},
        [ints("target", 4, 6), array("low", 0.5), weight("w", 6, 5), words],
        outputs=["y", "v"],
    )
    net.graph.output[1].type.tensor_type.elem_type = TensorProto.STRING
    written = same(net, tmp_path)
    assert [t.name for t in written.graph.initializer] == ["target", "low", "words"]
    assert written.graph.initializer[2] == words


def test_inputs_with_a_default(tmp_path: Path) -> None:
    """Old files list every initialiser among the inputs; a constant is none."""
    net = conv_net()
    net.graph.input.extend(value(t.name, t.dims) for t in net.graph.initializer)
    assert [i.name for i in same(net, tmp_path).graph.input] == ["x"]


def test_sparse_initialisers(tmp_path: Path) -> None:
    sparse = onnx.SparseTensorProto(values=array("w", [1.0, 2.0]), indices=ints("", 3, 7), dims=[6, 5])
    net = model([node("MatMul", "x w", "y")], {"x": (2, 6)}, sparse=[sparse])
    onnx.save(net, tmp_path / "whole.onnx")
    written = write(tmp_path / "whole.onnx", tmp_path, weights=False)
    assert not written.graph.sparse_initializer
    assert report(tmp_path / "written.onnx") == report(tmp_path / "whole.onnx")


def test_constants(tmp_path: Path) -> None:
    """Weights that an exporter wrote as Constant operators lose their elements there."""
    held = node("Constant", "", "w", "held", value=weight("w", 6, 5))
    net = model([held, node("MatMul", "x w", "h"), node("Add", "h b", "y")], {"x": (2, 6)}, [weight("b", 5, 5)])
    net.graph.node.insert(2, node("Constant", "", "b", value=array("b", [1.0, 2.0, 3.0, 4.0, 5.0])))
    del net.graph.initializer[:]
    written = same(net, tmp_path)
    kinds = {n.output[0]: n.attribute[0].name for n in written.graph.node if n.op_type == "Constant"}
    assert kinds == {"w": "sparse_value", "b": "value"}
    assert notes(written.graph.node[0]) == {}


def test_bodies_and_functions(tmp_path: Path) -> None:
    body = helper.make_graph(
        [node("MatMul", "x w", "t")], "then", [], [value("t", (2, 5))], [weight("w", 6, 5), array("e", 1.0)]
    )
    other = helper.make_graph([node("Constant", "", "f", value=weight("f", 2, 5))], "else", [], [value("f", (2, 5))])
    function = helper.make_function(
        "acme",
        "Scaled",
        ["a"],
        ["b"],
        [node("Constant", "", "s", value=weight("s", 5, 4)), node("MatMul", "a s", "b")],
        [helper.make_opsetid("", 17)],
    )
    net = model(
        [node("If", "c", "r", "if", then_branch=body, else_branch=other), node("Scaled", "r", "y", domain="acme")],
        [value("c", (), TensorProto.BOOL), value("x", (2, 6))],
        functions=[function],
        domains={"acme": 1},
    )
    same(net, tmp_path)
    data = (tmp_path / "written.onnx").read_bytes()
    for tensor in (weight("w", 6, 5), weight("f", 2, 5), weight("s", 5, 4)):
        assert tensor.raw_data[:16] not in data


def test_data_beside_the_model(tmp_path: Path) -> None:
    """The file needs none; a small tensor that steers shapes is taken in."""
    net = model(
        [node("Reshape", "x target", "r"), node("MatMul", "r w", "y")],
        {"x": (2, 12)},
        [ints("target", 4, 6), weight("w", 6, 5)],
    )
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    onnx.save(net, old / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    flopwise.write_shapes(old / "m.onnx", new / "m.onnx", weights=False)
    written = checked(new / "m.onnx")
    assert numpy_helper.to_array(written.graph.initializer[0]).tolist() == [4, 6]
    assert report(new / "m.onnx") == report(old / "m.onnx")
    assert [p.name for p in new.iterdir()] == ["m.onnx"]


def test_old_operator_sets_have_no_such_tensor(tmp_path: Path) -> None:
    net = model([node("MatMul", "x w", "y")], {"x": (2, 6)}, [weight("w", 6, 5)], opset=9)
    with pytest.raises(InputError, match="operator set 9 cannot write a tensor without its elements; convert"):
        flopwise.write_shapes(net, tmp_path / "m.onnx", weights=False)
    small = model([node("MatMul", "x w", "y")], {"x": (2, 4)}, [weight("w", 4, 2)], opset=9)
    assert write(small, tmp_path, weights=False).graph.initializer


def test_what_is_known_about_parameters_stays(tmp_path: Path) -> None:
    """A note of PyTorch's exporter that a tensor is a buffer holds without the tensor's elements."""
    net = conv_net()
    noted = value("fc.w", (1000, 64))
    noted.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value="BUFFER")
    net.graph.value_info.append(noted)
    same(net, tmp_path)
    assert report(tmp_path / "written.onnx")["totals"]["buffers"] == 2 * 64 + 64_000


def test_long_names(tmp_path: Path) -> None:
    net = model([node("MatMul", f"x {'w' * 500}", "y")], {"x": (2, 6)}, [weight("w" * 500, 6, 5)])
    same(net, tmp_path)


@pytest.mark.parametrize("name", ["tiny_resnet", "transformer_block"])
def test_it_runs(tmp_path: Path, name: str) -> None:
    """In onnxruntime, with zeros for weights."""
    runtime = pytest.importorskip("onnxruntime")
    feeds = {"tiny_resnet": ("image", (1, 3, 64, 64)), "transformer_block": ("hidden_states", (2, 7, 40))}
    given, extents = feeds[name]
    write(EXAMPLES / f"{name}.onnx", tmp_path, {given: extents}, weights=False)
    session = runtime.InferenceSession(str(tmp_path / "written.onnx"))
    (found,) = session.run(None, {given: numpy.ones(extents, numpy.float32)})
    assert list(found.shape) == session.get_outputs()[0].shape
