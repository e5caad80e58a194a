"""onnx-tool 1.0.1: instruction-like units, one for a multiply-add and a fixed price for each other operation.

Source: https://github.com/ThanatosShinji/onnx-tool, ``onnx_tool/node.py`` of the release 1.0.1 on the Python package
index. Rules that miscount are reproduced: transposed convolution, pooling in one and three dimensions, the zero point
of MatMulInteger billed as a bias, operands that broadcast each other. A scalar has no elements in this tool. E below is
the size of the first output.
"""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.conventions.convention import Convention, Override, described, nothing, per_input, per_output, renamed
from flopwise.graph import Dim, Node, Tensor
from flopwise.operators.counts import Counts, words
from flopwise.operators.extents import extent, product, required

#: What one operation of each class costs. The tool has no price for erf: an Erf node costs nothing.
PRICES = Counts(mac=1, add=1, mul=1, div=4, cmp=1, exp=32, log=43, pow=32, sqrt=24, trig=39, tanh=38, erf=0, bit=1)

#: Operations per element of the first output, however many inputs there are.
PER_OUTPUT: dict[str, Counts] = {
    **dict.fromkeys(("Add", "Sub", "Mod", "Max", "Ceil", "Hardmax", "CumSum"), Counts(add=1)),
    **dict.fromkeys(("Min", "Neg", "Abs", "Sign", "Floor", "Round", "Relu"), Counts(cmp=1)),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"), Counts(cmp=1)),
    **dict.fromkeys(("Not", "And", "Or", "Xor"), Counts(cmp=1)),
    "Mul": Counts(mul=1),
    **dict.fromkeys(("Div", "Reciprocal"), Counts(div=1)),
    **dict.fromkeys(("Exp", "Sigmoid"), Counts(exp=1)),
    "Log": Counts(log=1),
    "Sqrt": Counts(sqrt=1),
    **dict.fromkeys(("Sin", "Cos"), Counts(trig=1)),
    "Atan": Counts(sqrt=2, mul=8, div=2),  # the series is billed twice
    "Tanh": Counts(tanh=2),  # billed twice
    "Softmax": Counts(exp=1, div=1),
    "LogSoftmax": Counts(exp=1, div=1, add=1, log=1),
    "Softplus": Counts(exp=1, add=1, log=1),
    "Elu": Counts(cmp=1, exp=1, add=1, mul=1),
    **dict.fromkeys(("Gelu", "GeGelu"), Counts(exp=1, mul=2)),
    "Silu": Counts(exp=1, mul=1),
    "HardSigmoid": Counts(mul=1, add=1, cmp=2),
    "HardSwish": Counts(mul=2, add=1, cmp=2),
    **dict.fromkeys(("Relu6", "Clip"), Counts(cmp=2)),
    **dict.fromkeys(("PRelu", "LeakyRelu"), Counts(cmp=1, mul=1)),
    "LogitSoftCapping": Counts(tanh=1, mul=1, div=1),
    "Rope": Counts(trig=2, mul=2),
    "BatchNormalization": Counts(add=2, sqrt=1, div=1, mul=1),
    "InstanceNormalization": Counts(add=2, mul=1, div=1),
    "LpNormalization": Counts(exp=1, add=1),
    "ImageScaler": Counts(add=1, mul=1),
    "DequantizeLinear": Counts(mul=1, add=1),
}

#: Operations per element of the first input.
PER_INPUT: dict[str, Counts] = {
    **dict.fromkeys(("ReduceMean", "ReduceSum"), Counts(add=1)),
    "ReduceProd": Counts(mul=1),
    **dict.fromkeys(("ReduceMin", "ReduceMax"), Counts(cmp=1)),
    "ReduceL2": Counts(add=1, sqrt=1),
}

#: Operators that the tool lists with a cost of nothing.
FREE = """
    ArgMax ArrayFeatureExtractor CategoryMapper Compress DepthToSpace Dropout Erf Expand Flatten GatherElements GatherND
    GridSample NonMaxSuppression OneHot RandomNormalLike RandomUniformLike Range RoiAlign Scan ScatterElements ScatterND
    Split Tile TopK Transpose Trilu Where ZipMap
"""

