"""Operators of PyTorch that ONNX lacks, from the call to the count: rows worked out by hand, and laws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812 - as everybody calls it
from torch import nn  # noqa: E402

import flopwise  # noqa: E402
from flopwise.counts import Counts  # noqa: E402


class Does(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def counted(function: Any, *inputs: Any) -> tuple[str, Counts]:
    """Operator and count of the last thing that a function does."""
    module = function if isinstance(function, nn.Module) else Does(function)
    rows = [r for r in flopwise.profile(module, list(inputs), mode="as-is").rows if sum(r.counts or (1,))]
    assert rows[-1].counts is not None, rows[-1]
    return rows[-1].node.op, rows[-1].counts


X = (3, 4)
#: Function, inputs, operator, count.
ROWS: list[tuple[Any, tuple[Any, ...], str, Counts]] = [
    (lambda x, y: torch.add(x, y, alpha=2), (X, X), "aten::add_scaled", Counts(mul=12, add=12)),
    (lambda x: torch.div(x, 2, rounding_mode="floor"), (X,), "aten::div_rounded", Counts(div=12, cmp=12)),
    (lambda x: torch.remainder(x, 2), (X,), "aten::remainder", Counts(div=12)),
    (lambda x: x**2, (X,), "aten::square", Counts(mul=12)),
    (lambda x: x**3, (X,), "aten::cube", Counts(mul=24)),
    (lambda x: x**2.5, (X,), "Pow", Counts(pow=12)),
    (torch.rsqrt, (X,), "aten::rsqrt", Counts(sqrt=12, div=12)),
    (torch.trunc, (X,), "aten::trunc", Counts(cmp=12)),
    (torch.frac, (X,), "aten::frac", Counts(cmp=12, add=12)),
    (torch.exp2, (X,), "aten::exp2", Counts(exp=12)),
    (torch.expm1, (X,), "aten::expm1", Counts(exp=12, add=12)),
    (torch.log2, (X,), "aten::log2", Counts(log=12)),
    (torch.log10, (X,), "aten::log10", Counts(log=12)),
    (torch.log1p, (X,), "aten::log1p", Counts(log=12, add=12)),
    (torch.erfc, (X,), "aten::erfc", Counts(erf=12, add=12)),
    (torch.special.ndtr, (X,), "aten::ndtr", Counts(mul=24, bit=12, erf=12, add=12)),
    (torch.special.erfcx, (X,), "aten::erfcx", Counts(mul=24, exp=12, erf=12, add=12)),
    (torch.special.entr, (X,), "aten::entr", Counts(cmp=12, log=12, mul=12, bit=12)),
    (torch.atan2, (X, X), "aten::atan2", Counts(div=12, trig=12)),
    (torch.hypot, (X, X), "aten::hypot", Counts(mul=24, add=12, sqrt=12)),
    (torch.sinc, (X,), "aten::sinc", Counts(mul=12, trig=12, div=12, cmp=12)),
    (torch.deg2rad, (X,), "aten::scaled", Counts(mul=12)),
    (torch.logit, (X,), "aten::logit", Counts(add=12, div=12, log=12)),
    (F.logsigmoid, (X,), "aten::log_sigmoid", Counts(cmp=12, bit=24, exp=12, add=24, log=12)),
    (torch.logaddexp, (X, X), "aten::logaddexp", Counts(cmp=12, add=36, bit=24, exp=12, log=12)),
    (torch.xlogy, (X, X), "aten::xlogy", Counts(cmp=12, log=12, mul=12)),
    (F.silu, (X,), "aten::silu", Counts(mul=12, bit=12, exp=12, add=12, div=12)),
    (F.glu, (X,), "aten::glu", Counts(mul=6, bit=6, exp=6, add=6, div=6)),
    (F.relu6, (X,), "aten::hardtanh", Counts(cmp=24)),
    (F.hardshrink, (X,), "aten::hardshrink", Counts(cmp=24)),
    (F.tanhshrink, (X,), "Sub", Counts(add=12)),
    (lambda x: F.softplus(x, beta=2), (X,), "aten::softplus_scaled", Counts(mul=24, exp=12, add=12, log=12)),
    (lambda x, y: torch.lerp(x, y, 0.3), (X, X), "aten::lerp", Counts(mul=12, add=24)),
    (torch.addcmul, (X, X, X), "aten::addcmul", Counts(mul=12, add=12)),
    (lambda x, y, z: torch.addcmul(x, y, z, value=2), (X, X, X), "aten::addcmul", Counts(mul=24, add=12)),
    (torch.addcdiv, (X, X, X), "aten::addcdiv", Counts(div=12, add=12)),
    (torch.isclose, (X, X), "aten::isclose", Counts(add=24, bit=24, mul=12, cmp=12)),
    (torch.isin, (X, (5,)), "aten::isin", Counts(cmp=60)),
    (torch.nan_to_num, (X,), "aten::nan_to_num", Counts(cmp=36)),
    (lambda x: F.dropout(x, 0.5, True), (X,), "aten::dropout", Counts(cmp=12, mul=24)),
    (torch.cross, ((4, 3), (4, 3)), "aten::cross", Counts(mul=24, add=12)),
    # Reductions.
    (torch.var, (X,), "aten::var", Counts(add=36, mul=12, div=2)),
    (lambda x: torch.std(x, 1), (X,), "aten::std", Counts(add=36, mul=12, div=6, sqrt=3)),
    (lambda x: torch.logsumexp(x, 1), (X,), "aten::logsumexp", Counts(exp=12, add=12, log=3)),
    (lambda x: torch.aminmax(x), (X,), "aten::aminmax", Counts(cmp=24)),
    (lambda x: torch.cummax(x, 1), (X,), "aten::cummax", Counts(cmp=12)),
    (lambda x: x.norm(float("inf")), (X,), "aten::norm_inf", Counts(bit=12, cmp=12)),
    (lambda x: torch.linalg.vector_norm(x, 3), (X,), "aten::norm_p", Counts(bit=12, pow=13, add=12)),
    (torch.trace, (X,), "aten::trace", Counts(add=3)),
    (torch.dist, (X, X), "aten::dist", Counts(add=12, mac=12, sqrt=1)),
    (lambda x: torch.count_nonzero(x), (X,), "aten::count_nonzero", Counts(cmp=12, add=12)),
    # Products.
    (lambda x, y: torch.tensordot(x, y, 2), ((2, 3, 4), (3, 4, 5)), "aten::tensordot", Counts(mac=2 * 12 * 5)),
    (nn.Bilinear(3, 4, 5), ((2, 3), (2, 4)), "aten::bilinear", Counts(mac=120, mul=120, add=10)),
    (torch.linalg.multi_dot, ([(10, 100), (100, 5), (5, 50)],), "aten::chain_matmul", Counts(mac=7500)),
    (torch.addr, (X, (3,), (4,)), "aten::addr", Counts(mul=12, add=12)),
    (torch.addbmm, ((2, 5), (6, 2, 3), (6, 3, 5)), "aten::addbmm", Counts(mac=180, add=10)),
    (torch.cdist, ((3, 4), (5, 4)), "aten::cdist", Counts(add=60, mac=60, sqrt=15)),
    (F.pairwise_distance, (X, X), "aten::pairwise_distance", Counts(add=24, mac=12, sqrt=3)),
    (F.cosine_similarity, (X, X), "aten::cosine_similarity", Counts(mac=36, sqrt=6, cmp=6, mul=3, div=3)),
    (torch.linalg.vecdot, (X, X), "aten::linalg_vecdot", Counts(mac=12)),
    (torch.linalg.inv, ((3, 3),), "aten::linalg_inv", Counts(mac=8 + 27, div=3 + 9, cmp=6)),
    (torch.linalg.cholesky, (torch.eye(3),), "aten::linalg_cholesky", Counts(mac=4, div=3, sqrt=3)),
    (lambda x: torch.linalg.matrix_power(x, 5), ((3, 3),), "aten::matrix_power", Counts(mac=3 * 27)),
    # Losses.
    (F.mse_loss, (X, X), "aten::mse_loss", Counts(add=24, mul=12, div=1)),
    (lambda x, y: F.l1_loss(x, y, reduction="sum"), (X, X), "aten::l1_loss", Counts(add=24, bit=12)),
    (lambda x, y: F.kl_div(x, y, reduction="none"), (X, X), "aten::kl_div", Counts(log=12, add=12, mul=12)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "inputs", "op", "counts"), ROWS, ids=[f"{i}-{r[2]}" for i, r in enumerate(ROWS)])
def test_rows(function: Any, inputs: Any, op: str, counts: Counts) -> None:
    assert counted(function, *inputs) == (op, counts)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(("before", "after"), [((7, 7), (3, 2)), ((6, 8), (6, 8)), ((5, 9), (2, 4)), ((2, 2), (3, 5))])
def test_windows_of_adaptive_pooling(kind: str, before: tuple[int, int], after: tuple[int, int]) -> None:
    cells = 0
    for i, j in itertools.product(range(after[0]), range(after[1])):
        rows = math.ceil((i + 1) * before[0] / after[0]) - i * before[0] // after[0]
        columns = math.ceil((j + 1) * before[1] / after[1]) - j * before[1] // after[1]
        cells += rows * columns
    function = getattr(F, f"adaptive_{kind}_pool2d")
    _, counts = counted(lambda x: function(x, after), (2, 3, *before))
    expected = Counts(add=6 * cells, div=6 * after[0] * after[1]) if kind == "avg" else Counts(cmp=6 * cells)
    assert counts == expected


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


def test_a_projection() -> None:
    _, plain = counted(nn.LSTM(4, 6), (5, 3, 4))
    _, projected = counted(nn.LSTM(4, 6, proj_size=2), (5, 3, 4))
    assert projected.mac == 5 * 3 * (4 * 6 * (4 + 2) + 6 * 2)
    assert projected._replace(mac=0) == plain._replace(mac=0)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_doubling_the_batch_doubles_the_count(rows: int) -> None:
    for function, inputs, op, _ in ROWS:
        if all(isinstance(i, tuple) and i == X for i in inputs) and op not in ("aten::trace", "aten::dist"):
            once, twice = (counted(function, *[(n, 4)] * len(inputs))[1] for n in (rows, 2 * rows))
            whole = op in ("aten::var", "aten::norm_p", "aten::mse_loss")  # their result is one number
            assert (twice.add, twice.cmp, twice.exp) == (2 * once.add, 2 * once.cmp, 2 * once.exp)
            assert whole or twice == once * 2, op
