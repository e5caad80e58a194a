"""Writing models, and looking at what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

import flopwise


def checked(path: Path) -> onnx.ModelProto:
    """A file that onnx's checker and its strict shape inference accept."""
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return model


def write(net: object, folder: Path, inputs: Any = None, check: bool = True, **options: Any) -> onnx.ModelProto:
    """The model as it is in the file that is written."""
    path = folder / "written.onnx"
    flopwise.write_shapes(net, path, inputs, **options)
    return checked(path) if check else onnx.load(path)


def shape(value: onnx.ValueInfoProto) -> tuple[int | str | None, ...] | None:
    """Dims as numbers, symbols, or None where they are open; None without a shape."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)


def shapes(graph: onnx.GraphProto) -> dict[str, Any]:
    """Shapes by name, of inputs, outputs and values."""
    return {v.name: shape(v) for v in (*graph.input, *graph.output, *graph.value_info)}


def notes(node: onnx.NodeProto) -> dict[str, str]:
    """Metadata of an operator."""
    return {e.key: e.value for e in node.metadata_props}
