"""Operators between PyTorch's quantized tensors: real numbers in between, quantized again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from tests.operators.arrays import Input, real
from tests.operators.calls import Call, each
from tests.operators.calls_pointwise import rounded
from tests.operators.oracle.pointwise import SCALARS

#: Scales and zero points of what comes in and of what goes out.
SCALE, ZERO, OWN_SCALE, OWN_ZERO = 0.05, 3, 0.0731, 7

KERNELS: Any = torch.ops.quantized


def whole(*shape: int) -> Input:
    """Integers of 8 bits."""
    return Input(np.round(np.clip(40.0 * np.abs(real(*shape).array), 0, 255)))


def tensor(x: Any) -> Any:
    """A quantized tensor of these integers."""
    return torch.quantize_per_tensor((x - ZERO).float() * SCALE, SCALE, ZERO, torch.quint8)


def number(x: Any) -> Any:
    """What an integer stands for."""
    return (x - ZERO) * SCALE


def again(least: int = 0) -> Any:
    """Integers of real numbers."""
    return each(lambda v: rounded(v, OWN_SCALE, OWN_ZERO, least, 255))


def calls() -> Iterator[Call]:
    x, y, row = whole(3, 4), whole(3, 4), whole(1, 4)
    alone: dict[str, Any] = {"whole": False}
    for name, plain in (("add", lambda a, b: a + b), ("mul", lambda a, b: a * b)):
        for relu in ("", "_relu"):
            yield Call(
                f"quantized::{name}",
                lambda a, b, n=name + relu: getattr(KERNELS, n)(tensor(a), tensor(b), OWN_SCALE, OWN_ZERO).int_repr(),
                lambda a, b, of=plain, low=OWN_ZERO if relu else 0: again(low)(of(number(a), number(b))),
                (x, y),
                **alone,
            )
    yield Call(
        "quantized::add",
        lambda a, b: KERNELS.add(tensor(a), tensor(b), OWN_SCALE, OWN_ZERO).int_repr(),
        lambda a, b: again()(number(a) + number(b)),
        (x, row),
        **alone,
    )
    yield Call(
        "quantized::cat",
        lambda a, b: KERNELS.cat([tensor(a), tensor(b)], 0, OWN_SCALE, OWN_ZERO).int_repr(),
        lambda a, b: again()(np.concatenate([number(a), number(b)])),
        (x, row),
        **alone,
    )
    yield Call(
        "quantized::hardswish",
        lambda a: KERNELS.hardswish(tensor(a), OWN_SCALE, OWN_ZERO).int_repr(),
        lambda a: again()(each(SCALARS["HardSwish"])(number(a))),
        (x,),
        **alone,
    )
    yield Call(
        "quantized::leaky_relu",
        lambda a: KERNELS.leaky_relu(tensor(a), 0.1, False, OWN_SCALE, OWN_ZERO).int_repr(),
        lambda a: again()(each(lambda v: SCALARS["LeakyRelu"](v, alpha=0.1))(number(a))),
        (x,),
        **alone,
    )
