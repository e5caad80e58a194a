"""Products of ``com.microsoft``: convolutions and matrix products with something fused to them, or with packed
weights.

Packed weights are unpacked once, when the model is loaded or in the kernel's own loop: that is not arithmetic of the
model.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import shape
from flopwise.operators.counts import RMS, RMS_ROW, SILU, Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.inputs import DATA, FACTOR, SCALE, Input, Weight, factor, inputs, scale
from flopwise.operators.onnx import linear
from flopwise.operators.onnx.linear import ACTIVATIONS
from flopwise.operators.operator import Operator, Rule, by, counted_as, row_of
from flopwise.operators.packed import MATRIX, Packed, blocks, elements

#: One element of an activation that is fused to a product, by its name in lower case.
FUSED = {
    **ACTIVATIONS,
    "clip": Counts(cmp=2),
    "hardswish": Counts(mul=2, add=1, cmp=2),
    **dict.fromkeys(("silu", "swish"), SILU),
    **dict.fromkeys(("relu2", "relu_squared"), Counts(cmp=1, mul=1)),
    "quickgelu": Counts(mul=2) + ACTIVATIONS["sigmoid"],
    **dict.fromkeys(("identity", "none", ""), Counts()),
}

#: One element of Gelu by tanh, as the standard operator has it.
FAST_GELU = Counts(pow=1, mul=4, add=2, tanh=1)


def activated(node: Node, attribute: str = "activation") -> Counts:
    """The activation of an attribute for each element of the output.

    Raises:
        ShapeError: there is no activation of that name.
    """
    name = str(node.attrs.get(attribute, "")).lower()
    if name in ("gelu", "fastgelu"):
        return FAST_GELU * node.output().numel
    if name not in FUSED:
        raise ShapeError(f"{node.op} {node.name!r}: unknown activation {node.attrs[attribute]!r}")
    return FUSED[name] * node.output().numel


def _as(node: Node, op: str, *places: int) -> Node:
    """The node as if it were another operator on some of its inputs."""
    inputs = tuple(node.input(i) if node.has_input(i) else None for i in places)
    return Node(op, node.name, inputs, node.outputs, node.attrs)


def fused_conv(node: Node) -> Counts:
    """as Conv; Z: numel(Y) add; and the activation for each element of Y.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedConv
    """
    return linear.conv(node) + Counts(add=node.output().numel if node.has_input(3) else 0) + activated(node)


def padded_conv_transpose(node: Node) -> Counts:
    """as ConvTranspose: numel(X) × prod(W.shape[1:]) mac, and numel(Y) add when B is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ConvTransposeWithDynamicPads
    """
    return linear.conv_transpose(_as(node, "ConvTranspose", 0, 1, 3))


def fused_matmul(node: Node) -> Counts:
    """numel(Y) × K mac, K the extent of A that is summed (transA, transBatchA); alpha ≠ 1: numel(Y) mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedMatMul
    """
    a, outputs = node.input(0), node.output().numel
    axis = -1
    if node.attrs.get("transA", 0) and len(a.dims) > 1:
        axis = 0 if node.attrs.get("transBatchA", 0) else -2
    return Counts(mac=outputs * extent(node, a, axis), mul=outputs if node.attrs.get("alpha", 1.0) != 1.0 else 0)


def fused_matmul_activation(node: Node) -> Counts:
    """as FusedMatMul, and the activation for each element of Y.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedMatMulActivation
    """
    return fused_matmul(node) + activated(node)


def fused_gemm(node: Node) -> Counts:
    """as Gemm, and the activation for each element of Y.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedGemm
    """
    return linear.gemm(node) + activated(node)


def gemm_fast_gelu(node: Node) -> Counts:
    """numel(Y) × K mac, numel(Y) add when bias is given, and numel(Y) × (1 pow + 4 mul + 2 add + 1 tanh): Gelu by
    tanh of a product.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmFastGelu
    """
    outputs = node.output().numel
    work = Counts(mac=outputs * extent(node, node.input(0), -1), add=outputs if node.has_input(2) else 0)
    return work + FAST_GELU * outputs


def gemm_float8(node: Node) -> Counts:
    """as Gemm, 1 mul for each element of Y and each scale that is given (scaleA and scaleB as one), and the activation.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmFloat8
    """
    scales = int(node.has_input(3) or node.has_input(4)) + int(node.has_input(5))
    return linear.gemm(_as(node, "Gemm", 0, 1, 2)) + Counts(mul=scales * node.output().numel) + activated(node)


def packed_matmul(bias: int | None) -> Rule:
    """The rule of a product with packed weights whose bias is at a place."""

    def rule(node: Node) -> Counts:
        """numel(Y) × K mac, K the last extent of A, none where B is empty; numel(Y) add when bias is given. Unpacking
        the weights is free.

        https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
        """
        outputs = node.output().numel
        biased = bias is not None and node.has_input(bias)
        width = 0 if node.has_input(1) and _empty(node.input(1)) else extent(node, node.input(0), -1)
        return Counts(mac=outputs * width, add=outputs if biased else 0)

    return rule


def _empty(weights: Tensor) -> bool:
    """True where weights are left out by an extent of 0."""
    return 0 in (weights.shape or ())


def stored_matmul(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A; global_scale: numel(Y) mul; activation_type relu2: numel(Y) × (1 cmp +
    1 mul), silu: numel(Y) × (1 mul + 1 bit + 1 exp + 1 add + 1 div). Unpacking the weights is free.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulPacked
    """
    outputs = node.output().numel
    work = Counts(mac=outputs * extent(node, node.input(0), -1), mul=outputs if node.has_input(2) else 0)
    return work + activated(node, "activation_type")


