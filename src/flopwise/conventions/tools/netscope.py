"""Netscope CNN Analyzer: operations of five kinds, activations and parameters of each layer, for the whole batch.

Source: https://github.com/dgschwend/netscope, commit 8ae36d8 (``src/analyzer.coffee``, ``src/renderer.coffee``). What
it miscounts is reproduced:

- a deconvolution has no bias and no groups, and its products are thinned by the stride (rounded down here);
- a BatchNorm has two parameters per channel, a Scale or PReLU none, an LRN or Normalize two in all;
- Eltwise adds, whatever its operation; pooling divides nothing;
- Power takes one image of the batch; Reshape, Permute, PriorBox and Accuracy have no activations;
- a layer that works in place has activations of its own;
- earlier commits differ: groups were ignored before May 2017 (pull request 11), and older ones leave out biases and the
  batch as well.

Its own shape inference is not reproduced: its pooling never clips a window beyond the edge and always rounds up, the
layers are those of the phase TRAIN, and the size of an LRN that states none is 1. Figures follow the true shapes. A
layer that it does not know stops it, and is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flopwise.conventions.convention import (
    Column,
    Convention,
    Display,
    Override,
    Table,
    Value,
    described,
    nothing,
    per_input,
)
from flopwise.conventions.tools.caffe import DATA, LAYER_TYPES, caffe_type
from flopwise.graph import STORED, Graph, Node
from flopwise.operators.counts import MACS, Counts, words
from flopwise.operators.extents import extent, product, required
from flopwise.rows import Row

#: Operations per element of the first input.
PER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Elu", "Clip", "Dropout"), Counts(cmp=1)),
    **dict.fromkeys(("BatchNormalization", "caffe::BatchNorm", "caffe::BN"), Counts(add=1, div=1)),
    **dict.fromkeys(("Softmax", "caffe::SoftmaxWithLoss"), Counts(exp=1, add=1, div=1)),
    **dict.fromkeys(("Sum", "Add", "Mul", "Max", "caffe::Eltwise"), Counts(add=1)),
    "caffe::Scale": Counts(mac=1),
    "GlobalMaxPool": Counts(cmp=1),
    "GlobalAveragePool": Counts(add=1),
    "caffe::Normalize": Counts(mac=1, add=1, exp=1, div=2),
}

#: Layers that the tool lists with a cost of nothing.
FREE = "Concat Flatten Reshape Transpose caffe::Crop caffe::PriorBox caffe::Accuracy"

#: Layers to which the tool gives no activations.
WITHOUT_ACTIVATIONS = frozenset({"Reshape", "Transpose", "caffe::PriorBox", "caffe::Accuracy"})

#: Layers whose results the tool takes to be as large as their inputs.
PASS_ON = frozenset({"caffe::SoftmaxWithLoss"})

#: Parameters by layer, where they are not its weights and biases.
PER_CHANNEL = frozenset({"BatchNormalization", "caffe::BatchNorm", "caffe::BN"})
TWO = frozenset({"LRN", "caffe::LRNWithinChannel", "caffe::Normalize"})

_UNITS = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))


def conv(node: Node, counts: Counts | None) -> Counts | None:
    """numel(Y) × C/group × KH × KW mac, the bias left out; two dimensions only."""
    kernel = node.input(1).dims
    return Counts(mac=node.output().numel * product(kernel[1:])) if len(kernel) == 4 else None


def deconv(node: Node, counts: Counts | None) -> Counts | None:
    """numel(Y) × C × (KH / stride) × (KW / stride) mac without groups, rounded down; two dimensions only."""
    kernel = node.input(1).dims
    if len(kernel) != 4:
        return None
    products = node.output().numel * extent(node, node.input(0), 1) * product(kernel[2:])
    return Counts(mac=products // product(node.attrs.get("strides") or (1,)))


def inner_product(node: Node, counts: Counts | None) -> Counts | None:
    """The canonical mac of a product with a weight; the tool knows no other product"""
    return None if counts is None or node.input(1).kind not in STORED else Counts(mac=counts.mac)


def _pool(once: Counts) -> Override:
    def rule(node: Node, counts: Counts | None) -> Counts | None:
        kernel: Sequence[int] = required(node, "kernel_shape")
        return once * (node.output().numel * product(kernel)) if len(kernel) == 2 else None

    return described(rule, f"numel(Y) × kh × kw × {words(once)}; two dimensions only")


def lrn(node: Node, counts: Counts | None) -> Counts:
    """numel(X) × (size mac + 1 add + 1 exp + 2 div)."""
    return Counts(mac=required(node, "size"), add=1, exp=1, div=2) * node.input(0).numel


def power(node: Node, counts: Counts | None) -> Counts:
    """numel(X) of one image × (1 mac for a scale + 1 add for a shift + 1 exp for a power)."""
    attrs = node.attrs
    steps = Counts(mac=attrs.get("scale", 1) != 1, add=attrs.get("shift", 0) != 0, exp=attrs.get("power", 1) != 1)
    return steps * product(node.input(0).dims[1:])


def roi_pooling(node: Node, counts: Counts | None) -> Counts:
    """R × (C × H × W cmp + 1 mac + 1 add + 1 div) for R regions, as if each were the whole image."""
    regions = extent(node, node.output(), 0)
    return Counts(mac=1, add=1, div=1, cmp=product(node.input(0).dims[1:])) * regions


def _class(name: str) -> Callable[[Row, Graph], Value]:
    return lambda row, graph: None if row.view is None else getattr(row.view, name)


def activation(row: Row, graph: Graph) -> Value:
    """Elements of the first result."""
    node = row.node
    if row.view is None or node.op in WITHOUT_ACTIVATIONS:
        return None if row.view is None else 0
    if node.op == "caffe::Power":
        return product(node.input(0).dims[1:])
    return node.input(0).numel if node.op in PASS_ON else node.output().numel


def param(row: Row, graph: Graph) -> Value:
    """Parameters as the tool has them, counted anew in each layer that shares them."""
    node = row.node
    if row.view is None or node.op in TWO:
        return None if row.view is None else 2
    if node.op in PER_CHANNEL:
        return 2 * extent(node, node.input(0), 1)
    if node.op == "ConvTranspose":
        return node.input(1).numel * int(node.attrs.get("group", 1))
    if node.op in ("Conv", "Gemm", "MatMul"):
        return sum(t.numel for t in node.known_inputs[1:] if t.kind in STORED)
    return 0


def collapse(names: Sequence[str]) -> list[tuple[str, int]]:
    """Neighbours that begin alike up to a slash as one submodule: its name, and how many layers it stands for.

    The tool compares as many letters as the name of the latter has before its slash, so ``conv10`` takes in
    ``conv1/relu`` after it.

    >>> collapse(["pool", "/fire1", "fire2/squeeze", "fire2/expand", "fire3/squeeze"])
    [('pool', 1), ('/fire1', 1), ('fire2', 2), ('fire3/squeeze', 1)]
    """
    lines: list[tuple[str, int]] = []
    for name in names:
        slash = name.find("/")
        if slash > 0 and lines and lines[-1][0][:slash] == name[:slash]:
            lines[-1] = (name[:slash], lines[-1][1] + 1)
        else:
            lines.append((name, 1))
    return lines


def human(number: int) -> str:
    """The number in the tool's short form, with at most two decimals.

    >>> human(1000), human(3868560384), human(1500)
    ('1000', '3.87G', '1.5k')
    """
    for suffix, factor in _UNITS:
        if number > factor:
            units, hundredths = divmod((number * 100 + factor // 2) // factor, 100)
            return f"{units}.{hundredths:02d}".rstrip("0").rstrip(".") + suffix
    return str(number)


def _number(key: str, value: Callable[[Row, Graph], Value]) -> Column:
    return Column(key, key, "number", value, human=human)


CONVENTION = Convention(
    name="netscope",
    unit="MAC",
    summary="Multiply-accumulates (macc); comparisons, additions, divisions and exponentials stand beside them.",
    source="Netscope CNN Analyzer, dgschwend/netscope@8ae36d8, src/analyzer.coffee",
    weights=MACS,
    overrides={
        **per_input(PER_INPUT),
        **dict.fromkeys(FREE.split(), nothing),
        "Conv": conv,
        "ConvTranspose": deconv,
        **dict.fromkeys(("Gemm", "MatMul"), inner_product),
        "MaxPool": _pool(Counts(cmp=1)),
        "AveragePool": _pool(Counts(add=1)),
        **dict.fromkeys(("LRN", "caffe::LRNWithinChannel"), lrn),
        "caffe::Power": power,
        **dict.fromkeys(("caffe::ROIPooling", "MaxRoiPool"), roi_pooling),
    },
    others="unknown",
    unlisted=frozenset({"Identity", *DATA.split()}),
    layer_types=LAYER_TYPES,
    display=Display(
        table=Table(
            name="name",
            columns=(
                Column("type", "type", "text", caffe_type),
                _number("macc", _class("mac")),
                _number("comp", _class("cmp")),
                _number("add", _class("add")),
                _number("div", _class("div")),
                _number("exp", _class("exp")),
                _number("activation", activation),
                _number("param", param),
            ),
            collapse=collapse,
        ),
        human=human,
    ),
    notes=(
        "netscope multiplies everything by the batch: give -b 1 for one image",
        "netscope stops at a layer that it does not know; here the rest of the model is counted",
        "netscope's own shapes are not reproduced: where its pooling differs (never clipped, always rounded up), "
        "figures follow the true shapes",
        "layers that work in place have activations of their own, and shared parameters count in each of their layers",
    ),
)
