"""Where quantised operators take scales and zero points: stored beside the weights, not trained."""

from __future__ import annotations

#: Scale and zero point of any number of operands, each after its operand.
_OPERANDS = frozenset(place for place in range(3000) if place % 3)

#: Scale and zero point of two operands, each after its operand, and then those of the result.
_TWO_OPERANDS = frozenset({1, 2, 4, 5, 6, 7})

#: Scale and zero point of one operand, after it, and then those of the result.
_ONE_OPERAND = frozenset({1, 2, 3, 4})

#: Operator -> places of scales and zero points among its inputs. The second half are onnxruntime's own operators.
SCALES: dict[str, frozenset[int]] = {
    "QuantizeLinear": frozenset({1, 2}),
    "DequantizeLinear": frozenset({1, 2}),
    "QLinearConv": _TWO_OPERANDS,
    "QLinearMatMul": _TWO_OPERANDS,
    "ConvInteger": frozenset({2, 3}),
    "MatMulInteger": frozenset({2, 3}),
    "DequantizeWithOrder": frozenset({1}),
    "DynamicQuantizeLSTM": frozenset({8, 9, 10, 11}),
    "DynamicQuantizeMatMul": frozenset({2, 3}),
    "GatherBlockQuantized": frozenset({2, 3}),
    "GemmFloat8": frozenset({3, 4, 5}),
    "GroupQueryAttention": frozenset({12, 13}),
    "MatMulBlockQuantizedFp4Weight": frozenset({2, 3, 4}),
    "MatMulBlockQuantizedFp8Weight": frozenset({2, 3}),
    "MatMulBnb4": frozenset({2}),
    "MatMulIntegerToFloat": frozenset({2, 3, 4, 5}),
    "MatMulNBits": frozenset({2, 3}),
    "MatMulNBitsMlp": frozenset({4, 7}),
    "MatMulNBitsQkv": frozenset({4, 7, 10}),
    "MulInteger": frozenset({1, 3}),
    "PagedAttention": frozenset({14, 15}),
    "QAttention": frozenset({3, 4, 6, 7}),
    "QEmbedLayerNormalization": frozenset(range(8, 18)),
    "QGemm": frozenset({1, 2, 4, 5, 7, 8}),
    "QLinearAdd": _TWO_OPERANDS,
    "QLinearAveragePool": _ONE_OPERAND,
    "QLinearConcat": frozenset({0, 1, *(2 + place for place in _OPERANDS)}),
    "QLinearConvTranspose": _TWO_OPERANDS,
    "QLinearGlobalAveragePool": _ONE_OPERAND,
    "QLinearLeakyRelu": _ONE_OPERAND,
    "QLinearMul": _TWO_OPERANDS,
    "QLinearReduceMean": _ONE_OPERAND,
    "QLinearSigmoid": _ONE_OPERAND,
    "QLinearSoftmax": _ONE_OPERAND,
    "QLinearWhere": frozenset({2, 3, 5, 6, 7, 8}),
    "QMoE": frozenset({3, 6, 9, 11, 12, 13, 15, 16, 17, 18, 19, 20}),
    "QOrderedAttention": frozenset({1, 2, 3, 4, 8, 9, 10, 14, 15, 16}),
    "QOrderedGelu": frozenset({1, 2}),
    "QOrderedLayerNormalization": frozenset({1, 4}),
    "QOrderedLongformerAttention": frozenset({1, 3, 5, 6, 9, 11, 13}),
    "QOrderedMatMul": frozenset({1, 3, 4, 7}),
    "QuantizeWithOrder": frozenset({1}),
    "SparsePagedAttention": frozenset({19, 20}),
}

#: Operator -> places of biases, which are stored in 32 bits beside 8-bit weights.
BIASES: dict[str, frozenset[int]] = {
    "DequantizeLinear": frozenset({0}),
    "QLinearConv": frozenset({8}),
    "QLinearConvTranspose": frozenset({8}),
    "QGemm": frozenset({6}),
}
