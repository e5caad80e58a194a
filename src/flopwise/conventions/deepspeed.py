"""DeepSpeed's FLOPS profiler and calflops: FLOPs and MACs of functions of PyTorch that they know.

Both replace functions by their own, and hook recurrent modules. Source: DeepSpeed 0.19.8
(https://github.com/deepspeedai/DeepSpeed, ``deepspeed/profiling/flops_profiler/profiler.py``) and calflops 0.3.2
(https://github.com/MrYxJ/calculate-flops.pytorch, ``calflops/pytorch_ops.py`` and ``calculate_pipline.py``), of the
releases on the Python package index.

In DeepSpeed convolutions, linear layers, matrix products and fused attention are right; an operator such as ``+``
counts nothing, and einsum goes through a printed number of four digits. What calflops does by mistake is reproduced: a
transposed convolution is divided by its groups twice, an upsampling counts its input, the operator ``@`` and fused
attention count nothing.
"""

from __future__ import annotations

import math
from typing import Any, cast

from flopwise.conventions.calls import Layer, columns, parameters, places, ranked, trained
from flopwise.conventions.convention import Display
from flopwise.conventions.emulation import (
    RECURRENT,
    Rule,
    Tool,
    convention,
    from_the_left,
    printed_flops,
    recurrent,
    scales,
)
from flopwise.graph import Graph, Node
from flopwise.operators.counts import CLASSES, Counts
from flopwise.operators.extents import broadcast, product

#: FLOPs: two for a multiply-add, one for anything else that a tool counts.
FLOPS = Counts(mac=2, add=1)


def _elements(node: Node) -> Counts:
    """numel(X) FLOPs."""
    return Counts(add=node.input(0).numel)


def _product(node: Node) -> Counts:
    """numel(X) × output features MACs; the bias is left out."""
    return Counts(mac=node.input(0).numel * columns(node))


def _sum_of_product(node: Node) -> Counts:
    """numel(A) × columns of B MACs, and one FLOP for each element of what is added."""
    args = node.arguments
    added = node.input(2) if node.has_input(2) else args.get("input")
    return _product(node) + Counts(add=0 if added is None else added.numel)


def _convolution(node: Node) -> Counts:
    """MACs, and numel(Y) FLOPs with bias.

    Padding "same" with an even kernel is taken as padding half of it on either side: Y is then one smaller.
    """
    x, weight, y = node.input(0).dims, node.input(1).dims, node.output().dims
    spread = list(y[2:])
    args = node.arguments
    if args.get("padding") == "same":
        dilations: Any = node.attrs.get("dilations") or [1] * len(spread)
        spread = [n - d * (k - 1) % 2 for n, d, k in zip(spread, dilations, weight[2:], strict=True)]
    positions = product((x[0], *spread))
    return Counts(mac=product(weight) * positions, add=weight[0] * positions if node.has_input(2) else 0)


def _batch_norm(node: Node) -> Counts:
    """numel(X) FLOPs, with scale 2 numel(X); in training 4 and 5."""
    scaled, training = node.has_input(1), bool(node.attrs.get("training_mode", 0))
    return Counts(add=node.input(0).numel * ((5 if scaled else 4) if training else (2 if scaled else 1)))


def _normalization(node: Node) -> Counts:
    """5 numel(X) FLOPs, without scale 4."""
    return Counts(add=node.input(0).numel * (5 if node.has_input(1) else 4))


def _einsum(node: Node) -> Counts:
    """As FLOPs, what numpy prints as its optimised count, with four digits; no MACs."""
    return Counts(add=int(printed_flops(node)))


def _recurrent(layer: Layer) -> Counts:
    """FLOPs: (2n - 1 per product of n, biases, 1, 7 or 10 widths) × the first two dimensions of X × directions."""
    return Counts(add=recurrent(layer, lambda weight: 2 * weight.numel - product(weight.dims[:1])))


