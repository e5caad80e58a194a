"""Formulas of JAX functions, whose sizes JAX works out in symbols of its own."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import flopwise
from flopwise.errors import FlopwiseError


def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def steps(xs, w):
    return lax.scan(lambda c, x: (jnp.tanh(c @ w + x), c), jnp.zeros(xs.shape[1:]), xs)[1]


def gradient(x, w):
    return jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)


def pairs(x):
    return x.reshape(-1, 2).sum(1)


def strided(x):
    return lax.conv(x, jnp.ones((4, 3, 3, 3)), (2, 2), "SAME")


@pytest.mark.parametrize(
    ("function", "shapes", "sizes", "macs"),
    [
        (attention, [("B", "T", 4, 8)] * 3, {"B": 3, "T": 11}, 2 * 3 * 4 * 11 * 11 * 8),
        (steps, [("T", "B", 8), (8, 8)], {"T": 7, "B": 5}, 7 * 5 * 64),
        (gradient, [("B", 8), (8, 3)], {"B": 9}, 2 * 9 * 24),
        (pairs, [("B", 8)], {"B": 3}, 0),
        (strided, [("B", 3, "H", "W")], {"B": 2, "H": 9, "W": 14}, 2 * 4 * 5 * 7 * 27),
    ],
)
def test_formula_is_the_profile(function, shapes, sizes, macs):
    formula = flopwise.formula(jax.jit(function), shapes)
    profile = flopwise.profile(jax.jit(function), [tuple(sizes.get(n, n) for n in shape) for shape in shapes])
    values = formula.at(**sizes)
    assert values["macs"] == profile.sum.macs == macs
    assert values["flops"] == profile.sum.flops


def test_sizes_that_decide_are_refused_in_one_line():
    def branch(x):
        return x @ x.T if x.shape[0] > 10 else x

    with pytest.raises(FlopwiseError, match="open sizes decide what runs"):
        flopwise.formula(jax.jit(branch), [("B", 3)])
    with pytest.raises(FlopwiseError, match="no size is open"):
        flopwise.formula(jax.jit(branch), [(4, 3)])
