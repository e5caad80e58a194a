"""Random numbers. ONNX does not say how they are drawn; what is counted is what becomes of a draw."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.onnx.movement import bits
from flopwise.operators.operator import Operator, by, each


def normal(node: Node) -> Counts:
    """numel(Y) × (1 mul when scale ≠ 1, 1 add when mean ≠ 0): mean + scale × z; drawing z is not arithmetic that ONNX
    defines.

    https://onnx.ai/onnx/operators/onnx__RandomNormal.html
    """
    return _moved(node, node.attrs.get("scale", 1.0), node.attrs.get("mean", 0.0))


def uniform(node: Node) -> Counts:
    """numel(Y) × (1 mul when high − low ≠ 1, 1 add when low ≠ 0): low + (high − low) × u; drawing u is not arithmetic
    that ONNX defines.

    https://onnx.ai/onnx/operators/onnx__RandomUniform.html
    """
    low = node.attrs.get("low", 0.0)
    return _moved(node, node.attrs.get("high", 1.0) - low, low)


def _moved(node: Node, factor: float, shift: float) -> Counts:
    """Each draw times a factor plus a shift, as far as they change it."""
    return Counts(mul=int(factor != 1.0), add=int(shift != 0.0)) * node.output().numel


def multinomial(node: Node) -> Counts:
    """at most numel(X) × (1 cmp + 2 add + 1 exp), the running sum of exp(x − max) of each row, and numel(Y) × (1 mul +
    bits(C) cmp): each draw, scaled by the sum, finds its class among C by binary search; bits is the number of binary
    digits, C itself stands in for it where C is a symbol.

    https://onnx.ai/onnx/operators/onnx__Multinomial.html
    """
    x = node.input(0)
    classes = extent(node, x, -1)
    draws: int = product(x.dims[:-1]) * node.attrs.get("sample_size", 1)
    return Counts(cmp=1, add=2, exp=1) * x.numel + Counts(mul=1, cmp=bits(classes)) * draws


OPERATORS: dict[str, Operator] = {
    "RandomNormal": by(normal, effects=frozenset({"random"}), shape="making:stated", dtype=shape.dtype_of("dtype")),
    "RandomNormalLike": by(
        normal, effects=frozenset({"random", "no gradient"}), shape=shape.alike, dtype=shape.dtype_of("dtype", 0)
    ),
    "RandomUniform": by(uniform, effects=frozenset({"random"}), shape="making:stated", dtype=shape.dtype_of("dtype")),
    "RandomUniformLike": by(
        uniform, effects=frozenset({"random", "no gradient"}), shape=shape.alike, dtype=shape.dtype_of("dtype", 0)
    ),
    "Bernoulli": each(
        "a draw is compared with the probability",
        cmp=1,
        effects=frozenset({"random", "no gradient"}),
        shape=shape.alike,
        dtype=shape.dtype_of("dtype", 0),
    ),
    "Multinomial": by(
        multinomial,
        "bound",
        effects=frozenset({"random", "no gradient"}),
        shape="making:draws",
        dtype=shape.dtype_of("dtype", "int32"),
    ),
}
