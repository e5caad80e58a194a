"""The networks of ``networks.py`` written once more, for kits of layers with channels last: Keras' and flax's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tests.formats.network_sizes import SMALL, Sizes

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


def resnet(kit: Kit, x: Array, blocks: tuple[int, ...], width: int, classes: int, size: int) -> Array:
    ops = kit.ops
    x = kit.max_pool(_block(kit, x, 64, 7, 2, act="relu"), 3, 2)
    for stage, number in enumerate(blocks):
        inner, out = width << stage, 256 << stage
        for place in range(number):
            stride = 2 if stage and not place else 1
            y = _block(kit, _block(kit, x, inner, act="relu"), inner, 3, stride, act="relu")
            x = ops.relu(_block(kit, y, out) + (x if place else _block(kit, x, out, 1, stride)))
    return kit.dense(ops.mean(x, (1, 2)), classes)


def mobilenet_v2(kit: Kit, x: Array, width: float, classes: int, size: int) -> Array:
    channels = _divisible(32 * width)
    x = _block(kit, x, channels, 3, 2, act="relu6")
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for times, whole, number, first in settings:
        out = _divisible(whole * width)
        for place in range(number):
            stride, y = (1 if place else first), x
            if times > 1:
                y = _block(kit, y, times * channels, act="relu6")
            y = _block(kit, _block(kit, y, times * channels, 3, stride, times * channels, "relu6"), out)
            x, channels = (x + y if stride == 1 and channels == out else y), out
    return kit.dense(kit.ops.mean(_block(kit, x, 1280, act="relu6"), (1, 2)), classes)


def _squeezed(kit: Kit, x: Array, width: int, inner: int, acts: tuple[str, str]) -> Array:
    """Channels weighed by a network of their means."""
    ops = kit.ops
    means = getattr(ops, acts[0])(kit.conv(ops.mean(x, (1, 2), keepdims=True), inner, 1))
    return x * getattr(ops, acts[1])(kit.conv(means, width, 1))


def _divisible(n: float) -> int:
    near = max(8, int(n + 4) // 8 * 8)
    return near + 8 if near < 0.9 * n else near


def mobilenet_v3(kit: Kit, x: Array, width: float, classes: int, size: int) -> Array:
    channels = _divisible(16 * width)
    x = _block(kit, x, channels, 3, 2, act="hard_silu")
    settings = (
        (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
        (5, 96, 40, True, "hard_silu", 2), (5, 240, 40, True, "hard_silu", 1), (5, 240, 40, True, "hard_silu", 1),
        (5, 120, 48, True, "hard_silu", 1), (5, 144, 48, True, "hard_silu", 1), (5, 288, 96, True, "hard_silu", 2),
        (5, 576, 96, True, "hard_silu", 1), (5, 576, 96, True, "hard_silu", 1),
    )  # fmt: skip
    for kernel, inner, out, squeezes, act, stride in settings:
        inner, out, y = _divisible(inner * width), _divisible(out * width), x
        if inner != channels:
            y = _block(kit, y, inner, act=act)
        y = _block(kit, y, inner, kernel, stride, inner, act)
        if squeezes:
            y = _squeezed(kit, y, inner, _divisible(inner // 4), ("relu", "hard_sigmoid"))
        y = _block(kit, y, out)
        x, channels = (x + y if stride == 1 and channels == out else y), out
    x = kit.ops.mean(_block(kit, x, 6 * channels, act="hard_silu"), (1, 2))
    return kit.dense(kit.ops.hard_silu(kit.dense(x, _divisible(1024 * width))), classes)


def efficientnet(kit: Kit, x: Array, stages: int, classes: int, size: int) -> Array:
    x, channels = _block(kit, x, 32, 3, 2, act="silu"), 32
    settings = (
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )  # fmt: skip
    for times, kernel, first, out, number in settings[:stages]:
        for place in range(number):
            stride, inner, y = (1 if place else first), times * channels, x
            if times > 1:
                y = _block(kit, y, inner, act="silu")
            y = _squeezed(
                kit, _block(kit, y, inner, kernel, stride, inner, "silu"), inner, channels // 4, ("silu", "sigmoid")
            )
            y = _block(kit, y, out)
            x, channels = (x + y if stride == 1 and channels == out else y), out
    if stages < len(settings):
        return x
    return kit.dense(kit.ops.mean(_block(kit, x, 1280, act="silu"), (1, 2)), classes)


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


def vit(kit: Kit, x: Array, layers: int, heads: int, width: int, inner: int, classes: int, size: int) -> Array:
    patches = (size // 16) ** 2
    x = kit.ops.reshape(kit.conv(x, width, 16, 16), (-1, patches, width))
    x = kit.ops.concatenate([kit.weight(x, 1, 1, width), x], 1)
    x = x + kit.weight(x, 1, patches + 1, width)
    for _ in range(layers):
        x = x + _attention(kit, kit.layer_norm(x), heads)
        x = x + _mlp(kit, kit.layer_norm(x), inner)
    return kit.dense(kit.layer_norm(x)[:, 0], classes)


def unet(kit: Kit, x: Array, width: int, size: int) -> Array:
    relu = kit.ops.relu
    first = relu(kit.conv(x, width, 3))
    bottom = relu(kit.conv(kit.max_pool(relu(kit.conv(first, 2 * width, 3, 2)), 2, 2), 4 * width, 3))
    up = kit.doubled(relu(kit.transposed(bottom, 2 * width, 2)))
    return kit.conv(kit.ops.concatenate([first, up], -1), 2, 1)


def ssd(kit: Kit, x: Array, width: int, size: int) -> Array:
    ops = kit.ops
    first = ops.relu(kit.conv(x, width, 3, 4))
    maps = (first, ops.relu(kit.conv(first, 2 * width, 3, 2)))
    boxes = ops.concatenate([ops.reshape(kit.conv(m, 16, 3), (1, -1, 4)) for m in maps], 1)
    classes = ops.concatenate([ops.reshape(kit.conv(m, 12, 3), (1, -1, 3)) for m in maps], 1)
    return ops.concatenate([boxes[..., :2] * 0.1, ops.exp(boxes[..., 2:] * 0.2), ops.softmax(classes)], -1)


def lstm(kit: Kit, x: Array, features: int, units: int, classes: int, steps: int) -> Array:
    return kit.dense(kit.lstm(kit.lstm(x, units), units), classes)


def bert(
    kit: Kit,
    tokens: Array,
    vocabulary: int,
    width: int,
    layers: int,
    heads: int,
    inner: int,
    positions: int,
    length: int,
) -> Array:
    x = kit.embedding(tokens, vocabulary, width) + kit.embedding(tokens * 0, 2, width)
    x = kit.layer_norm(x + kit.weight(x, positions, width, rows=length))
    for _ in range(layers):
        x = kit.layer_norm(x + _attention(kit, x, heads, kit.ops.zeros((1, 1, length, length))))
        x = kit.layer_norm(x + _mlp(kit, x, inner))
    return x


def gpt(
    kit: Kit, tokens: Array, vocabulary: int, width: int, layers: int, heads: int, positions: int, length: int
) -> Array:
    x = kit.embedding(tokens, vocabulary, width)
    x = x + kit.weight(x, positions, width, rows=length)
    for _ in range(layers):
        x = x + _attention(kit, kit.layer_norm(x), heads, kit.ops.zeros((1, 1, length, length)))
        x = x + _mlp(kit, kit.layer_norm(x), 4 * width)
    return kit.dense(kit.layer_norm(x), vocabulary, bias=False)


TWINS: dict[str, Callable[..., Array]] = {
    one.__name__: one for one in (resnet, mobilenet_v2, mobilenet_v3, efficientnet, vit, unet, ssd, lstm, bert, gpt)
}


def _input(name: str, sizes: Sizes) -> tuple[tuple[int, ...], str]:
    """Shape, channels last, and type of a network's input."""
    own = sizes[name]
    if name == "lstm":
        return (2, own["steps"], own["features"]), "float32"
    if "length" in own:
        return (2, own["length"]), "int32"
    return (1, own["size"], own["size"], 3), "float32"


def keras_twin(name: str, sizes: Sizes = SMALL) -> Any:
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

    shape, dtype = _input(name, sizes)
    x = keras.Input(batch_shape=shape, dtype=dtype)
    with keras.device("meta"):
        return keras.Model(x, TWINS[name](Keras(), x, **sizes[name]))


def flax_twin(name: str, sizes: Sizes = SMALL) -> tuple[Any, Any]:
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
            return TWINS[name](self, x, **sizes[name])

    return Net(), jax.ShapeDtypeStruct(*_input(name, sizes))