#: Operators that its ``model_profile`` and command line leave out of the table and the totals.
UNLISTED = "Identity Constant Shape Squeeze Unsqueeze Reshape ConstantOfShape Cast Pad Concat Slice Gather"

#: Price of interpolating one element; the spellings of older operator sets fall through to 1.
INTERPOLATION = {"nearest": 0, "linear": 4, "cubic": 8}


def size(tensor: Tensor) -> int:
    """Elements of a tensor as the tool has it: none for a scalar."""
    return tensor.numel if tensor.dims else 0


def _largest(node: Node) -> int:
    """E where the tool takes the shape of the largest input for that of the output."""
    sizes = [size(tensor) for tensor in node.known_inputs]
    return max(sizes) if all(isinstance(s, int) for s in sizes) else size(node.output())


def conv(node: Node, counts: Counts | None) -> Counts:
    """E × prod(W.shape[1:]), and E for a bias; a transposed convolution alike."""
    outputs = size(node.output())
    return Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)


def conv_integer(node: Node, counts: Counts | None) -> Counts | None:
    """E × prod(W.shape[1:4]), and E for the bias of QLinearConv, its ninth input.

    The third extent of a 3-D kernel is not read.
    """
    quantized = node.op.endswith("QLinearConv")
    kernel = node.input(3 if quantized else 1).dims
    if len(kernel) < 3:
        return None
    outputs = size(node.output())
    return Counts(mac=outputs * product(kernel[1:4]), add=outputs if quantized and node.has_input(8) else 0)


def matmul(node: Node, counts: Counts | None) -> Counts | None:
    """E × K, and E when there are exactly three inputs, be the third a bias or a zero point; vectors are refused.

    The batch in E is the larger of the two, never their broadcast.
    """
    left, right = node.input(0).dims, node.input(1).dims
    if len(left) < 2 or len(right) < 2:
        return None
    transposed = node.op.endswith("Gemm") and node.attrs.get("transB", 0) > 0
    outputs = size(node.output())
    batches = product(left[:-2]), product(right[:-2])
    if all(isinstance(batch, int) for batch in batches):
        outputs = max(batches) * product(node.output().dims[-2:])
    inner = extent(node, node.input(1), -1 if transposed else -2)
    third = node.has_input(2) and not node.has_input(3)
    return Counts(mac=outputs * inner, add=outputs if third else 0)


def qlinear_matmul(node: Node, counts: Counts | None) -> Counts:
    """numel(A) × N, N the last extent of B."""
    return Counts(mac=size(node.input(0)) * extent(node, node.input(3), -1))


def einsum(node: Node, counts: Counts | None) -> Counts | None:
    """The product of all extents named by two operands; an ellipsis, one operand or three are refused."""
    terms = required(node, "equation").split(",")
    tail = terms[1].split("->") if len(terms) > 1 else []
    if len(tail) < 2:
        return None
    extents: dict[str, Dim] = {}
    for term, tensor in zip((terms[0], tail[0]), node.known_inputs, strict=False):
        labels = term.replace(" ", "")
        if len(tensor.dims) > len(labels):
            return None
        extents.update(zip(labels, tensor.dims, strict=False))
    if not set(tail[1].replace(" ", "")) <= extents.keys():
        return None
    return Counts(mac=product(extents.values()))


def _recurrent(gates: int, once: Counts, outputs: int) -> Override:
    """A rule for a recurrent layer.

    All directions are in W, R and B; ``once`` is billed for one. The tool reads the bias and, of a GRU, the second
    output, and stops where they are missing.
    """

    def rule(node: Node, counts: Counts | None) -> Counts | None:
        if len(node.inputs) < 4 or len(node.outputs) < outputs:
            return None
        x, w, r, b = node.input(0), node.input(1), node.input(2), node.inputs[3]
        steps = product(x.dims[:2])
        hidden = extent(node, w, 1) // gates
        return Counts(mac=w.numel + r.numel, add=size(b) if b else 0) * steps + once * (steps * hidden)

    formula = f"T × B × (numel(W) + numel(R) + numel(B)) + T × B × H × {words(once)}"
    return described(rule, f"{formula}; refused without a bias")


def pool(node: Node, counts: Counts | None) -> Counts:
    """E × k₀ × k₁ in two dimensions, E × k₀ in any other."""
    kernel: Sequence[Dim] = required(node, "kernel_shape")
    return Counts(cmp=size(node.output()) * product(kernel if len(kernel) == 2 else kernel[:1]))


