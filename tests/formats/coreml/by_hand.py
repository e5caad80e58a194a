"""A small Core ML program written by hand: one convolution whose weights lie in the specification."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from flopwise.formats.coreml.decode import SCHEMA
from flopwise.formats.sources.wire import message, number_field, varint
from flopwise.formats.table import COREML
from flopwise.graph import Graph


def read(data: bytes, inputs: Mapping[str, Any] | None = None) -> Graph:
    """The graph of a specification, whose bytes alone do not say that it is one."""
    return COREML.graph(data, inputs, None, None, lambda step: None, COREML.options())


def encoded(kind: str, values: Mapping[str, Any]) -> bytes:
    """A message of a kind; what the schema calls a place is given as bytes."""
    parts: list[bytes] = []
    for name, number, inner, many, _ in SCHEMA[kind]:
        if name not in values:
            continue
        if inner == "int" and many:
            parts.append(message(number, [varint(n & (1 << 64) - 1) for n in values[name]]))
            continue
        for value in values[name] if many else [values[name]]:
            if inner == "int":
                parts.append(number_field(number, value & (1 << 64) - 1))
            elif inner == "text":
                parts.append(message(number, [value.encode()]))
            else:
                parts.append(message(number, [value if inner == "place" else encoded(inner, value)]))
    return b"".join(parts)


def tensor(code: int, *dims: int | None) -> dict[str, Any]:
    """The type of a tensor; None for an extent that is open."""
    open_ = {"unknown": {}}
    listed = [open_ if n is None else {"constant": {"size": n}} for n in dims]
    return {"tensorType": {"dataType": code, "rank": len(dims), "dimensions": listed}}


def inline(type_: Mapping[str, Any], field: str, data: bytes) -> bytes:
    """A value whose elements are in the specification."""
    return encoded("Value", {"type": type_, "immediateValue": {"tensor": {field: {"values": data}}}})


def in_file(type_: Mapping[str, Any], file: str, offset: int) -> bytes:
    """A value whose elements lie in a file of weights."""
    return encoded("Value", {"type": type_, "blobFileValue": {"fileName": file, "offset": offset}})


def text(value: str) -> bytes:
    """A value that is a text."""
    type_ = {"tensorType": {"dataType": 2}}
    return encoded("Value", {"type": type_, "immediateValue": {"tensor": {"strings": {"values": [value]}}}})


def constant(name: str, value: bytes, type_: Mapping[str, Any]) -> dict[str, Any]:
    """The operation of a constant."""
    return {
        "type": "const",
        "outputs": [{"name": name, "type": type_}],
        "attributes": [{"key": "val", "value": value}],
    }


def operation(kind: str, result: str, type_: Mapping[str, Any], **inputs: str | bytes) -> dict[str, Any]:
    """An operation; its inputs are names, or values as bytes."""
    bound = [
        {"key": key, "value": {"arguments": [{"value" if isinstance(value, bytes) else "name": value}]}}
        for key, value in inputs.items()
    ]
    return {"type": kind, "inputs": bound, "outputs": [{"name": result, "type": type_}]}


WEIGHT = tensor(11, 4, 3, 3, 3)
IMAGE = tensor(11, 1, 3, 8, 8)
RESULT = tensor(11, 1, 4, 6, 6)

#: The weights of the convolution.
KERNEL = struct.pack("<108f", *range(108))


def program(
    operations: list[dict[str, Any]] | None = None, outputs: tuple[str, ...] = ("y",), **more: Any
) -> dict[str, Any]:
    """A model of these operations on an image, by default one convolution."""
    if operations is None:
        kernel = constant("w", inline(WEIGHT, "floats", KERNEL), WEIGHT)
        operations = [kernel, operation("conv", "y", RESULT, x="x", weight="w")]
    function = {
        "inputs": [{"name": "x", "type": more.pop("image", IMAGE)}],
        "opset": "CoreML8",
        "block_specializations": [{"key": "CoreML8", "value": {"outputs": list(outputs), "operations": operations}}],
    }
    return {
        "specificationVersion": 9,
        "mlProgram": {"version": 1, "functions": [{"key": "main", "value": function}]},
        **more,
    }


#: A model by hand: one convolution.
CONVOLUTION = encoded("Model", program())
