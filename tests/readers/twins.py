"""The networks of ``networks.py`` written once more, for kits of layers with channels last: Keras' and flax's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Array = Any


class Kit(Protocol):
    """Layers of a framework, each with weights of its own; images are (batch, height, width, channels)."""

    #: Functions named as in NumPy and ``jax.nn``.
    ops: Any

    def conv(self, x: Array, out: int, size: int, stride: int = 1, groups: int = 1, bias: bool = True) -> Array:
        """A convolution with half of the kernel as padding, without padding where it is even."""

    def transposed(self, x: Array, out: int, size: int) -> Array:
        """A transposed convolution whose stride is its kernel."""

    def norm(self, x: Array) -> Array:
        """A batch norm in inference."""

    def layer_norm(self, x: Array) -> Array: ...

    def dense(self, x: Array, out: int, bias: bool = True) -> Array: ...

    def embedding(self, tokens: Array, number: int, width: int) -> Array: ...

    def weight(self, like: Array, *shape: int, rows: int | None = None) -> Array:
        """The first rows of a weight of its own, for a network that ``like`` is in."""

    def max_pool(self, x: Array, size: int, stride: int) -> Array:
        """A pooling with half of the window as padding, without padding where it is even."""

    def doubled(self, x: Array) -> Array:
        """An image of twice the size, by bilinear interpolation."""

    def lstm(self, x: Array, units: int) -> Array:
        """All states of a bidirectional layer."""


def _block(kit: Kit, x: Array, out: int, size: int = 1, stride: int = 1, groups: int = 1, act: str = "") -> Array:
    x = kit.norm(kit.conv(x, out, size, stride, groups, bias=False))
    return getattr(kit.ops, act)(x) if act else x


def resnet(kit: Kit, x: Array) -> Array:
    ops = kit.ops
    x = kit.max_pool(_block(kit, x, 64, 7, 2, act="relu"), 3, 2)
    for stage in range(4):
        inner, out, stride = 16 << stage, 256 << stage, 2 if stage else 1
        y = _block(kit, _block(kit, x, inner, act="relu"), inner, 3, stride, act="relu")
        x = ops.relu(_block(kit, y, out) + _block(kit, x, out, 1, stride))
    return kit.dense(ops.mean(x, (1, 2)), 10)


def mobilenet_v2(kit: Kit, x: Array) -> Array:
    x, channels = _block(kit, x, 8, 3, 2, act="relu6"), 8
    settings = ((1, 8, 1, 1), (6, 8, 2, 2), (6, 8, 3, 2), (6, 16, 4, 2), (6, 24, 3, 1), (6, 40, 3, 2), (6, 80, 1, 1))
    for times, out, number, first in settings:
        for place in range(number):
            stride, y = (1 if place else first), x
            if times > 1:
                y = _block(kit, y, times * channels, act="relu6")
            y = _block(kit, _block(kit, y, times * channels, 3, stride, times * channels, "relu6"), out)
            x, channels = (x + y if stride == 1 and channels == out else y), out
    return kit.dense(kit.ops.mean(_block(kit, x, 1280, act="relu6"), (1, 2)), 10)


def _squeezed(kit: Kit, x: Array, width: int, inner: int, acts: tuple[str, str]) -> Array:
    """Channels weighed by a network of their means."""
    ops = kit.ops
    means = getattr(ops, acts[0])(kit.conv(ops.mean(x, (1, 2), keepdims=True), inner, 1))
    return x * getattr(ops, acts[1])(kit.conv(means, width, 1))


def _divisible(n: float) -> int:
    near = max(8, int(n + 4) // 8 * 8)
    return near + 8 if near < 0.9 * n else near


def mobilenet_v3(kit: Kit, x: Array) -> Array:
    x, channels = _block(kit, x, 8, 3, 2, act="hard_silu"), 8
    settings = (
        (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
        (5, 96, 40, True, "hard_silu", 2), (5, 240, 40, True, "hard_silu", 1), (5, 240, 40, True, "hard_silu", 1),
        (5, 120, 48, True, "hard_silu", 1), (5, 144, 48, True, "hard_silu", 1), (5, 288, 96, True, "hard_silu", 2),
        (5, 576, 96, True, "hard_silu", 1), (5, 576, 96, True, "hard_silu", 1),
    )  # fmt: skip
    for size, inner, out, squeezes, act, stride in settings:
        inner, out, y = _divisible(inner / 2), _divisible(out / 2), x
        if inner != channels:
            y = _block(kit, y, inner, act=act)
        y = _block(kit, y, inner, size, stride, inner, act)
        if squeezes:
            y = _squeezed(kit, y, inner, _divisible(inner // 4), ("relu", "hard_sigmoid"))
        y = _block(kit, y, out)
        x, channels = (x + y if stride == 1 and channels == out else y), out
    x = kit.ops.mean(_block(kit, x, 6 * channels, act="hard_silu"), (1, 2))
    return kit.dense(kit.ops.hard_silu(kit.dense(x, 512)), 10)


def efficientnet(kit: Kit, x: Array) -> Array:
    x, channels = _block(kit, x, 32, 3, 2, act="silu"), 32
    for times, size, first, out, number in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2)):
        for place in range(number):
            stride, inner, y = (1 if place else first), times * channels, x
            if times > 1:
                y = _block(kit, y, inner, act="silu")
            y = _squeezed(
                kit, _block(kit, y, inner, size, stride, inner, "silu"), inner, channels // 4, ("silu", "sigmoid")
            )
            y = _block(kit, y, out)
            x, channels = (x + y if stride == 1 and channels == out else y), out
    return x


def _attention(kit: Kit, x: Array, heads: int, mask: Array = None) -> Array:
    ops, (length, width) = kit.ops, x.shape[1:]
    q, k, v = (
        ops.transpose(ops.reshape(kit.dense(x, width), (-1, length, heads, width // heads)), (0, 2, 1, 3))
        for _ in range(3)
    )
    scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * (width // heads) ** -0.5
    weights = ops.softmax(scores if mask is None else scores + mask)
    return kit.dense(ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), (-1, length, width)), width)


def _mlp(kit: Kit, x: Array, inner: int) -> Array:
    return kit.dense(kit.ops.gelu(kit.dense(x, inner)), x.shape[-1])


def vit(kit: Kit, x: Array) -> Array:
    x = kit.ops.reshape(kit.conv(x, 64, 16, 16), (-1, 16, 64))
    x = kit.ops.concatenate([kit.weight(x, 1, 1, 64), x], 1)
    x = x + kit.weight(x, 1, 17, 64)
    for _ in range(2):
        x = x + _attention(kit, kit.layer_norm(x), 4)
        x = x + _mlp(kit, kit.layer_norm(x), 128)
    return kit.dense(kit.layer_norm(x)[:, 0], 10)


def unet(kit: Kit, x: Array) -> Array:
    relu = kit.ops.relu
    first = relu(kit.conv(x, 8, 3))
    bottom = relu(kit.conv(kit.max_pool(relu(kit.conv(first, 16, 3, 2)), 2, 2), 32, 3))
    up = kit.doubled(relu(kit.transposed(bottom, 16, 2)))
    return kit.conv(kit.ops.concatenate([first, up], -1), 2, 1)


def ssd(kit: Kit, x: Array) -> Array:
    ops = kit.ops
    first = ops.relu(kit.conv(x, 16, 3, 4))
    maps = (first, ops.relu(kit.conv(first, 32, 3, 2)))
    boxes = ops.concatenate([ops.reshape(kit.conv(m, 16, 3), (1, -1, 4)) for m in maps], 1)
    classes = ops.concatenate([ops.reshape(kit.conv(m, 12, 3), (1, -1, 3)) for m in maps], 1)
    return ops.concatenate([boxes[..., :2] * 0.1, ops.exp(boxes[..., 2:] * 0.2), ops.softmax(classes)], -1)


def lstm(kit: Kit, x: Array) -> Array:
    return kit.dense(kit.lstm(kit.lstm(x, 24), 24), 5)


def bert(kit: Kit, tokens: Array) -> Array:
    x = kit.embedding(tokens, 100, 32) + kit.embedding(tokens * 0, 2, 32)
    x = kit.layer_norm(x + kit.weight(x, 512, 32, rows=12))
    for _ in range(2):
        x = kit.layer_norm(x + _attention(kit, x, 4, kit.ops.zeros((1, 1, 12, 12))))
        x = kit.layer_norm(x + _mlp(kit, x, 64))
    return x


def gpt(kit: Kit, tokens: Array) -> Array:
    x = kit.embedding(tokens, 100, 32)
    x = x + kit.weight(x, 32, 32, rows=12)
    for _ in range(2):
        x = x + _attention(kit, kit.layer_norm(x), 4, kit.ops.zeros((1, 1, 12, 12)))
        x = x + _mlp(kit, kit.layer_norm(x), 128)
    return kit.dense(kit.layer_norm(x), 100, bias=False)


TWINS: dict[str, Callable[[Kit, Array], Array]] = {
    one.__name__: one for one in (resnet, mobilenet_v2, mobilenet_v3, efficientnet, vit, unet, ssd, lstm, bert, gpt)
}

#: The input of each: channels last.
INPUTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(TWINS, (1, 64, 64, 3)), "unet": (1, 32, 32, 3), "lstm": (2, 6, 16), "bert": (2, 12), "gpt": (2, 12),
}  # fmt: skip


def keras_twin(name: str) -> Any:
    """A network as a Keras model."""
    import keras

    layers = keras.layers

    class Weight(layers.Layer):  # type: ignore[misc] # Keras is not typed
        def __init__(self, shape: tuple[int, ...], rows: int | None) -> None:
            super().__init__()
            self.own, self.rows = self.add_weight(shape=shape, name="own"), rows

        def call(self, like: Array) -> Array:
            return keras.ops.convert_to_tensor(self.own)[: self.rows]

    class Keras:
        ops = keras.ops

        def conv(self, x: Array, out: int, size: int, stride: int = 1, groups: int = 1, bias: bool = True) -> Array:
            x = layers.ZeroPadding2D(size // 2)(x) if size % 2 and size > 1 else x
            if groups > 1:
                return layers.DepthwiseConv2D(size, stride, use_bias=bias)(x)
            return layers.Conv2D(out, size, stride, use_bias=bias)(x)

        def transposed(self, x: Array, out: int, size: int) -> Array:
            return layers.Conv2DTranspose(out, size, size)(x)

        def norm(self, x: Array) -> Array:
            return layers.BatchNormalization()(x)

        def layer_norm(self, x: Array) -> Array:
            return layers.LayerNormalization()(x)

        def dense(self, x: Array, out: int, bias: bool = True) -> Array:
            return layers.Dense(out, use_bias=bias)(x)

        def embedding(self, tokens: Array, number: int, width: int) -> Array:
            return layers.Embedding(number, width)(tokens)

        def weight(self, like: Array, *shape: int, rows: int | None = None) -> Array:
            return Weight(shape, rows)(like)

        def max_pool(self, x: Array, size: int, stride: int) -> Array:
            return layers.MaxPooling2D(size, stride)(layers.ZeroPadding2D(size // 2)(x) if size % 2 else x)

        def doubled(self, x: Array) -> Array:
            return layers.UpSampling2D(interpolation="bilinear")(x)

        def lstm(self, x: Array, units: int) -> Array:
            return layers.Bidirectional(layers.LSTM(units, return_sequences=True))(x)

    batch, *sizes = INPUTS[name]
    x = keras.Input(sizes, batch_size=batch, dtype="int32" if name in ("bert", "gpt") else "float32")
    with keras.device("meta"):
        return keras.Model(x, TWINS[name](Keras(), x))


def flax_twin(name: str) -> tuple[Any, Any]:
    """A network as a module of flax, and its input."""
    import jax
    import jax.numpy as jnp
    from flax import linen

    class Ops:
        def __getattr__(self, name: str) -> Any:
            return getattr(jnp, name, None) or getattr(jax.nn, name)

    class Net(linen.Module):
        ops = Ops()

        def conv(self, x: Array, out: int, size: int, stride: int = 1, groups: int = 1, bias: bool = True) -> Array:
            half = size // 2 if size % 2 else 0
            pads = ((half, half), (half, half))
            layer = linen.Conv(out, (size, size), stride, pads, feature_group_count=groups, use_bias=bias)
            return layer(x)

        def transposed(self, x: Array, out: int, size: int) -> Array:
            return linen.ConvTranspose(out, (size, size), (size, size), "VALID")(x)

        def norm(self, x: Array) -> Array:
            return linen.BatchNorm(use_running_average=True)(x)

        def layer_norm(self, x: Array) -> Array:
            return linen.LayerNorm()(x)

        def dense(self, x: Array, out: int, bias: bool = True) -> Array:
            return linen.Dense(out, use_bias=bias)(x)

        def embedding(self, tokens: Array, number: int, width: int) -> Array:
            return linen.Embed(number, width)(tokens)

        def weight(self, like: Array, *shape: int, rows: int | None = None) -> Array:
            return self.param(f"own_{shape}", linen.initializers.zeros, shape)[:rows]

        def max_pool(self, x: Array, size: int, stride: int) -> Array:
            half = size // 2 if size % 2 else 0
            return linen.max_pool(x, (size, size), (stride, stride), ((half, half), (half, half)))

        def doubled(self, x: Array) -> Array:
            batch, height, width, channels = x.shape
            return jax.image.resize(x, (batch, 2 * height, 2 * width, channels), "bilinear")

        def lstm(self, x: Array, units: int) -> Array:
            return linen.Bidirectional(*(linen.RNN(linen.OptimizedLSTMCell(units)) for _ in range(2)))(x)

        @linen.compact
        def __call__(self, x: Array) -> Array:
            return TWINS[name](self, x)

    return Net(), jax.ShapeDtypeStruct(INPUTS[name], "int32" if name in ("bert", "gpt") else "float32")
