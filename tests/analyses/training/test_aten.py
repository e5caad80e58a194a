"""Gradients of PyTorch's own operators: executed on numbers that count, and judged by autograd."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.analyses.training.aten_reductions import differences, index_add, matrix_norm, means, nanmean, nansum
from tests.analyses.training.cases import normal, positive, small
from tests.analyses.training.derivatives import cosine, sigmoid, sign, sine, sum_to
from tests.operators.nodes import gradient_of
from tests.operators.oracle import numbers, values
from tests.operators.oracle.number import Number, exp, larger, log, mac, pointwise, select
from tests.operators.oracle.reduction import add_up

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts

torch = pytest.importorskip("torch")


@dataclass(frozen=True)
class Case:
    """One operator: its gradients by hand, PyTorch's function, and inputs."""

    op: str
    #: G, Y and the inputs -> a gradient for each place that is asked for.
    gradient: Callable[..., dict[int, Any]]
    #: PyTorch's forward function.
    forward: Callable[..., Any]
    inputs: tuple[Any, ...]
    wanted: frozenset[int] = frozenset({0})
    attrs: dict[str, Any] = field(default_factory=dict)


def one(op: str, scalar: Callable[..., Any], forward: Callable[..., Any], x: Any, **attrs: Any) -> Case:
    """A function of one element."""
    return Case(f"aten::{op}", lambda g, y, wanted, x: {0: pointwise(scalar, g, x, y)}, forward, (x,), attrs=attrs)


def several(
    op: str, scalars: dict[int, Callable[..., Any]], forward: Callable[..., Any], *inputs: Any, **attrs: Any
) -> Case:
    """A function of several broadcast tensors: for each place a function of G, Y and all inputs."""

    def gradient(g: Any, y: Any, wanted: Any, *given: Any) -> dict[int, Any]:
        return {i: sum_to(given[i].shape, pointwise(scalars[i], g, y, *given)) for i in sorted(wanted)}

    return Case(f"aten::{op}", gradient, forward, inputs, frozenset(scalars), attrs)


def _silu(g: Any, x: Any, y: Any) -> Any:
    s = sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


def _sinc(g: Any, x: Any, y: Any) -> Any:
    t = math.pi * x
    return select(x.equals(0.0), 0.0, g * ((t * cosine(t) - sine(t)) / (x * t)))


def _softplus(g: Any, x: Any, y: Any) -> Any:
    e = exp(1.7 * x)
    return g * e / (e + 1.0)


def _share(g: Any, x: Any) -> Any:
    """G over the number of elements, for a mean."""
    return np.asarray(g, object).reshape(-1)[0] / float(x.size)


