"""Caffe networks made by hand, layer by layer, as the reader hands them over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.graph import Graph, Node, Shape, Tensor


class Net:
    """A chain of layers; each takes what the last one gave, unless told otherwise."""

    def __init__(self, name: str, *shape: int) -> None:
        self.name = name
        self.top = self.data = Tensor("data", shape, "float32", "input")
        self.nodes: list[Node] = []

    def add(
        self,
        op: str,
        name: str,
        shape: Sequence[int] | None = None,
        weights: Sequence[Tensor] = (),
        origin: str = "",
        bottoms: Sequence[Tensor] | None = None,
        **attrs: Any,
    ) -> Tensor:
        """A layer with a result of that shape, or of its bottom's."""
        taken = tuple(bottoms or (self.top,))
        self.top = Tensor(f"{name}/top", tuple(shape or taken[0].dims), "float32")
        self.nodes.append(Node(op, name, (*taken, *weights), (self.top,), attrs, origin=origin or op))
        return self.top

    def weight(self, name: str, *shape: int, kind: Any = "weight") -> Tensor:
        return Tensor(name, shape, "float32", kind)

    def conv(
        self, name: str, outputs: int, kernel: int, stride: int = 1, pad: int = 0, group: int = 1, bias: bool = True
    ) -> Tensor:
        """A square convolution."""
        batch, channels, *spatial = self.top.dims
        sides = [(int(i) + 2 * pad - kernel) // stride + 1 for i in spatial]
        weights = [self.weight(f"{name}/weight", outputs, int(channels) // group, kernel, kernel)]
        weights += [self.weight(f"{name}/bias", outputs)] * bias
        return self.add("Conv", name, [int(batch), outputs, *sides], weights, "Convolution", group=group)

    def pool(self, name: str, kernel: int, stride: int, op: str = "MaxPool") -> Tensor:
        """Pooling without padding, rounded up."""
        batch, channels, *spatial = map(int, self.top.dims)
        sides = [-(-(i - kernel) // stride) + 1 for i in spatial]
        attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        return self.add(op, name, [batch, channels, *sides], origin="Pooling", **attrs)

    def fully(self, name: str, outputs: int) -> Tensor:
        """An inner product with a bias."""
        batch, *rest = map(int, self.top.dims)
        inner = Tensor(self.top.name, (batch, product(rest)), "float32")
        weights = [self.weight(f"{name}/weight", outputs, product(rest)), self.weight(f"{name}/bias", outputs)]
        return self.add("Gemm", name, [batch, outputs], weights, "InnerProduct", [inner], transB=1)

    def relu(self, name: str) -> Tensor:
        return self.add("Relu", name, origin="ReLU")

    def graph(self) -> Graph:
        return Graph(self.name, "caffe", "", (self.data,), (self.top,), tuple(self.nodes), caffe=True)


def product(dims: Shape | Sequence[int]) -> int:
    result = 1
    for dim in dims:
        result *= int(dim)
    return result


#: What the per-layer Caffe script prints of AlexNet's layers. Its columns are 16, 16, 8 and 12 wide; the first is one
#: wider than the longest name, of 8 letters at least.
ALEXNET_LINES = """\
layer name Filter Shape     Output Size      Params   Flops        Ratio
conv1     (96, 3, 11, 11)  (1, 96, 55, 55)  34848    105415200    14.552
conv2     (256, 48, 5, 5)  (1, 256, 27, 27) 307200   223948800    30.915
conv3     (384, 256, 3, 3) (1, 384, 13, 13) 884736   149520384    20.64
conv4     (384, 192, 3, 3) (1, 384, 13, 13) 663552   112140288    15.48
conv5     (256, 192, 3, 3) (1, 256, 13, 13) 442368   74760192     10.32
fc6       (4096, 9216)     (1, 4096)        37748736 37748736     5.211
fc7       (4096, 4096)     (1, 4096)        16777216 16777216     2.316
fc8       (1000, 4096)     (1, 1000)        4096000  4096000      0.565
"""

#: The same table, and the sums below it, as flopwise shows them, with single spaces.
ALEXNET_TABLE = [
    *(" ".join(line.split()) for line in ALEXNET_LINES.splitlines()),
    "Layers num 8",
    "Total number of parameters 60954656",
    "Total number of FLOPs 724406816",
]


def alexnet(batch: int = 1, side: int = 227, lrn: bool = True) -> Graph:
    """AlexNet with its two groups."""
    net = Net("AlexNet", batch, 3, side, side)
    for i, (outputs, kernel, stride, pad, group) in enumerate(
        [(96, 11, 4, 0, 1), (256, 5, 1, 2, 2), (384, 3, 1, 1, 1), (384, 3, 1, 1, 2), (256, 3, 1, 1, 2)], start=1
    ):
        net.conv(f"conv{i}", outputs, kernel, stride, pad, group)
        net.relu(f"relu{i}")
        if lrn and i < 3:
            net.add("LRN", f"norm{i}", size=5)
        if i in (1, 2, 5):
            net.pool(f"pool{i}", 3, 2)
    return _classified(net)


def _classified(net: Net) -> Graph:
    """The network with the three fully connected layers of AlexNet and VGG at its end."""
    for i, outputs in ((6, 4096), (7, 4096), (8, 1000)):
        net.fully(f"fc{i}", outputs)
        if i < 8:
            net.relu(f"relu{i}")
            net.add("Dropout", f"drop{i}")
    net.add("Softmax", "prob", axis=1)
    return net.graph()


def vgg16(batch: int = 1) -> Graph:
    """VGG-16 on images of 224 by 224."""
    net = Net("VGG-16", batch, 3, 224, 224)
    for block, (outputs, layers) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], start=1):
        for i in range(1, layers + 1):
            net.conv(f"conv{block}_{i}", outputs, 3, pad=1)
            net.relu(f"relu{block}_{i}")
        net.pool(f"pool{block}", 2, 2)
    return _classified(net)