def adapted_matmul(node: Node) -> Counts:
    """numel(Y) × K mac (base), rows × K × R mac (down), numel(Y) × R mac (up) and numel(Y) add, R the rank; lora_A
    empty: no down; lora_B empty: base alone. Unpacking the weights is free.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBitsQLoRA
    """
    x, outputs, rank = node.input(0), node.output().numel, extent(node, node.input(4), 0)
    work = Counts(mac=outputs * extent(node, x, -1))
    if _empty(node.input(5)):
        return work
    down = 0 if _empty(node.input(3)) else x.numel * rank
    return work + Counts(mac=down + outputs * rank, add=outputs)


def _normed(node: Node) -> Counts:
    """The sum with a skip and the RMS norm in front of fused products, as far as they are given."""
    x = node.input(0)
    rows = product(x.dims[:-1])
    work = Counts(add=x.numel if node.has_input(1) else 0)
    if node.has_input(2):
        work += RMS * x.numel + RMS_ROW * rows
    return work


def packed_mlp(node: Node) -> Counts:
    """2 × numel(Y) × K mac (gate and up), their biases, the activation of the gate and numel(Y) mul; skip: numel(A)
    add; norm_scale: as RMSNormalization.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBitsMlp
    """
    outputs, width = node.output().numel, extent(node, node.input(0), -1)
    biases = outputs * sum(node.has_input(i) for i in (5, 8))
    return _normed(node) + Counts(mac=2 * outputs * width, add=biases, mul=outputs) + activated(node)


def packed_qkv(node: Node) -> Counts:
    """(numel(Q) + numel(K) + numel(V)) × K mac and the biases; skip: numel(A) add; norm_scale: as RMSNormalization.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBitsQkv
    """
    rows, width = product(node.input(0).dims[:-1]), extent(node, node.input(0), -1)
    columns = [integer(node, name) for name in ("Nq", "Nkv", "Nkv")]
    biases = rows * sum(n for n, i in zip(columns, (5, 8, 11), strict=True) if node.has_input(i))
    return _normed(node) + Counts(mac=rows * sum(columns) * width, add=biases)


#: The packed weights of keys and values.
_KEYS = Packed(elements("K", "Nkv"))

