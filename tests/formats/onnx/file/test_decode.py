"""A model decoded in plain Python says what protobuf says of the same bytes."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper
from tests.cases import each
from tests.formats.models import LIGHT, fields, number
from tests.onnx_suite.cases import made

from flopwise.errors import ModelError
from flopwise.formats.kit.program import (
    Attributes,
    Graph,
    MapType,
    Model,
    Node,
    OptionalType,
    Reference,
    SequenceType,
    SparseType,
    TensorType,
    Type,
)
from flopwise.formats.kit.tensors import Stored, elements
from flopwise.formats.onnx.decode import decoded
from flopwise.formats.onnx.walk import read_skeleton
from flopwise.formats.sources.source import BytesSource
from flopwise.graph.dtypes import DTYPES

#: The models of operators that the onnx package brings along.
STANDARD = sorted(LIGHT.parent.glob("*/*/model.onnx"))

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").rglob("*.onnx"))


def of_graph(*content: bytes) -> bytes:
    """A model of a graph with this content, written by hand."""
    return number(1, 8) + fields(7, b"".join(content)) + fields(8, number(2, 17))


def node(*content: bytes) -> bytes:
    """A node with this content, written by hand."""
    return fields(1, b"".join(content))


def read(data: bytes) -> Model:
    return decoded(read_skeleton(BytesSource(data, "m")), "m")


def assert_same(ours: Model, proto: onnx.ModelProto) -> None:
    """Compare with the same model in protobuf's messages."""
    assert ours.ir_version == proto.ir_version
    assert ours.opsets == {domain(o.domain): o.version for o in proto.opset_import}
    assert [(*function.key,) for function in ours.functions.values()] == [
        (domain(f.domain), f.name, f.overload) for f in proto.functions
    ]
    for function, message in zip(ours.functions.values(), proto.functions, strict=True):
        assert (function.inputs, function.outputs) == (tuple(message.input), tuple(message.output))
        assert function.attributes == tuple(message.attribute)
        assert_same_attributes(function.defaults, message.attribute_proto)
        assert_same_nodes(function.nodes, message.node)
    assert_same_graphs(ours.graph, proto.graph)


def assert_same_graphs(ours: Graph, proto: onnx.GraphProto) -> None:
    assert ours.name == proto.name
    for values, messages in (
        (ours.inputs, proto.input),
        (ours.outputs, proto.output),
        (ours.values, proto.value_info),
    ):
        assert [(v.name, v.type) for v in values] == [(v.name, type_of(v.type)) for v in messages]
    assert set(ours.initializers) == {t.name for t in proto.initializer}
    for tensor in proto.initializer:
        assert_same_tensors(ours.initializers[tensor.name], tensor)
    assert_same_nodes(ours.nodes, proto.node)


def assert_same_nodes(ours: list[Node], protos: Iterable[onnx.NodeProto]) -> None:
    for mine, proto in zip(ours, protos, strict=True):
        assert (mine.op, mine.domain, mine.name) == (proto.op_type, domain(proto.domain), proto.name)
        assert (mine.inputs, mine.outputs) == (tuple(proto.input), tuple(proto.output))
        assert mine.operation.overload == proto.overload
        assert len(mine.metadata) == len(proto.metadata_props)
        assert_same_attributes(mine.attributes, proto.attribute)


def assert_same_attributes(ours: Attributes, protos: Iterable[onnx.AttributeProto]) -> None:
    listed = list(protos)
    assert list(ours.values) == [a.name for a in listed]
    for proto in listed:
        mine = ours.get(proto.name)
        if proto.ref_attr_name:
            assert mine == Reference(proto.ref_attr_name)
            continue
        if not proto.type:
            continue  # ours has the value that is there, as in the oldest models
        theirs = helper.get_attribute_value(proto)
        if isinstance(mine, tuple):
            for one, other in zip(mine, theirs, strict=True):
                assert_same_values(one, other)
        else:
            assert_same_values(mine, theirs)


def assert_same_values(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, onnx.GraphProto):
        assert_same_graphs(mine, theirs)
    elif isinstance(theirs, TensorProto):
        assert_same_tensors(mine, theirs)
    elif isinstance(theirs, onnx.SparseTensorProto):
        assert (mine.dtype, mine.dims) == (DTYPES[theirs.values.data_type], tuple(theirs.dims))
        assert mine.sparse is not None
    elif isinstance(theirs, onnx.TypeProto):
        assert mine == type_of(theirs)
    else:
        assert mine == (theirs.decode("utf-8", "replace") if isinstance(theirs, bytes) else theirs)
        assert isinstance(mine, str if isinstance(theirs, bytes) else type(theirs))


