"""Three tools for networks of Caffe: a script of pycaffe, Netscope's page, and MatConvNet's convnet-burden.

**The per-layer script** has a multiply-accumulate for each weight and output position, weights without bias.
Source: the script ``get_flops`` for pycaffe that posts on model complexity pass on. It goes through ``net.params`` of
BVLC/caffe@9b891540, takes the first blob of each layer of the types Convolution, DepthwiseConvolution and InnerProduct,
and multiplies its size by ``width`` and ``height`` of the layer's first top; it calls that FLOPs. What follows from it
is reproduced: the batch does not count, every other type is left out (Deconvolution, LSTM, Embed, and the fork's
ConvolutionDepthwise), a weight that layers share counts in each of them, and an InnerProduct whose ``axis`` is beyond 1
takes the extents of its top for a height and a width.

**Netscope** has operations of five kinds, activations and parameters of each layer, for the whole batch.
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

**convnet-burden** has operations, memory of features and memory of parameters, for one image.
Source: https://github.com/albanie/convnet-burden, commit 9c7f31b (``core/burden.m``). It measures networks in
MatConvNet's form: batch normalisation is folded away, a BatchNorm and the Scale behind it are one layer, ReLU and
Dropout work in place, and a fused multiply-add is one operation. Exponentials are not counted, so that softmax and
sigmoid cost nothing. The tool stops at a layer that it does not know, which is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from flopwise.conventions.convention import (
    Column,
    Convention,
    Display,
    Override,
    Table,
    Total,
    Value,
    nothing,
    per_input,
    per_output,
    scaled,
)
from flopwise.graph import STORED, Dim, Graph, Node, Shape
from flopwise.operators.counts import CLASSES, MACS, Counts
from flopwise.operators.extents import extent, product, required
from flopwise.rows import Row

#: What Caffe calls the layers that compute, for models that come from elsewhere.
LAYER_TYPES: dict[str, str] = {
    "Conv": "Convolution",
    "ConvTranspose": "Deconvolution",
    **dict.fromkeys(("Gemm", "MatMul"), "InnerProduct"),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), "Pooling"),
    **dict.fromkeys(("Relu", "LeakyRelu"), "ReLU"),
    "PRelu": "PReLU",
    "Elu": "ELU",
    "Tanh": "TanH",
    "Abs": "AbsVal",
    "Softplus": "BNLL",
    "BatchNormalization": "BatchNorm",
    **dict.fromkeys(("Add", "Sum", "Mul", "Max"), "Eltwise"),
    "Transpose": "Permute",
    "Resize": "Interp",
}

#: Layers that bring the data; what they hold is input, not work.
DATA = """
    caffe::Input caffe::Data caffe::ImageData caffe::WindowData caffe::HDF5Data caffe::MemoryData caffe::DummyData
    caffe::AnnotatedData
"""

#: The fork's type that the script does not look for.
PASSED_OVER = "ConvolutionDepthwise"

#: Axes that a blob with a width can have.
MOST_AXES = 4


def caffe_type(row: Row, graph: Graph) -> str:
    """The layer's type in Caffe: that in the file, or the type that does the same."""
    return row.node.origin if graph.caffe else LAYER_TYPES.get(row.node.op, row.node.op)


def _positions(dims: Shape) -> int | None:
    """Height times width of a blob: axes 2 and 3, of extent 1 where it has none; a larger blob has no width."""
    return product(dims[2:]) if len(dims) <= MOST_AXES else None


def _weights(node: Node) -> int:
    """Elements of the first blob, counted anew in each layer that uses it."""
    return node.input(1).numel


def layer(node: Node, counts: Counts | None) -> Counts | None:
    """numel(W) × height × width of the top, for one image; nothing for ConvolutionDepthwise."""
    if node.origin == PASSED_OVER:
        return Counts()
    positions = _positions(node.output().dims)
    return None if positions is None or node.input(1).kind not in STORED else Counts(mac=_weights(node) * positions)


def matmul(node: Node, counts: Counts | None) -> Counts | None:
    """numel(W) for a product with a weight that gives a matrix; Caffe has no layer for any other"""
    return layer(node, counts) if len(node.output().dims) == 2 else None


def lists(row: Row) -> bool:
    """True where the script prints a line for a layer."""
    return row.node.op in CAFFE.overrides and row.node.origin != PASSED_OVER


def layers_with_blobs(rows: Sequence[Row]) -> int:
    """The number of layers that own blobs: BatchNorm and Scale, which the script does not list, are among them."""
    owners = [n for n in (row.node for row in rows) if any(t.kind in ("weight", "buffer") for t in n.known_inputs)]
    return len({node.name or id(node) for node in owners})


def params(row: Row, graph: Graph) -> Value:
    """Elements of the weight, without the bias."""
    return None if row.view is None else _weights(row.node)


def percent(share: float) -> str:
    """A share of 100, rounded to three decimals that are not zero.

    >>> percent(14.55193), percent(20.64)
    ('14.552', '20.64')
    """
    return str(round(share, 3))


