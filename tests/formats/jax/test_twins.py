"""Contraction operations of JAX functions against what PyTorch's own counter says of the same network."""

import itertools

import jax
import jax.numpy as jnp
import pytest
import torch
from flax import linen
from jax import lax
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import flopwise


def array(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def macs(function, *arguments):
    """Multiply-accumulates of a function of JAX's."""
    profile = flopwise.profile(jax.jit(function), arguments)
    assert not profile.unknown
    return profile.sum.macs


def peer(module, *shapes, backward=False, wrt_inputs=False):
    """Multiply-accumulates that PyTorch's counter sees."""
    tensors = [torch.randn(shape, requires_grad=wrt_inputs) for shape in shapes]
    with FlopCounterMode(display=False) as counter:
        result = module(*tensors)
        if backward:
            result.sum().backward()
    return counter.get_total_flops() // 2


def mlp(params, x):
    for layer in params[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def layers(*widths):
    return [{"w": array(i, o), "b": array(o)} for i, o in itertools.pairwise(widths)]


def test_mlp():
    twin = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    assert macs(mlp, layers(8, 16, 4), array(5, 8)) == peer(twin, (5, 8)) == 5 * (8 * 16 + 16 * 4)


def test_training_of_mlp():
    twin = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    loss = jax.value_and_grad(lambda params, x: mlp(params, x).sum())
    assert macs(loss, layers(8, 16, 4), array(5, 8)) == peer(twin, (5, 8), backward=True)


class Convolutions(linen.Module):
    """A strided, a grouped, a dilated and a transposed convolution, channels last."""

    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Conv(8, (3, 3), strides=2, padding=1)(x))
        x = linen.relu(linen.Conv(8, (3, 3), feature_group_count=4, padding=1)(x))
        x = linen.relu(linen.Conv(16, (3, 3), kernel_dilation=2, padding=2)(x))
        x = linen.max_pool(x, (2, 2), strides=(2, 2))
        x = linen.ConvTranspose(4, (2, 2), strides=(2, 2))(x)
        return linen.Dense(10)(x.mean(axis=(1, 2)))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=4, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, dilation=2, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(16, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 10),
    )


def test_convolutions():
    profile = flopwise.profile(Convolutions(), (2, 32, 32, 3))
    twin = convolutions()
    assert profile.sum.macs == peer(twin, (2, 3, 32, 32))
    assert profile.sum.params == sum(p.numel() for p in twin.parameters())


def test_training_of_convolutions():
    module = Convolutions()
    variables = jax.eval_shape(module.init, array(2, dtype="uint32"), array(2, 32, 32, 3))
    loss = jax.value_and_grad(lambda params, x: module.apply(params, x).sum(), argnums=(0, 1))
    twin = convolutions()
    seen = peer(twin, (2, 3, 32, 32), backward=True, wrt_inputs=True)
    # PyTorch's counter takes the gradient of a grouped weight for that of a dense one: four times as much here.
    grouped = 2 * 16 * 16 * 8 * 2 * 9
    assert macs(loss, variables, array(2, 32, 32, 3)) == seen - 3 * grouped


