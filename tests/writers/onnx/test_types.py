"""Types that are written by hand are those that protobuf reads."""

from __future__ import annotations

import onnx
import pytest
from onnx import TypeProto, helper

from flopwise.formats.kit.program import MapType, OptionalType, SequenceType, SparseType, TensorType, Type
from flopwise.formats.sources.wire import message, number_field
from flopwise.writers.onnx.plan import encoded, entry, opened, retyped, with_type

TENSOR = helper.make_tensor_type_proto(1, [1, "n", None])
TYPES = [
    (TensorType("float32", (1, "n", None)), TENSOR),
    (TensorType("int64", ()), helper.make_tensor_type_proto(7, [])),
    (TensorType(None, None), helper.make_tensor_type_proto(0, None)),
    (SparseType("float32", (3,)), helper.make_sparse_tensor_type_proto(1, [3])),
    (SequenceType(TensorType("float32", (1, "n", None))), helper.make_sequence_type_proto(TENSOR)),
    (OptionalType(SequenceType(TensorType("float32", (1, "n", None)))), None),
    (MapType("int64", TensorType("float32", (1, "n", None))), helper.make_map_type_proto(7, TENSOR)),
]


def denoted() -> TypeProto:
    """A type whose parts have notes."""
    proto = TypeProto(denotation="IMAGE")
    proto.CopyFrom(helper.make_tensor_type_proto(1, ["n", 3], ["DATA_BATCH", "DATA_CHANNEL"]))
    proto.denotation = "IMAGE"
    return proto


@pytest.mark.parametrize(("type_", "proto"), TYPES)
def test_whole_types(type_: Type, proto: TypeProto | None) -> None:
    proto = proto or helper.make_optional_type_proto(helper.make_sequence_type_proto(TENSOR))
    read = TypeProto.FromString(encoded(type_))
    if type_ == TensorType(None, None):
        assert not read.tensor_type.HasField("shape")
        assert not read.tensor_type.elem_type
    else:
        assert read == proto
    value = onnx.ValueInfoProto.FromString(entry("größe", type_))
    assert (value.name, value.type) == ("größe", read)


def test_what_the_file_notes_stays() -> None:
    read = TypeProto.FromString(retyped(denoted().SerializeToString(), TensorType("float16", (2, None))))
    assert read.denotation == "IMAGE"
    assert read.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert [d.denotation for d in read.tensor_type.shape.dim] == ["DATA_BATCH", "DATA_CHANNEL"]
    assert [d.WhichOneof("value") for d in read.tensor_type.shape.dim] == ["dim_value", None]
    same = retyped(denoted().SerializeToString(), TensorType(None, ("n", 3)))
    assert same == denoted().SerializeToString()


def test_another_rank_has_no_notes() -> None:
    read = TypeProto.FromString(retyped(denoted().SerializeToString(), TensorType("float32", (2, 3, 4))))
    assert [(d.dim_value, d.denotation) for d in read.tensor_type.shape.dim] == [(2, ""), (3, ""), (4, "")]
    assert not TypeProto.FromString(
        retyped(denoted().SerializeToString(), TensorType(None, None))
    ).tensor_type.HasField("shape")


def test_another_kind_stands_in_its_place() -> None:
    sequence = helper.make_sequence_type_proto(TENSOR)
    assert TypeProto.FromString(retyped(denoted().SerializeToString(), TYPES[4][0])) == sequence
    assert TypeProto.FromString(retyped(sequence.SerializeToString(), TYPES[0][0])) == TENSOR


def test_shapes_are_taken_out() -> None:
    sparse = helper.make_sparse_tensor_type_proto(1, [3])
    for proto, tensor in (
        (denoted(), lambda p: p.tensor_type),
        (sparse, lambda p: p.sparse_tensor_type),
        (helper.make_optional_type_proto(denoted()), lambda p: p.optional_type.elem_type.tensor_type),
    ):
        wanted = TypeProto()
        wanted.CopyFrom(proto)
        tensor(wanted).ClearField("shape")
        assert TypeProto.FromString(opened(proto.SerializeToString())) == wanted
    sequence = helper.make_sequence_type_proto(TENSOR).SerializeToString()
    assert opened(sequence) == sequence


def test_a_value_keeps_what_else_it_has() -> None:
    value = onnx.ValueInfoProto(name="x", type=TENSOR, doc_string="an input")
    value.metadata_props.add(key="k", value="v")
    changed = onnx.ValueInfoProto.FromString(with_type(value.SerializeToString(), lambda old: encoded(TYPES[1][0])))
    value.type.CopyFrom(TYPES[1][1])
    assert changed == value
    bare = onnx.ValueInfoProto(name="x")
    assert onnx.ValueInfoProto.FromString(with_type(bare.SerializeToString(), lambda old: encoded(TYPES[1][0]))).type


def test_groups_stay() -> None:
    group = b"\xa3\x06\x08\x01\xa4\x06"
    dim = message(1, [group, number_field(1, 3)])
    old = group + message(1, [group, number_field(1, 1), message(2, [dim, group])]) + group
    new = retyped(old, TensorType("float32", (5,)))
    assert new.count(group) == old.count(group) == 5
    assert TypeProto.FromString(new).tensor_type.shape.dim[0].dim_value == 5
    assert opened(old).count(group) == 3  # those in the shape go with it
    assert with_type(group + message(2, [old]) + group, lambda type_: type_).count(group) == 7