def assert_same_tensors(mine: Stored, theirs: TensorProto) -> None:
    """Compare also the elements, where the skeleton has them."""
    assert (mine.dtype, mine.dims) == (DTYPES[theirs.data_type], tuple(theirs.dims))
    values = elements(mine)
    if values is None or not values:
        return
    array = numpy_helper.to_array(theirs)
    assert array.shape == mine.dims
    listed = array.ravel().astype(object if mine.dtype == "string" else array.dtype).tolist()
    numpy.testing.assert_array_equal(values, [s.decode() if isinstance(s, bytes) else s for s in listed])


def type_of(proto: onnx.TypeProto) -> Type | None:
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        dims = None
        if tensor.HasField("shape"):
            dims = tuple(
                (d.dim_value if d.dim_value >= 0 else None) if d.HasField("dim_value") else d.dim_param or None
                for d in tensor.shape.dim
            )
        return (TensorType if kind == "tensor_type" else SparseType)(DTYPES.get(tensor.elem_type), dims)
    if kind == "sequence_type":
        return SequenceType(type_of(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return OptionalType(type_of(proto.optional_type.elem_type))
    if kind == "map_type":
        return MapType(DTYPES.get(proto.map_type.key_type), type_of(proto.map_type.value_type))
    return None


def domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


@each("path", [*STANDARD, *EXAMPLES])
def test_whole_models(path: Path) -> None:
    skeleton = read_skeleton(BytesSource(path.read_bytes(), "m"))
    assert_same(decoded(skeleton, "m"), onnx.ModelProto.FromString(skeleton.model))


def test_the_models_of_the_standard() -> None:
    for case in made():
        skeleton = read_skeleton(BytesSource(case.model.SerializeToString(), case.name))
        assert_same(decoded(skeleton, case.name), onnx.ModelProto.FromString(skeleton.model))


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_larger_models(path: Path) -> None:
    skeleton = read_skeleton(BytesSource(path.read_bytes(), "m"))
    assert_same(decoded(skeleton, "m"), onnx.ModelProto.FromString(skeleton.model))


def test_damaged_models_are_read_as_protobuf_reads_them_or_refused() -> None:
    randomly = random.Random(1)
    refused = same = 0
    for path in [p for p in STANDARD if p.stat().st_size < 2000]:
        for _ in range(6):
            data = bytearray(path.read_bytes())
            for _ in range(randomly.randrange(1, 4)):
                data[randomly.randrange(len(data))] = randomly.randrange(256)
            try:
                skeleton = read_skeleton(BytesSource(bytes(data), "m"))
                ours = decoded(skeleton, "m")
                look_at_all(ours.graph)
            except ModelError:
                refused += 1
                continue
            with contextlib.suppress(DecodeError):  # it also looks at messages that we leave alone
                assert_same(ours, onnx.ModelProto.FromString(skeleton.model))
                same += 1
    assert refused > 100
    assert same > 100


def look_at_all(graph: Graph) -> None:
    """Decode what is decoded only when somebody asks."""
    list(graph.values)
    for stored in graph.initializers.values():
        elements(stored)
    for one in graph.nodes:
        for _, body in one.attributes.graphs():
            look_at_all(body)


ELEMENTS = {
    "float": [1.5, -2.25, float("inf")],
    "double": [1.5, -2.25, 1e300],
    "float16": [1.5, -2.25, 65504.0],
    "bfloat16": [1.5, -2.25, 1e38],
    "int8": [-128, 0, 127],
    "int16": [-(2**15), 7, 2**15 - 1],
    "int32": [-(2**31), 7, 2**31 - 1],
    "int64": [-(2**63), 7, 2**63 - 1],
    "uint8": [0, 7, 255],
    "uint16": [0, 7, 65535],
    "uint32": [0, 7, 2**32 - 1],
    "uint64": [0, 7, 2**64 - 1],
    "bool": [True, False, True],
    "complex64": [1 + 2j, -1j, 0j],
    "complex128": [1 + 2j, -1j, 0j],
    "int4": [-8, 7, 3],
    "uint4": [15, 0, 3],
    "int2": [-2, 1, -1],
    "uint2": [3, 0, 1],
    "string": ["a", "größe", ""],
    "float8e5m2": [1.0, 2.0, 0.5],
}


@each("raw", [False, True])
@each("name", ELEMENTS)
def test_elements_of_every_type(name: str, raw: bool) -> None:
    code = getattr(TensorProto, name.upper())
    tensor = helper.make_tensor("t", code, [3], ELEMENTS[name])
    if raw and name != "string":
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor), "t")
    held = helper.make_node("Constant", [], ["y"], value=tensor)
    value = read(of_graph(fields(1, held.SerializeToString()))).graph.nodes[0].attributes.get("value")
    exact = name in ("string", "bool", "float8e5m2") or "int" in name
    wanted = None if name == "float8e5m2" else tuple(ELEMENTS[name])
    assert elements(value) == (wanted if exact else pytest.approx(wanted, rel=1e-2))


