"""Inputs of an ONNX model that are sequences or optionals: what the user says about their members."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TypeProto

from flopwise.errors import InputError
from flopwise.readers.inputs import InputSpec
from flopwise.readers.onnx.file.skeleton import CODES, DTYPES
from flopwise.readers.onnx.types import Facts, concrete


def settle_members(value: onnx.ValueInfoProto, spec: InputSpec) -> tuple[Facts, bool]:
    """What is known about a sequence or optional, and whether its members have another shape than the one in the file.

    Args:
        value: the input; the common shape of its members is written into it.
        spec: what the user says: a list for a sequence; None, a shape or an array for an optional.

    Raises:
        InputError: the members are not given as such, or do not fit the type.
    """
    inner, sequence = value.type, False
    while (kind := inner.WhichOneof("value")) in ("sequence_type", "optional_type"):
        sequence = sequence or kind == "sequence_type"
        inner = getattr(inner, kind).elem_type
    items = spec.items
    if items is None and not sequence:
        items = (spec,)
    elif items is None and spec.shape == () and spec.value is None:
        items = ()
    if items is None or not inner.HasField("tensor_type") or (len(items) > 1 and not sequence):
        cure = "a list of shapes or arrays" if sequence else "None, a shape or an array"
        raise InputError(f"input {value.name!r} is not a tensor; its shape cannot be given: give {cure}, in Python")
    types = [_member(value.name, item, inner.tensor_type) for item in items]
    before = concrete(inner)
    if types:
        inner.CopyFrom(_common(types))
    return Facts(value.type, types, spec.value), before is not None and before != concrete(inner)


def _member(name: str, item: InputSpec, declared: TypeProto.Tensor) -> TypeProto:
    """The type of a member."""
    code = CODES[item.dtype] if item.dtype else declared.elem_type
    if declared.elem_type and code != declared.elem_type:
        raise InputError(f"input {name!r} holds {DTYPES.get(declared.elem_type)}, but {item.dtype} is given")
    if item.items is not None or any(isinstance(d, str) for d in item.shape):
        raise InputError(f"input {name!r} holds tensors; the shape of each must be given in numbers")
    if declared.HasField("shape") and len(declared.shape.dim) != len(item.shape):
        raise InputError(
            f"input {name!r} holds tensors of {len(declared.shape.dim)} dimensions, "
            f"but {len(item.shape)} are given: {'x'.join(map(str, item.shape)) or 'a scalar'}"
        )
    made: TypeProto = onnx.helper.make_tensor_type_proto(code, list(item.shape))
    return made


def _common(types: Sequence[TypeProto]) -> TypeProto:
    """What all members have in common; extents that differ are open."""
    shapes = [[d.dim_value for d in t.tensor_type.shape.dim] for t in types]
    dims: list[int | None] | None = None
    if len({len(s) for s in shapes}) == 1:
        dims = [extents[0] if len(set(extents)) == 1 else None for extents in zip(*shapes, strict=True)]
    made: TypeProto = onnx.helper.make_tensor_type_proto(types[0].tensor_type.elem_type, dims)
    return made