#: Functions that both tools count alike.
_FUNCTIONS: dict[str, Rule] = {
    "linear": _product,
    **dict.fromkeys(ranked("conv"), _convolution),
    **dict.fromkeys(["relu", "prelu", "elu", "leaky_relu", "relu6", "silu", "gelu", "softmax"], _elements),
    "batch_norm": _batch_norm,
    **dict.fromkeys(["layer_norm", "group_norm", "instance_norm"], _normalization),
    **dict.fromkeys(ranked("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"), _elements),
    "matmul": _product,
    **dict.fromkeys(["addmm", "baddbmm"], _sum_of_product),
    "einsum": _einsum,
}


#: Of recurrent modules, which both tools hook.
_HOOKS = dict.fromkeys(RECURRENT, _recurrent)

_OTHER = Counts(**{name: 1 for name in CLASSES if name != "mac"})
_DISPLAY = Display(classes={"MACs": Counts(mac=1), "other FLOPs": _OTHER})


def _macs(tool: Tool, graph: Graph) -> int:
    """A lower bound where the tool fails somewhere."""
    return sum([count.mac for count in tool.counts(graph) if count is not None])


def _transposed(node: Node) -> Counts:
    """MACs by the positions of X; with bias one FLOP for each element of Y."""
    x, weight = node.input(0), node.input(1).dims
    mac = x.numel * product(weight[1:])
    return Counts(mac=mac, add=node.output().numel if node.has_input(2) else 0)


def _resampled(node: Node) -> Counts:
    """numel(X) × the scale of each axis FLOPs; where a size was asked for, its product."""
    factors = scales(node)
    if factors is None:
        return Counts(add=product(node.output().dims[2:]) if node.via else node.output().numel)
    return Counts(add=int(math.prod(factors, start=node.input(0).numel)))


def _attention(node: Node) -> Counts:
    """MACs of both products for each head of Q, whatever the mask."""
    query, key, value = node.input(0).dims, node.input(1).dims, node.input(2).dims
    length = key[-2]
    return Counts(mac=product((*query, length)) + product((*query[:-1], length, value[-1])))


def _pairwise(node: Node) -> Counts:
    """One FLOP for each element of the result."""
    return Counts(add=product(broadcast(*[t.dims for t in node.known_inputs[:2]])))


_DEEPSPEED: Tool = Tool(
    name="deepspeed",
    title="DeepSpeed",
    summary="DeepSpeed's profiler: 2 per multiply-add of functions it knows, and some work of norms and activations.",
    source="DeepSpeed 0.19.8, deepspeed/profiling/flops_profiler/profiler.py",
    notes=("DeepSpeed counts nothing for operators other than @",),
    hooks=_HOOKS,
    functions={
        **_FUNCTIONS,
        **dict.fromkeys(ranked("conv_transpose"), _transposed),
        **dict.fromkeys(["@", "mm", "bmm"], _product),
        "interpolate": _resampled,
        **dict.fromkeys(["mul", "add"], _pairwise),
        "scaled_dot_product_attention": _attention,
    },
    totals={"params": parameters, "macs": lambda graph: _macs(_DEEPSPEED, graph)},
    unit="FLOP",
    weights=FLOPS,
    display=_DISPLAY,
)

DEEPSPEED = convention(_DEEPSPEED)


def _transposed_by_groups(node: Node) -> Counts:
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


def _resampled_input(node: Node) -> Counts:
    """numel(X) FLOPs; where a size was asked for, its product."""
    if scales(node) is None and node.via:
        return Counts(add=product(node.output().dims[2:]))
    return _elements(node)


CALFLOPS_TOOL: Tool = Tool(
    name="calflops",
    title="calflops",
    summary="calflops: 2 per multiply-add of functions it knows, and some work of norms, activations and poolings.",
    source="calflops 0.3.2, calflops/pytorch_ops.py",
    notes=("calflops counts nothing for fused attention and for operators",),
    hooks=_HOOKS,
    functions={
        **_FUNCTIONS,
        **dict.fromkeys(ranked("conv_transpose"), _transposed_by_groups),
        "interpolate": _resampled_input,
        **dict.fromkeys(["mul", "add"], lambda node: Counts(add=from_the_left(node))),
    },
    visits=places,
    functions_again=True,
    totals={"params": trained, "macs": lambda graph: _macs(CALFLOPS_TOOL, graph)},
    unit="FLOP",
    weights=FLOPS,
    display=_DISPLAY,
)

CALFLOPS = convention(CALFLOPS_TOOL)
