"""PyTorch's backward operators as a program calls them itself, beside gradients that are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tests.analyses.training.derivatives import ONE, between
from tests.analyses.training.layers import GRADIENTS as OF_LAYERS
from tests.operators.arrays import Input, real
from tests.operators.calls import Call, call, each
from tests.operators.oracle.number import Number, exp, select

aten = torch.ops.aten


def _away() -> Input:
    """Numbers of either sign, beyond and within what functions cut off, none at an edge."""
    return Input(np.array([[-3.7, -1.3, 0.4, 2.3], [1.2, -0.6, -2.2, 0.1], [3.4, -0.2, 0.9, -0.8]]))


def _of_x(name: str, *more: Any) -> Callable[..., Any]:
    """A backward operator of the gradient and of X."""
    return lambda g, x: getattr(aten, f"{name}_backward")(g, x, *more)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + exp(-x))


def _silu(g: Any, x: Any) -> Any:
    s = _sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


#: Name -> PyTorch's call of G and X, and the gradient of an element.
OF_X: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "threshold": (_of_x("threshold", 0), lambda g, x: select(x > 0.0, g, 0.0)),
    "gelu": (_of_x("gelu"), lambda g, x: ONE["Gelu"](g, x, None)),
    "elu": (lambda g, x: aten.elu_backward(g, 1, 1, 1, False, x), lambda g, x: ONE["Elu"](g, x, None)),
    "silu": (_of_x("silu"), _silu),
    "mish": (_of_x("mish"), lambda g, x: ONE["Mish"](g, x, None)),
    "leaky_relu": (_of_x("leaky_relu", 0.01, False), lambda g, x: ONE["LeakyRelu"](g, x, None)),
    "softplus": (_of_x("softplus", 1, 20), lambda g, x: ONE["Softplus"](g, x, None)),
    "hardtanh": (_of_x("hardtanh", -1, 1), lambda g, x: between(g, x, -1.0, 1.0)),
    "hardswish": (_of_x("hardswish"), lambda g, x: ONE["HardSwish"](g, x, None)),
    "hardsigmoid": (_of_x("hardsigmoid"), lambda g, x: between(g * (1.0 / 6.0), x, -3.0, 3.0)),
    "softshrink": (_of_x("softshrink", 0.5), lambda g, x: ONE["Shrink"](g, x, None)),
    "hardshrink": (_of_x("hardshrink", 0.5), lambda g, x: ONE["Shrink"](g, x, None)),
    "rrelu_with_noise": (
        lambda g, x: aten.rrelu_with_noise_backward(g, x, x, 0.01, 0.01, False, False),
        lambda g, x: ONE["LeakyRelu"](g, x, None),
    ),
}


def _log_sigmoid(g: Any, x: Any, kept: Any) -> Any:
    return each(lambda g, x: g / (1.0 + exp(x)))(g, x)


def _prelu(g: Any, x: Any, slope: Any) -> Any:
    """Both gradients with an element for each of X: of the slopes they are added up elsewhere."""
    zero = Number(0.0, x.flat[0].tally)
    return each(lambda g, x, s: select(x < 0.0, s * g, g))(g, x, slope), each(
        lambda g, x: select(x < 0.0, x * g, zero)
    )(g, x)


def _glu(g: Any, x: Any) -> Any:
    a, b = np.split(x, 2, axis=-1)
    s = each(_sigmoid)(b)
    return np.concatenate([g * s, g * a * s * (1.0 - s)], axis=-1)


def _of_rows(name: str, op: str, dim: int) -> tuple[Any, Any]:
    def theirs(g: Any, y: Any) -> Any:
        return getattr(aten, name)(g, y, dim, torch.float64)

    def ours(g: Any, y: Any) -> Any:
        g, y = np.moveaxis(g, dim, -1), np.moveaxis(y, dim, -1)
        return np.moveaxis(OF_LAYERS[op](g, y, frozenset({0}), y)[0], -1, dim)

    return theirs, ours


def _convolution(*, transposed: bool, wanted: frozenset[int], groups: int = 1) -> tuple[Any, Any]:
    mask = [place in wanted for place in range(3)]

    def theirs(g: Any, x: Any, w: Any) -> Any:
        arguments = ([1, 1], [0, 0], [1, 1], transposed, [0, 0], groups, mask)
        found = aten.convolution_backward(g, x, w, [g.shape[1]], *arguments)
        return [one for one in found if one is not None]

    def ours(g: Any, x: Any, w: Any) -> Any:
        gradient = OF_LAYERS["ConvTranspose" if transposed else "Conv"]
        found = gradient(g, None, wanted, x, w, None, group=groups)
        return [found[place] for place in sorted(wanted)]

    return theirs, ours


def calls() -> Iterator[Call]:
    for name, (function, scalar) in OF_X.items():
        yield call(f"{name}_backward", function, each(scalar), real(3, 4), _away())
    for name, op in (("tanh", "Tanh"), ("sigmoid", "Sigmoid")):
        yield call(
            f"{name}_backward",
            getattr(aten, f"{name}_backward"),
            each(lambda g, y, op=op: ONE[op](g, None, y)),
            real(3, 4),
            real(3, 4),
        )
    for name, op in (("_softmax", "Softmax"), ("_log_softmax", "LogSoftmax")):
        for dim in (0, 1, -1):
            yield call(f"{name}_backward_data", *_of_rows(f"{name}_backward_data", op, dim), real(3, 4), real(3, 4))
    x = _away()
    kept = Input(np.exp(-abs(x.array)), counted=False)  # which the forward pass left behind
    yield call("log_sigmoid_backward", aten.log_sigmoid_backward, _log_sigmoid, real(3, 4), x, kept)
    gelu = lambda g, x: aten.gelu_backward(g, x, approximate="tanh")  # noqa: E731
    yield call("gelu_backward", gelu, each(lambda g, x: ONE["Gelu"](g, x, None, "tanh")), real(3, 4), x)
    yield call("glu_backward", lambda g, x: aten.glu_backward(g, x, -1), _glu, real(3, 2), real(3, 4))
    for slopes in ((3, 4), (4,), (1,)):
        yield call("_prelu_kernel_backward", aten._prelu_kernel_backward, _prelu, real(3, 4), _away(), real(*slopes))
    for transposed in (False, True):
        for places in ({0}, {1}, {2}, {0, 1, 2}):
            theirs, ours = _convolution(transposed=transposed, wanted=frozenset(places))
            shapes = ((2, 3, 5, 5), (2, 2, 3, 3)) if transposed else ((2, 3, 2, 2), (2, 2, 4, 4))
            weight = (2, 3, 3, 3) if transposed else (3, 2, 3, 3)
            yield call("convolution_backward", theirs, ours, real(*shapes[0]), real(*shapes[1]), real(*weight))
    theirs, ours = _convolution(transposed=False, wanted=frozenset({0, 1}), groups=2)
    yield call("convolution_backward", theirs, ours, real(2, 4, 2, 2), real(2, 2, 4, 4), real(4, 1, 3, 3))
