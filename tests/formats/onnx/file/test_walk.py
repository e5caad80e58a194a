"""What the walk over a file reads, what it leaves out, and what it refuses."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import LIGHT, array, conv_net, fields, model, node, number, value, weight

from flopwise.errors import ModelError
from flopwise.formats.kit.tensors import DEEPEST, Skeleton
from flopwise.formats.onnx import tensors as onnx_tensors
from flopwise.formats.onnx.walk import METADATA_KEPT, read_skeleton
from flopwise.formats.sources.source import BytesSource, StreamSource
from flopwise.formats.sources.wire import FIRST_READ


class Recorder(io.BytesIO):
    """A stream that remembers which bytes were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.seen = numpy.zeros(len(data), bool)

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.seen[start : start + len(data)] = True
        return data


def skeleton(data: bytes) -> Skeleton:
    return read_skeleton(BytesSource(data, "m"))


def light(data: bytes) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(skeleton(data).model)


def stored_as(kind: str, name: str = "w", size: int = 20_000) -> TensorProto:
    """A large tensor whose elements are in the given field."""
    code, content = {
        "raw_data": (TensorProto.FLOAT, numpy.random.default_rng(1).standard_normal(size).astype(numpy.float32)),
        "float_data": (TensorProto.FLOAT, numpy.random.default_rng(1).standard_normal(size)),
        "double_data": (TensorProto.DOUBLE, numpy.random.default_rng(1).standard_normal(size)),
        "int32_data": (TensorProto.INT32, numpy.random.default_rng(1).integers(-(2**31), 2**31, size)),
        "int64_data": (TensorProto.INT64, numpy.random.default_rng(1).integers(-(2**63), 2**63 - 1, size)),
        "uint64_data": (TensorProto.UINT64, numpy.random.default_rng(1).integers(0, 2**63, size)),
        "string_data": (TensorProto.STRING, [f"token {i}".encode() for i in range(size)]),
    }[kind]
    tensor = TensorProto(name=name, data_type=code, dims=[size])
    if kind == "raw_data":
        tensor.raw_data = content.tobytes()  # type: ignore[union-attr] # an array for this kind
    else:
        getattr(tensor, kind).extend(content)
    return tensor


def sparse(values: TensorProto) -> onnx.SparseTensorProto:
    size = values.dims[0]
    return onnx.SparseTensorProto(values=values, indices=array("i", range(size), numpy.int64), dims=[10 * size])


def body(*nodes: onnx.NodeProto, weights: Any = ()) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "body", [], [value("o", None)], list(weights))


def holders(tensor: TensorProto) -> dict[str, onnx.ModelProto]:
    """A model for each place where a tensor can lie."""
    constant = node("Constant", "", "w", value=tensor)
    add = node("Add", "x w", "o")
    inputs = {"x": (1,), "c": ()}
    function = helper.make_function(
        "my", "F", ["x"], ["o"], [constant, add], [helper.make_opsetid("", 17)]
    )  # fmt: skip
    nested = body(node("If", "c", "o", then_branch=body(constant, add), else_branch=body(add, weights=[tensor])))
    relu = body(node("Relu", "x", "o"))
    return {
        "initialiser": model([add], inputs, [tensor]),
        "constant": model([constant, add], inputs),
        "list of tensors": model([node("F", "x", "o", domain="my", all=[tensor, tensor])], inputs, domains={"my": 1}),
        "body": model([node("If", "c", "o", then_branch=body(constant, add), else_branch=relu)], inputs),
        "body in body": model([node("If", "c", "o", then_branch=nested, else_branch=nested)], inputs),
        "function": model([node("F", "x", "o", domain="my")], inputs, functions=[function], domains={"my": 1}),
        "sparse initialiser": model([add], inputs, sparse=[sparse(tensor)]),
        "sparse constant": model([node("Constant", "", "w", sparse_value=sparse(tensor)), add], inputs),
    }


KINDS = ("raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data")
PLACES = tuple(holders(TensorProto(dims=[0])))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_payloads_are_not_read(kind: str, place: str) -> None:
    tensor = stored_as(kind)
    data = holders(tensor)[place].SerializeToString()
    stream = Recorder(data)
    kept = read_skeleton(StreamSource(stream)).model
    payload = tensor.SerializeToString()[100:-100]
    at, times = data.find(payload), 0
    while at >= 0:
        # String elements are fields one by one, so their lengths have to be read; nothing of them is kept.
        if kind != "string_data":
            assert stream.seen[at : at + len(payload)].sum() <= FIRST_READ
        times += 1
        at = data.find(payload, at + 1)
    assert times == data.count(payload) > 0
    assert len(kept) < 1000
    onnx.ModelProto.FromString(kept)


def test_the_bodies_of_loops() -> None:
    tensor = stored_as("raw_data")
    graph = helper.make_graph(
        [node("Identity", "c", "d"), node("Add", "s w", "t")],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("s", (20_000,))],
        [value("d", (), TensorProto.BOOL), value("t", (20_000,))],
        [tensor],
    )
    data = model([node("Loop", "m c x", "y", body=graph)], {"x": (20_000,), "m": (), "c": ()}).SerializeToString()
    assert len(skeleton(data).model) < 1000


