"""Linear algebra of PyTorch's, as textbook eliminations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from tests.operators.arrays import Input, real
from tests.operators.calls import Call, call
from tests.operators.oracle.linear import matmul
from tests.operators.oracle.number import Number, larger, log, minus_mac, numbers, pointwise, smaller, sqrt
from tests.operators.oracle.reduction import mean


def eliminated(a: Any, b: Any = None) -> tuple[Any, Any, int]:
    """Both triangles in one matrix after elimination with the largest pivots, the right sides, and
    the sign of the swaps.
    """
    a, b, sign = a.copy(), None if b is None else b.copy(), 1
    for k in range(min(a.shape)):
        top, row = Number(-math.inf, a[k, k].tally), k
        for i in range(k, len(a)):
            size = abs(a[i, k])
            if (size > top).value:
                top, row = size, i
        if row != k:
            sign = -sign
            a[[k, row]] = a[[row, k]]
            if b is not None:
                b[[k, row]] = b[[row, k]]
        for i in range(k + 1, len(a)):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, a.shape[1]):
                a[i, j] = minus_mac(a[i, j], a[i, k], a[k, j])
            for s in range(0 if b is None else b.shape[1]):
                b[i, s] = minus_mac(b[i, s], a[i, k], b[k, s])
    return a, b, sign


def substituted(a: Any, b: Any, upper: bool, unit: bool = False) -> Any:
    """The solution of a triangular system."""
    y = b.copy()
    for s in range(b.shape[1]):
        for i in range(len(a) - 1, -1, -1) if upper else range(len(a)):
            for j in range(i + 1, len(a)) if upper else range(i):
                y[i, s] = minus_mac(y[i, s], a[i, j], y[j, s])
            y[i, s] = y[i, s] if unit else y[i, s] / a[i, i]
    return y


def solve(a: Any, b: Any) -> Any:
    left, right, _ = eliminated(a, b)
    return substituted(left, right, upper=True)


def inverse(a: Any) -> Any:
    return solve(a, numbers(np.eye(len(a)), a.flat[0].tally))


def of_batch(of: Any) -> Any:
    """A definition for single matrices over a batch of them."""
    return lambda *arrays: np.stack([of(*parts) for parts in zip(*arrays, strict=True)])


def sign_and_logarithm(a: Any) -> Any:
    left, _, sign = eliminated(a)
    total: Any = 0.0
    for i in range(len(a)):
        total = total + log(abs(left[i, i]))
        sign = sign * math.copysign(1.0, left[i, i].value)
    return np.array(sign, object), np.array(total, object)


def cholesky(a: Any) -> Any:
    y = np.full(a.shape, 0.0, object)
    for j in range(len(a)):
        for i in range(j, len(a)):
            value = a[i, j]
            for k in range(j):
                value = minus_mac(value, y[i, k], y[j, k])
            y[i, j] = sqrt(value) if i == j else value / y[j, j]
    return y


def power(a: Any, n: int) -> Any:
    """By squares of the bits of the exponent."""
    a = inverse(a) if n < 0 else a
    y = a
    for bit in bin(abs(n))[3:]:
        y = matmul(y, y)
        y = matmul(y, a) if bit == "1" else y
    return y


def covariance(x: Any) -> Any:
    centre = x - mean(x, [-1])
    rows = centre.reshape(-1, x.shape[-1])
    c = matmul(rows, rows.T) / float(x.shape[-1] - 1)
    return c if x.ndim > 1 else c[0, 0]


def correlation(x: Any) -> Any:
    """The covariances divided by both deviations, between -1 and 1."""
    c = covariance(x)
    root = pointwise(sqrt, np.diag(c))
    return pointwise(lambda v: smaller(1.0, larger(-1.0, v)), c / root[:, None] / root[None, :])


def cross(x: Any, y: Any) -> Any:
    out = np.empty(x.shape, object)
    for at in np.ndindex(x.shape):
        row, i = at[:-1], at[-1]
        j, k = (i + 1) % 3, (i + 2) % 3
        out[at] = x[(*row, j)] * y[(*row, k)] - x[(*row, k)] * y[(*row, j)]
    return out


def lower_of(n: int) -> Input:
    return Input(np.tril(real(n, n).array) + 3.0 * np.eye(n))


def calls() -> Iterator[Call]:
    a, b = real(4, 4), real(4, 3)
    yield call("linalg_solve", torch.linalg.solve, solve, a, b)
    yield call("linalg_solve", torch.linalg.solve, lambda a, b: solve(a, b[:, None])[:, 0], a, real(4))
    yield call("linalg_solve", torch.linalg.solve, of_batch(solve), real(2, 3, 3), real(2, 3, 2))
    yield call("linalg_inv", torch.linalg.inv, inverse, a)
    yield call("linalg_inv", torch.inverse, of_batch(inverse), real(2, 3, 3))
    square = Input(a.array @ a.array.T + np.eye(4))
    yield call("linalg_cholesky", torch.linalg.cholesky, cholesky, square)
    for upper in (False, True):
        for unit in (False, True):
            matrix = Input(lower_of(4).array.T if upper else lower_of(4).array)
            yield call(
                "linalg_solve_triangular",
                lambda a, b, u=upper, d=unit: torch.linalg.solve_triangular(a, b, upper=u, unitriangular=d),
                lambda a, b, u=upper, d=unit: substituted(a, b, u, d),
                matrix, b,
            )  # fmt: skip
    yield call(
        "cholesky_solve",
        torch.cholesky_solve,
        lambda b, a: substituted(a.T, substituted(a, b, upper=False), upper=True),
        b, lower_of(4),
    )  # fmt: skip
    for shape in ((4, 4), (5, 3), (3, 5)):
        yield call("linalg_lu", lambda a: torch.linalg.lu_factor(a).LU, lambda a: eliminated(a)[0], real(*shape))
    yield call("slogdet", lambda a: tuple(torch.linalg.slogdet(a)), sign_and_logarithm, a)
    for n in (1, 2, 3, 5, 6, -1, -3):
        yield call(
            "matrix_power", lambda a, n=n: torch.linalg.matrix_power(a, n), lambda a, n=n: power(a, n), real(3, 3)
        )
    yield call("cov", torch.cov, covariance, real(3, 5))
    yield call("cov", torch.cov, covariance, real(5))
    yield call("corrcoef", torch.corrcoef, correlation, real(3, 5))
    yield call("cross", torch.linalg.cross, cross, real(2, 3), real(2, 3))
