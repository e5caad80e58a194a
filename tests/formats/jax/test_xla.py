"""XLA's own counts beside ours: each difference is one that the guide explains."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import flopwise


def array(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


def conv(padding):
    return lambda x, w: lax.conv(x, w, (1, 1), padding)


X, IMAGE, KERNEL = array(4, 4), array(1, 3, 8, 8), array(4, 3, 3, 3)
PRODUCT = 2 * 4**3

CASES = {
    "product": (lambda x: x @ x, (X,), 0),
    "convolution": (conv("VALID"), (IMAGE, KERNEL), 0),
    "padding": (conv("SAME"), (IMAGE, KERNEL), 2 * 4 * 3 * ((8 * 3) ** 2 - (8 * 3 - 2) ** 2)),
    "scan": (lambda x: lax.scan(lambda c, _: (c @ x, None), x, None, 10)[0], (X,), 9 * PRODUCT - 2),
    "sum": (lambda x: x.sum(), (X,), 1),
    "transcendentals": (jnp.exp, (X,), 0),
    "sign": (lambda x: -x, (X,), -16),
    "unused": (lambda x: (x @ x, x * x)[1], (X,), PRODUCT),
}


@pytest.mark.parametrize("name", CASES)
def test_difference(name):
    function, arguments, difference = CASES[name]
    said = jax.jit(function).lower(*arguments).compile().cost_analysis()
    theirs = said.get("flops", 0) + said.get("transcendentals", 0)
    assert flopwise.profile(jax.jit(function), arguments).sum.flops == theirs + difference