def _tuple(shape: Shape) -> str:
    """A shape as Python prints it.

    >>> _tuple((96, 3, 11, 11)), _tuple((96,))
    ('(96, 3, 11, 11)', '(96,)')
    """
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


CAFFE = Convention(
    name="caffe",
    unit="MAC",
    summary="Weights times output positions of convolutions and inner products, of one image; no bias, no other layer.",
    source="the pycaffe script get_flops on BVLC/caffe@9b891540",
    weights=MACS,
    overrides={"Conv": layer, "Gemm": layer, "MatMul": matmul},
    others="free",
    layer_types=LAYER_TYPES,
    display=Display(
        table=Table(
            name="layer name",
            columns=(
                Column("filter_shape", "Filter Shape", "shape", lambda row, graph: row.node.input(1).shape, _tuple),
                Column("output_size", "Output Size", "shape", lambda row, graph: row.node.output().shape, _tuple),
                Column("params", "Params", "number", params, str),
                Column("flops", "Flops", "number", lambda row, graph: row.count, str),
                Column("ratio", "Ratio", "ratio", lambda row, graph: row.count, percent),
            ),
            lists=lists,
            totals=(
                Total("layers_num", "Layers num", layers_with_blobs),
                Total("params", "Total number of parameters"),
                Total("flops", "Total number of FLOPs"),
            ),
            detailed=True,
        ),
    ),
    notes=(
        "what the script calls FLOPs are multiply-accumulates of one image, whatever the batch; biases, and all layers "
        "but convolutions and inner products, are left out",
        "a weight that layers share counts in each of them",
    ),
)


# Netscope.

