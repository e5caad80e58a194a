"""DeepSpeed 0.19.8, its FLOPS profiler: FLOPs and MACs of functions of PyTorch that it knows.

Source: https://github.com/deepspeedai/DeepSpeed, ``deepspeed/profiling/flops_profiler/profiler.py`` of the release
0.19.8 on the Python package index. Convolutions, linear layers, matrix products and fused attention are right; an
operator such as ``+`` counts nothing, and einsum goes through a printed number of four digits.
"""

from __future__ import annotations

import math

from flopwise.conventions.emulation import modules, patched_functions
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import broadcast, product


def _transposed(node: Node) -> Counts:
    """MACs by the positions of X; with bias one FLOP for each element of Y."""
    x, weight = node.input(0), node.input(1).dims
    mac = x.numel * product(weight[1:])
    return Counts(mac=mac, add=node.output().numel if node.has_input(2) else 0)


def _resampled(node: Node) -> Counts:
    """numel(X) × the scale of each axis FLOPs; where a size was asked for, its product."""
    scales = modules.scales(node)
    if scales is None:
        return Counts(add=product(node.output().dims[2:]) if node.via else node.output().numel)
    return Counts(add=int(math.prod(scales, start=node.input(0).numel)))


def _attention(node: Node) -> Counts:
    """MACs of both products for each head of Q, whatever the mask."""
    query, key, value = node.input(0).dims, node.input(1).dims, node.input(2).dims
    length = key[-2]
    return Counts(mac=product((*query, length)) + product((*query[:-1], length, value[-1])))


def _pairwise(node: Node) -> Counts:
    """One FLOP for each element of the result."""
    return Counts(add=product(broadcast(*[t.dims for t in node.known_inputs[:2]])))


RULES: dict[str, patched_functions.Rule] = {
    **patched_functions.FUNCTIONS,
    **dict.fromkeys([f"conv_transpose{rank}" for rank in ("1d", "2d", "3d")], _transposed),
    **dict.fromkeys(["@", "mm", "bmm"], patched_functions.matmul),
    "interpolate": _resampled,
    **dict.fromkeys(["mul", "add"], _pairwise),
    "scaled_dot_product_attention": _attention,
}

CONVENTION = patched_functions.convention(
    "deepspeed",
    "DeepSpeed",
    RULES,
    again=False,
    params=modules.parameters,
    summary="DeepSpeed's profiler: 2 per multiply-add of functions it knows, and some work of norms and activations.",
    source="DeepSpeed 0.19.8, deepspeed/profiling/flops_profiler/profiler.py",
    note="DeepSpeed counts nothing for operators other than @",
)
