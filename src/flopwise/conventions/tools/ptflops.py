"""ptflops 0.7.5, its "pytorch" backend: hooks on modules, and functions that count before they work.

Source: https://github.com/sovrasov/flops-counter.pytorch, ``ptflops/pytorch_engine.py`` and ``pytorch_ops.py`` of the
release 0.7.5 on the Python package index. What the tool does by mistake is reproduced: an activation or pooling module
that calls a function of ``torch.nn.functional`` counts twice, once for the module and once for the function; counts of
modules are divided by the batch, those of functions are not; operands of different rank are paired from the left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias, cast

from flopwise.conventions.convention import Convention, Whole, attempt
from flopwise.conventions.emulation import as_modules, modules
from flopwise.conventions.emulation.layer import Layer, elements, ranked, recurrent, results
from flopwise.graph import Graph, Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import product

Number: TypeAlias = "int | Fraction"


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
HOOKS: dict[str, Callable[[Layer], int]] = {
    **dict.fromkeys(ranked("Conv"), convolution),
    **dict.fromkeys(ranked("ConvTranspose"), _transposed),
    **dict.fromkeys(["ReLU", "PReLU", "ELU", "LeakyReLU", "ReLU6", "GELU"], results),
    **dict.fromkeys(ranked("MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool"), elements),
    **dict.fromkeys(ranked("BatchNorm", "InstanceNorm"), _scaled),
    **dict.fromkeys(("GroupNorm", "LayerNorm"), _scaled),
    "Linear": _linear,
    "Upsample": _upsampled,
    **{f"{kind}{cell}": _recurrent for kind in ("RNN", "GRU", "LSTM") for cell in ("", "Cell")},
    "MultiheadAttention": _attention,
    "torchvision.ops.deform_conv.DeformConv2d": _deformable,
    **dict.fromkeys(("timm.layers.attention.Attention", "timm.models.vision_transformer.Attention"), _timm_attention),
}


def _input(node: Node) -> int:
    """numel(X)."""
    return node.input(0).numel


def _resampled(node: Node) -> Number:
    """numel(Y) where a size was asked for; else numel(X) × the scale of each axis."""
    scales = modules.scales(node)
    if scales is None:
        return node.output().numel
    if isinstance(scales, tuple):
        return node.input(0).numel * product([int(scale) for scale in scales])
    size, scale = node.input(0).numel, scales[0] ** len(scales)
    if type(size) is int:
        return Fraction(size * scale)
    if Fraction(scale).denominator > 64:
        raise ValueError("the tool's product is rounded as floating-point numbers are")
    return size * Fraction(scale)


def _product(node: Node) -> int:
    """numel(A) × columns of B, whatever is broadcast."""
    return node.input(0).numel * as_modules.columns(node)


def _sum_of_product(node: Node) -> int:
    """The same, + the elements of what is added unless ``beta`` is 0."""
    args = node.attrs.get("args") or {}
    added = args.get("input") if args.get("beta", 1) else None
    return _product(node) + (added.numel if added is not None else 0)


#: Function -> what the tool counts before it calls it.
FUNCTIONS: dict[str, Callable[[Node], Number]] = {
    **dict.fromkeys(["relu", "prelu", "elu", "relu6", "gelu", "silu", "softmax"], _input),
    **dict.fromkeys(ranked("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"), _input),
    "interpolate": _resampled,
    **dict.fromkeys(["matmul", "mm", "bmm"], _product),
    **dict.fromkeys(["addmm", "baddbmm"], _sum_of_product),
    **dict.fromkeys(["mul", "add"], modules.from_the_left),
}


def batch(graph: Graph) -> int:
    """By what the tool divides the counts of modules: the length of the model's first positional argument, else 1."""
    if graph.program.modules:
        first = graph.program.calls[0].inputs[:1] if graph.program.calls and graph.program.calls[0].positional else ()
    else:
        first = graph.inputs[:1]
    shape = first and first[0].shape
    return shape[0] if shape else 1  # type: ignore[return-value]


def module_counts(
    graph: Graph, hooks: dict[str, Callable[[Layer], int]] = HOOKS, once: bool = False
) -> list[tuple[Layer, int | None]]:
    """Modules with the counts of their hooks, for the whole batch; None where the tool fails.

    Args:
        graph: the program.
        hooks: class of a module -> what its hook counts.
        once: whether a module that stands in several places of the model counts once; else once for each.
    """
    places = {} if once else modules.places(graph, hooks)
    pairs: list[tuple[Layer, int | None]] = []
    for layer in modules.layers(graph):
        if layer.kind in hooks:
            counted = attempt(hooks[layer.kind], layer)
            pairs.append((layer, None if counted is None else counted * places.get(layer.path, 1)))
    return pairs


def function_counts(node: Node) -> Number | None:
    """The sum of what the functions count that lead to one node; None where the tool fails."""
    total: Number = 0
    for name in modules.functions(node):
        rule = FUNCTIONS.get(name)
        if rule is not None:
            counted = attempt(rule, node)
            if counted is None:
                return None
            total += counted
    return total


def per_image(counted: int, images: int) -> Number | None:
    """The cost of one image of a batch; None where the batch is an expression that does not divide the cost."""
    if type(images) is not int:
        share = counted // images
        remainder = counted - share * images
        return share if type(remainder) is int and remainder == 0 else None
    return counted if images in (0, 1) else Fraction(counted, images)


def image_counts(
    functions: Iterable[Number | None], layers: Iterable[tuple[Layer, int | None]], images: int
) -> list[Counts | None]:
    """The costs of functions at each node, and of modules at theirs, for one image of a batch."""
    amounts = list(functions)
    for layer, counted in layers:
        if 0 <= layer.at < len(amounts):
            sum_before, own = amounts[layer.at], None if counted is None else per_image(counted, images)
            amounts[layer.at] = None if sum_before is None or own is None else sum_before + own
    return [None if number is None else Counts(mac=number) for number in modules.shared_out(amounts)]


def _graph_counts(graph: Graph, canonical: Sequence[Counts | None]) -> list[Counts | None]:
    return image_counts(map(function_counts, graph.nodes), module_counts(graph), batch(graph))


CONVENTION = Convention(
    name="ptflops",
    unit="MAC",
    summary="ptflops, backend pytorch: multiply-adds with bias, and elements of activations, norms and poolings.",
    source="ptflops 0.7.5, ptflops/pytorch_engine.py and pytorch_ops.py",
    weights=Counts(mac=1),
    others="zero",
    fold=False,
    overrides=as_modules.in_words(_graph_counts, HOOKS, FUNCTIONS),
    whole=Whole(
        _graph_counts,
        totals={"params": modules.trained},
        remarks=lambda graph: modules.remarks("ptflops", graph, modules.without_rule(graph, HOOKS)),
    ),
    notes=("ptflops divides what modules cost by the batch, and does not what functions cost",),
)