OPERATORS: dict[str, Operator] = {
    "com.microsoft::FusedConv": by(
        fused_conv, inputs=inputs(FACTOR, factor("conv")), shape=shape.twin("Conv", (0, 1), shape.ACTIVATION)
    ),
    "com.microsoft::NhwcFusedConv": by(fused_conv, inputs=inputs(FACTOR, factor("conv")), types="movement:conv"),
    "com.microsoft::NhwcConv": counted_as(
        linear.OPERATORS["Conv"], inputs=inputs(FACTOR, FACTOR), types="movement:conv"
    ),
    "com.microsoft::ConvTransposeWithDynamicPads": by(
        padded_conv_transpose, inputs=inputs(FACTOR, FACTOR), types="products:transposed"
    ),
    **dict.fromkeys(
        ("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul"),
        by(
            fused_matmul,
            inputs=inputs(factor("left", "transA"), factor("right", "transB")),
            types="products:fused_matmul",
        ),
    ),
    "com.microsoft::FusedMatMulActivation": by(
        fused_matmul_activation,
        inputs=inputs(factor("left", "transA"), factor("right", "transB")),
        types="products:fused_matmul",
    ),
    "com.microsoft::FusedGemm": by(
        fused_gemm,
        inputs=inputs(factor("left", "transA"), factor("right", "transB")),
        shape=shape.twin("Gemm", (0, 1, 2), shape.ACTIVATION),
    ),
    "com.microsoft::GemmFastGelu": by(
        gemm_fast_gelu, inputs=inputs(FACTOR, factor("right")), shape=shape.twin("MatMul", (0, 1))
    ),
    "com.microsoft::GemmFloat8": by(
        gemm_float8, inputs=inputs(FACTOR, FACTOR, DATA, SCALE, SCALE, SCALE), types="products:gemm"
    ),
    "com.microsoft::SparseToDenseMatMul": row_of(
        fused_matmul,
        "at most numel(Y) × K mac: as if no element of A were zero; alpha ≠ 1: numel(Y) mul",
        "bound",
        inputs=inputs(FACTOR, FACTOR),
        types="products:fused_matmul",
    ),
    "com.microsoft::MatMulNBits": by(
        packed_matmul(5),
        inputs=inputs(
            FACTOR,
            Input(factor=True, weight=Weight("packed"), packed=MATRIX),
            scale(1),
            Input("zero point", packed=Packed(blocks), of=1),
        ),
        types="products:columns",
    ),
    "com.microsoft::MatMulBnb4": by(
        packed_matmul(None),
        inputs=inputs(
            FACTOR, Input(factor=True, packed=Packed(elements("K", "N"), (), {None: "fp4", 0: "fp4", 1: "nf4"})), SCALE
        ),
        types="products:columns",
    ),
    "com.microsoft::MatMulFpQ4": by(packed_matmul(None), types="products:given_columns"),
    "com.microsoft::MatMulBlockQuantizedFp4Weight": by(
        packed_matmul(5),
        inputs=inputs(FACTOR, Input(factor=True, packed=Packed(None, (), {None: "float4e2m1"})), SCALE, SCALE, SCALE),
        types="products:block_columns",
    ),
    "com.microsoft::MatMulBlockQuantizedFp8Weight": by(
        packed_matmul(4), inputs=inputs(FACTOR, FACTOR, SCALE, SCALE), types="products:block_columns"
    ),
    "com.microsoft::MatMulNBitsMlp": by(
        packed_mlp,
        inputs=inputs(FACTOR, DATA, DATA, Input(factor=True, packed=MATRIX), SCALE, DATA, Input(packed=MATRIX), SCALE),
        types="products:columns",
    ),
    "com.microsoft::MatMulNBitsQkv": by(
        packed_qkv,
        inputs=inputs(
            FACTOR,
            DATA,
            DATA,
            Input(factor=True, packed=Packed(elements("K", "Nq"))),
            SCALE,
            DATA,
            Input(packed=_KEYS),
            SCALE,
            DATA,
            Input(packed=_KEYS),
            SCALE,
        ),
        types="products:three_products",
    ),
    "com.microsoft::MatMulPacked": by(
        stored_matmul,
        inputs=inputs(FACTOR, Input(factor=True, packed=Packed(elements("K", "N"), format="packed_type")), SCALE),
        types="products:columns",
    ),
    "com.microsoft::MatMulNBitsQLoRA": by(
        adapted_matmul,
        inputs=inputs(
            FACTOR,
            Input(factor=True, weight=Weight("packed"), packed=MATRIX),
            scale(1),
            Input(packed=Packed(elements("K", (3, 0)), ("lora_bits",), usual=8)),
            scale(3),
            Input(packed=Packed(elements("N", (4, 0)), ("lora_bits",), usual=8)),
            scale(5),
        ),
        types="products:columns",
    ),
}
