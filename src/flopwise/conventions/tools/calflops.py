"""calflops 0.3.2: FLOPs and MACs of functions of PyTorch that it knows.

Source: https://github.com/MrYxJ/calculate-flops.pytorch, ``calflops/pytorch_ops.py`` and ``calculate_pipline.py`` of
the release 0.3.2 on the Python package index. What the tool does by mistake is reproduced: a transposed convolution is
divided by its groups twice, an upsampling counts its input, the operator ``@`` and fused attention count nothing.
"""

from __future__ import annotations

from typing import cast

from flopwise.conventions.emulation import modules, patched_functions
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import product


def _transposed(node: Node) -> Counts:
    """MACs ÷ groups; with bias one FLOP for each element of what a plain convolution of X would give."""
    x, weight = (cast("tuple[int, ...]", node.input(place).dims) for place in (0, 1))
    attrs, ones = node.attrs, [1] * (len(weight) - 2)
    strides, dilations = attrs.get("strides") or ones, attrs.get("dilations") or ones
    pads = attrs.get("pads") or [0] * len(ones)
    axes = zip(x[2:], pads[: len(ones)], dilations, weight[2:], strides, strict=True)
    spread = [(n + 2 * pad - (dilation * (k - 1) + 1)) // stride + 1 for n, pad, dilation, k, stride in axes]
    outs = weight[1]
    mac = product((*weight[2:], x[1], outs // attrs.get("group", 1), x[0], *x[2:]))
    return Counts(mac=mac, add=product((outs, x[0], *spread)) if node.has_input(2) else 0)


def _resampled(node: Node) -> Counts:
    """numel(X) FLOPs; where a size was asked for, its product."""
    if modules.scales(node) is None and node.via:
        return Counts(add=product(node.output().dims[2:]))
    return patched_functions.elements(node)


RULES: dict[str, patched_functions.Rule] = {
    **patched_functions.FUNCTIONS,
    **dict.fromkeys([f"conv_transpose{rank}" for rank in ("1d", "2d", "3d")], _transposed),
    "interpolate": _resampled,
    **dict.fromkeys(["mul", "add"], lambda node: Counts(add=modules.from_the_left(node))),
}

CONVENTION = patched_functions.convention(
    "calflops",
    "calflops",
    RULES,
    again=True,
    params=modules.trained,
    summary="calflops: 2 per multiply-add of functions it knows, and some work of norms, activations and poolings.",
    source="calflops 0.3.2, calflops/pytorch_ops.py",
    note="calflops counts nothing for fused attention and for operators",
)