def _mse(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = _share(g, x)
    return {0: pointwise(lambda a, b: 2.0 * (a - b) * share, x, t)}


def _l1(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = _share(g, x)
    return {0: pointwise(lambda a, b: sign(a - b) * share, x, t)}


def _bce_logits(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = _share(g, x)
    return {0: pointwise(lambda a, b: (sigmoid(a) - b) * share, x, t)}


def _smooth_l1(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = _share(g, x)

    def of(a: Any, b: Any) -> Any:
        d = a - b
        inner = d / 0.5
        return select(d < -0.5, -1.0, select(d > 0.5, 1.0, inner)) * share

    return {0: pointwise(of, x, t)}


def _huber(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = _share(g, x)

    def of(a: Any, b: Any) -> Any:
        d = a - b
        edge = share * 0.5
        inner = d * share
        return select(d < -0.5, Number(-edge.value, edge.tally), select(d > 0.5, edge, inner))

    return {0: pointwise(of, x, t)}


def _bce(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = _share(g, x)
    return {0: pointwise(lambda a, b: share * (a - b) / larger(1e-12, (1.0 - a) * a), x, t)}


def _dense_cross_entropy(g: Any, y: Any, wanted: Any, x: Any, t: Any) -> dict[int, Any]:
    share = np.asarray(g, object).reshape(-1)[0] / float(len(x))
    plain = values(x).astype(float)
    logs = numbers(plain - np.log(np.exp(plain).sum(1, keepdims=True)), x.flat[0].tally)
    inner = pointwise(lambda b: -(b * share), t)
    return {0: inner - pointwise(exp, logs) * add_up(inner, [1])}


def _glu(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
    a, b = np.split(x, 2, axis=-1)
    s = pointwise(sigmoid, b)
    return {0: np.concatenate([g * s, g * a * s * (1.0 - s)], axis=-1)}


def _spread(root: bool, mean: bool) -> Callable[..., Any]:
    def gradient(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
        n = x.shape[-1]
        g = g / (2.0 * y) if root else g
        centre = add_up(x, [-1]) / float(n)
        found = (x - centre) * (g * (2.0 / (n - 1)))
        return {0: found}

    return gradient


def _logsumexp(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
    return {0: g * pointwise(exp, x - y)}


def _weight_norm(g: Any, y: Any, wanted: Any, v: Any, scale: Any) -> dict[int, Any]:
    norm = numbers(np.linalg.norm(values(v).astype(float), axis=1, keepdims=True), v.flat[0].tally)
    dot = add_up(g * v, [1])
    found = {}
    if 1 in wanted:
        found[1] = dot / norm
    if 0 in wanted:
        found[0] = (scale / norm) * (g - v * (dot / (norm * norm)))
    return found


def _bilinear(g: Any, y: Any, wanted: Any, a: Any, b: Any, w: Any, bias: Any) -> dict[int, Any]:
    """The two products of three factors, for one extent of ``out`` after the other."""
    found: dict[int, Any] = {i: np.full(x.shape, 0.0, object) for i, x in enumerate((a, b, w)) if i in wanted}
    for o, (rows, columns) in ((o, w.shape[1:]) for o in range(len(w))):
        for n in range(len(a)):
            for i in range(rows) if 0 in wanted else ():
                terms = [(g[n, o] * w[o, i, j], b[n, j]) for j in range(columns)]
                found[0][n, i] = found[0][n, i] + _dot(terms)
            for j in range(columns) if 1 in wanted else ():
                found[1][n, j] = found[1][n, j] + _dot([(a[n, i], w[o, i, j]) for i in range(rows)]) * g[n, o]
        for i in range(rows) if 2 in wanted else ():
            scaled = [a[n, i] * g[n, o] for n in range(len(a))]
            for j in range(columns):
                found[2][o, i, j] = _dot(list(zip(scaled, b[:, j], strict=True)))
    if 3 in wanted:
        found[3] = add_up(g, [0]).reshape(-1)
    return found


def _dot(terms: list[tuple[Any, Any]]) -> Any:
    total: Any = 0.0
    for one, other in terms:
        total = mac(total, one, other)
    return total


def _adaptive(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
    dx = np.full(x.shape, 0.0, object)
    (h, w), (rows, columns) = x.shape[2:], y.shape[2:]
    for n, c, i, j in np.ndindex(y.shape):
        ys, xs = [range(k * a // b, -(-(k + 1) * a // b)) for k, a, b in ((i, h, rows), (j, w, columns))]
        share = g[n, c, i, j] / float(len(ys) * len(xs))
        for p in ys:
            for q in xs:
                dx[n, c, p, q] = dx[n, c, p, q] + share
    return {0: dx}


def _cdist(g: Any, y: Any, wanted: Any, a: Any, b: Any) -> dict[int, Any]:
    da, db = np.full(a.shape, 0.0, object), np.full(b.shape, 0.0, object)
    for i, j in np.ndindex(y.shape):
        for place, into, at, sign_of in ((0, da, i, 1.0), (1, db, j, -1.0)):
            if place not in wanted:
                continue
            share = g[i, j] / y[i, j]
            for k in range(a.shape[1]):
                difference = a[i, k] - b[j, k] if sign_of > 0 else b[j, k] - a[i, k]
                into[at, k] = into[at, k] + difference * share
    return {i: v for i, v in ((0, da), (1, db)) if i in wanted}


F = torch.nn.functional
_G, _BOTH = frozenset({0}), frozenset({0, 1})
_OF_UPDATES = (_G, frozenset({2}), frozenset({0, 2}))
_HOLES = np.where(normal(3, 4) < -0.5, np.nan, normal(3, 4))
_INDEX, _ROWS = np.array([[0, 1, 0, 2], [1, 1, 1, 1]]), np.array([0, 2, 0, 0])

CASES = [
    one("square", lambda g, x, y: g * (2.0 * x), lambda x: x**2, normal(3, 4)),
    one("cube", lambda g, x, y: g * (3.0 * (x * x)), lambda x: x**3, normal(3, 4)),
    one("rsqrt", lambda g, x, y: -0.5 * g * (y * y * y), torch.rsqrt, positive(3, 4)),
    one("exp2", lambda g, x, y: g * y * math.log(2.0), torch.exp2, normal(3, 4)),
    one("expm1", lambda g, x, y: g * (y + 1.0), torch.expm1, normal(3, 4)),
    one("log2", lambda g, x, y: g / (x * math.log(2.0)), torch.log2, positive(3, 4)),
    one("log10", lambda g, x, y: g / (x * math.log(10.0)), torch.log10, positive(3, 4)),
    one("log1p", lambda g, x, y: g / (x + 1.0), torch.log1p, positive(3, 4)),
    one("erfc", lambda g, x, y: -2.0 / math.sqrt(math.pi) * exp(-(x * x)) * g, torch.erfc, normal(3, 4)),
    one("erfinv", lambda g, x, y: math.sqrt(math.pi) / 2 * exp(y * y) * g, torch.erfinv, small(3, 4)),
    one("sinc", _sinc, torch.sinc, normal(3, 4)),
    one("scaled", lambda g, x, y: g * (math.pi / 180), torch.deg2rad, normal(3, 4)),
    one("logit", lambda g, x, y: g / (x * (1.0 - x)), torch.logit, positive(3, 4) / 2.0),
    one("log_sigmoid", lambda g, x, y: g / (1.0 + exp(x)), F.logsigmoid, normal(3, 4)),
    one("silu", _silu, F.silu, normal(3, 4)),
    one(
        "hardtanh",
        lambda g, x, y: select((x > -0.5) & (x < 0.5), g, 0.0),
        lambda x: F.hardtanh(x, -0.5, 0.5),
        normal(3, 4),
    ),
    one("hardshrink", lambda g, x, y: select((x < -0.5) | (x > 0.5), g, 0.0), F.hardshrink, normal(3, 4)),
    one("softplus_scaled", _softplus, lambda x: F.softplus(x, 1.7), normal(3, 4)),
    one(
        "ndtr", lambda g, x, y: g * (1 / math.sqrt(2 * math.pi) * exp(-0.5 * (x * x))), torch.special.ndtr, normal(3, 4)
    ),
    one("entr", lambda g, x, y: g * (-log(x) - 1.0), torch.special.entr, positive(3, 4)),
    several(
        "add_scaled",
        {0: lambda g, *r: g, 1: lambda g, *r: g * 0.5},
        lambda a, b: torch.add(a, b, alpha=0.5),
        normal(3, 4),
        normal(3, 4),
    ),
    several(
        "addcmul",
        {0: lambda g, *r: g, 1: lambda g, y, x, a, b: g * b, 2: lambda g, y, x, a, b: g * a},
        torch.addcmul,
        normal(3, 4),
        normal(3, 4),
        normal(3, 4),
    ),
    several(
        "addcdiv",
        {1: lambda g, y, x, a, b: g / b, 2: lambda g, y, x, a, b: -g * (a / (b * b))},
        torch.addcdiv,
        normal(3, 4),
        normal(3, 4),
        positive(3, 4),
    ),
    several(
        "lerp",
        {0: lambda g, y, a, b, w: g * (1.0 - w), 1: lambda g, y, a, b, w: g * w, 2: lambda g, y, a, b, w: g * (b - a)},
        torch.lerp,
        normal(3, 4),
        normal(3, 4),
        normal(3, 4),
    ),
    several(
        "hypot",
        {0: lambda g, y, a, b: g * (a / y), 1: lambda g, y, a, b: g * (b / y)},
        torch.hypot,
        normal(3, 4),
        normal(3, 4),
    ),
    several(
        "xlogy",
        {0: lambda g, y, a, b: g * log(b), 1: lambda g, y, a, b: g * a / b},
        torch.xlogy,
        normal(3, 4),
        positive(3, 4),
    ),
    several(
        "logaddexp",
        {0: lambda g, y, a, b: g / (1.0 + exp(b - a)), 1: lambda g, y, a, b: g / (1.0 + exp(a - b))},
        torch.logaddexp,
        normal(3, 4),
        normal(3, 4),
    ),
    Case(
        "aten::smooth_l1_loss", _smooth_l1, lambda x, t: F.smooth_l1_loss(x, t, beta=0.5), (normal(3, 4), normal(3, 4))
    ),
    Case("aten::huber_loss", _huber, lambda x, t: F.huber_loss(x, t, delta=0.5), (normal(3, 4), normal(3, 4))),
    Case("aten::binary_cross_entropy", _bce, F.binary_cross_entropy, (positive(3, 4) / 2, positive(3, 4) / 2)),
    Case("aten::cross_entropy_dense", _dense_cross_entropy, F.cross_entropy, (normal(3, 4), positive(3, 4))),
    Case("aten::glu", _glu, F.glu, (normal(3, 8),)),
    Case("aten::mse_loss", _mse, F.mse_loss, (normal(3, 4), normal(3, 4))),
    Case("aten::l1_loss", _l1, F.l1_loss, (normal(3, 4), normal(3, 4))),
    Case(
        "aten::binary_cross_entropy_with_logits",
        _bce_logits,
        F.binary_cross_entropy_with_logits,
        (normal(3, 4), positive(3, 4) / 2),
    ),
    Case("aten::var", _spread(False, False), lambda x: x.var(-1, keepdim=True), (normal(3, 4),)),
    Case("aten::std", _spread(True, False), lambda x: x.std(-1, keepdim=True), (normal(3, 4),)),
    Case("aten::nansum", nansum, lambda x: x.nansum(-1, keepdim=True), (_HOLES,)),
    Case("aten::nanmean", nanmean, lambda x: x.nanmean(-1, keepdim=True), (_HOLES,)),
    *(
        Case(
            "aten::diff",
            differences(n, axis),
            lambda x, n=n, axis=axis: torch.diff(x, n, axis),
            (normal(5, 4),),
            attrs={"n": n, "dim": axis},
        )
        for n, axis in ((2, -1), (3, 0), (4, 0), (3, 1))
    ),
    *(
        Case(
            "aten::linalg_matrix_norm",
            matrix_norm(axis),
            lambda x, ord=ord: torch.linalg.matrix_norm(x, ord),
            (normal(2, 3, 4),),
            attrs={"summed": axis},
        )
        for ord, axis in ((1, -2), (-1, -2), (math.inf, -1), (-math.inf, -1))
    ),
    *(
        case
        for own in (True, False)
        for wanted in _OF_UPDATES
        for case in (
            Case(
                "aten::scatter_reduce",
                means(own),
                lambda x, i, s, own=own: x.scatter_reduce(0, i, s, "mean", include_self=own),
                (normal(3, 4), _INDEX, normal(2, 4)),
                wanted,
                {"include_self": int(own)},
            ),
            Case(
                "aten::index_reduce",
                means(own),
                lambda x, i, s, own=own: x.index_reduce(0, i, s, "mean", include_self=own),
                (normal(3, 4), _ROWS, normal(4, 4)),
                wanted,
                {"include_self": int(own)},
            ),
        )
    ),
    *(
        Case(
            "aten::index_add",
            index_add,
            lambda x, i, s: x.index_add(0, i, s, alpha=0.5),
            (normal(3, 4), _ROWS, normal(4, 4)),
            wanted,
        )
        for wanted in _OF_UPDATES
    ),
    Case("aten::logsumexp", _logsumexp, lambda x: x.logsumexp(-1, keepdim=True), (normal(3, 4),)),
    *(
        Case(
            "aten::_weight_norm",
            _weight_norm,
            lambda v, g: torch._weight_norm(v, g, 0),
            (normal(3, 4), positive(3, 1)),
            w,
        )
        for w in (_G, _BOTH, frozenset({1}))
    ),
    Case(
        "aten::adaptive_avg_pool",
        _adaptive,
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        (normal(1, 2, 5, 5),),
        attrs={"axes": 2},
    ),
    *(Case("aten::cdist", _cdist, torch.cdist, (normal(3, 4), normal(2, 4)), w, {"p": 2.0}) for w in (_G, _BOTH)),
    *(
        Case(
            "aten::bilinear",
            _bilinear,
            F.bilinear,
            (normal(3, 2), normal(3, 4), normal(5, 2, 4), normal(5)),
            frozenset(wanted),
        )
        for wanted in ({0}, {1}, {2}, {0, 1, 2, 3})
    ),
]


@pytest.mark.filterwarnings("ignore:index_reduce")  # which is in beta
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}/{''.join(map(str, sorted(c.wanted)))}")
def test_rule_counts_what_the_gradient_executes(case: Case) -> None:
    given = [torch.tensor(x, requires_grad=i in case.wanted) for i, x in enumerate(case.inputs)]
    result = case.forward(*given)
    g = np.random.default_rng(3).normal(size=tuple(result.shape))
    result.backward(torch.tensor(g))
    tally: Counter[str] = Counter()
    y = numbers(result.detach().numpy(), tally)
    found = case.gradient(numbers(g, tally), y, case.wanted, *(numbers(x, tally) for x in case.inputs))
    tensors = tuple(Tensor(f"x{i}", x.shape, "float32") for i, x in enumerate(case.inputs))
    node = Node(case.op, "node", tensors, (Tensor("y", tuple(result.shape), "float32"),), case.attrs)
    assert gradient_of(case.op).rule(node, case.wanted) == Counts(**tally)
    for place, gradient in found.items():
        np.testing.assert_allclose(values(gradient).astype(float), given[place].grad.numpy(), rtol=1e-5, atol=1e-8)
