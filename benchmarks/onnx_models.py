"""Make the ONNX models that the benchmark reads: python benchmarks/onnx_models.py FOLDER NAME...

Real architectures with weights inside the file. Each graph is small and made with onnx.helper; the weights are streamed
behind it in protobuf's wire format, because protobuf itself can write no file above 2 GB.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto, helper, shape_inference

#: Bytes of one write of random weights.
BLOCK = 1 << 24

#: Field numbers of onnx.proto with the wire type for bytes.
MODEL_GRAPH, GRAPH_INITIALIZER, TENSOR_RAW_DATA = (7 << 3) | 2, (5 << 3) | 2, (9 << 3) | 2


@dataclass
class Network:
    """Nodes in order, weights that are declared but not there, and the small integers that steer shapes."""

    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    settings: list[TensorProto] = field(default_factory=list)

    def add(self, op: str, name: str, inputs: list[str], **attributes: object) -> str:
        """One operator; the name of its output."""
        self.nodes.append(helper.make_node(op, inputs, [f"{name}:0"], name=name, **attributes))
        return f"{name}:0"

    def weight(self, name: str, *shape: int) -> str:
        """A float32 weight without its values."""
        self.weights.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape))
        return name

    def integers(self, name: str, *values: int) -> str:
        """A stored list of integers."""
        self.settings.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def model(self, name: str, x: tuple[str, int, list[int]], output: str) -> ModelProto:
        """The model without its weights; what is stored comes last in the file."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(*x)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.settings,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def resnet50(width: int, folded: bool) -> tuple[ModelProto, list[TensorProto]]:
    """ResNet-50 with ``width`` channels in the stem (64 in the publication).

    Batch norms are folded into a bias of the convolution before them, as PyTorch's exporters do, or are there.
    """
    net = Network()

    def conv(name: str, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        parts = [x, net.weight(f"{name}.weight", outputs, inputs, kernel, kernel)]
        parts += [net.weight(f"{name}.bias", outputs)] if folded else []
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        x = net.add("Conv", f"{name}/Conv", parts, **sizes)
        if folded:
            return x
        statistics = [net.weight(f"{name}.norm.{part}", outputs) for part in ("scale", "bias", "mean", "var")]
        return net.add("BatchNormalization", f"{name}/BatchNormalization", [x, *statistics])

    def relu(name: str, x: str) -> str:
        return net.add("Relu", f"{name}/Relu", [x])

    x = relu("/stem", conv("/stem", "image", 3, width, 7, 2))
    x = net.add("MaxPool", "/stem/MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = width << stage
        for block in range(blocks):
            path = f"/layer{stage + 1}/layer{stage + 1}.{block}"
            stride = 2 if stage and not block else 1
            y = relu(f"{path}/relu1", conv(f"{path}/conv1", x, channels, inner, 1))
            y = relu(f"{path}/relu2", conv(f"{path}/conv2", y, inner, inner, 3, stride))
            y = conv(f"{path}/conv3", y, inner, 4 * inner, 1)
            if not block:
                x = conv(f"{path}/downsample", x, channels, 4 * inner, 1, stride)
            x = relu(path, net.add("Add", f"{path}/Add", [y, x]))
            channels = 4 * inner
    x = net.add("Flatten", "/Flatten", [net.add("GlobalAveragePool", "/avgpool/GlobalAveragePool", [x])])
    weights = [net.weight("fc.weight", 1000, channels), net.weight("fc.bias", 1000)]
    x = net.add("Gemm", "/fc/Gemm", [x, *weights], transB=1)
    return net.model("resnet50", ("image", TensorProto.FLOAT, [1, 3, 224, 224]), x), net.weights


def transformer(width: int, layers: int = 24, heads: int = 16) -> tuple[ModelProto, list[TensorProto]]:
    """A pre-norm encoder over 512 tokens of a vocabulary of 30522, its inner layers four times the width."""
    vocabulary, length = 30522, 512
    net = Network()

    def norm(name: str, x: str) -> str:
        weights = [net.weight(f"{name}.weight", width), net.weight(f"{name}.bias", width)]
        return net.add("LayerNormalization", f"{name}/LayerNormalization", [x, *weights])

    def linear(name: str, x: str, inputs: int, outputs: int) -> str:
        x = net.add("MatMul", f"{name}/MatMul", [x, net.weight(f"{name}.weight", inputs, outputs)])
        return net.add("Add", f"{name}/Add", [x, net.weight(f"{name}.bias", outputs)])

    split, joined = net.integers("split", 1, length, heads, width // heads), net.integers("joined", 1, length, width)
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [(width // heads) ** -0.5])
    net.settings.append(scale)
    x = net.add("Gather", "/embed/Gather", [net.weight("embed.weight", vocabulary, width), "tokens"])
    x = net.add("Add", "/embed/Add", [x, net.weight("embed.position", length, width)])
    for layer in range(layers):
        path = f"/layers.{layer}"
        y, parts = norm(f"{path}/norm1", x), []
        for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            name = f"{path}/attention/{part}"
            z = net.add("Reshape", f"{name}/Reshape", [linear(name, y, width, width), split])
            parts.append(net.add("Transpose", f"{name}/Transpose", [z], perm=perm))
        scores = net.add("MatMul", f"{path}/attention/MatMul", parts[:2])
        scores = net.add("Mul", f"{path}/attention/Mul", [scores, "scale"])
        scores = net.add("Softmax", f"{path}/attention/Softmax", [scores])
        z = net.add("MatMul", f"{path}/attention/MatMul_1", [scores, parts[2]])
        z = net.add("Transpose", f"{path}/attention/Transpose", [z], perm=[0, 2, 1, 3])
        z = net.add("Reshape", f"{path}/attention/Reshape", [z, joined])
        x = net.add("Add", f"{path}/Add", [x, linear(f"{path}/attention/out", z, width, width)])
        y = linear(f"{path}/mlp/up", norm(f"{path}/norm2", x), width, 4 * width)
        y = linear(f"{path}/mlp/down", net.add("Gelu", f"{path}/mlp/Gelu", [y]), 4 * width, width)
        x = net.add("Add", f"{path}/Add_1", [x, y])
    x = norm("/norm", x)
    return net.model("transformer", ("tokens", TensorProto.INT64, [1, length]), x), net.weights


#: Name -> how to make the graph, and whether the weights are a hole in the file (which takes no room on the disk)
#: instead of random bytes. What ends in x10 has ten times the weights, in wider layers.
MODELS: dict[str, tuple[Callable[[], tuple[ModelProto, list[TensorProto]]], bool]] = {
    "resnet50": (lambda: resnet50(64, folded=True), False),
    "resnet50-x10": (lambda: resnet50(208, folded=True), False),
    "resnet50-norms": (lambda: resnet50(64, folded=False), False),
    "transformer": (lambda: transformer(1024), False),
    "transformer-x10": (lambda: transformer(3328), True),
}


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def pieces(model: ModelProto, weights: list[TensorProto]) -> Iterator[bytes | int]:
    """The file in order: bytes as they are, and for each weight the number of bytes of its values.

    The graph's own fields come first, then one initialiser after the other, as protobuf may merge them.
    """
    graph = model.graph.SerializeToString()
    rest = ModelProto()
    rest.CopyFrom(model)
    rest.ClearField("graph")
    stored: list[tuple[bytes, int]] = []
    length = len(graph)
    for tensor in weights:
        size = 4 * math.prod(tensor.dims)
        head = tensor.SerializeToString() + varint(TENSOR_RAW_DATA) + varint(size)
        head = varint(GRAPH_INITIALIZER) + varint(len(head) + size) + head
        stored.append((head, size))
        length += len(head) + size
    yield rest.SerializeToString() + varint(MODEL_GRAPH) + varint(length) + graph
    for head, size in stored:
        yield head
        yield size


def write(name: str, folder: Path) -> None:
    """``NAME.onnx``, and ``NAME.graph.onnx`` without the weights but with every shape known."""
    make, sparse = MODELS[name]
    model, weights = make()
    block = random.Random(0).randbytes(BLOCK)
    draft = folder / f"{name}.draft"
    with draft.open("wb") as file:
        for piece in pieces(model, weights):
            if isinstance(piece, bytes):
                file.write(piece)
            elif sparse:
                file.seek(piece, 1)
                file.truncate()
            else:
                for start in range(0, piece, BLOCK):
                    file.write(block[: min(BLOCK, piece - start)])
    model.graph.initializer.extend(weights)
    inferred = shape_inference.infer_shapes(model, strict_mode=True)
    assert len(inferred.graph.value_info) + len(model.graph.output) == len(model.graph.node)
    (folder / f"{name}.graph.onnx").write_bytes(model.SerializeToString())
    draft.rename(folder / f"{name}.onnx")


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        write(chosen, Path(sys.argv[1]))