def global_average_pool(node: Node, counts: Counts | None) -> Counts:
    """One addition per input element, one division per output element."""
    return Counts(add=size(node.input(0)), div=size(node.output()))


def layer_normalization(node: Node, counts: Counts | None) -> Counts:
    """numel(X) × (3 mul + 4 add) + numel(X) / X.shape[axis] × (1 add + 1 sqrt + 1 div)."""
    x = node.input(0)
    axis = node.attrs.get("axis", -1) % len(x.dims)
    rows = product(dim for i, dim in enumerate(x.dims) if i != axis)
    return Counts(mul=3, add=4) * x.numel + Counts(add=1, sqrt=1, div=1) * rows


def lrn(node: Node, counts: Counts | None) -> Counts:
    """E × (1 div + 1 exp + 1 add + size mul)."""
    return Counts(div=1, exp=1, add=1, mul=required(node, "size")) * size(node.output())


def resize(node: Node, counts: Counts | None) -> Counts | None:
    """E × 0, 4 or 8 for nearest, linear and cubic; the tool stops where the mode is left to its default."""
    mode = node.attrs.get("mode")
    return None if mode is None else Counts(mac=INTERPOLATION.get(mode, 1)) * size(node.output())


def add_up(node: Node, counts: Counts | None) -> Counts:
    """E × (n − 1) for n inputs."""
    return Counts(add=len(node.known_inputs) - 1) * _largest(node)


def power(node: Node, counts: Counts | None) -> Counts:
    """E × 1 pow."""
    return Counts(pow=1) * _largest(node)


def quantize(node: Node, counts: Counts | None) -> Counts | None:
    """E × (1 mul + 1 add); the tool stops where the zero point is left out."""
    return Counts(mul=1, add=1) * size(node.output()) if node.has_input(2) else None


def non_zero(node: Node, counts: Counts | None) -> Counts:
    """One comparison per element of the output, for which every element of the input is taken to be non-zero."""
    x = node.input(0)
    return Counts(cmp=x.numel * len(x.dims))


def layer_names(nodes: Sequence[Node]) -> list[str]:
    """A node's own name, or its operator and its place among all nodes (``Conv_17``)."""
    return [node.name or f"{node.op.rpartition('::')[2]}_{place}" for place, node in enumerate(nodes)]


CONVENTION = Convention(
    name="onnx-tool",
    unit="MAC",
    summary="1 per multiply-add, comparison or addition; division 4, square root 24, exponential 32, logarithm 43, ...",
    source="onnx-tool 1.0.1 (PyPI), onnx_tool/node.py",
    weights=PRICES,
    overrides={
        **per_output(PER_OUTPUT, size),
        **per_input(PER_INPUT, size),
        **dict.fromkeys(FREE.split(), nothing),
        **dict.fromkeys(("Conv", "ConvTranspose"), conv),
        **dict.fromkeys(("ConvInteger", "QLinearConv"), conv_integer),
        **dict.fromkeys(("Gemm", "MatMul", "MatMulInteger"), matmul),
        "QLinearMatMul": qlinear_matmul,
        "Einsum": einsum,
        "LSTM": _recurrent(4, Counts(add=5, mul=3, exp=3, tanh=2), outputs=1),
        "GRU": _recurrent(3, Counts(add=5, mul=3, exp=2, tanh=1), outputs=2),
        **dict.fromkeys(("MaxPool", "AveragePool"), pool),
        "GlobalAveragePool": global_average_pool,
        "LayerNormalization": layer_normalization,
        "LRN": lrn,
        **dict.fromkeys(("Resize", "Upsample"), resize),
        "Sum": add_up,
        "Pow": power,
        "QuantizeLinear": quantize,
        "NonZero": non_zero,
    },
    others="unknown",
    any_domain=True,
    unlisted=frozenset(UNLISTED.split()),
    fold=False,
    listing=lambda graph, rows, own: renamed(graph, rows, layer_names(graph.nodes)),
    notes=(
        "onnx-tool stops at an operator that it does not know; here the rest of the model is counted",
        "onnx-tool's own shape inference is not reproduced: where it differs (auto_pad, ceil_mode), figures follow the "
        "true shapes",
    ),
)