#: Operations per element of the first input.
_NETSCOPE_PER_INPUT: dict[str, Counts] = {
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
_NETSCOPE_FREE = "Concat Flatten Reshape Transpose caffe::Crop caffe::PriorBox caffe::Accuracy"

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


def _windows(node: Node) -> int | None:
    kernel: Sequence[int] = required(node, "kernel_shape")
    return node.output().numel * product(kernel) if len(kernel) == 2 else None


def _netscope_pool(once: Counts) -> Override:
    return scaled(once, _windows, "numel(Y) × kh × kw", "; two dimensions only")


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


NETSCOPE = Convention(
    name="netscope",
    unit="MAC",
    summary="Multiply-accumulates (macc); comparisons, additions, divisions and exponentials stand beside them.",
    source="Netscope CNN Analyzer, dgschwend/netscope@8ae36d8, src/analyzer.coffee",
    weights=MACS,
    overrides={
        **per_input(_NETSCOPE_PER_INPUT),
        **dict.fromkeys(_NETSCOPE_FREE.split(), nothing),
        "Conv": conv,
        "ConvTranspose": deconv,
        **dict.fromkeys(("Gemm", "MatMul"), inner_product),
        "MaxPool": _netscope_pool(Counts(cmp=1)),
        "AveragePool": _netscope_pool(Counts(add=1)),
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


# convnet-burden.

#: Operations per element of the first output.
_BURDEN_PER_OUTPUT: dict[str, Counts] = {
    **dict.fromkeys(("Relu", "LeakyRelu"), Counts(cmp=1, mul=1)),
    **dict.fromkeys(("Sum", "Add", "caffe::Eltwise"), Counts(add=1)),
    **dict.fromkeys(("caffe::Scale", "Mul"), Counts(mul=1)),
    "caffe::Axpy": Counts(mul=1, add=1),
    "Resize": Counts(mac=4),
}

#: Operations per element of the first input.
_BURDEN_PER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("GlobalMaxPool", "Max"), Counts(cmp=1)),
    "GlobalAveragePool": Counts(add=1),
}

#: Layers that the tool lists with a cost of nothing.
_BURDEN_FREE = """
    BatchNormalization caffe::BatchNorm caffe::BN Softmax Sigmoid Dropout Concat Reshape Flatten Transpose Identity
    caffe::Crop caffe::ROIPooling MaxRoiPool caffe::PSROIPooling caffe::PriorBox caffe::Proposal caffe::DetectionOutput
"""

#: Layers that write their result over their input.
IN_PLACE = frozenset({"Relu", "LeakyRelu", "Dropout", "Identity"})

#: Everything is one operation.
WEIGHTS = Counts(*[1] * len(CLASSES))

#: Bytes of an element: the tool's data type is "single".
WIDTH = 4

_MEMORY = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
_OPERATIONS = (" ", "K", "M", "G", "T", "P", "E", "Z", "Y")


def products(node: Node, counts: Counts | None) -> Counts | None:
    """The canonical mac, and numel(Y) add for a bias; unknown when no operand is a weight"""
    if counts is None or node.input(1).kind not in STORED:
        return None
    return Counts(mac=counts.mac, add=node.output().numel if len(node.known_inputs) > 2 else 0)


def _burden_pool(once: Counts) -> Override:
    def strided(node: Node) -> int:
        return node.output().numel * product(node.attrs.get("strides") or (1,))

    return scaled(once, strided, "numel(Y) × stride²")


def normalize(node: Node, counts: Counts | None) -> Counts:
    """numel(Y) + N × H × W × (2 + 2 C): one factor for all channels of a position, and a product with each."""
    channels = extent(node, node.input(0), 1)
    positions = product(node.input(0).dims[:1]) * product(node.input(0).dims[2:])
    return Counts(mul=channels, add=channels + 1, pow=1) * positions + Counts(div=node.output().numel)


def merged(nodes: Sequence[Node]) -> frozenset[int]:
    """Positions of the Scale layers behind a BatchNorm: together they are one layer of batch normalisation."""
    makers = {t.name: node.op for node in nodes for t in node.known_outputs}
    return frozenset(
        position
        for position, node in enumerate(nodes)
        if node.op == "caffe::Scale"
        and [makers.get(t.name) for t in node.known_inputs if t.kind not in STORED] == ["caffe::BatchNorm"]
    )


def listing(graph: Graph, rows: Sequence[Row], own: Collection[str]) -> list[Row]:
    """The rows for one image of the batch; a layer that is merged into the one before it costs nothing."""
    batch = batch_of(graph)
    inside = {id(graph.nodes[position]) for position in merged(graph.nodes)}
    return [
        replace(row, view=Counts(), count=0, missing="", note="", merged=True)
        if id(row.node) in inside and row.node.op not in own
        else _of_one_image(row, batch)
        for row in rows
    ]


def _of_one_image(row: Row, batch: Dim) -> Row:
    if row.view is None or batch in (0, 1):
        return row
    view = Counts(*[number // batch for number in row.view])
    return replace(row, view=view, count=view.dot(WEIGHTS))


def features(row: Row, graph: Graph) -> Value:
    """Bytes of the results for one image; none of layers that work in place or are merged."""
    if row.merged or row.node.op in IN_PLACE:
        return 0
    batch = batch_of(graph)
    return None if row.activations is None or batch == 0 else WIDTH * row.activations // batch


def parameters(row: Row, graph: Graph) -> Value:
    """Bytes of weights and statistics, shared ones once."""
    return WIDTH * (row.params + row.buffers)


def _short(number: int, base: int, units: Sequence[str]) -> str:
    power = 0
    while number >= base ** (power + 1) and power + 1 < len(units):
        power += 1
    return f"{(2 * number + base**power) // (2 * base**power)} {units[power]}"


def memory(number: int) -> str:
    """Bytes in the tool's short form, in steps of 1024.

    >>> memory(243860896), memory(512)
    ('233 MB', '512 B')
    """
    return _short(number, 1024, _MEMORY)


def operations(number: int) -> str:
    """Operations in the tool's short form, in steps of 1000.

    >>> operations(727362344), operations(15523175400)
    ('727 MFLOPS', '16 GFLOPS')
    """
    return _short(number, 1000, _OPERATIONS) + "FLOPS"


CONVNET_BURDEN = Convention(
    name="convnet-burden",
    unit="FLOP",
    summary="Multiply-adds as 1, ReLU 2, pooling 2 per step of the stride; one image, batch normalisation folded away.",
    source="albanie/convnet-burden@9c7f31b, core/burden.m",
    weights=WEIGHTS,
    overrides={
        **per_output(_BURDEN_PER_OUTPUT),
        **per_input(_BURDEN_PER_INPUT),
        **dict.fromkeys(_BURDEN_FREE.split(), nothing),
        **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), products),
        "MaxPool": _burden_pool(Counts(cmp=2)),
        "AveragePool": _burden_pool(Counts(add=2)),
        **dict.fromkeys(("LRN", "caffe::LRNWithinChannel", "caffe::Normalize"), normalize),
    },
    others="unknown",
    unlisted=frozenset(DATA.split()),
    layer_types=LAYER_TYPES,
    display=Display(
        table=Table(
            name="layer",
            columns=(
                Column("type", "type", "text", caffe_type),
                Column("param_memory", "param memory", "bytes", parameters, human=memory),
                Column("feature_memory", "feature memory", "bytes", features, human=memory),
                Column("flops", "flops", "number", lambda row, graph: row.count, human=operations),
            ),
            totals=(
                Total("param_memory", "Memory used by params"),
                Total("feature_memory", "Memory consumed by full feats"),
                Total("flops", "Estimated total flops"),
            ),
        ),
        human=operations,
    ),
    listing=listing,
    notes=(
        "everything is for one image, whatever the batch; ReLU and dropout work in place, and a Scale behind a "
        "BatchNorm is part of it",
        "convnet-burden stops at a layer that it does not know; here the rest of the model is counted",
    ),
)


def batch_of(graph: Graph) -> Dim:
    """The number of images in the inputs: the first dimension of the first input with at least two, 1 without one."""
    return next((t.shape[0] for t in graph.inputs if t.shape is not None and len(t.shape) > 1), 1)