@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("CNHW", "IHWO", "HWNC")])
@pytest.mark.parametrize("groups", [1, 2])
def test_every_layout_of_a_convolution_costs_the_same(layout, groups):
    sizes = [{"N": 2, "C": 4, "H": 9, "W": 7}, {"O": 6, "I": 4 // groups, "H": 3, "W": 2}]
    x, w = (array(*(size[axis] for axis in axes)) for size, axes in zip(sizes, layout, strict=False))
    function = lambda x, w: lax.conv_general_dilated(  # noqa: E731
        x, w, (2, 1), "SAME", dimension_numbers=layout, feature_group_count=groups
    )
    assert macs(function, x, w) == 2 * 6 * 5 * 7 * (4 // groups) * 3 * 2


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("right", [0, 1, 2])
def test_every_order_of_axes_of_a_product_costs_the_same(batch, left, right):
    a, b = ([2, 3, 4] if batch == 0 else [3, 4, 5]), [4, 6, 7]
    shapes = [list(a), list(b)]
    summed = a.index(4)
    shapes[0].insert(left, shapes[0].pop(summed))
    shapes[1].insert(right, shapes[1].pop(0))
    numbers = (((left,), (right,)), ((), ()))
    x, y = array(*shapes[0]), array(*shapes[1])
    expected = x.size * y.size // 4
    assert macs(lambda x, y: lax.dot_general(x, y, numbers), x, y) == expected


def test_products_with_batches():
    x, y = array(5, 2, 3, 7), array(2, 7, 4, 5)
    numbers = (((3,), (1,)), ((0, 1), (3, 0)))
    assert macs(lambda x, y: lax.dot_general(x, y, numbers), x, y) == 5 * 2 * 3 * 7 * 4
    assert macs(jnp.matmul, array(6, 2, 3, 4), array(6, 2, 4, 5)) == 6 * 2 * 3 * 4 * 5
    assert macs(jax.vmap(jnp.dot, in_axes=(0, None)), array(6, 4), array(4)) == 24


def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def plain_attention(q, k, v):
    """Attention as two products: the counter sees none in the kernel of a CPU."""
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


def test_attention():
    assert macs(attention, *[array(2, 10, 4, 8)] * 3) == peer(plain_attention, *[(2, 4, 10, 8)] * 3)
    both = jax.value_and_grad(lambda *qkv: attention(*qkv).sum(), argnums=(0, 1, 2))
    expected = peer(plain_attention, *[(2, 4, 10, 8)] * 3, backward=True, wrt_inputs=True)
    assert macs(both, *[array(2, 10, 4, 8)] * 3) == expected


def lstm(params, xs):
    """A layer of an LSTM over (time, batch, width)."""

    def step(state, x):
        h, c = state
        gates = x @ params["w"] + h @ params["u"] + params["b"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    width, batch = params["u"].shape[0], xs.shape[1]
    start = jnp.zeros((batch, width)), jnp.zeros((batch, width))
    return lax.scan(step, start, xs)[1]


class Cells(nn.Module):
    """The same steps by PyTorch."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, xs):
        h = c = torch.zeros(xs.shape[1], 8)
        outputs = []
        for x in xs:
            h, c = self.cell(x, (h, c))
            outputs.append(h)
        return torch.stack(outputs)


def test_lstm_by_scan():
    params = {"w": array(6, 32), "u": array(8, 32), "b": array(32)}
    assert macs(lstm, params, array(12, 3, 6)) == peer(Cells(), (12, 3, 6)) == 12 * 3 * 32 * (6 + 8)
    both = jax.value_and_grad(lambda params, xs: lstm(params, xs).sum())
    # The first step's state needs no gradient, which PyTorch leaves out and a scan does not.
    expected = peer(Cells(), (12, 3, 6), backward=True)
    first = 3 * 32 * 8
    assert macs(both, params, array(12, 3, 6)) - expected in (0, first)


class Gpt(linen.Module):
    """A block of a GPT."""

    @linen.compact
    def __call__(self, x):
        mask = linen.make_causal_mask(x[..., 0])
        h = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(num_heads=4)(h, mask=mask)
        h = linen.LayerNorm()(x)
        return x + linen.Dense(32)(linen.gelu(linen.Dense(128)(h)))


class Twin(nn.Module):
    """The block by PyTorch."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(32), nn.LayerNorm(32)])
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (a.reshape(b, t, 4, 8).transpose(1, 2) for a in self.qkv(self.norms[0](x)).split(32, -1))
        y = plain_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, 32))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def test_gpt_block():
    profile, twin = flopwise.profile(Gpt(), (2, 10, 32)), Twin()
    assert profile.sum.macs == peer(twin, (2, 10, 32))
    assert profile.sum.params == sum(p.numel() for p in twin.parameters())
    assert not profile.unknown
