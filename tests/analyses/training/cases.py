"""Applications of operators whose gradients are executed: shapes, ranges that keep away from kinks, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One application: inputs, which of them ask for a gradient, and attributes."""

    op: str
    inputs: tuple[Any, ...]
    wanted: frozenset[int] = frozenset({0})
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        shapes = ",".join("x".join(map(str, np.shape(x))) if x is not None else "-" for x in self.inputs)
        attrs = ",".join(f"{k}={v}".replace(" ", "") for k, v in self.attrs.items())
        return f"{self.op}({shapes})/{''.join(map(str, sorted(self.wanted)))}{attrs and ':' + attrs}"


_random = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    """Numbers of either sign, none near zero or near each other."""
    found = _random.permutation(np.linspace(0.15, 1.9, max(int(np.prod(shape)), 1)))
    return (found * _random.choice([-1.0, 1.0], found.shape)).reshape(shape)


def positive(*shape: int) -> Any:
    return abs(normal(*shape))


def small(*shape: int) -> Any:
    """Between −1 and 1."""
    return normal(*shape) / 2.0


_ANY = "Abs Neg Exp Erf Tanh Sin Cos Atan Sinh Cosh Asinh Relu LeakyRelu ThresholdedRelu Elu Selu Celu Gelu Sigmoid"
_MORE = "Swish Mish HardSigmoid HardSwish Softplus Softsign Shrink"
_WITHIN = "Asin Acos Atanh Tan"


def _pointwise() -> Iterator[Case]:
    for op in f"{_ANY} {_MORE}".split():
        yield Case(op, (normal(3, 4),))
    for op in _WITHIN.split():
        yield Case(op, (small(3, 4),))
    for op in ("Sqrt", "Reciprocal", "Log"):
        yield Case(op, (positive(3, 4),))
    yield Case("Acosh", (positive(3, 4) + 1.0,))
    yield Case("HardSwish", (normal(2, 3) * 3.0,))
    yield Case("Gelu", (normal(2, 3),), attrs={"approximate": "tanh"})
    yield Case("Swish", (normal(2, 3),), attrs={"alpha": 1.7})
    yield Case("Clip", (normal(3, 4),), attrs={"min": -0.5, "max": 0.7})
    for places in ({0}, {1}, {0, 1}):
        wanted = frozenset(places)
        for op in ("Add", "Sub", "Mul", "Div"):
            yield Case(op, (normal(3, 4), normal(3, 4)), wanted)
            yield Case(op, (normal(3, 4), normal(4)), wanted)
            yield Case(op, (normal(3, 1), normal(2, 1, 4)), wanted)
        yield Case("Pow", (positive(3, 4), normal(3, 4)), wanted)
        yield Case("Pow", (positive(3, 4), normal(4)), wanted)
        yield Case("SwiGLU", (normal(3, 4), normal(3, 4)), wanted)
        yield Case("PRelu", (normal(2, 3), normal(3)), wanted)
        yield Case("Max", (normal(3, 4), normal(3, 4) * 1.01), wanted)
        yield Case("Min", (normal(3, 4), normal(3, 4) * 1.01), wanted)
    yield Case("Sum", (normal(3, 4), normal(4), normal(3, 1)), frozenset({0, 1, 2}))
    yield Case("Mean", (normal(3, 4), normal(3, 4), normal(4)), frozenset({0, 2}))


def _reductions() -> Iterator[Case]:
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare"):
        yield Case(f"Reduce{op}", (normal(2, 3, 4),), attrs={"axes": [1]})
        yield Case(f"Reduce{op}", (normal(2, 3),), attrs={"axes": [0, 1]})
    for op in ("ReduceLogSum", "ReduceLogSumExp"):
        yield Case(op, (positive(2, 3, 4),), attrs={"axes": [1, 2]})
    yield Case("CumSum", (normal(3, 4), np.array(1)))
    yield Case("CumProd", (normal(3, 4), np.array(1)))


def _linear() -> Iterator[Case]:
    for places in ({0}, {1}, {0, 1}, {0, 1, 2}, {2}):
        wanted = frozenset(places)
        yield Case("Conv", (normal(2, 2, 4, 5), normal(3, 2, 2, 3), normal(3)), wanted, {"pads": [1, 0, 1, 1]})
        yield Case("Conv", (normal(1, 4, 6), normal(6, 2, 3), normal(6)), wanted, {"group": 2, "strides": [2]})
        yield Case("ConvTranspose", (normal(1, 2, 3, 3), normal(2, 3, 2, 2), normal(3)), wanted, {"strides": [2, 2]})
        yield Case("Gemm", (normal(3, 4), normal(4, 5), normal(5)), wanted)
        attrs = {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1}
        yield Case("Gemm", (normal(4, 3), normal(5, 4), normal(3, 5)), wanted, attrs)
    yield Case("Conv", (normal(1, 2, 7), normal(2, 2, 3)), frozenset({0, 1}), {"dilations": [2]})
    for places in ({0}, {1}, {0, 1}):
        wanted = frozenset(places)
        yield Case("MatMul", (normal(3, 4), normal(4, 2)), wanted)
        yield Case("MatMul", (normal(2, 3, 4), normal(4, 2)), wanted)
        yield Case("MatMul", (normal(2, 1, 3, 4), normal(3, 4, 2)), wanted)
    for places in ({0}, {1}, {2}, {0, 1, 2}):
        wanted = frozenset(places)
        yield Case("Attention", (normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 3)), wanted)
        yield Case("Attention", (normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 3)), wanted, {"softcap": 2.0})
        yield Case("Attention", (normal(1, 4, 3, 2), normal(1, 2, 5, 2), normal(1, 2, 5, 3)), wanted)


