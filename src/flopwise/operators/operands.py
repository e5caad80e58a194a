"""What an operator computes with: the inputs that are multiplied with each other, and the types it takes them in.

Biases, masks and settings are left out: the precision of a product is that of its factors.
"""

from __future__ import annotations

from collections.abc import Iterable

_FIRST_TWO = "Conv ConvTranspose DeformConv CausalConvWithState ConvInteger Gemm MatMul MatMulInteger"

_FIRST_TWO_OF_RUNTIME = """
    Attention CausalConvWithState ConvTransposeWithDynamicPads DecoderMaskedSelfAttention DynamicQuantizeMatMul
    FusedConv FusedGemm FusedMatMul FusedMatMulActivation GemmFastGelu GemmFloat8 LongformerAttention
    MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight MatMulBnb4 MatMulInteger16 MatMulIntegerToFloat
    MatMulNBits NhwcConv NhwcFusedConv PackedAttention QAttention SparseToDenseMatMul TransposeMatMul
"""

_FIRST_THREE_OF_RUNTIME = """
    DecoderMaskedMultiHeadAttention DynamicQuantizeLSTM GroupQueryAttention LinearAttention MultiHeadAttention
    PackedMultiHeadAttention PagedAttention SparseAttention SparsePagedAttention
"""


def _alike(operators: Iterable[str], *places: int, domain: str = "") -> dict[str, tuple[int, ...]]:
    return {f"{domain}::{op}" if domain else op: places for op in operators}


#: Operators that multiply inputs with each other -> the places of those inputs.
FACTORS: dict[str, tuple[int, ...]] = {
    **_alike(_FIRST_TWO.split(), 0, 1),
    **_alike(("Attention", "LinearAttention", "LSTM", "GRU", "RNN", "ai.onnx.preview::FlexAttention"), 0, 1, 2),
    **_alike(("QLinearConv", "QLinearMatMul"), 0, 3),
    **_alike(("Einsum",), *range(26)),
    **_alike(_FIRST_TWO_OF_RUNTIME.split(), 0, 1, domain="com.microsoft"),
    **_alike(_FIRST_THREE_OF_RUNTIME.split(), 0, 1, 2, domain="com.microsoft"),
    **_alike(("MoE", "MulInteger", "QMoE", "QOrderedMatMul"), 0, 2, domain="com.microsoft"),
    **_alike(("QOrderedLongformerAttention",), 0, 2, domain="com.microsoft"),
    **_alike(("MatMulNBitsMlp", "MatMulNBitsQkv", "QGemm", "QLinearConv"), 0, 3, domain="com.microsoft"),
    **_alike(("QLinearAdd", "QLinearMul"), 0, 3, domain="com.microsoft"),
    **_alike(("QOrderedAttention",), 0, 5, domain="com.microsoft"),
    **_alike(("QLinearConcat",), 2, domain="com.microsoft"),
    **_alike(("QLinearWhere",), 1, 4, domain="com.microsoft"),
}

#: Operators that quantise an input by themselves before they multiply -> its place -> the type.
QUANTIZED_INSIDE: dict[str, dict[int, str]] = {
    "com.microsoft::DynamicQuantizeMatMul": {0: "uint8"},
    "com.microsoft::DynamicQuantizeLSTM": {0: "uint8"},
}

_CARRIERS = """
    Cast CastLike DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND Identity Pad Reshape
    ReverseSequence Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze
"""

#: Operators whose result has the values of their first input, whole or in part, in other places or another type.
CARRIERS: frozenset[str] = frozenset(_CARRIERS.split())
