"""The rows of the data set: one for each model and one for each of its layers, from a profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flopwise.analyses.zoo.sources import Entry
from flopwise.graph import STORED, Node, Tensor
from flopwise.operators.counts import CLASSES
from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile

#: Column -> its type in Arrow, of the table of models.
MODELS: dict[str, str] = {
    "key": "string",
    "name": "string",
    "model": "string",
    "inputs": "string",
    "family": "string",
    "year": "int64",
    "tags": "string",
    "format": "string",
    "status": "string",
    "error": "string",
    "layers": "int64",
    **dict.fromkeys(CLASSES, "int64"),
    "macs": "int64",
    "flops": "int64",
    "params": "int64",
    "buffers": "int64",
    "weight_bytes": "int64",
    "output_bytes": "int64",
    "activations": "int64",
    "peak_activation_bytes": "int64",
    "exact": "bool",
    "unknown": "string",
    "notes": "string",
    "seconds": "double",
    "peak_memory": "int64",
    "flopwise": "string",
}

#: The same of the table of layers.
LAYERS: dict[str, str] = {
    "model": "string",
    "family": "string",
    "position": "int64",
    "name": "string",
    "op": "string",
    "origin": "string",
    "scope": "string",
    "attributes": "string",
    "inputs": "string",
    "outputs": "string",
    "dtypes": "string",
    "weights": "string",
    **dict.fromkeys(CLASSES, "int64"),
    "macs": "int64",
    "flops": "int64",
    "params": "int64",
    "buffers": "int64",
    "weight_bytes": "int64",
    "input_bytes": "int64",
    "output_bytes": "int64",
    "activations": "int64",
    "times": "int64",
    "follower": "int64",
}


def model_row(entry: Entry, key: str, version: str, **figures: Any) -> dict[str, Any]:
    """The row of a model; figures that are not given are null."""
    row: dict[str, Any] = dict.fromkeys(MODELS)
    row |= {"key": key, "name": entry.name, "model": entry.model, "inputs": " ".join(entry.inputs)}
    row |= {"family": entry.family, "year": entry.year, "tags": " ".join(entry.tags), "flopwise": version}
    return row | figures


def figures_of(profile: Profile) -> dict[str, Any]:
    """The figures of a profile for the row of its model."""
    content = profile.to_dict()
    totals = content["totals"]
    kept = (
        "macs",
        "flops",
        "params",
        "buffers",
        "weight_bytes",
        "output_bytes",
        "activations",
        "peak_activation_bytes",
    )
    return {
        "format": profile.graph.format,
        "status": "ok",
        "layers": len(profile.rows),
        **(totals["ops"] or {}),
        **{key: totals[key] for key in kept},
        "exact": profile.exact,
        "unknown": json.dumps(content["coverage"]["unknown"]) if profile.unknown else "",
        "notes": "\n".join(profile.notes),
    }


def layer_rows(entry: Entry, profile: Profile) -> list[dict[str, Any]]:
    """A row for each layer, in execution order.

    ``follower`` is the position of the only layer that uses its first result, where there is just one: the two could be
    fused.
    """
    folding = fold(profile.graph)
    users: dict[str, list[int]] = {}
    for position, row in enumerate(profile.rows):
        for tensor in row.node.known_inputs:
            users.setdefault(tensor.name, []).append(position)
    kept = {tensor.name for tensor in profile.graph.outputs}
    rows = []
    for position, row in enumerate(profile.rows):
        node, made = row.node, row.node.outputs[0] if row.node.outputs else None
        after = sorted(set(users.get(made.name, ()))) if made is not None and made.name not in kept else []
        stored = [t for t in folding.stored(node) if t.kind in ("weight", "buffer")]
        rows.append(
            {
                "model": entry.name,
                "family": entry.family,
                "position": position,
                "name": row.name,
                "op": node.op,
                "origin": node.origin,
                "scope": node.module,
                "attributes": _attributes(node),
                "inputs": _shapes([t for t in node.known_inputs if t.kind not in STORED]),
                "outputs": _shapes(node.known_outputs),
                "dtypes": " ".join(dict.fromkeys(t.dtype or "?" for t in (*node.known_inputs, *node.known_outputs))),
                "weights": _shapes(stored),
                **dict(zip(CLASSES, row.counts or [None] * len(CLASSES), strict=True)),
                "macs": row.macs,
                "flops": row.flops,
                "params": row.params,
                "buffers": row.buffers,
                "weight_bytes": row.weight_bytes,
                "input_bytes": row.input_bytes,
                "output_bytes": row.output_bytes,
                "activations": row.activations,
                "times": row.times,
                "follower": after[0] if len(after) == 1 and len(users[made.name]) == 1 else None,  # type: ignore[union-attr]
            }
        )
    return rows


def _shapes(tensors: Any) -> str:
    """Shapes of tensors as a text: ``1x3x224x224 64``."""
    return " ".join("?" if t.shape is None else "x".join(map(str, t.shape)) or "scalar" for t in tensors)


def _attributes(node: Node) -> str:
    """The attributes that decide what the operator computes, as JSON with sorted keys."""

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return _shapes([value])
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)

    own = {key: value for key, value in node.attrs.items() if key != "args"} or node.attrs.get("args", {})
    return json.dumps(plain(own), sort_keys=True)[:4096]