def test_what_is_left_is_the_same_graph() -> None:
    for data in (
        conv_net().SerializeToString(),
        *(p.read_bytes() for p in sorted(LIGHT.glob("*.onnx"))),
    ):
        whole, rest = onnx.ModelProto.FromString(data), light(data)
        assert list(rest.opset_import) == list(whole.opset_import)
        assert list(rest.graph.node) == list(whole.graph.node)
        assert list(rest.graph.input) == list(whole.graph.input)
        assert list(rest.graph.output) == list(whole.graph.output)
        assert [(t.name, list(t.dims), t.data_type) for t in rest.graph.initializer] == [
            (t.name, list(t.dims), t.data_type) for t in whole.graph.initializer
        ]


def test_elements_that_may_steer_shapes_stay() -> None:
    tensors = [
        array("i64", range(1024), numpy.int64),
        array("i32", range(1024), numpy.int32),
        array("scales", [1, 1, 2, 2]),
        array("scalar", 0.5),
    ]
    left_out = [array("long", range(1025), numpy.int64), array("bias", range(9))]
    rest = light(model([node("Relu", "x", "y")], {"x": (1,)}, [*tensors, *left_out]).SerializeToString())
    assert list(rest.graph.initializer)[:4] == tensors
    assert [t.HasField("raw_data") for t in rest.graph.initializer] == [True] * 4 + [False] * 2


def test_metadata_of_exporters_is_skipped() -> None:
    net = conv_net()
    long = "long " * 20_000
    holders = (net, net.graph, *net.graph.node, *net.graph.initializer)
    net.graph.value_info.append(value("c", (1, 64, 32, 32)))
    for holder in (*holders, net.graph.value_info[0]):
        holder.doc_string = long
        holder.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=long)
    for key in sorted(METADATA_KEPT):
        net.graph.node[0].metadata_props.add(key=key.decode(), value="kept")
    net.training_info.add().algorithm.node.append(node("Relu", "x", "y", doc=long))
    net.graph.quantization_annotation.add(tensor_name="c").quant_parameter_tensor_names.add(key="k", value=long)
    data = net.SerializeToString()
    stream = Recorder(data)
    rest = onnx.ModelProto.FromString(read_skeleton(StreamSource(stream)).model)
    assert stream.seen.sum() < 200_000 < len(data)  # the first look ahead, and a little after each jump
    assert len(rest.SerializeToString()) < 4000
    kept = {e.key for e in rest.graph.node[0].metadata_props}
    assert kept == {k.decode() for k in METADATA_KEPT}


def test_metadata_whose_value_comes_first() -> None:
    (key, *_) = sorted(METADATA_KEPT)
    entries = [fields(2, "kept") + fields(1, key), fields(2, "x" * 500) + fields(1, b"other")]
    content = fields(1, "x") + fields(2, "y") + fields(4, "Relu") + fields(9, *entries)
    data = number(1, 8) + fields(7, fields(1, content))
    assert [e.value for e in light(data).graph.node[0].metadata_props] == ["kept"]


def test_any_order_of_fields() -> None:
    """Protobuf writers may order fields as they like, repeat messages, and pack numbers or not."""
    tensor = weight("w", 30, 40)
    plain = model([node("MatMul", "x w", "y", "mm")], {"x": (2, 30)}, [tensor])
    raw = fields(9, tensor.raw_data)
    dims, packed = number(1, 30) + number(1, 40), fields(1, b"\x1e\x28")
    orders = [
        raw + dims + number(2, 1) + fields(8, "w"),
        fields(8, "w") + packed + raw + number(2, 1),
        number(2, 1) + raw + fields(8, "w") + number(1, 30) + fields(1, b"\x28"),
        fields(8, "old") + number(2, 7) + dims + raw + fields(8, "w") + number(2, 1),
    ]
    inputs = fields(11, plain.graph.input[0].SerializeToString()) + fields(
        12, plain.graph.output[0].SerializeToString()
    )
    nodes = fields(1, plain.graph.node[0].SerializeToString())
    opset = fields(8, number(2, 17))
    whole = read_skeleton(BytesSource(plain.SerializeToString()))
    for order in orders:
        stored = fields(5, order)
        for data in (
            number(1, 8) + opset + fields(7, stored + nodes + inputs),
            fields(7, nodes) + opset + fields(7, inputs + stored) + number(1, 8),  # a message given twice is merged
        ):
            found = skeleton(data)
            (place,) = found.initializers["w"].places
            assert data[place.start : place.end] == tensor.raw_data
            assert found.initializers["w"].dims == whole.initializers["w"].dims == (30, 40)
            proto = onnx.ModelProto.FromString(found.model)
            assert list(proto.graph.node) == list(plain.graph.node)
            assert len(found.model) < 200