def _deformed() -> Iterator[Case]:
    for places in ({0}, {1}, {2}, {4}, {0, 1, 2, 3, 4}, {1, 3}):
        for mask in (None, positive(1, 4, 3, 3)):
            if mask is not None or 4 not in places:
                inputs = (normal(1, 2, 4, 4), normal(3, 2, 2, 2), small(1, 8, 3, 3), normal(3), mask)
                yield Case("DeformConv", inputs, frozenset(places))


def _normalizations() -> Iterator[Case]:
    for places in ({0}, {1}, {2}, {1, 2}, {0, 1, 2}):
        wanted = frozenset(places)
        for mode in (0, 1):
            statistics = normal(3), positive(3)
            inputs = (normal(2, 3, 4), normal(3), normal(3), *statistics)
            yield Case("BatchNormalization", inputs, wanted, {"training_mode": mode} if mode else {})
        yield Case("LayerNormalization", (normal(2, 3, 4), normal(4), normal(4)), wanted)
        yield Case("LayerNormalization", (normal(2, 3, 4), normal(3, 4), normal(3, 4)), wanted, {"axis": 1})
        yield Case("GroupNormalization", (normal(2, 4, 3), normal(4), normal(4)), wanted, {"num_groups": 2})
        yield Case("InstanceNormalization", (normal(2, 3, 4), normal(3), normal(3)), wanted)
        if 2 not in wanted:
            yield Case("RMSNormalization", (normal(2, 3, 4), normal(4)), wanted)
    yield Case("LRN", (normal(1, 5, 3),), attrs={"size": 3, "alpha": 0.3})
    yield Case("LpNormalization", (normal(3, 4),))
    yield Case("LpNormalization", (normal(3, 4),), attrs={"p": 1})
    yield Case("MeanVarianceNormalization", (normal(2, 3, 2, 2),))
    yield Case("Softmax", (normal(3, 4),))
    yield Case("LogSoftmax", (normal(3, 4),))


def _others() -> Iterator[Case]:
    windows = {"kernel_shape": [2, 2], "strides": [1, 2]}
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield Case(op, (normal(1, 2, 3, 4),), attrs=windows)
    for p in (1, 3):
        yield Case("LpPool", (normal(1, 2, 3, 4),), attrs={**windows, "p": p})
        yield Case("GlobalLpPool", (normal(1, 2, 3, 4),), attrs={"p": p})
    yield Case("GlobalAveragePool", (normal(2, 2, 3, 4),))
    yield Case("GlobalLpPool", (normal(1, 2, 3, 4),))
    sizes = np.array([1, 2, 6, 9])
    yield Case("Resize", (normal(1, 2, 3, 3), None, None, sizes), attrs={"mode": "nearest"})
    for places in ({0}, {1}, {0, 1}):
        yield Case("GridSample", (normal(1, 2, 3, 4), small(1, 3, 2, 2)), frozenset(places))
    yield Case("Gather", (normal(4, 3), np.array([1, 3, 1])))
    yield Case("Gather", (normal(2, 4), np.array([[0, 0], [2, 1]])), attrs={"axis": 1})
    yield Case("Expand", (normal(3, 1), np.array([2, 3, 4])))
    for reduction in ("mean", "sum", "none"):
        labels = np.array([1, 0, 3])
        yield Case("SoftmaxCrossEntropyLoss", (normal(3, 4), labels), attrs={"reduction": reduction})
        yield Case("NegativeLogLikelihoodLoss", (normal(3, 4), labels), attrs={"reduction": reduction})


def _recurrent() -> Iterator[Case]:
    for op, gates in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
        for directions, direction in ((1, "forward"), (2, "bidirectional")):
            stored = (
                *(small(3, 2, 2), small(directions, gates * 3, 2), small(directions, gates * 3, 3)),
                *(small(directions, 2 * gates * 3), None, small(directions, 2, 3)),
            )
            for places in ({0, 1, 2, 3}, {1, 2}, {0}, {1, 2, 3, 5}):
                attrs = {"direction": direction} if directions == 2 else {}
                yield Case(op, stored, frozenset(places), attrs)
                if op == "GRU":
                    yield Case(op, stored, frozenset(places), {**attrs, "linear_before_reset": 1})


CASES = [*_pointwise(), *_reductions(), *_linear(), *_deformed(), *_normalizations(), *_others(), *_recurrent()]
