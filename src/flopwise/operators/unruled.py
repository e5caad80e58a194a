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

_SPECIAL = "a special function: how many operations it takes is the choice of the library that computes it"

#: Special functions of PyTorch's.
_FUNCTIONS = (
    *("digamma", "erfinv", "gcd", "i0", "i0e", "i1", "i1e", "igamma", "igammac", "lcm", "lgamma", "mvlgamma", "ndtri"),
    *("polygamma", "special_zeta", "special_log_ndtr", "special_airy_ai", "special_bessel_j0", "special_bessel_j1"),
    *("special_bessel_y0", "special_bessel_y1", "special_multigammaln", "special_polygamma"),
)

_ITERATES = "repeats until it converges, so the number of steps is data"

#: Decompositions of PyTorch's.
_DECOMPOSITIONS = (
    *("linalg_svd", "linalg_svdvals", "svd", "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh"),
    *(
        "linalg_lstsq",
        "linalg_pinv",
        "pinverse",
        "linalg_matrix_rank",
        "linalg_cond",
        "matrix_exp",
        "linalg_matrix_exp",
    ),
)

#: Operator -> why it has no rule.
NOT_RULED: dict[str, str] = {
    "flopwise::Tensor": "stands for a tensor in a file with weights, which has no operators",
    "ATen": "stands for any operator of PyTorch's ATen library, and ONNX never specified them",
    "ai.onnx.preview.training::Gradient": (
        "runs the backward pass of the part of the model between the tensors that it names"
    ),
    **{f"aten::{op}": _SPECIAL for op in _FUNCTIONS},
    **{f"aten::{op}": _ITERATES for op in _DECOMPOSITIONS},
    **{f"com.microsoft::{op}": f"holds {what}" for op, what in _CONTAINERS.items()},
    "com.microsoft::SparseAttentionIndexer": _INDEXER,
    "com.microsoft::PackedSparseAttentionIndexer": _INDEXER,
}
