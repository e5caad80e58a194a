"""Reductions, counts and pooling of PyTorch's: accumulators that start from the identity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from tests.operators.arrays import Input, flags, given, positive, real
from tests.operators.calls import Call, call
from tests.operators.oracle.number import Number, exp, floor, larger, log, mac, plain, pointwise, select, smaller, sqrt
from tests.operators.oracle.reduction import add_up, cumulative, fold, maximum, mean


def variance(x: Any, axes: Any = None, correction: int = 1, root: bool = False) -> tuple[Any, Any]:
    """The variance, or its root, and the mean, along axes."""
    centre = mean(x, axes)
    gap = x - centre
    squares = add_up(gap * gap, axes, 0)
    spread = squares / (x.size / np.asarray(squares).size - float(correction))
    return (pointwise(sqrt, spread) if root else spread), centre.reshape(np.shape(spread))


def norm(x: Any, p: float, axes: Any = None) -> Any:
    """The p-norm along axes; for p = 0 the number of elements that are not 0."""
    if p == 0:
        return add_up(pointwise(differs, x), axes, 0)
    if p == 1:
        return add_up(pointwise(abs, x), axes, 0)
    if p == 2:
        return pointwise(sqrt, add_up(x * x, axes, 0))
    if p == math.inf:
        return maximum(pointwise(abs, x), axes, 0)
    if p == -math.inf:
        return minimum(pointwise(abs, x), axes, 0)
    return add_up(pointwise(abs, x) ** p, axes, 0) ** (1.0 / p)


def minimum(x: Any, axes: Any, keepdims: int = 1) -> Any:
    """The minimum along axes."""
    return fold(smaller, math.inf, x, axes, keepdims)


def sum_without_nan(x: Any, axes: Any = None) -> Any:
    """The sum of what is a number."""
    return fold(lambda total, v: select(not_a_number(v), total, v + total), 0.0, x, axes, 0)


def mean_without_nan(x: Any, axes: Any = None) -> Any:
    """The mean of what is a number; one test tells both sums."""
    missing = pointwise(not_a_number, x)

    def taken(start: float, terms: Any) -> Any:
        """The sum of the terms whose elements are numbers."""
        pairs = pointwise(lambda flag, v: (flag, v), missing, terms)
        return fold(lambda total, pair: select(pair[0], total, pair[1] + total), start, pairs, axes, 0)

    return taken(0.0, x) / taken(0.0, pointwise(lambda v: Number(1.0, v.tally), x))


def not_a_number(x: Any) -> Any:
    return x.does("cmp", math.isnan(x.value))


def differences(x: Any, order: int, axis: int) -> Any:
    """The differences of neighbours, of their differences, and so on."""
    for _ in range(order):
        lines = np.moveaxis(x, axis, -1)
        x = np.moveaxis(lines[..., 1:] - lines[..., :-1], -1, axis)
    return x


def differs(x: Any) -> Any:
    """1 where an element is not 0."""
    return x.does("cmp", float(x.value != 0.0))


def both_extremes(x: Any) -> tuple[Any, Any]:
    return minimum(x, None, 0), maximum(x, None, 0)


def running_log(x: Any) -> Any:
    """The logarithm of the running sum of the exponentials."""
    return pointwise(log, cumulative(lambda a, b: a + b, 0.0)(pointwise(exp, x), 1))


def best_so_far(x: Any, sign: float = 1.0) -> tuple[Any, Any]:
    """Along the last axis, the best element until each place, and where it is."""
    y, places = np.empty(x.shape, object), np.zeros(x.shape, int)
    for at in np.ndindex(x.shape[:-1]):
        best: Any = -math.inf
        place = 0
        for i, v in enumerate(x[at]):
            if v.does("cmp", sign * v.value >= (sign * best.value if isinstance(best, Number) else best)).value:
                best, place = v, i
            y[(*at, i)], places[(*at, i)] = best, place
    return y, places


def bins_of(x: Any, weights: Any = None, size: int = 5) -> Any:
    """How often each whole number occurs, or the sum of what comes with it."""
    sums = [Number(0, x[0].tally) for _ in range(size)]
    for i, v in enumerate(x):
        sums[v.value] = sums[v.value] + (1 if weights is None else weights[i])
    return np.array(sums, object)


def histogram(x: Any, bins: int, low: Any, high: Any, scale: Any) -> Any:
    """Elements between two bounds by their place; the upper bound belongs to the last bin."""
    counts = np.array([Number(0, x.flat[0].tally) for _ in range(bins)], object)
    for v in x.flat:
        inside = [plain(v >= low), plain(v <= high)]
        place = int(smaller(bins - 1, floor((v - low) * scale)).value)
        more = counts[place] + 1  # what nobody asks for where it is outside
        counts[place] = more if all(inside) else counts[place]
    return counts


def histogram_of_range(x: Any, bins: int) -> Any:
    low, high = both_extremes(x)
    low, high = low[()], high[()]
    return histogram(x, bins, low, high, float(bins) / (high - low))


def runs(x: Any) -> Any:
    """The first element of each run of equal ones, to which run each element belongs, and how long each run is."""
    firsts: list[Any] = []
    lengths: list[Any] = []
    numbers: list[Any] = []
    before: Any = math.nan
    number = Number(-1, x[0].tally)
    for v in x:
        new = not v.equals(before).value
        if new:
            firsts.append(v)
            lengths.append(Number(0, v.tally))
        number = number + int(new)
        numbers.append(number)
        lengths[-1] = lengths[-1] + 1
        before = v
    return np.array(firsts, object), np.array(numbers, object), np.array(lengths, object)


def starts_of_runs(x: Any) -> Any:
    before = [math.nan, *x[:-1]]
    return np.array([v for v, b in zip(x, before, strict=True) if not v.equals(b).value], object)


def trace(x: Any) -> Any:
    total: Any = 0.0
    for i in range(min(x.shape)):
        total = total + x[i, i]
    return total


def bags(w: Any, indices: Any, mode: str, weights: Any = None) -> Any:
    """Rows of a table joined, for bags of the same length, one in each row of the indices."""
    out = np.empty((len(indices), w.shape[1]), object)
    for bag, column in np.ndindex(out.shape):
        total: Any = -math.inf if mode == "max" else 0.0
        for place, index in enumerate(indices[bag]):
            row = w[index, column]
            if mode == "max":
                total = larger(total, row)
            else:
                total = total + row if weights is None else mac(total, row, weights[bag, place])
        out[bag, column] = total / float(len(indices[bag])) if mode == "mean" else total
    return out


def weight_norm(v: Any, g: Any) -> Any:
    size = norm(v, 2, list(range(1, v.ndim))).reshape(g.shape)
    return v * (g / size)


def renorm(x: Any, p: float, axis: int, limit: float) -> Any:
    """Slices along an axis, those that are too long shortened to a limit."""
    slices = np.moveaxis(x, axis, 0)
    rows = slices.reshape(len(slices), -1)
    out = np.empty(rows.shape, object)
    for i, size in enumerate(norm(rows, p, [1])):
        factor = select(size > limit, limit / size, 1.0)
        out[i] = [v * factor for v in rows[i]]
    return np.moveaxis(out.reshape(slices.shape), 0, axis)


def windows(x: Any, sizes: tuple[int, ...], of: Callable[[list[Any]], Any]) -> Any:
    """One number of the elements between two rounded places, for every place of the result."""
    rank = len(sizes)
    out = np.empty((*x.shape[:-rank], *sizes), object)
    for at in np.ndindex(out.shape):
        spans = [
            slice(i * n // m, math.ceil((i + 1) * n / m))
            for i, n, m in zip(at[-rank:], x.shape[-rank:], sizes, strict=True)
        ]
        out[at] = of(list(x[(*at[:-rank], *spans)].flat))
    return out


def average(cells: list[Any]) -> Any:
    total: Any = 0.0
    for cell in cells:
        total = total + cell
    return total / float(len(cells))


def best(cells: list[Any]) -> Any:
    top: Any = -math.inf
    for cell in cells:
        top = larger(top, cell)
    return top


def reductions() -> Iterator[Call]:
    x = real(3, 4)
    yield call("all", torch.all, lambda x: fold(lambda a, b: b & a, True, x, None, 0), flags(3, 4))
    yield call("all", lambda x: torch.all(x, 1), lambda x: fold(lambda a, b: b & a, True, x, [1], 0), flags(3, 4))
    yield call("any", torch.any, lambda x: fold(lambda a, b: b | a, False, x, None, 0), flags(3, 4))
    yield call("aminmax", lambda x: tuple(torch.aminmax(x)), both_extremes, x)
    yield call("var", torch.var, lambda x: variance(x)[0], x)
    yield call("var", lambda x: torch.var(x, 1, correction=0), lambda x: variance(x, [1], 0)[0], x)
    yield call("var_mean", lambda x: torch.var_mean(x, 1), lambda x: variance(x, [1]), x)
    yield call("std", lambda x: torch.std(x, (0, 2)), lambda x: variance(x, [0, 2], root=True)[0], real(3, 2, 4))
    yield call("std_mean", torch.std_mean, lambda x: variance(x, root=True), x)
    for p in (math.inf, -math.inf):
        yield call("norm_inf", lambda x, p=p: torch.linalg.vector_norm(x, p, 1), lambda x, p=p: norm(x, p, [1]), x)
    yield call("norm_p", lambda x: torch.linalg.vector_norm(x, 3), lambda x: norm(x, 3.0), x)
    yield call("norm_p", lambda x: torch.norm(x, 0.5, 0), lambda x: norm(x, 0.5, [0]), x)
    for ord, of in ((1, maximum), (-1, minimum)):
        yield call(
            "linalg_matrix_norm",
            lambda x, p=ord: torch.linalg.matrix_norm(x, p),
            lambda x, of=of: of(add_up(pointwise(abs, x), [-2], 0), [-1], 0),
            real(2, 3, 4),
        )
    for ord, of in ((math.inf, maximum), (-math.inf, minimum)):
        yield call(
            "linalg_matrix_norm",
            lambda x, p=ord: torch.linalg.norm(x, p),
            lambda x, of=of: of(add_up(pointwise(abs, x), [1], 0), [0], 0),
            x,
        )
    holes = Input(np.where(real(3, 4).array < -0.5, np.nan, real(3, 4).array))
    for axes in (None, 1):
        yield call(
            "nansum",
            lambda x, a=axes: torch.nansum(x, a),
            lambda x, a=axes: sum_without_nan(x, None if a is None else [a]),
            holes,
        )
        yield call(
            "nanmean",
            lambda x, a=axes: torch.nanmean(x, a),
            lambda x, a=axes: mean_without_nan(x, None if a is None else [a]),
            holes,
        )
    for order, axis in ((2, 1), (3, 0), (4, 1), (7, 1)):
        yield call(
            "diff",
            lambda x, n=order, a=axis: torch.diff(x, n, a),
            lambda x, n=order, a=axis: differences(x, n, a),
            real(5, 4),
        )
    some = Input(np.array([[0.0, 1.0, 2.0], [0.0, 0.0, -3.0]]))
    for of in (torch.count_nonzero, lambda x: torch.linalg.vector_norm(x, 0)):
        yield call("count_nonzero", of, lambda x: norm(x, 0), some)
    yield call(
        "logsumexp", lambda x: torch.logsumexp(x, 1), lambda x: pointwise(log, add_up(pointwise(exp, x), [1], 0)), x
    )
    yield call("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), running_log, x)
    yield call("cummax", lambda x: tuple(torch.cummax(x, 1)), best_so_far, x)
    yield call("cummax", lambda x: tuple(torch.cummin(x, 1)), lambda x: best_so_far(x, -1.0), x)
    yield call("trace", torch.trace, trace, x)
    yield call("trace", torch.trace, trace, real(5, 2))
    for p in (0, 1, 2, 3, math.inf):
        yield call("dist", lambda x, y, p=p: torch.dist(x, y, p), lambda x, y, p=p: distance(x, y, p), x, real(4))


def distance(x: Any, y: Any, p: float) -> Any:
    """The p-norm of all differences."""
    gap = x - y
    return sqrt((gap * gap).sum(initial=0.0)) if p == 2 else norm(gap, p)


def counts() -> Iterator[Call]:
    whole = Input(np.array([1, 3, 3, 0, 4]))
    yield call("bincount", torch.bincount, bins_of, whole)
    yield call("bincount", torch.bincount, bins_of, whole, real(5))
    x = real(3, 4)
    yield call("histc", lambda x: torch.histc(x, 4, -1, 1), lambda x: histogram(x, 4, -1.0, 1.0, 2.0), x)
    yield call("histc", lambda x: torch.histc(x, 5), lambda x: histogram_of_range(x, 5), x)
    repeated = Input(np.array([1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 3.0]))
    yield call("unique_consecutive", torch.unique_consecutive, starts_of_runs, repeated)
    every = {"return_inverse": True, "return_counts": True}
    yield call("unique_consecutive", lambda x: torch.unique_consecutive(x, **every), runs, repeated)


def joined() -> Iterator[Call]:
    w, indices = real(6, 3), given([[0, 2, 5], [1, 1, 4]])
    for mode in ("sum", "mean", "max"):
        yield call(
            "embedding_bag",
            lambda w, i, mode=mode: F.embedding_bag(i, w, mode=mode),
            lambda w, i, mode=mode: bags(w, i, mode),
            w, indices,
        )  # fmt: skip
    yield call(
        "embedding_bag",
        lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        lambda w, i, s: bags(w, i, "sum", s),
        w, indices, real(2, 3),
    )  # fmt: skip
    yield call("_weight_norm", lambda v, g: torch._weight_norm(v, g, 0), weight_norm, real(4, 3, 2), positive(4, 1, 1))
    x = real(3, 4, 2)
    for p, axis in ((2.0, 0), (2.0, 1), (1.0, 2), (3.0, 0), (math.inf, 1)):
        yield call(
            "renorm",
            lambda x, p=p, axis=axis: torch.renorm(x, p, axis, 1.5),
            lambda x, p=p, axis=axis: renorm(x, p, axis, 1.5),
            x,
        )


def pooling() -> Iterator[Call]:
    for rank, before, after in ((1, (5,), (3,)), (2, (5, 4), (2, 3)), (2, (2, 3), (3, 3)), (3, (3, 4, 2), (2, 3, 1))):
        x = real(2, 2, *before)
        for kind, of in (("avg", average), ("max", best)):
            yield call(
                f"adaptive_{kind}_pool",
                lambda x, kind=kind, rank=rank, after=after: getattr(F, f"adaptive_{kind}_pool{rank}d")(x, after),
                lambda x, after=after, of=of: windows(x, after, of),
                x,
            )


def calls() -> Iterator[Call]:
    yield from reductions()
    yield from counts()
    yield from joined()
    yield from pooling()
