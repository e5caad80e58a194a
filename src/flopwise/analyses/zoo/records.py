"""The rows of the data set: one for each model and one for each of its layers, from a profile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from flopwise._results import fields
from flopwise.analyses.zoo import chains
from flopwise.analyses.zoo.entry import Entry
from flopwise.formats.sources.location import shown
from flopwise.graph import STORED, Node, Tensor
from flopwise.operators.counts import CLASSES
from flopwise.operators.folding import constant
from flopwise.operators.tables import row as operator
from flopwise.profiles.profile import Profile

#: Column -> value, of a model or a layer.
Row: TypeAlias = dict[str, Any]

#: Figures of a layer.
_FIGURES = (
    "macs",
    "flops",
    "params",
    "buffers",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "activations",
    "times",
)

#: Figures of a profile's totals that the row of a model has.
_TOTALS = (*(name for name in _FIGURES if name not in ("input_bytes", "times")), "peak_activation_bytes")

#: Column -> its type in Arrow, of the table of models.
MODELS: dict[str, str] = {
    **dict.fromkeys(("key", "name", "source", "arguments", "hash", "family"), "string"),
    "year": "int64",
    "tags": "string",
    "format": "string",
    "opset": "int64",
    **dict.fromkeys(("inputs", "dtypes", "status", "error"), "string"),
    **dict.fromkeys(("layers", *CLASSES, *_TOTALS), "int64"),
    "exact": "bool",
    "unknown": "string",
    "notes": "string",
    **dict.fromkeys(("seconds", "build_seconds", "profile_seconds"), "double"),
    "peak_memory": "int64",
    "flopwise": "string",
}

#: What makes two layers the same; their signature is a hash of it.
SAME = ("op", "attributes", "inputs", "outputs", "weights", "dtypes")

#: Column -> its type in Arrow, of the table of layers.
LAYERS: dict[str, str] = {
    "model": "string",
    "family": "string",
    "year": "int64",
    "position": "int64",
    **dict.fromkeys(("name", "op", "origin", "scope", "kernel", "stride", "padding", "dilation"), "string"),
    **dict.fromkeys(("groups", "heads", "hidden", "axis"), "int64"),
    **dict.fromkeys(("attributes", "inputs", "outputs", "dtypes", "weights"), "string"),
    **dict.fromkeys(("signature", *CLASSES, *_FIGURES, "follower"), "int64"),
    "view": "bool",
    "written": "int64",
    **chains.columns(),
}


def model_row(entry: Entry, key: str, version: str, **figures: object) -> Row:
    """The row of a model; what is not among the figures is null."""
    row: Row = dict.fromkeys(MODELS)
    row |= {"key": key, "name": entry.name, "source": shown(entry.model), "inputs": entry.call}
    row |= {"arguments": json.dumps(dict(entry.arguments)) if entry.arguments else ""}
    row |= {"family": entry.family, "year": entry.year, "tags": " ".join(entry.tags), "flopwise": version}
    return row | figures


def figures_of(profile: Profile) -> Row:
    """The figures of a profile for the row of its model."""
    content, graph = profile.to_dict(), profile.graph
    totals = content["totals"]
    versions = [row.node.version for row in profile.rows if "::" not in row.node.op]
    return {
        "format": graph.format,
        "opset": max(versions, default=0) or None,
        "inputs": " ".join(f"{t.name}:{t.dtype or '?'}:{_shapes([t])}" for t in graph.inputs),
        "dtypes": _dtypes(t for t in (*graph.inputs, *graph.outputs)),
        "status": "ok",
        "layers": len(profile.rows),
        **{name: _cell(count) for name, count in (totals["ops"] or {}).items()},
        **{key: _cell(totals[key]) for key in _TOTALS},
        "exact": profile.exact,
        "unknown": json.dumps(content["coverage"]["unknown"]) if profile.unknown else "",
        "notes": "\n".join(profile.notes),
    }


def layer_rows(entry: Entry, profile: Profile) -> list[Row]:
    """A row for each layer, in execution order.

    ``follower`` is the position of the only layer that uses its first result, where there is just one, ``written`` the
    bytes of that result, and ``view`` whether it is one, which moves nothing.
    """
    folding, links = constant(profile.graph), chains.followers(profile)
    rows = []
    for position, (row, follower) in enumerate(zip(profile.rows, links, strict=True)):
        node = row.node
        stored = [t for t in folding.stored(node) if t.kind in ("weight", "buffer")]
        layer: Row = {
            "model": entry.name,
            **fields(entry, "family year"),
            "position": position,
            "name": row.name,
            **fields(node, "op origin"),
            "scope": node.module,
            **_settings(node),
            "attributes": _attributes(node),
            "inputs": _shapes(t for t in node.known_inputs if t.kind not in STORED),
            "outputs": _shapes(node.known_outputs),
            "dtypes": _dtypes((*node.known_inputs, *node.known_outputs)),
            "weights": _shapes(stored),
            **{name: _cell(count) for name, count in zip(CLASSES, row.counts or [None] * len(CLASSES), strict=True)},
            **{name: _cell(getattr(row, name)) for name in _FIGURES},
            "follower": follower,
            "view": chains.is_view(node),
            "written": _cell(chains.written(row)),
        }
        layer["signature"] = signature(layer)
        rows.append(layer)
    chains.add_chains(rows)
    return rows


def signature(layer: Row) -> int:
    """A hash: the same for layers with the same operator, attributes, shapes and types, and another for all others."""
    text = "\0".join(str(layer.get(name) or "") for name in SAME)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _cell(figure: object) -> int | None:
    """A figure as a column can hold it; None where it is a formula, or no 64 bits hold it."""
    return figure if isinstance(figure, int) and abs(figure) < 1 << 63 else None


#: Longest text of all attributes; of a longer one its hash is kept.
LONGEST = 4096


def _settings(node: Node) -> Row:
    """Kernel, stride, padding and dilation as texts (``3x3``), groups, heads, hidden size and axis as numbers.

    What an operator does not have is null. Padding stands as ONNX has it: the beginnings of all axes, then the ends.
    """
    attrs = node.attrs
    kernel = attrs.get("kernel_shape")
    group = attrs.get("group")
    weight = operator(node.op).inputs.kernel
    if weight is not None:
        group = 1 if group is None else group
        if kernel is None and node.has_input(weight) and node.input(weight).shape is not None:
            kernel = node.input(weight).dims[2:]
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


def _times(values: object) -> str | None:
    return "x".join(map(str, values)) if isinstance(values, Sequence) and not isinstance(values, (str, bytes)) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 31 else None


def _attributes(node: Node) -> str:
    """The attributes that decide what the operator computes, as JSON with sorted keys."""
    own = node.attrs or node.arguments
    text = json.dumps(_plain(own), sort_keys=True)
    if len(text) <= LONGEST:
        return text
    return json.dumps({"blake2b": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), "length": len(text)})


def _plain(value: object) -> object:
    """A value as JSON can hold it."""
    if isinstance(value, Tensor):
        return _shapes([value])
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _shapes(tensors: Iterable[Tensor]) -> str:
    """Shapes of tensors as a text: ``1x3x224x224 64``."""
    return " ".join("?" if t.shape is None else "x".join(map(str, t.shape)) or "scalar" for t in tensors)


def _dtypes(tensors: Iterable[Tensor]) -> str:
    """Element types of tensors as a text, each once: ``float32 int64``."""
    return " ".join(dict.fromkeys(t.dtype or "?" for t in tensors))
