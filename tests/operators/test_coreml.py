"""Counts of MIL's own operations by hand: each for one element, and those of other kinds at small sizes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats.coreml.by_hand import encoded, inline, operation, program, read, tensor, text

import flopwise
from flopwise.operators.coreml import OPERATORS
from flopwise.operators.counts import Counts

#: Operation -> what an element of its result takes.
EACH = {
    "square": Counts(mul=1),  # x × x
    "rsqrt": Counts(add=1, sqrt=1, div=1),  # 1 / √(x + ε)
    "inverse": Counts(add=1, div=1),  # 1 / (x + ε)
    "log": Counts(add=1, log=1),  # log(x + ε)
    "exp2": Counts(exp=1),
    "linear_activation": Counts(mul=1, add=1),  # αx + β
    "scaled_tanh": Counts(mul=2, tanh=1),  # α tanh(βx)
    "clamped_relu": Counts(cmp=2, mul=1),  # min(αx or x, β)
    "threshold": Counts(cmp=1),  # max(x, α)
    "softplus_parametric": Counts(mul=2, exp=1, add=1, log=1),  # α log(1 + exp(βx))
}

TWO = {"floor_div": Counts(div=1, cmp=1), "not_equal": Counts(cmp=1)}

_X = tensor(11, 2, 5, 3)


def counted(kind: str, result: Any = _X, image: Any = _X, **inputs: Any) -> Counts:
    """The counts of one operation."""
    graph = read(encoded("Model", program([operation(kind, "y", result, **inputs)], image=image)))
    (row,) = flopwise.profile(graph).rows
    assert row.node.op == f"coreml::{kind}"
    counts = row.counts
    assert counts is not None
    return counts


def _one(value: int, code: int = 23) -> bytes:
    return inline(tensor(code), "ints", bytes([value]))


@pytest.mark.parametrize("kind", EACH)
def test_of_one_tensor(kind: str) -> None:
    assert counted(kind, x="x") == EACH[kind] * 30


@pytest.mark.parametrize("kind", TWO)
def test_of_two_tensors(kind: str) -> None:
    assert counted(kind, x="x", y="x") == TWO[kind] * 30


@pytest.mark.parametrize(
    ("mode", "once"),
    {
        "update": Counts(),
        "add": Counts(add=1),
        "sub": Counts(add=1),
        "mul": Counts(mul=1),
        "div": Counts(div=1),
        "max": Counts(cmp=1),
        "min": Counts(cmp=1),
    }.items(),
)
def test_a_scatter_takes_what_its_mode_says(mode: str, once: Counts) -> None:
    assert counted("scatter", data="x", indices="x", updates="x", mode=text(mode)) == once * 30


def test_others_at_small_sizes() -> None:
    assert counted("argsort", x="x", axis=_one(1)) == Counts(cmp=30 * 3)  # 5 elements: 3 binary digits
    assert counted("non_zero", result=tensor(23, None, 3), x="x") == Counts(cmp=30)
    assert counted("classify", result=tensor(2), probabilities="x") == Counts(cmp=30)
    norm = counted("l2_norm", x="x", image=_X)  # squares, sums, quotients; one sum: ε and a root
    assert norm == Counts(mul=30, add=30, div=30) + Counts(add=1, sqrt=1)
    crop = counted("crop_resize", result=tensor(11, 3, 2, 5, 1, 1), image=tensor(11, 2, 5, 6, 4), x="x", roi="x")
    assert crop == Counts(mul=4, add=4) * (2 * 2 * 5) + Counts(mul=4, add=6, cmp=4) * 2
    boxes = counted(
        "non_maximum_suppression",
        result=tensor(11, 2, 1, 4),
        boxes="x",
        scores="x",
        max_boxes=_one(1),
        score_threshold=_one(0),
    )  # 2 images of 5 boxes and 3 classes
    assert boxes == Counts(cmp=2 * (15 + 5 * 3)) + Counts(add=6, mul=2, div=1, cmp=7) * (2 * 5)


def test_every_operation_with_a_count_is_here() -> None:
    here = {*EACH, *TWO, "argsort", "non_zero", "classify", "l2_norm", "crop_resize", "non_maximum_suppression"}
    here |= {"scatter", "scatter_along_axis", "scatter_nd"}  # of one rule
    here |= {"affine", "gelu"}  # as crop_resize; as com.microsoft's QuickGelu
    folded = {"constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale"}
    counts = {name.removeprefix("coreml::") for name, row in OPERATORS.items() if row.claim in ("exact", "bound")}
    assert counts == here | folded