def test_a_constant_is_found_whatever_its_tensor_is_called() -> None:
    tensor = weight("own name", 30, 40)
    attribute = fields(1, "value") + fields(5, tensor.SerializeToString()) + number(20, TensorProto.INT8 + 1)
    for content in (
        fields(5, attribute) + fields(2, "w") + fields(4, "Constant"),
        fields(2, "w") + fields(4, "Constant") + fields(5, attribute),
    ):
        found = skeleton(number(1, 8) + fields(7, fields(1, content)))
        (left,) = onnx.ModelProto.FromString(found.model).graph.node
        assert found.inner[left.attribute[0].t.name].dims == (30, 40)


def test_names_in_bodies_and_functions_are_their_own() -> None:
    for place, net in holders(stored_as("raw_data", name="x")).items():
        assert ("x" in skeleton(net.SerializeToString()).initializers) == ("initialiser" in place), place


def test_later_additions_to_the_format_are_skipped() -> None:
    data = conv_net().SerializeToString()
    assert skeleton(data + fields(27, "?") + number(99, 1)).model == skeleton(data).model


def graph(content: bytes) -> bytes:
    return number(1, 8) + fields(8, number(2, 17)) + fields(7, content)


def tensor_of(*parts: bytes) -> bytes:
    return graph(fields(5, b"".join(parts)))


def nest(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        attribute = fields(1, "then_branch") + fields(6, content + fields(10, "x" * 400))
        content = fields(1, fields(5, attribute))
    return graph(content)


F32 = number(2, 1)
BAD: dict[str, tuple[bytes, str]] = {
    "no graph": (number(1, 8), "not an ONNX model .it holds no graph"),
    "a caffemodel": (fields(1, "LeNet") + fields(100, b""), "not an ONNX model .field 1 at byte 0"),
    "another message": (fields(9, "x"), "not an ONNX model .field 9 at byte 0"),
    "unknown type": (tensor_of(fields(8, "w"), number(2, 77)), "tensor 'w' has the unknown element type 77"),
    "no type": (tensor_of(fields(8, "w")), "tensor 'w' has the unknown element type 0"),
    "negative": (tensor_of(fields(8, "w"), F32, number(1, 3), number(1, -2)), r"negative dimension: \(3, -2\)"),
    "short": (
        tensor_of(fields(8, "w"), F32, number(1, 300), fields(9, bytes(9))),
        "takes 1200 bytes, but 9 are stored",
    ),
    "few": (tensor_of(fields(8, "w"), F32, number(1, 300), fields(4, bytes(8))), "takes 1200 bytes, but 8 are stored"),
    "huge": (
        tensor_of(fields(8, "w"), F32, number(1, 1 << 62), number(1, 1 << 62), fields(9, bytes(400))),
        r"takes 85070591730234615865843651857942052864 bytes, but 400 are stored",
    ),
    "rank": (tensor_of(fields(8, "w"), F32, number(1, 1) * 500), "has 65 dimensions; more than 64 are not possible"),
    "packed rank": (tensor_of(F32, fields(1, b"\x01" * 700)), "more than 64 dimensions"),
    "open dim": (tensor_of(F32, fields(1, b"\x01\x80"), fields(3, bytes(400))), "a number does not end"),
    "name": (tensor_of(F32, fields(8, b"\xff"), fields(3, bytes(400))), "a name is not UTF-8"),
    "tensor": (tensor_of(b"\x00\x00"), "no tensor"),
    "usual tensor": (tensor_of(fields(1, b"\x80"), F32, fields(8, "w"), fields(9, bytes(400))), "does not end"),
    "sparse": (graph(fields(15, fields(1, number(2, 1)))), "a sparse tensor without values or indices"),
    "deep": (nest(DEEPEST + 2), f"control flow nests deeper than {DEEPEST}"),
}


@pytest.mark.parametrize("case", BAD)
def test_damage(case: str) -> None:
    data, told = BAD[case]
    with pytest.raises(ModelError, match=told):  # whoever opens the file puts its name before
        skeleton(data)


def test_what_nests_less_deep_is_read() -> None:
    assert skeleton(nest(DEEPEST)).model


def test_a_graph_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_tensors, "LARGEST_GRAPH", 1 << 20)
    for content in (
        fields(2, "x" * (1 << 20)),
        fields(1, "") * 20_000,
        fields(1, fields(1, "x" * 400)) * 3000,
        fields(5, fields(8, "x" * (1 << 20))),
        fields(5, number(2, 1) + fields(13, fields(1, "location") + fields(2, "x" * (1 << 20)))),
    ):
        with pytest.raises(
            ModelError, match="takes more than 1 MB without the weights; allow more with --largest-graph"
        ):
            skeleton(graph(content))


def test_any_change_of_a_byte_is_read_or_refused() -> None:
    rng = random.Random(0)
    data = holders(stored_as("raw_data", size=500))["body in body"].SerializeToString()
    refused = 0
    for _ in range(2000):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] = rng.randrange(256)
        try:
            skeleton(bytes(changed))
        except ModelError:
            refused += 1
    assert 0 < refused < 2000
