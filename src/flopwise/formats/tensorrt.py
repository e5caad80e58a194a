"""The operator that a layer of an engine computes, as ``trtexec --exportLayerInfo`` describes it."""

from __future__ import annotations

import math
import re

from flopwise.formats.sources.text import JsonObject
from flopwise.graph import Node, Tensor

#: Element types by what the description of a format says.
_TYPES = {"fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}

#: Numbers of a window by the name in ONNX and those in a layer.
_WINDOWS = {"strides": ("Stride",), "dilations": ("Dilation",), "pads": ("PrePadding", "PostPadding")}

#: Pooling by its kind.
_POOLING = {"MAX": "MaxPool", "AVERAGE": "AveragePool"}


def node_of(name: str, layer: JsonObject, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Node:
    """The operator of ONNX that a layer computes, where it is a product or a pooling; else the layer's own type.

    Raises:
        LookupError, TypeError, ValueError, ZeroDivisionError: the information is none of TensorRT's.
    """
    kind = str(layer.get("ParameterType", layer.get("LayerType", "")))
    weights = layer.get("Weights") or {}
    if kind in ("Convolution", "Deconvolution") and inputs and weights.get("Count"):
        kernel = tuple(map(int, layer["Kernel"]))
        out = int(layer["OutMaps"]) if kind == "Convolution" else inputs[0].dims[1]
        shape = (out, weights["Count"] // (out * math.prod(kernel)), *kernel)
        operands = [inputs[0], Tensor("#weights", shape, dtype_of(weights.get("Type", "")), "weight")]
        bias = layer.get("Bias") or {}
        if bias.get("Count"):
            operands.append(Tensor("#bias", (bias["Count"],), dtype_of(bias.get("Type", "")), "weight"))
        attrs = {**_windows(layer), "kernel_shape": list(kernel), "group": int(layer.get("Groups", 1))}
        return Node("Conv" if kind == "Convolution" else "ConvTranspose", name, tuple(operands), outputs, attrs)
    if kind == "MatrixMultiply" and len(inputs) == 2:
        return Node("MatMul", name, inputs, outputs)
    if kind == "Pooling" and layer.get("PoolingType") in _POOLING and inputs:
        attrs = {**_windows(layer), "kernel_shape": list(map(int, layer["WindowSize"]))}
        attrs["count_include_pad"] = int(not layer.get("AverageCountExcludesPadding", 0))
        return Node(_POOLING[layer["PoolingType"]], name, inputs[:1], outputs, attrs)
    return Node(kind, name, inputs, outputs)


def _windows(layer: JsonObject) -> dict[str, object]:
    """Kernel, strides, pads and dilations as ONNX attributes."""
    numbers = {name: [int(n) for key in keys for n in layer.get(key, ())] for name, keys in _WINDOWS.items()}
    return {name: listed for name, listed in numbers.items() if listed}


def tensor_of(described: JsonObject) -> Tensor:
    """A tensor as a layer describes its inputs and outputs."""
    shape = tuple(int(extent) for extent in described["Dimensions"])
    return Tensor(str(described["Name"]), shape, dtype_of(described["Format/Datatype"]))


def dtype_of(text: str) -> str:
    """The element type in the description of a format.

    >>> dtype_of("Channel major FP16 format where channel % 8 == 0"), dtype_of("Row major Int8 format")
    ('float16', 'int8')
    """
    words = re.findall(r"(?:fp|bf|u?int|float|half|bool)\d*", text.lower())
    return _TYPES.get(words[-1], words[-1]) if words else "float32"
