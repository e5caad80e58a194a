"""Loops, branches, calls and meshes of JAX by hand counts."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

import flopwise
from flopwise.errors import InputError

X = jax.ShapeDtypeStruct((4, 4), "float32")
PRODUCT = 4 * 4 * 4


def profile(function, *arguments, **options):
    return flopwise.profile(jax.jit(function), arguments or (X,), **options)


def macs(function, *arguments, **options):
    return profile(function, *arguments, **options).sum.macs


def test_scan_counts_its_body_for_each_element():
    stack = jax.ShapeDtypeStruct((7, 4, 4), "float32")
    assert macs(lambda x, ws: lax.scan(lambda c, w: (c @ w, None), x, ws)[0], X, stack) == 7 * PRODUCT
    nested = lambda x: lax.scan(lambda c, _: (lax.scan(lambda d, _: (d @ x, None), c, None, 3)[0], None), x, None, 5)  # noqa: E731
    assert macs(nested) == 15 * PRODUCT
    assert (
        macs(
            lambda x, ws: lax.scan(lambda c, w: (c @ w, None), x, ws)[0], X, jax.ShapeDtypeStruct((0, 4, 4), "float32")
        )
        == 0
    )


@pytest.mark.parametrize(
    ("start", "condition", "step", "trips"),
    [
        (0, lambda i: i < 10, lambda i: i + 1, 10),
        (3, lambda i: i < 10, lambda i: 2 + i, 4),
        (0, lambda i: i <= 10, lambda i: i + 5, 3),
        (9, lambda i: i > 0, lambda i: i - 4, 3),
        (9, lambda i: i >= 1, lambda i: i - 4, 3),
        (8, lambda i: i != 0, lambda i: i - 2, 4),
        (0, lambda i: i != 0, lambda i: i - 2, 0),
        (0, lambda i: 10 > i, lambda i: i + 3, 4),  # noqa: SIM300 - the limit stands first
        (10, lambda i: i < 10, lambda i: i + 1, 0),
        (11, lambda i: i <= 10, lambda i: i + 1, 0),
        (12, lambda i: i < 10, lambda i: i + 1, 0),
        (-5, lambda i: i < 1, lambda i: i + 3, 2),
    ],
)
def test_while_that_counts_says_its_trips(start, condition, step, trips):
    loop = lambda x: lax.while_loop(lambda c: condition(c[0]), lambda c: (step(c[0]), c[1] @ x), (start, x))  # noqa: E731
    result = profile(loop)
    assert result.sum.macs == trips * PRODUCT
    assert result.exact
    taken = 0
    while condition(start):
        start, taken = step(start), taken + 1
    assert taken == trips


def halves(x):
    return lax.while_loop(lambda c: jnp.linalg.norm(c) > 1, lambda c: c @ x, x)


def test_while_that_depends_on_data_is_unknown_until_it_is_said():
    unknown = profile(halves)
    assert not unknown.exact
    assert any("'while' depend on the data" in warning for warning in unknown.graph.warnings)
    assert macs(halves, trips={"while": 6}) == 6 * PRODUCT
    with pytest.raises(InputError, match=r"no loop is named 'loop'; the loops of the model are: 'while"):
        profile(halves, trips={"loop": 6})
    with pytest.raises(InputError, match="loop 'while' cannot run -6 times"):
        profile(halves, trips={"while": -6})


def test_while_with_a_limit_is_a_bound():
    loop = lambda x: lax.while_loop(  # noqa: E731
        lambda c: (c[0] < 20) & (jnp.sum(c[1]) > 1), lambda c: (c[0] + 1, c[1] @ x), (0, x)
    )
    result = profile(loop)
    assert result.sum.macs == 20 * PRODUCT
    assert not result.exact
    assert result.rows[-1].bound


def test_fori_loop():
    assert macs(lambda x: lax.fori_loop(2, 9, lambda i, c: c @ x, x)) == 7 * PRODUCT
    dynamic = profile(lambda x, n: lax.fori_loop(0, n, lambda i, c: c @ x, x), X, jax.ShapeDtypeStruct((), "int32"))
    assert not dynamic.exact


def test_of_branches_the_most_expensive_counts():
    choose = lambda x: lax.cond(x[0, 0] > 0, lambda y: y @ y @ y, lambda y: y @ y, x)  # noqa: E731
    assert macs(choose) == 2 * PRODUCT
    switch = lambda x, i: lax.switch(i, [lambda y: y, lambda y: y @ y @ y @ y, lambda y: y @ y], x)  # noqa: E731
    result = profile(switch, X, jax.ShapeDtypeStruct((), "int32"))
    assert result.sum.macs == 3 * PRODUCT
    assert [row.times for row in result.rows if row.macs is not None and row.type == "MatMul"].count(1) == 3


def chain(x):
    return jnp.sum(jnp.tanh(x @ x) @ x)


def test_remat_computes_again():
    plain, again = macs(jax.value_and_grad(chain)), macs(jax.value_and_grad(jax.checkpoint(chain)))
    assert plain == 2 * PRODUCT + 4 * PRODUCT
    assert again - plain == PRODUCT  # tanh's argument; the last product is not needed again


def test_custom_gradients_are_followed():
    @jax.custom_vjp
    def twice(x):
        return x @ x

    twice.defvjp(lambda x: (x @ x, x), lambda x, g: (g @ x @ x @ x,))
    assert macs(twice) == PRODUCT
    assert macs(jax.value_and_grad(lambda x: twice(x).sum())) == PRODUCT + 3 * PRODUCT
    assert macs(lambda x: jax.nn.relu(x) @ x) == PRODUCT


def test_vmap_counts_the_batch():
    batch = jax.ShapeDtypeStruct((9, 4, 4), "float32")
    assert macs(jax.vmap(lambda x: x @ x), batch) == 9 * PRODUCT
    assert macs(jax.vmap(lambda x, w: x @ w, (0, None)), batch, X) == 9 * PRODUCT
    looped = jax.vmap(lambda x: lax.scan(lambda c, _: (c @ x, None), x, None, 5)[0])
    assert macs(looped, batch) == 45 * PRODUCT


def test_shard_map_counts_all_devices_or_one():
    mesh = AbstractMesh((2, 4), ("data", "model"))
    part = lambda x, w: lax.psum(x @ w, "model")  # noqa: E731
    spec = {"mesh": mesh, "in_specs": (P("data", "model"), P("model", None)), "out_specs": P("data", None)}
    x, w = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 16), (16, 32)))
    both = profile(jax.shard_map(part, **spec), x, w)
    assert both.sum.macs == 8 * 16 * 32
    one = profile(jax.shard_map(part, **spec), x, w, per_device=True)
    assert one.sum.macs == 8 * 16 * 32 // 8
    adds = [row.counts.add for row in one.rows if row.type.startswith("lax::psum")]
    assert adds == [4 * 32 * (4 - 1)]
    assert "shard_map over 8 devices (data 2, model 4): figures in it are of all of them" in both.graph.warnings[0]


def test_reduction_by_a_function():
    squares = lambda x: lax.reduce(x, jnp.float32(0), lambda a, b: a + b * b, (0, 1))  # noqa: E731
    result = profile(squares)
    assert (result.sum.flops, result.unknown) == (2 * 16, {})


def test_kernel_of_one_s_own_takes_a_rule():
    from jax.experimental import pallas

    def double(x_ref, y_ref):
        y_ref[...] = x_ref[...] * 2

    call = pallas.pallas_call(double, out_shape=X, grid=(4,), interpret=True)
    assert profile(call).unknown == {"lax::pallas_call": 1}
    names = []

    def rule(node):
        names.append((node.attrs["name"], node.attrs["grid"]))
        return flopwise.Counts(mul=node.output().numel)

    assert profile(call, rules={"lax::pallas_call": rule}).sum.flops == 16
    assert names[0] == ("double", [4])
