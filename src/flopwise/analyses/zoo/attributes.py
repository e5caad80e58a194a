"""What an operator is set to: the attributes that people ask for as columns, and all of them as one text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flopwise.graph import Node, Tensor

#: Longest text of all attributes; of a longer one its hash is kept.
LONGEST = 4096

#: Operators whose weight says the kernel where the attributes leave it out.
_CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv")


def columns(node: Node) -> dict[str, Any]:
    """Kernel, stride, padding and dilation as texts (``3x3``), groups, heads, hidden size and axis as numbers.

    What an operator does not have is null. Padding stands as ONNX has it: the beginnings of all axes, then the ends.
    """
    attrs = node.attrs
    kernel = attrs.get("kernel_shape")
    group = attrs.get("group")
    if node.op in _CONVOLUTIONS:
        group = 1 if group is None else group
        if kernel is None and node.has_input(1) and node.input(1).shape is not None:
            kernel = node.input(1).dims[2:]
    padding = attrs.get("pads")
    automatic = attrs.get("auto_pad")
    return {
        "kernel": _times(kernel),
        "stride": _times(attrs.get("strides")),
        "padding": str(automatic) if automatic not in (None, "", "NOTSET", b"NOTSET") else _times(padding),
        "dilation": _times(attrs.get("dilations")),
        "groups": _number(group),
        "heads": _heads(node),
        "hidden": _number(attrs.get("hidden_size")),
        "axis": _number(attrs.get("axis")),
    }


def _heads(node: Node) -> int | None:
    """Heads of queries: an attribute, or the second extent of four."""
    for name in ("q_num_heads", "num_heads"):
        if name in node.attrs:
            return _number(node.attrs[name])
    if node.op.rpartition("::")[2] == "Attention" and node.has_input(0):
        shape = node.input(0).shape
        return _number(shape[1]) if shape is not None and len(shape) == 4 else None
    return None


def _times(values: Any) -> str | None:
    return "x".join(map(str, values)) if isinstance(values, Sequence) and not isinstance(values, (str, bytes)) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 31 else None


def text(node: Node) -> str:
    """The attributes that decide what the operator computes, as JSON with sorted keys."""
    own = {key: value for key, value in node.attrs.items() if key != "args"} or node.attrs.get("args", {})
    whole = json.dumps(_plain(own), sort_keys=True)
    if len(whole) <= LONGEST:
        return whole
    return json.dumps({"blake2b": hashlib.blake2b(whole.encode(), digest_size=16).hexdigest(), "length": len(whole)})


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return shapes([value])
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def shapes(tensors: Iterable[Tensor]) -> str:
    """Shapes of tensors as a text: ``1x3x224x224 64``."""
    return " ".join("?" if t.shape is None else "x".join(map(str, t.shape)) or "scalar" for t in tensors)


def dtypes(tensors: Iterable[Tensor]) -> str:
    """Element types of tensors as a text, each once: ``float32 int64``."""
    return " ".join(dict.fromkeys(t.dtype or "?" for t in tensors))
