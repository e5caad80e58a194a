"""Operators of the first operator set, for which onnx has no shape inference, as the next set spells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import defs, helper

from flopwise.readers.onnx.file.skeleton import CODES

#: Attributes by name.
_Attributes = dict[str, Any]


def _cast(old: _Attributes) -> _Attributes:
    name = old.get("to", b"").decode().lower().replace("double", "float64")
    return {"to": CODES["float32" if name == "float" else name]}


def _pad(old: _Attributes) -> _Attributes:
    return {"pads": old.pop("paddings", []), **old}


def _upsample(old: _Attributes) -> _Attributes:
    return {"scales": [1.0, 1.0, old.get("height_scale", 1.0), old.get("width_scale", 1.0)]}


#: Operators whose attributes the second version spells in another way, and that way.
_RESPELLED: dict[str, Callable[[_Attributes], _Attributes]] = {
    "Cast": _cast,
    "Concat": lambda old: {"axis": 1, **old},
    "Pad": _pad,
    "Upsample": _upsample,
}

#: Operators whose later version takes an input where the first takes an attribute: operator -> attribute.
_NOW_INPUT: dict[str, str] = {"Reshape": "shape"}


def modern(schema: Any, node: onnx.NodeProto) -> tuple[Any, onnx.NodeProto, dict[str, onnx.TensorProto]]:
    """The first later version of an operator for which shapes can be inferred, and the node as that version spells it.

    Args:
        schema: the version in force, which has no inference.
        node: the node; it is not changed.

    Returns:
        The later version, the node, and the tensors that the node takes in addition.
    """
    newer = next((s for s in _later(schema) if s.has_type_and_shape_inference_function), None)
    if newer is None or schema.since_version != 1:
        return newer or schema, node, {}
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    new, tensors = onnx.NodeProto(), dict[str, onnx.TensorProto]()
    new.CopyFrom(node)
    del new.attribute[:]
    if node.op_type in _RESPELLED:
        attributes = _RESPELLED[node.op_type](attributes)
    if node.op_type in _NOW_INPUT:
        key = _NOW_INPUT[node.op_type]
        value = attributes.pop(key, [])
        tensors[f"{node.name}/{key}"] = helper.make_tensor(key, onnx.TensorProto.INT64, [len(value)], value)
        new.input.extend(tensors)
    kept = {k: v for k, v in attributes.items() if k in newer.attributes and v != []}
    new.attribute.extend(helper.make_attribute(k, v) for k, v in kept.items())
    return newer, new, tensors


def _later(schema: Any) -> list[Any]:
    """The later versions of an operator, oldest first."""
    versions: list[Any] = []
    version: Any = defs.get_schema(schema.name, domain=schema.domain)
    while version.since_version > schema.since_version:
        versions.append(version)
        version = defs.get_schema(schema.name, version.since_version - 1, schema.domain)
    return versions[::-1]
