"""A model's sparsity as the JSON schema ``flopwise.sparsity/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flopwise.analyses.sparsity.measuring import Measured
    from flopwise.analyses.sparsity.model import Effective, Layer, Sparsity


def content(sparsity: Sparsity) -> dict[str, Any]:
    """The schema: integers, shares between 0 and 1, texts, or None where something is unknown."""
    asked = sparsity.asked
    return {
        "schema": "flopwise.sparsity/1",
        "model": {"name": sparsity.name, "source": sparsity.source, "format": sparsity.format},
        "asked": {
            "blocks": [str(b) for b in asked.blocks],
            "patterns": [str(p) for p in asked.patterns],
            "min_size": asked.min_size,
            "min_ratio": asked.min_ratio,
            "tolerance": asked.tolerance,
            "ranks": None if asked.ranks is None else sorted(asked.ranks),
            "order": asked.order,
        },
        "totals": {
            "tensors": len(sparsity.tensors),
            "elements": sparsity.elements,
            "zeros": sparsity.zeros,
            "ratio": sparsity.ratio,
            "unknown": len(sparsity.unknown),
            **_effective(sparsity.effective, sparsity),
        },
        "tensors": [_tensor(t) for t in sparsity.tensors],
        "layers": [_layer(layer, sparsity) for layer in sparsity.layers],
        "notes": list(sparsity.notes),
    }


def _effective(effective: Effective | None, sparsity: Sparsity) -> dict[str, Any]:
    if effective is None:
        return {"macs": None, "effective_macs": None}
    asked = sparsity.asked
    return {
        "macs": effective.macs,
        "effective_macs": {
            "zeros": effective.zeros,
            "search": effective.found,
            "blocks": {str(b): macs for b, macs in zip(asked.blocks, effective.blocks, strict=True)},
            "patterns": {str(p): macs for p, macs in zip(asked.patterns, effective.patterns, strict=True)},
        },
    }


def _tensor(tensor: Measured) -> dict[str, Any]:
    found = tensor.found
    return {
        "name": tensor.name,
        "layer": tensor.layer,
        "op": tensor.op,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "matrix": {"matrices": tensor.matrices, "rows": tensor.rows, "columns": tensor.columns},
        "elements": tensor.elements,
        "zero_point": tensor.zero_point,
        "zeros": tensor.zeros,
        "ratio": tensor.ratio,
        "search": None if found is None else {"block": [found.first, found.second], "ratio": found.ratio},
        "blocks": [
            {
                "block": str(b.block),
                "blocks": b.blocks,
                "at_edges": b.at_edges,
                "zero": b.zero,
                "ratio": b.ratio,
                "elements": b.elements,
            }
            for b in tensor.blocks
        ],
        "patterns": [
            {
                "pattern": str(g.pattern),
                "groups": g.groups,
                "holding": g.holding,
                "ratio": g.ratio,
                "holds": g.holds,
            }
            for g in tensor.patterns
        ],
        "outputs": tensor.outputs,
        "zero_outputs": tensor.zero_outputs,
        "inputs": tensor.inputs,
        "zero_inputs": tensor.zero_inputs,
        "note": tensor.note,
    }


def _layer(layer: Layer, sparsity: Sparsity) -> dict[str, Any]:
    zeros, elements = layer.zeros, layer.elements
    return {
        "name": layer.name,
        "op": layer.row.node.op,
        "tensors": [w.name for w in layer.weights],
        "elements": elements,
        "zeros": zeros,
        "ratio": None if zeros is None else zeros / elements if elements else 0.0,
        **_effective(layer.effective, sparsity),
    }
