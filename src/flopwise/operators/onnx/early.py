"""Experimental operators that early versions of ONNX had and that later ones dropped (up to onnx 1.4).

The definitions: https://github.com/onnx/onnx/blob/v1.2.1/onnx/defs/experiments/defs.cc
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import SIGMOID, Counts
from flopwise.operators.extents import product
from flopwise.operators.operator import PICKS, Operator, by, each, nothing, unknown

_FILL = "writes values that are known beforehand"
_PICK = "copies the elements that its bounds pick"


def fully_connected(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac + numel(Y) add: a matrix product and a bias.

    W is (outputs, inputs). onnx 1.0 had it.
    """
    outputs = node.output().numel
    return Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)


def image_scaler(node: Node) -> Counts:
    """numel(Y) × 1 mul, and 1 add when bias is given: scale and a bias for each channel."""
    return Counts(mul=1, add=int("bias" in node.attrs)) * node.output().numel


OPERATORS: dict[str, Operator] = {
    "Affine": each("αx + β", mul=1, add=1, shape=shape.alike),
    "Scale": each("scale × x", mul=1, shape=shape.alike),
    "ScaledTanh": each("α tanh(βx)", mul=2, tanh=1, shape=shape.alike, in_place=True),
    "ParametricSoftplus": each("α log(exp(βx) + 1)", mul=2, exp=1, add=1, log=1, shape=shape.alike, in_place=True),
    "ImageScaler": by(image_scaler, shape=shape.alike),
    "FC": by(fully_connected, types="standard:fully_connected"),
    "GRUUnit": each(
        "h × z + tanh(c) × (1 − z), z = sigmoid(update); the reset gate is applied before",
        SIGMOID,
        add=2,
        tanh=1,
        mul=2,
        shape=shape.alike,
    ),
    "ConstantFill": nothing(_FILL, types="standard:constant_filled"),
    "GivenTensorFill": nothing(_FILL, types="standard:filled"),
    "Crop": nothing(_PICK, types="standard:cropped", effects=PICKS),
    "DynamicSlice": nothing(_PICK, types="standard:sliced", effects=PICKS),
    "LoopIndexTensor": nothing(_PICK, effects=PICKS),
    "ATen": unknown("stands for any operator of PyTorch's ATen library, and ONNX never specified them"),
}
