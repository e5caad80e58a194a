"""The rows of the data set: one for each model and one for each of its layers, from a profile."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from flopwise.analyses.zoo import attributes, chains
from flopwise.analyses.zoo.entry import Entry
from flopwise.graph import STORED, Tensor
from flopwise.operators.counts import CLASSES
from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile
from flopwise.readers.source.location import shown

#: Column -> its type in Arrow, of the table of models.
MODELS: dict[str, str] = {
    "key": "string",
    "name": "string",
    "source": "string",
    "arguments": "string",
    "hash": "string",
    "family": "string",
    "year": "int64",
    "tags": "string",
    "format": "string",
    "opset": "int64",
    "inputs": "string",
    "dtypes": "string",
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
    "build_seconds": "double",
    "profile_seconds": "double",
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
    "name": "string",
    "op": "string",
    "origin": "string",
    "scope": "string",
    "kernel": "string",
    "stride": "string",
    "padding": "string",
    "dilation": "string",
    "groups": "int64",
    "heads": "int64",
    "hidden": "int64",
    "axis": "int64",
    "attributes": "string",
    "inputs": "string",
    "outputs": "string",
    "dtypes": "string",
    "weights": "string",
    "signature": "int64",
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
    "view": "bool",
    "written": "int64",
    **chains.columns(),
}

#: Figures of a profile's totals that the row of a model has.
_TOTALS = (
    "macs",
    "flops",
    "params",
    "buffers",
    "weight_bytes",
    "output_bytes",
    "activations",
    "peak_activation_bytes",
)


def model_row(entry: Entry, key: str, version: str, **figures: Any) -> dict[str, Any]:
    """The row of a model; what is not among the figures is null."""
    row: dict[str, Any] = dict.fromkeys(MODELS)
    row |= {"key": key, "name": entry.name, "source": shown(entry.model), "inputs": entry.call}
    row |= {"arguments": json.dumps(dict(entry.arguments)) if entry.arguments else ""}
    row |= {"family": entry.family, "year": entry.year, "tags": " ".join(entry.tags), "flopwise": version}
    return row | figures


def figures_of(profile: Profile) -> dict[str, Any]:
    """The figures of a profile for the row of its model."""
    content, graph = profile.to_dict(), profile.graph
    totals = content["totals"]
    versions = [row.node.version for row in profile.rows if "::" not in row.node.op]
    return {
        "format": graph.format,
        "opset": max(versions, default=0) or None,
        "inputs": " ".join(f"{t.name}:{t.dtype or '?'}:{attributes.shapes([t])}" for t in graph.inputs),
        "dtypes": attributes.dtypes(t for t in (*graph.inputs, *graph.outputs)),
        "status": "ok",
        "layers": len(profile.rows),
        **{name: _whole(count) for name, count in (totals["ops"] or {}).items()},
        **{key: _whole(totals[key]) for key in _TOTALS},
        "exact": profile.exact,
        "unknown": json.dumps(content["coverage"]["unknown"]) if profile.unknown else "",
        "notes": "\n".join(profile.notes),
    }


def layer_rows(entry: Entry, profile: Profile) -> list[dict[str, Any]]:
    """A row for each layer, in execution order.

    ``follower`` is the position of the only layer that uses its first result, where there is just one, ``written`` the
    bytes of that result, and ``view`` whether it is one, which moves nothing.
    """
    folding, links = fold(profile.graph), chains.followers(profile)
    rows = []
    for position, (row, follower) in enumerate(zip(profile.rows, links, strict=True)):
        node = row.node
        stored = [t for t in folding.stored(node) if t.kind in ("weight", "buffer")]
        layer: dict[str, Any] = {
            "model": entry.name,
            "family": entry.family,
            "year": entry.year,
            "position": position,
            "name": row.name,
            "op": node.op,
            "origin": node.origin,
            "scope": node.module,
            **attributes.columns(node),
            "attributes": attributes.text(node),
            "inputs": attributes.shapes(_changing(node.known_inputs)),
            "outputs": attributes.shapes(node.known_outputs),
            "dtypes": attributes.dtypes((*node.known_inputs, *node.known_outputs)),
            "weights": attributes.shapes(stored),
            **{name: _whole(count) for name, count in zip(CLASSES, row.counts or [None] * len(CLASSES), strict=True)},
            "macs": _whole(row.macs),
            "flops": _whole(row.flops),
            "params": _whole(row.params),
            "buffers": _whole(row.buffers),
            "weight_bytes": _whole(row.weight_bytes),
            "input_bytes": _whole(row.input_bytes),
            "output_bytes": _whole(row.output_bytes),
            "activations": _whole(row.activations),
            "times": _whole(row.times),
            "follower": follower,
            "view": chains.is_view(node),
            "written": _whole(chains.written(row)),
        }
        layer["signature"] = signature(layer)
        rows.append(layer)
    chains.with_chains(rows)
    return rows


def signature(layer: dict[str, Any]) -> int:
    """The same number for layers with the same operator, attributes, shapes and types, and another for all others."""
    text = "\0".join(str(layer.get(name) or "") for name in SAME)
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True
    )


def _changing(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The tensors that are not stored in the model."""
    return [t for t in tensors if t.kind not in STORED]


def _whole(figure: Any) -> int | None:
    """A figure as a column can hold it; None where it is a formula, or no 64 bits hold it."""
    return figure if isinstance(figure, int) and abs(figure) < 1 << 63 else None
