"""ptflops and mmcv: hooks on modules, and functions that count before they work; ptflops' second backend.

Source: ptflops 0.7.5 (https://github.com/sovrasov/flops-counter.pytorch, ``ptflops/pytorch_engine.py``,
``pytorch_ops.py``, ``aten_ops.py`` and ``aten_engine.py`` of the release on the Python package index) and mmcv 2.2.0
(https://github.com/open-mmlab/mmcv, ``mmcv/cnn/utils/flops_counter.py``).

What ptflops does by mistake is reproduced: an activation or pooling module that calls a function of
``torch.nn.functional`` counts twice, once for the module and once for the function; counts of modules are divided by
the batch, those of functions are not; operands of different rank are paired from the left. mmcv says that it is
derived from ptflops, and has the hooks of its early days; figures of that time that name ptflops follow it too. A
function or an operator such as ``+`` counts nothing there, nor does a class of module that is not listed.

The ATen backend counts mm, addmm, bmm and convolution as they reach PyTorch's dispatcher on a CPU; attention and LSTM
are one kernel each there, of which it sees nothing, and a linear layer on elements that are not in row-major order is
mm without a bias.
"""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from flopwise.conventions.calls import Layer, columns, places, ranked, trained
from flopwise.conventions.convention import Convention, Whole, by_node, described
from flopwise.conventions.emulation import (
    RECURRENT,
    Hook,
    Number,
    Rule,
    Tool,
    convention,
    elements,
    from_the_left,
    recurrent,
    results,
    scales,
)
from flopwise.conventions.torch import kernels, missed
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import product


def _upsampled(layer: Layer) -> int:
    """numel(Y): the tool takes the first element of the result and its channels as the batch."""
    inner = layer.y.dims[1:]
    return product(inner[:1]) * product(inner[1:])


def _scaled(layer: Layer) -> int:
    """numel(X), twice that where the module has an option ``affine`` that is true; LayerNorm has none."""
    return layer.x.numel * (2 if layer.options.get("affine") else 1)


