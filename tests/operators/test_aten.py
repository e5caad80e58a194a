"""Operators of PyTorch that ONNX lacks, from the call to the count: laws, and what no plain definition can tell.

What each of them counts is held against its plain definition in test_aten_oracle.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812 - as everybody calls it
from tests.operators.calls import Does  # noqa: E402
from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.operators.counts import Counts  # noqa: E402


def counted(function: Any, *inputs: Any) -> tuple[str, Counts]:
    """Operator and count of the last thing that a function does."""
    module = function if isinstance(function, nn.Module) else Does(function)
    rows = [r for r in flopwise.profile(module, list(inputs), mode="as-is").rows if sum(r.counts or (1,))]
    assert rows[-1].counts is not None, rows[-1]
    return rows[-1].node.op, rows[-1].counts


X = (3, 4)


@pytest.mark.parametrize(
    ("function", "op", "counts"),
    [
        (lambda x: x**2.5, "Pow", Counts(pow=12)),
        (F.tanhshrink, "Sub", Counts(add=12)),
        (lambda x: torch.diff(x), "Sub", Counts(add=9)),
        (lambda x: torch.round(x, decimals=0), "Round", Counts(cmp=12)),
        (lambda x: x.index_add(0, torch.tensor([1, 1]), torch.ones(2, 4)), "ScatterElements", Counts(add=8)),
        (
            lambda x: x.scatter(0, torch.tensor([[1, 1], [0, 2]]), 2.0, reduce="multiply"),
            "ScatterElements",
            Counts(mul=4),
        ),
        (lambda x: torch.linalg.norm(x), "ReduceL2", Counts(mul=12, add=12, sqrt=1)),
        (lambda x: torch.linalg.vector_norm(x, 1), "ReduceL1", Counts(bit=12, add=12)),
        (lambda x: torch.linalg.matrix_norm(x), "ReduceL2", Counts(mul=12, add=12, sqrt=1)),
    ],
)
def test_calls_that_are_operators_of_onnx(function: Any, op: str, counts: Counts) -> None:
    assert counted(function, X) == (op, counts)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: torch.linalg.matrix_norm(x, 2), "aten::linalg_svdvals"),
        (lambda x: torch.linalg.norm(x, "nuc"), "aten::linalg_svdvals"),
        (lambda x: torch.cov(x, aweights=x[0]), "aten::cov"),
    ],
)
def test_calls_that_nobody_counts(function: Any, op: str) -> None:
    last = flopwise.profile(Does(function), [X], mode="as-is").rows[-1]
    assert (last.node.op, last.counts) == (op, None)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_stack_of_recurrent_layers_is_its_cells_one_by_one(kind: str, both: bool, bias: bool) -> None:
    steps, batch, wide, hidden, layers = 5, 3, 4, 6, 2
    stack = getattr(nn, kind)(wide, hidden, layers, bias=bias, bidirectional=both)
    _, counts = counted(stack, (steps, batch, wide))
    total = Counts()
    for layer in range(layers):
        size = wide if layer == 0 else hidden * (1 + both)
        _, once = counted(getattr(nn, f"{kind}Cell")(size, hidden, bias=bias), (batch, size))
        total += once * (steps * (1 + both))
    assert counts == total


def test_dropout_between_recurrent_layers() -> None:
    stack = nn.GRU(4, 6, 3, dropout=0.5)
    _, trained = counted(stack.train(), (5, 2, 4))
    _, run = counted(stack.eval(), (5, 2, 4))
    assert trained == run + Counts(cmp=1, mul=2) * (2 * 5 * 2 * 6)


def test_a_margin_is_no_reduction() -> None:
    """Whole numbers among the settings of a loss: only the last says how the samples are joined."""
    labels = torch.tensor([0, 1, 2])
    for margin in (1, 2):
        _, hinge = counted(lambda x, t, m=margin: F.hinge_embedding_loss(x, t, m), X, X)
        _, margins = counted(lambda x, p=margin: F.multi_margin_loss(x, labels, p), X)
        assert (hinge.div, margins.div) == (1, 4)


#: Functions of so many tensors that are computed row by row.
BY_ROWS: list[tuple[Any, int]] = [
    (lambda x, y: torch.add(x, y, alpha=2), 2),
    (torch.rsqrt, 1),
    (torch.special.ndtr, 1),
    (torch.atan2, 2),
    (torch.hypot, 2),
    (F.logsigmoid, 1),
    (torch.logaddexp, 2),
    (torch.xlogy, 2),
    (F.silu, 1),
    (F.glu, 1),
    (lambda x, y: torch.lerp(x, y, 0.3), 2),
    (torch.addcmul, 3),
    (torch.isclose, 2),
    (lambda x: torch.isin(x, torch.ones(5)), 1),
    (lambda x: F.dropout(x, 0.5, True), 1),
    (lambda x: torch.std(x, 1), 1),
    (lambda x: torch.logsumexp(x, 1), 1),
    (lambda x: torch.cummax(x, 1), 1),
    (lambda x: torch.linalg.vector_norm(x, 3, 1), 1),
    (lambda x: torch.trapezoid(x, dim=1), 1),
    (lambda x: torch.renorm(x, 2, 0, 1.0), 1),
    (lambda x: F.adaptive_avg_pool1d(x, 3), 1),
    (lambda x: torch.fft.fft(x), 1),
    (F.pairwise_distance, 2),
    (F.cosine_similarity, 2),
    (torch.linalg.vecdot, 2),
    *(
        (lambda x, y, of=of: of(x, y, reduction="none"), 2)
        for of in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div, F.poisson_nll_loss)
    ),
    (lambda x, y: F.cross_entropy(x, y, reduction="none"), 2),
    (lambda x, y, z: F.triplet_margin_loss(x, y, z, reduction="none"), 3),
]


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_doubling_the_rows_doubles_the_count(rows: int) -> None:
    for function, inputs in BY_ROWS:
        (op, once), (_, twice) = (counted(function, *[(n, 4)] * inputs) for n in (rows, 2 * rows))
        assert twice == once * 2, op


@pytest.mark.parametrize("p", [0.0, 1.0, 3.0, float("inf")])
def test_a_distance_is_the_norm_of_a_difference(p: float) -> None:
    """For p = 2 the products are accumulated as they are made, which the norm of ONNX does not do."""
    _, norm = counted(lambda x: torch.linalg.vector_norm(x, p), X)
    _, dist = counted(lambda x, y: torch.dist(x, y, p), X, X)
    _, pair = counted(lambda x, y: torch.cdist(x, y, p), (1, 12), (1, 12))
    assert dist == pair == norm + Counts(add=12)


def test_broadcasting_counts_the_elements_of_the_result() -> None:
    wide, tall = (5, 1, 4), (3, 4)
    for function in (torch.linalg.vecdot, lambda x, y: F.cosine_similarity(x, y, -1), F.pairwise_distance, torch.dist):
        assert counted(function, wide, tall)[1].mac == counted(function, (5, 3, 4), (5, 3, 4))[1].mac
