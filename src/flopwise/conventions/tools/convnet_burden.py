"""convnet-burden: operations, memory of features and memory of parameters, for one image.

Source: https://github.com/albanie/convnet-burden, commit 9c7f31b (``core/burden.m``). It measures networks in
MatConvNet's form: batch normalisation is folded away, a BatchNorm and the Scale behind it are one layer, ReLU and
Dropout work in place, and a fused multiply-add is one operation. Exponentials are not counted, so that softmax and
sigmoid cost nothing. The tool stops at a layer that it does not know, which is unknown here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from flopwise.conventions.convention import (
    Column,
    Convention,
    Display,
    Override,
    Table,
    Total,
    Value,
    described,
    nothing,
    per_input,
    per_output,
)
from flopwise.conventions.tools.caffe import DATA, LAYER_TYPES, caffe_type
from flopwise.graph import STORED, Dim, Graph, Node
from flopwise.operators.counts import CLASSES, Counts, words
from flopwise.operators.extents import extent, product
from flopwise.rows import Row

#: Operations per element of the first output.
PER_OUTPUT: dict[str, Counts] = {
    **dict.fromkeys(("Relu", "LeakyRelu"), Counts(cmp=1, mul=1)),
    **dict.fromkeys(("Sum", "Add", "caffe::Eltwise"), Counts(add=1)),
    **dict.fromkeys(("caffe::Scale", "Mul"), Counts(mul=1)),
    "caffe::Axpy": Counts(mul=1, add=1),
    "Resize": Counts(mac=4),
}

#: Operations per element of the first input.
PER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("GlobalMaxPool", "Max"), Counts(cmp=1)),
    "GlobalAveragePool": Counts(add=1),
}

#: Layers that the tool lists with a cost of nothing.
FREE = """
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


def _pool(once: Counts) -> Override:
    def rule(node: Node, counts: Counts | None) -> Counts:
        return once * (node.output().numel * product(node.attrs.get("strides") or (1,)))

    return described(rule, f"numel(Y) × stride² × {words(once)}")


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


CONVENTION = Convention(
    name="convnet-burden",
    unit="FLOP",
    summary="Multiply-adds as 1, ReLU 2, pooling 2 per step of the stride; one image, batch normalisation folded away.",
    source="albanie/convnet-burden@9c7f31b, core/burden.m",
    weights=WEIGHTS,
    overrides={
        **per_output(PER_OUTPUT),
        **per_input(PER_INPUT),
        **dict.fromkeys(FREE.split(), nothing),
        **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), products),
        "MaxPool": _pool(Counts(cmp=2)),
        "AveragePool": _pool(Counts(add=2)),
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