def convolution(layer: Layer, extra: int = 0, transposed: bool = False) -> int:
    """MAC + numel(Y) with bias; a transposed convolution by the positions of its input."""
    cells = layer.size("in_channels") * (layer.size("out_channels") // layer.size("groups")) + extra
    batch, spread = layer.x.dims[0], (layer.x if transposed else layer.y).dims[2:]
    bias = product((batch, *layer.y.dims[1:])) if "bias" in layer.tensors else 0
    return product((*layer.options["kernel_size"], cells, batch, *spread)) + bias


def _transposed(layer: Layer) -> int:
    return convolution(layer, transposed=True)


def _deformable(layer: Layer) -> int:
    """As a convolution, with 24 more for each cell of the kernel, 25 where it is modulated."""
    return convolution(layer, extra=25 if layer.positional == 3 else 24)


def _linear(layer: Layer) -> int:
    """(inputs × outputs, + outputs with bias) for each row."""
    ins, outs = layer.x.dims[-1], layer.y.dims[-1]
    bias = outs if "bias" in layer.tensors else 0
    return product((ins, outs, *layer.x.dims[:-1])) + product((bias, *layer.x.dims[:-1]))


def _recurrent(layer: Layer) -> int:
    """(products + biases + 1, 7 or 10 widths) × the first two dimensions of X, twice that in two directions."""
    return recurrent(layer, lambda weight: weight.numel)


def _attention(layer: Layer) -> int:
    """Scale, projections with bias, for each head two products and a softmax, and the last projection."""
    options, first = layer.options, 1 if layer.options.get("batch_first") else 0
    shapes = [cast("tuple[int, ...]", tensor.dims) for tensor in layer.inputs[: layer.positional]]
    (q, width), (k, key_width), (v, value_width) = [(shape[first], shape[2]) for shape in shapes]
    if (width, key_width, value_width) != (
        options["embed_dim"],
        options.get("kdim") or width,
        options.get("vdim") or width,
    ):
        raise ValueError("the tool asks for the same width of all three")
    heads = layer.size("num_heads")
    cost = q * width + q * width * width + k * key_width * key_width + v * value_width * value_width
    if "in_proj_bias" in layer.tensors:
        cost += (q + k + v) * width
    cost += heads * q * k * (width // heads + 1 + value_width // heads)
    cost += q * value_width * (value_width + 1)
    return cost * shapes[0][1 - first]


def _timm_attention(layer: Layer) -> int:
    """Scale, and for each head two products and a softmax; the projections are modules of their own."""
    batch, length, _ = layer.x_shape
    heads, width = layer.size("num_heads"), layer.size("head_dim")
    return (length * width * heads + heads * length * length * (2 * width + 1)) * batch


#: Class of a module -> what the tool's hook counts.
HOOKS: dict[str, Hook] = {
    **dict.fromkeys(ranked("Conv"), convolution),
    **dict.fromkeys(ranked("ConvTranspose"), _transposed),
    **dict.fromkeys(["ReLU", "PReLU", "ELU", "LeakyReLU", "ReLU6", "GELU"], results),
    **dict.fromkeys(ranked("MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool"), elements),
    **dict.fromkeys(ranked("BatchNorm", "InstanceNorm"), _scaled),
    **dict.fromkeys(("GroupNorm", "LayerNorm"), _scaled),
    "Linear": _linear,
    "Upsample": _upsampled,
    **dict.fromkeys(RECURRENT, _recurrent),
    "MultiheadAttention": _attention,
    "torchvision.ops.deform_conv.DeformConv2d": _deformable,
    **dict.fromkeys(("timm.layers.attention.Attention", "timm.models.vision_transformer.Attention"), _timm_attention),
}


def _input(node: Node) -> int:
    """numel(X)."""
    return node.input(0).numel


def _resampled(node: Node) -> Number:
    """numel(Y) where a size was asked for; else numel(X) × the scale of each axis."""
    factors = scales(node)
    if factors is None:
        return node.output().numel
    if isinstance(factors, tuple):
        return node.input(0).numel * product([int(factor) for factor in factors])
    size, scale = node.input(0).numel, factors[0] ** len(factors)
    if type(size) is int:
        return Fraction(size * scale)
    if Fraction(scale).denominator > 64:
        raise ValueError("the tool's product is rounded as floating-point numbers are")
    return size * Fraction(scale)


def _product(node: Node) -> int:
    """numel(A) × columns of B, whatever is broadcast."""
    return node.input(0).numel * columns(node)


def _sum_of_product(node: Node) -> int:
    """The same, + the elements of what is added unless ``beta`` is 0."""
    args = node.arguments
    added = args.get("input") if args.get("beta", 1) else None
    return _product(node) + (added.numel if added is not None else 0)


#: Function -> what the tool counts before it calls it.
FUNCTIONS: dict[str, Rule] = {
    **dict.fromkeys(["relu", "prelu", "elu", "relu6", "gelu", "silu", "softmax"], _input),
    **dict.fromkeys(ranked("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"), _input),
    "interpolate": _resampled,
    **dict.fromkeys(["matmul", "mm", "bmm"], _product),
    **dict.fromkeys(["addmm", "baddbmm"], _sum_of_product),
    **dict.fromkeys(["mul", "add"], from_the_left),
}


TOOL = Tool(
    name="ptflops",
    title="ptflops",
    summary="ptflops, backend pytorch: multiply-adds with bias, and elements of activations, norms and poolings.",
    source="ptflops 0.7.5, ptflops/pytorch_engine.py and pytorch_ops.py",
    notes=("ptflops divides what modules cost by the batch, and does not what functions cost",),
    hooks=HOOKS,
    functions=FUNCTIONS,
    visits=lambda graph: places(graph, HOOKS),
    per_image=True,
    missing="exact",
)

CONVENTION = convention(TOOL)


def _linear_of_mmcv(layer: Layer) -> int:
    """numel(X) × outputs; no bias."""
    return layer.x.numel * layer.y.dims[-1]


def _scaled_of_mmcv(layer: Layer) -> int:
    """numel(X), twice that where the module has ``affine`` or ``elementwise_affine``."""
    affine = layer.options.get("affine") or layer.options.get("elementwise_affine")
    return layer.x.numel * (2 if affine else 1)


_MMCV = Tool(
    name="mmcv",
    title="mmcv",
    summary="mmcv, early ptflops: multiply-adds of modules with the bias of convolutions; norms, ReLUs and poolings.",
    source="mmcv 2.2.0, mmcv/cnn/utils/flops_counter.py",
    notes=("mmcv divides by the batch; functions and operators outside modules count nothing",),
    hooks={
        **{kind: HOOKS[kind] for kind in ranked("Conv", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool")},
        **dict.fromkeys(["ReLU", "PReLU", "ELU", "LeakyReLU", "ReLU6"], results),
        **dict.fromkeys([*ranked("BatchNorm", "InstanceNorm"), "GroupNorm", "LayerNorm"], _scaled_of_mmcv),
        "Linear": _linear_of_mmcv,
        "Upsample": results,
        "ConvTranspose2d": _transposed,
    },
    per_image=True,
    missing="exact",
)

MMCV = convention(_MMCV)

#: The kernels that the ATen backend has a rule for.
COUNTED = frozenset({"mm", "addmm", "bmm", "convolution"})


def _dispatched(node: Node, counts: Counts | None) -> Counts | None:
    """The multiply-accumulates at the dispatcher, and one add for each element that a bias is added to."""
    every = kernels(node, counts, fused=True)
    if every is None:
        return None
    counted = [kernel for kernel in every if kernel.name in COUNTED]
    return Counts(mac=sum([k.mac for k in counted]), add=sum([k.results for k in counted if k.biased]))


_WORDS = {
    **dict.fromkeys(("Conv", "ConvTranspose"), "mac, and numel(Y) for a bias"),
    "Gemm": "mac, and numel(Y) for a bias where PyTorch calls addmm",
    "MatMul": "mac; nothing for a vector on the right",
    "Einsum": "mac of products that sum over something",
    **dict.fromkeys(("Attention", "LSTM"), "nothing: one kernel on a CPU"),
    **dict.fromkeys(("GRU", "RNN"), "mac, and the biases"),
}

ATEN = Convention(
    name="ptflops-aten",
    unit="MAC",
    summary="ptflops with its ATen backend: multiply-adds of matrix products and convolutions, and their biases.",
    source="ptflops 0.7.5, ptflops/aten_ops.py",
    weights=Counts(mac=1, add=1),
    overrides={op: described(lambda node, counts: _dispatched(node, counts), words) for op, words in _WORDS.items()},
    others="zero",
    fold=False,
    whole=Whole(by_node(_dispatched), totals={"params": trained}, remarks=lambda graph: missed(graph, fused=True)),
)
