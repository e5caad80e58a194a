"""Inputs of an ONNX model that are sequences or optionals: what the user says about their members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flopwise.errors import InputError
from flopwise.formats.onnx.file.model import OptionalType, SequenceType, TensorType, Type, Value
from flopwise.formats.onnx.types import concrete
from flopwise.readers.inputs import InputSpec
from flopwise.sizes.facts import Fact, Facts, Kind


def settle_members(value: Value, spec: InputSpec, facts: Facts) -> tuple[Fact, Type | None, bool]:
    """The fact about a sequence or optional, its type, and whether its members have other shapes than in the file.

    Args:
        value: the input.
        spec: what the user says: a list for a sequence; None, a shape or an array for an optional.
        facts: where facts come from.

    Raises:
        InputError: the members are not given as such, or do not fit the type.
    """
    inner, sequence = value.type, False
    while isinstance(inner, SequenceType | OptionalType):
        sequence = sequence or isinstance(inner, SequenceType)
        inner = inner.element
    items = spec.items
    if items is None and not sequence:
        items = (spec,)
    elif items is None and spec.shape == () and spec.value is None:
        items = ()
    if items is None or type(inner) is not TensorType or (len(items) > 1 and not sequence):
        cure = "a list of shapes or arrays" if sequence else "None, a shape or an array"
        raise InputError(f"input {value.name!r} is not a tensor; its shape cannot be given: give {cure}, in Python")
    types = [_member(value.name, item, inner) for item in items]
    before = concrete(inner)
    common = _common(types) if types else inner
    members = [facts.tensor(one.dtype, concrete(one)) for one in types]
    kind: Kind = "sequence"
    if isinstance(value.type, OptionalType):
        kind = "optional sequence" if sequence else "optional"
    fact = facts.sequence(inner.dtype, members, kind)
    return fact, _with_inner(value.type, common), before is not None and before != concrete(common)


def _with_inner(type_: Type | None, inner: TensorType) -> Type:
    """The type with another one in the place of what is in the middle of it."""
    if isinstance(type_, SequenceType | OptionalType):
        return replace(type_, element=_with_inner(type_.element, inner))
    return inner


def _member(name: str, item: InputSpec, declared: TensorType) -> TensorType:
    """The type of a member."""
    dtype = item.dtype or declared.dtype
    if declared.dtype and dtype != declared.dtype:
        raise InputError(f"input {name!r} holds {declared.dtype}, but {item.dtype} is given")
    if item.items is not None or any(isinstance(d, str) for d in item.shape):
        raise InputError(f"input {name!r} holds tensors; the shape of each must be given in numbers")
    if declared.dims is not None and len(declared.dims) != len(item.shape):
        raise InputError(
            f"input {name!r} holds tensors of {len(declared.dims)} dimensions, "
            f"but {len(item.shape)} are given: {'x'.join(map(str, item.shape)) or 'a scalar'}"
        )
    return TensorType(dtype, tuple(item.shape))


def _common(types: Sequence[TensorType]) -> TensorType:
    """The type that all members have in common; extents that differ are open."""
    shapes = [type_.dims or () for type_ in types]
    if len(set(map(len, shapes))) > 1:
        return TensorType(types[0].dtype, None)
    dims = [extents[0] if len(set(extents)) == 1 else None for extents in zip(*shapes, strict=True)]
    return TensorType(types[0].dtype, tuple(dims))
