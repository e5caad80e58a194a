"""The operators whose C++ inference is proven safe: with any inputs and attributes it ends, and soon.

Proven by giving each version of each operator 20,000 random nodes: inputs that are missing, untyped, no tensors, of any
rank and element type, stored tensors whose elements do not fit, attributes of any value and type. That was onnx 1.23.2;
what ``flopwise.readers.onnx.native.suspects`` refuses is left out. ``fuzz/onnx_operators.py`` does it again.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.types import tensor_type

#: The domains that onnx knows; it leaves the operators of all others alone.
KNOWN_DOMAINS: frozenset[str] = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training"}
)

_PROVEN = """
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike CausalConvWithState
Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger
ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout
DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand Flatten Floor GRU Gather GatherElements Gelu Gemm
GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
HannWindow HardSigmoid HardSwish Hardmax Identity If ImageDecoder InstanceNormalization IsInf IsNaN LRN LSTM
LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop LpNormalization LpPool MatMul
MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul
Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement
OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal
RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign
RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty
SequenceErase SequenceInsert SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh Size Softmax
SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum SwiGLU Swish Tan
Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
"""

#: Operators of the standard domain that may be met anywhere.
PROVEN: frozenset[str] = frozenset(_PROVEN.split())

#: Those that are safe by themselves, when the types of all their inputs are certain, by domain.
_PROVEN_WHEN_TYPED: dict[str, str] = {
    "": "EyeLike GatherND RegexFullMatch Slice StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "ai.onnx.ml": """
        ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder
        LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble
        TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
    """,
    "ai.onnx.preview.training": "Adagrad Adam Gradient Momentum",
}

PROVEN_WHEN_TYPED: frozenset[tuple[str, str]] = frozenset(
    (domain, op) for domain, ops in _PROVEN_WHEN_TYPED.items() for op in ops.split()
)


def is_proven(node: onnx.NodeProto) -> bool:
    """Whether onnx's inference of a node is safe for inputs of all types, or there is none."""
    return node.op_type in PROVEN if not node.domain else node.domain not in KNOWN_DOMAINS


def is_proven_when_typed(node: onnx.NodeProto, types: Mapping[str, TypeProto]) -> bool:
    """Whether onnx's inference of a node is safe with inputs of these types."""
    if (node.domain, node.op_type) not in PROVEN_WHEN_TYPED or not node.input:
        return False
    return all(name in types and _is_certain(types[name]) for name in node.input)


def _is_certain(type_: TypeProto) -> bool:
    """Whether a type states the kind of a value, and has no negative extent, which operators on wrong sizes make."""
    if tensor_type(type_) is None:
        return type_.WhichOneof("value") is not None
    return not has_negative_extent(type_)


def has_negative_extent(type_: TypeProto) -> bool:
    """Whether a type is that of a tensor with a negative extent."""
    tensor = tensor_type(type_)
    return tensor is not None and any(dim.dim_value < 0 for dim in tensor.shape.dim)
