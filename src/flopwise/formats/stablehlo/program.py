"""A decoded module: types, constants, operations and where they come from."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.graph import Tensor
from flopwise.graph.dtypes import BITS

#: What MLIR calls element types, where the house has another name.
_DTYPES = {"i1": "bool", "f8E4M3": "float8e4m3fn", "complex<f32>": "complex64", "complex<f64>": "complex128"}

_TYPE = re.compile(r"(?:(ui|si|i)|(bf|f))(\d+)(\w*)$")

#: A quantised type: what is stored, and whether the first of its scales has a zero point.
_QUANTIZED = re.compile(r"!quant\.uniform<(\w+)(?:<[^>]*>)?(?::[^,]*)?(?:, *\{?[-+.\w]+(:-?[1-9]\d*)?)?")

#: Steps of a location that stand for transformations around a module, and for what JAX runs.
_WRAPPED = re.compile(r"^(?:jvp|transpose|vmap|checkpoint|remat|rematted_computation|custom_jvp|custom_vjp)\((.*)\)$")
_STEPS = frozenset(
    {"closed_call", "checkpoint", "remat", "rematted_computation", "custom_jvp_call", "custom_vjp_call", "shard_map",
     "pjit", "core_call", "scan", "eqx", "composite", "named_call", "cond"}
)  # fmt: skip


#: A type as the decoder says it: sizes, -1 for open ones, and the element type; no sizes for what is no tensor.
Described: TypeAlias = "tuple[list[int] | None, str]"

#: A region as the decoder says it: arguments with the names of their places, and operations.
Body: TypeAlias = "tuple[list[tuple[int, Described, str]], list[tuple[Any, ...]]]"


class Type(NamedTuple):
    """The shape and the element type of a value; of what is no tensor the shape is ()."""

    shape: tuple[int, ...]
    dtype: str
    is_tensor: bool = True
    #: True for a quantised type with a zero point other than 0.
    shifted: bool = False


class Constant(NamedTuple):
    """A stored tensor, and where its elements are: ``start`` and ``end``, or ``data``."""

    shape: tuple[int, ...]
    dtype: str
    place: Json


class Value(NamedTuple):
    """A value of a program: its type, and the tensor that it is."""

    type: Type
    tensor: Tensor
    #: The one number that stands in all places of the tensor.
    number: complex | None = None
    #: Several values as one, which is no tensor.
    members: tuple[Value, ...] | None = None


class Operation(NamedTuple):
    """An operation as the file has it."""

    name: str
    operands: list[int]
    results: list[tuple[int, Described]]
    attrs: Json
    regions: list[Body]
    place: str


def type_of(described: Described) -> Type:
    """The type of a value as the decoder says it.

    Raises:
        ModelError: a size is open.
    """
    sizes, name = described
    if sizes is None:
        return Type((), "", False)
    if any(size < 0 for size in sizes):
        shape = "x".join("?" if size < 0 else str(size) for size in sizes)
        raise ModelError(f"a tensor of shape {shape} stays open at these sizes of the inputs")
    quantized = _QUANTIZED.match(name)
    return Type(tuple(sizes), dtype(name), shifted=bool(quantized and quantized[2]))


def dtype(name: str) -> str:
    """The house's name of an element type of MLIR's.

    >>> dtype("bf16"), dtype("ui8"), dtype("i1"), dtype("f8E5M2FNUZ"), dtype("!quant.uniform<i8:f32, 0.5>")
    ('bfloat16', 'uint8', 'bool', 'float8e5m2fnuz', 'int8')
    """
    quantized = _QUANTIZED.match(name)
    name = quantized[1] if quantized else name
    parts = _TYPE.match(name)
    if name in _DTYPES or parts is None:
        return _DTYPES.get(name, name)
    whole, floating, bits, rest = parts.groups()
    word = {"ui": "uint", "bf": "bfloat"}.get(whole or floating, "int" if whole else "float")
    known = f"{word}{bits}{rest.lower()}"
    return known if known in BITS else name


def steps_of(place: str) -> list[str]:
    """The modules that the name of a location leads through.

    >>> steps_of("jit(f)/transpose(jvp(Net))/Dense_0/dot_general"), steps_of("jit(f)/while/body/add")
    (['Net', 'Dense_0'], [])
    """
    steps: list[str] = []
    before = ""
    for part in place.split("/")[:-1]:
        name = part
        while inner := _WRAPPED.match(name):
            name = inner[1]
        name = name.rstrip(":")
        inside = before == "while" and name in ("body", "cond")
        before = name
        if not inside and name and name not in (*_STEPS, "while") and "(" not in name and "branch_" not in name:
            steps.append(name)
    return steps
