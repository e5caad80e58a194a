"""Operators that stay unknown on purpose: nobody can say what they execute from what a model says about them."""

from __future__ import annotations

_SEARCH = "whole models and runs them until the data say stop, at most max_length times"

#: Containers of ``com.microsoft``: what they run is not written as operators of the graph around them.
_CONTAINERS: dict[str, str] = {
    "BeamSearch": _SEARCH,
    "GreedySearch": _SEARCH,
    "Sampling": _SEARCH,
    "WhisperBeamSearch": _SEARCH,
    "EPContext": "a part of the model that was compiled for one device",
    "Snpe": "a part of the model that was compiled for one device",
}

_INDEXER = "scores blocks of keys whose number is data: how far the sequence has come, and what was kept of it"

#: Operator -> why it has no rule.
NOT_RULED: dict[str, str] = {
    "ATen": "stands for any operator of PyTorch's ATen library, and ONNX never specified them",
    "ai.onnx.preview.training::Gradient": (
        "runs the backward pass of the part of the model between the tensors that it names"
    ),
    **{f"com.microsoft::{op}": f"holds {what}" for op, what in _CONTAINERS.items()},
    "com.microsoft::SparseAttentionIndexer": _INDEXER,
    "com.microsoft::PackedSparseAttentionIndexer": _INDEXER,
}
