"""The per-layer Caffe script: weights without bias, and a multiply-accumulate for each weight and output position.

Source: the script ``get_flops`` for pycaffe that posts on model complexity pass on. It goes through ``net.params`` of
BVLC/caffe@9b891540, takes the first blob of each layer of the types Convolution, DepthwiseConvolution and InnerProduct,
and multiplies its size by ``width`` and ``height`` of the layer's first top; it calls that FLOPs. What follows from it
is reproduced: the batch does not count, every other type is left out (Deconvolution, LSTM, Embed, and the fork's
ConvolutionDepthwise), a weight that layers share counts in each of them, and an InnerProduct whose ``axis`` is beyond 1
takes the extents of its top for a height and a width.
"""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.conventions.convention import Column, Convention, Display, Table, Total, Value
from flopwise.graph import STORED, Graph, Node, Shape
from flopwise.operators.counts import MACS, Counts
from flopwise.operators.extents import product
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
    return row.node.op in CONVENTION.overrides and row.node.origin != PASSED_OVER


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


CONVENTION = Convention(
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
