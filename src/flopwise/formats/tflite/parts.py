"""Parts of an operator of TensorFlow Lite beside its own work: fused activations, and what quantisation adds.

Each is an operator after it that is fused to it (``Node.fused``), with a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.formats.tflite.decode import ACTIVATIONS
from flopwise.formats.tflite.lower.lowered import Application
from flopwise.formats.tflite.lower.table import ACTIVATION
from flopwise.readers.subgraphs.lowered import Lowered, Part
from flopwise.readers.subgraphs.tensors import Tensor


def _codes(text: str) -> frozenset[str]:
    """The names of operators in a text."""
    return frozenset(text.split())


#: Products, which sum up in 32 bits.
_PRODUCTS = _codes(
    """
    CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D CONV_3D_TRANSPOSE FULLY_CONNECTED BATCH_MATMUL
    """
)

#: Both operands are brought to one scale before they are added up.
_SUMS = frozenset({"ADD", "SUB", "SQUARED_DIFFERENCE"})

#: Others whose kernels compute on real numbers, and whose result has a scale of its own.
_OTHERS = _codes(
    """
    MUL DIV ADD_N MEAN SUM REDUCE_PROD SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    TANH RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 PRELU LEAKY_RELU ELU HARD_SWISH GELU EXP LOG SQRT RSQRT SQUARE SIN COS
    ABS L2_POOL_2D
    """
)

_NARROW = frozenset({"int8", "uint8", "int16", "int4"})


def parts(application: Application, lowered: Lowered) -> list[Part]:
    """The parts of an operator in the order in which they run."""
    converted = _converted(application)
    result = [] if converted is None else [converted]
    code = application.options.get("activation", 0)
    held = converted is not None and converted.op == "tflite::Requantize"  # saturating does it at no further cost
    if code in range(1, len(ACTIVATIONS)) and "activation" not in lowered.attrs and not held:
        name = ACTIVATIONS[code]
        result.append(Part(ACTIVATION[name].op, name, ACTIVATION[name].attrs))
    return result


def _converted(application: Application) -> Part | None:
    """The operations that quantisation adds to an operator."""
    op, inputs = application.operator.op, application.inputs
    y = next(iter(application.outputs), None)
    if y is None or not inputs:
        return None
    if op in _PRODUCTS and y.dtype == "float32":
        return _dynamic(inputs)
    if not _quantized(y) or op not in _PRODUCTS | _SUMS | _OTHERS:
        return None
    operands = [place for place, tensor in enumerate(inputs) if tensor is not None and _quantized(tensor)]
    if op in _SUMS:
        return Part("tflite::Requantize", "requantize", {"rescaled": 1}, tuple(operands))
    if op in _OTHERS and len(operands) == 1 and _same_scale(inputs[operands[0]], y):
        return None
    shifted = [place for place in operands if (q := getattr(inputs[place], "quantization", None)) and q.shifted]
    return Part("tflite::Requantize", "requantize", {}, tuple(shifted))


def _dynamic(inputs: Sequence[Tensor | None]) -> Part | None:
    """The quantisation of a product's data in each inference, where its weight is stored in few bits."""
    floats = (p for p, t in enumerate(inputs) if t is not None and t.dtype == "float32" and t.data is None)
    data, weight = next(floats, None), inputs[1] if len(inputs) > 1 else None
    if data is None or weight is None or weight.dtype not in _NARROW:
        return None
    return Part("tflite::DynamicQuantize", "dynamic", {}, (data,))


def _quantized(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.dtype in _NARROW


def _same_scale(one: Tensor | None, other: Tensor) -> bool:
    if one is None or one.quantization is None or other.quantization is None:
        return False
    first, second = one.quantization, other.quantization
    return (first.scale, first.zero_points) == (second.scale, second.zero_points)
