"""Models with open dimensions, made with onnx.helper; their weights have a shape and no data, as nothing reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
from onnx import NodeProto, TensorProto, helper, numpy_helper

Dims = list["int | str"]


@dataclass
class Net:
    """Nodes and stored tensors in the making; each method returns the name of what it makes."""

    nodes: list[NodeProto] = field(default_factory=list)
    stored: list[TensorProto] = field(default_factory=list)

    def op(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [f"{op.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        name = f"/{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.stored)}"
        self.stored.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape))
        return name

    def values(self, *values: float, scalar: bool = False, dtype: Any = numpy.int64) -> str:
        name = f"c{len(self.stored)}"
        array = numpy.array(values[0] if scalar else values, dtype=dtype)
        self.stored.append(numpy_helper.from_array(array, name))
        return name

    def extent(self, x: str, axis: int) -> str:
        """The extent of an axis as a tensor of one element, as exporters compute it."""
        return self.op("Gather", self.op("Shape", x), self.values(axis))

    def reshape(self, x: str, *dims: int | str) -> str:
        """A Reshape to numbers and computed extents."""
        parts = [d if isinstance(d, str) else self.values(d) for d in dims]
        return self.op("Reshape", x, self.op("Concat", *parts, axis=0))

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, pad: int | None = None) -> str:
        pads = [kernel // 2 if pad is None else pad] * 4
        w = self.weight(outputs, inputs, kernel, kernel)
        return self.op("Conv", x, w, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        return self.op("MatMul", x, self.weight(inputs, outputs))

    def model(self, output: str, *, types: dict[str, int] | None = None, opset: int = 18, **inputs: Dims) -> bytes:
        values = [
            helper.make_tensor_value_info(name, (types or {}).get(name, TensorProto.FLOAT), dims)
            for name, dims in inputs.items()
        ]
        graph = helper.make_graph(
            self.nodes, "net", values, [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], self.stored
        )
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def llama(layers: int = 32, width: int = 64, heads: int = 4, inner: int = 128, cache: bool = False) -> bytes:
    """A decoder as exporters write it: root mean squares, rotation and attention spelled out, shapes computed.

    With a cache, it has the keys and values of earlier tokens as inputs.
    """
    net, each = Net(), width // heads
    x = net.op("Gather", net.weight(100, width), "tokens")
    batch, steps = net.extent("tokens", 0), net.extent("tokens", 1)
    first = net.op("Squeeze", net.extent("past_0_key", 2)) if cache else net.values(0, scalar=True)
    end = net.op("Add", first, net.op("Squeeze", steps)) if cache else net.op("Squeeze", steps)
    places = net.op("Range", first, end, net.values(1, scalar=True))
    seen = net.op("Range", net.values(0, scalar=True), end, net.values(1, scalar=True)) if cache else places
    angles = net.op("Mul", net.op("Cast", net.op("Unsqueeze", places, net.values(1)), to=1), net.weight(each))
    waves = net.op("Cos", angles), net.op("Sin", angles)
    causal = net.op("GreaterOrEqual", net.op("Unsqueeze", places, net.values(1)), seen)
    mask = net.op("Where", causal, net.values(0.0, dtype=numpy.float32), net.values(-1e9, dtype=numpy.float32))

    def norm(x: str) -> str:
        mean = net.op("ReduceMean", net.op("Pow", x, net.values(2.0, dtype=numpy.float32)), net.values(-1))
        root = net.op("Reciprocal", net.op("Sqrt", net.op("Add", mean, net.values(1e-6, dtype=numpy.float32))))
        return net.op("Mul", net.op("Mul", x, root), net.weight(width))

    def split(x: str) -> str:
        return net.op(
            "Transpose", net.reshape(net.linear(x, width, width), batch, steps, heads, each), perm=[0, 2, 1, 3]
        )

    def rotated(x: str) -> str:
        ends = [(0, each // 2), (each // 2, each)]
        low, high = (net.op("Slice", x, net.values(a), net.values(b), net.values(3)) for a, b in ends)
        turned = net.op("Concat", net.op("Neg", high), low, axis=-1)
        return net.op("Add", net.op("Mul", x, waves[0]), net.op("Mul", turned, waves[1]))

    held: dict[str, Dims] = {}
    for layer in range(layers):
        h = norm(x)
        q, k, v = rotated(split(h)), rotated(split(h)), split(h)
        if cache:
            names = f"past_{layer}_key", f"past_{layer}_value"
            held |= {name: ["batch", heads, "past", each] for name in names}
            k, v = net.op("Concat", names[0], k, axis=2), net.op("Concat", names[1], v, axis=2)
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.op("Mul", scores, net.values(0.25, dtype=numpy.float32))
        weights = net.op("Softmax", net.op("Add", scores, mask), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = net.op("Add", x, net.linear(net.reshape(mixed, batch, steps, width), width, width))
        h = norm(x)
        gate = net.linear(h, width, inner)
        gate = net.op("Mul", gate, net.op("Sigmoid", gate))
        x = net.op("Add", x, net.linear(net.op("Mul", gate, net.linear(h, width, inner)), inner, width))
    output = net.linear(norm(x), width, 100)
    return net.model(output, types={"tokens": TensorProto.INT64}, tokens=["batch", "sequence"], **held)


def fpn() -> bytes:
    """Features on four scales, each brought to the extents of the next larger one, as exporters write it."""
    net, levels = Net(), []
    x = net.op("Relu", net.conv("image", 3, 16, 7, 2))
    for _ in range(4):
        x = net.op("Relu", net.conv(x, 16, 16, 3, 2))
        levels.append(x)
    merged = net.conv(levels[-1], 16, 8, 1)
    outputs = [net.conv(merged, 8, 8, 3)]
    for level in levels[-2::-1]:
        side = net.conv(level, 16, 8, 1)
        start, end, axis = (net.values(n) for n in (2, 4, 0))
        sizes = net.op("Concat", net.values(0, 0), net.op("Slice", net.op("Shape", side), start, end, axis), axis=0)
        kept = net.op("Slice", net.op("Shape", merged), net.values(0), net.values(2), net.values(0))
        zeros = net.op("Mul", sizes, net.values(0, 0, 1, 1))
        sizes = net.op("Add", zeros, net.op("Concat", kept, net.values(0, 0), axis=0))
        merged = net.op("Add", side, net.op("Resize", merged, "", "", sizes, mode="nearest"))
        outputs.append(net.conv(merged, 8, 8, 3))
    batch = net.extent("image", 0)
    flat = [net.reshape(y, batch, 8, -1) for y in outputs]
    return net.model(net.op("Concat", *flat, axis=2), image=["N", 3, "H", "W"])


def yolox() -> bytes:
    """A detector on three scales: pixels of four places side by side, poolings side by side, two ways down and up."""
    net = Net()

    def block(x: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> str:
        y = net.conv(x, inputs, outputs, kernel, stride)
        return net.op("Mul", y, net.op("Sigmoid", y))

    def part(row: int, column: int) -> str:
        ends = net.values(1 << 62, 1 << 62)
        return net.op("Slice", "image", net.values(row, column), ends, net.values(2, 3), net.values(2, 2))

    x = block(net.op("Concat", *(part(i, j) for j in (0, 1) for i in (0, 1)), axis=1), 12, 16)
    scales = []
    for depth in range(4):
        x = block(x, 16, 16, 3, 2)
        for _ in range(3):
            x = net.op("Add", x, block(block(x, 16, 8, 1), 8, 16))
        if depth:
            scales.append(x)
    pools = [net.op("MaxPool", x, kernel_shape=[k, k], pads=[k // 2] * 4) for k in (5, 9, 13)]
    top = block(net.op("Concat", x, *pools, axis=1), 64, 16, 1)
    twice = net.values(1.0, 1.0, 2.0, 2.0, dtype=numpy.float32)
    levels = [top]
    for scale in scales[1::-1]:
        wide = net.op("Concat", net.op("Resize", levels[-1], "", twice, mode="nearest"), scale, axis=1)
        levels.append(block(wide, 32, 16))
    lower = [levels[-1]]
    for level in levels[1::-1]:
        lower.append(block(net.op("Concat", block(lower[-1], 16, 16, 3, 2), level, axis=1), 32, 16))
    batch = net.extent("image", 0)
    heads = []
    for level in lower:
        kinds = net.op("Sigmoid", net.conv(block(level, 16, 16), 16, 80, 1))
        heads.append(
            net.reshape(net.op("Concat", net.conv(block(level, 16, 16), 16, 5, 1), kinds, axis=1), batch, 85, -1)
        )
    output = net.op("Transpose", net.op("Concat", *heads, axis=2), perm=[0, 2, 1])
    return net.model(output, image=["N", 3, "H", "W"])


def chain(nodes: int = 10_000) -> bytes:
    """A long chain of convolutions, activations and sums, some of them with strides."""
    net, x, count = Net(), "image", 3
    while len(net.nodes) < nodes:
        stride = 2 if len(net.nodes) % (nodes // 5) == nodes // 10 // 3 * 3 else 1
        y = net.op("Relu", net.conv(x, count, 4, 3, stride))
        x, count = (y if count == 3 or stride > 1 else net.op("Add", x, y)), 4
    return net.model(x, image=["N", 3, "H", "W"])


def resnet50() -> bytes:
    """ResNet-50 for images of any size, its batch norms folded."""
    net = Net()
    x = net.op("Relu", net.conv("image", 3, 64, 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.op("Relu", net.conv(x, channels, inner, 1))
            y = net.op("Relu", net.conv(y, inner, inner, 3, stride))
            y = net.conv(y, inner, 4 * inner, 1)
            x = net.op("Relu", net.op("Add", y, x if block else net.conv(x, channels, 4 * inner, 1, stride)))
            channels = 4 * inner
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    x = net.op("Gemm", x, net.weight(1000, 2048), net.weight(1000), transB=1)
    return net.model(x, image=["N", 3, "H", "W"])


def unet() -> bytes:
    """Three halvings and three doublings with shortcuts: sizes that 8 does not divide do not meet again."""
    net, kept = Net(), []
    x = net.conv("image", 3, 8, 3)
    for level in range(3):
        kept.append(x)
        x = net.conv(net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 8 << level, 16 << level, 3)
    for level in (2, 1, 0):
        w = net.weight(16 << level, 8 << level, 2, 2)
        up = net.op("ConvTranspose", x, w, kernel_shape=[2, 2], strides=[2, 2])
        x = net.op("Relu", net.conv(net.op("Concat", kept[level], up, axis=1), 16 << level, 8 << level, 3))
    return net.model(x, image=["N", 3, "H", "W"])


def vit(side: int = 32) -> bytes:
    """Patches of a fixed image: only the batch is open, whatever the file says."""
    net = Net()
    x = net.op("Conv", "image", net.weight(16, 3, 8, 8), kernel_shape=[8, 8], strides=[8, 8])
    x = net.op("Transpose", net.reshape(x, net.extent("image", 0), 16, (side // 8) ** 2), perm=[0, 2, 1])
    x = net.op("Add", x, net.weight(1, (side // 8) ** 2, 16))
    scores = net.op("Softmax", net.op("MatMul", x, net.op("Transpose", x, perm=[0, 2, 1])), axis=-1)
    return net.model(net.linear(net.op("MatMul", scores, x), 16, 10), image=["batch", 3, side, side])


def lstm() -> bytes:
    """Two directions over any number of steps."""
    net = Net()
    parts = [net.weight(2, 4 * 6, 5), net.weight(2, 4 * 6, 6), net.weight(2, 8 * 6)]
    y, *_ = net.op("LSTM", "x", *parts, outputs=3, hidden_size=6, direction="bidirectional")
    return net.model(net.op("Tanh", y), x=["steps", "batch", 5])


def resized() -> bytes:
    """Upsampled by 2 and by 1.5, then smoothed."""
    net = Net()
    scales = net.values(1.0, 1.0, 2.0, 1.5, dtype=numpy.float32)
    x = net.op("Resize", net.conv("image", 3, 4, 3, 2), "", scales, mode="linear")
    return net.model(net.conv(x, 4, 4, 3), image=["N", 3, "H", "W"])


def past() -> bytes:
    """One layer of attention over earlier keys and values and new ones."""
    net = Net()
    batch, steps = net.extent("x", 0), net.extent("x", 1)

    def split(x: str) -> str:
        return net.op("Transpose", net.reshape(net.linear(x, 16, 16), batch, steps, 2, 8), perm=[0, 2, 1, 3])

    k = net.op("Concat", "past_key", split("x"), axis=2)
    v = net.op("Concat", "past_value", split("x"), axis=2)
    scores = net.op("MatMul", split("x"), net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Add", scores, net.op("Unsqueeze", "mask", net.values(1, 2)))
    mixed = net.op("Transpose", net.op("MatMul", net.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = net.linear(net.reshape(mixed, batch, steps, 16), 16, 16)
    cache: Dims = ["batch", 2, "past_length", 8]
    inputs: dict[str, Dims] = {"x": ["batch", "seq", 16], "past_key": cache, "past_value": cache}
    return net.model(y, **inputs, mask=["batch", "past_length + seq"])


def total_length() -> bytes:
    """The same relation under a name of its own."""
    net = Net()
    x = net.op("Concat", "past", "x", axis=1)
    return net.model(
        net.linear(net.op("Add", x, "mask"), 8, 8), past=["b", "p", 8], x=["b", "s", 8], mask=["b", "t", 1]
    )


def positions() -> bytes:
    """A table of 48 positions of which as many are taken as there are tokens."""
    net = Net()
    zero, steps = net.values(0), net.extent("x", 1)
    table = net.op("Slice", net.weight(48, 8), zero, steps, zero)
    return net.model(net.linear(net.op("Add", "x", table), 8, 8), x=["batch", "seq", 8])


def window() -> bytes:
    """The first 150 steps at most."""
    net = Net()
    x = net.op("Slice", "x", net.values(0), net.values(150), net.values(1))
    return net.model(net.linear(net.op("Exp", x), 8, 8), x=["batch", "seq", 8])


def chunked() -> bytes:
    """Steps padded to a multiple of 16, and attention within each piece."""
    net = Net()
    batch, steps = net.extent("x", 0), net.extent("x", 1)
    more = net.op("Mod", net.op("Neg", steps), net.values(16))
    ends = net.op("Concat", net.values(0, 0, 0, 0), more, net.values(0), axis=0)
    pieces = net.op("Div", net.op("Add", steps, more), net.values(16))
    x = net.reshape(net.op("Pad", "x", ends), net.op("Mul", batch, pieces), 16, 8)
    scores = net.op("MatMul", x, net.op("Transpose", x, perm=[0, 2, 1]))
    return net.model(net.op("MatMul", net.op("Softmax", scores, axis=-1), x), x=["batch", "seq", 8])


def shuffled() -> bytes:
    """Patches of 4 by 4 moved into channels by arithmetic on shapes."""
    net = Net()
    n, h, w = (net.extent("image", axis) for axis in (0, 2, 3))
    rows, columns = (net.op("Div", extent, net.values(4)) for extent in (h, w))
    x = net.reshape("image", n, 3, rows, 4, columns, 4)
    x = net.op("Transpose", x, perm=[0, 2, 4, 1, 3, 5])
    x = net.reshape(x, n, net.op("Mul", rows, columns), 48)
    return net.model(net.linear(x, 48, 8), image=["N", 3, "H", "W"])


def mystery() -> bytes:
    """An operator that nobody knows between two known ones."""
    net = Net()
    x = net.op("Mystery", net.linear("x", 8, 8), domain="acme")
    return net.model(net.op("Relu", x), x=["batch", "seq", 8])


def closed() -> bytes:
    """A network whose sizes the file fixes."""
    net = Net()
    x = net.op("Relu", net.conv("image", 3, 8, 3, 2))
    return net.model(net.conv(x, 8, 8, 3, 2), image=[1, 3, 32, 32])


def loop() -> bytes:
    """A step that is repeated once for each token."""
    net = Net()
    inner = [helper.make_node("MatMul", ["state", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["next"])]
    inner.append(helper.make_node("Identity", ["condition"], ["again"]))
    body = helper.make_graph(
        inner,
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
        [helper.make_tensor("w", TensorProto.FLOAT, [8, 8], [0.5] * 64)],
    )
    steps = net.op("Squeeze", net.extent("tokens", 1))
    return net.model(net.op("Loop", steps, "", "x", body=body), x=["batch", 8], tokens=["batch", "seq"])


def endless() -> bytes:
    """A loop that runs as often as an input says."""
    net = Net()
    inner = [helper.make_node("Tanh", ["state"], ["next"]), helper.make_node("Identity", ["condition"], ["again"])]
    scalar = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
    ]
    states = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("state", "next")]
    again = helper.make_tensor_value_info("again", TensorProto.BOOL, [])
    body = helper.make_graph(inner, "body", [*scalar, states[0]], [again, states[1]])
    y = net.op("Loop", "count", "", "x", body=body)
    net.nodes[-1].name = "decode"
    return net.model(y, types={"count": TensorProto.INT64}, x=["batch", 8], count=[])


def branches() -> bytes:
    """One of two branches: up to 32 steps the first is the more expensive one, from there on the second."""
    net = Net()
    y = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    linear = helper.make_node("MatMul", ["x", "wide"], ["y"], name="linear")
    turned = helper.make_node("Transpose", ["x"], ["turned"], name="turn", perm=[0, 2, 1])
    square = helper.make_node("MatMul", ["x", "turned"], ["scores"], name="square")
    mixed = helper.make_node("MatMul", ["scores", "x"], ["y"], name="mixed")
    then, other = helper.make_graph([linear], "then", [], y), helper.make_graph([turned, square, mixed], "else", [], y)
    net.nodes.append(helper.make_node("Identity", [net.weight(64, 64)], ["wide"]))
    out = net.op("If", "choice", then_branch=then, else_branch=other)
    return net.model(out, types={"choice": TensorProto.BOOL}, x=["batch", "steps", 64], choice=[])