def test_elements_that_are_not_as_many_as_the_shape_says_or_lie_elsewhere() -> None:
    assert elements(Stored("t", (3,), "int64", payload=struct.pack("<2q", 1, 2))) is None
    assert elements(Stored("t", (3,), "int64")) is None
    assert elements(Stored("t", (3, 0), "int64")) == ()
    assert elements(Stored("t", (), "int64", payload=struct.pack("<q", 1))) == (1,)


def test_what_is_equal_is_one_object() -> None:
    nodes = [helper.make_node("Concat", ["a", "a"], [f"y{i}"], axis=1) for i in range(2)]
    values = [helper.make_tensor_value_info(name, 1, ["n", 3]) for name in "ab"]
    graph = read(helper.make_model(helper.make_graph(nodes, "g", values, [])).SerializeToString()).graph
    first, second = graph.nodes
    assert first.operation is second.operation
    assert first.inputs[0] is second.inputs[1]
    assert graph.inputs[0].type is graph.inputs[1].type


def test_nodes_in_another_order_and_with_notes_share_their_operation() -> None:
    note = fields(9, fields(1, "pkg.torch.onnx.name_scopes") + fields(2, "a"))
    usual = node(fields(1, "x"), fields(2, "y"), fields(3, "one"), fields(4, "Relu"))
    turned = node(fields(4, "Relu"), fields(7, "ai.onnx"), fields(2, "z"), fields(1, "x"), fields(3, "two"))
    noted = node(fields(1, "x"), fields(2, "u"), fields(4, "Relu"), note, fields(7, ""))
    other = node(fields(1, "x"), fields(2, "v"), fields(4, "Relu"), fields(8, "mine"))
    first, second, third, fourth = read(of_graph(usual, turned, noted, other)).graph.nodes
    assert first.operation is second.operation is third.operation is not fourth.operation
    assert [n.outputs for n in (first, second, third)] == [("y",), ("z",), ("u",)]
    assert [n.name for n in (first, second, third)] == ["one", "two", ""]
    assert [len(n.metadata) for n in (first, second, third)] == [0, 0, 1]


def test_names_that_are_not_ascii() -> None:
    nodes = [
        helper.make_node("Concat", ["größe"], ["größe_" + "é" * 200], name="plain", axis=1),
        helper.make_node("Concat", ["x"], ["y"], name="层/Concat", axis=1),
    ]
    ours = read(helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString()).graph.nodes
    assert_same_nodes(ours, nodes)


def test_a_name_that_is_no_text() -> None:
    with pytest.raises(ModelError, match="not UTF-8"):
        read(of_graph(node(fields(1, b"\xff\xfe"), fields(4, "Relu"))))


def test_a_single_field_that_is_there_twice() -> None:
    tensors = fields(5, number(2, 7) + number(1, 2), fields(7, b"\1\2"))
    attribute = fields(1, "first", "value") + number(20, 4) + tensors
    proto = onnx.AttributeProto.FromString(attribute)
    assert (proto.name, proto.t.dims, list(proto.t.int64_data)) == ("value", [2], [1, 2])
    one = read(of_graph(node(fields(2, "y"), fields(4, "Wrong", "Constant"), fields(5, attribute)))).graph.nodes[0]
    assert one.op == "Constant"
    assert elements(one.attributes.get("value")) == (1, 2)


def test_fields_of_another_wire_type_are_unknown() -> None:
    data = of_graph(node(number(1, 5), fields(2, "y"), fields(4, "Relu"), number(4, 1)))
    assert_same(read(data), onnx.ModelProto.FromString(data))


def test_groups_are_unknown_fields() -> None:
    group = b"\xa3\x06" + b"\x08\x01" + b"\xab\x06\xac\x06" + b"\xa4\x06"  # 100 { 1: 1, 101 {} }
    data = of_graph(node(fields(2, "y"), group, fields(4, "Relu")), group) + group
    assert onnx.ModelProto.FromString(data).graph.node[0].op_type == "Relu"
    assert read(data).graph.nodes[0].op == "Relu"
    for damaged in (b"\xa3\x06", b"\xa4\x06", b"\xa3\x06\xac\x06", b"\xa3\x06" * 101 + b"\xa4\x06" * 101):
        with pytest.raises(ModelError, match="damaged"):
            read(of_graph() + damaged)


def test_deep_nesting_is_refused() -> None:
    body = b""
    for _ in range(50):
        body = node(fields(4, "If"), fields(5, fields(1, "b") + fields(6, body) + number(20, 5)))
    with pytest.raises(ModelError, match="deeper"):
        look_at_all(read(of_graph(body)).graph)
    type_ = b""
    for _ in range(50):
        type_ = fields(4, fields(1, type_))
    with pytest.raises(ModelError, match="deeper"):
        read(of_graph(fields(11, fields(1, "x") + fields(2, type_))))
