"""Make the example models: python examples/make_models.py [FOLDER].

They are our own small architectures, written with onnx.helper alone. The weights come from a fixed sequence, so that a
second run gives the same files.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

#: Written into the files: any onnx since 1.17 can read them.
OPSET, IR_VERSION = 20, 9


class Network:
    """Nodes and weights in the order in which they are added. A name is a path of modules: ``stem/conv``."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._random = numpy.random.RandomState(0)  # its sequence is the same in every version of numpy

    def add(self, op: str, path: str, inputs: list[str], outputs: int = 1, **attributes: object) -> str:
        """One operator inside the module ``path``; the name of its first output."""
        base = f"/{path}/{op}"
        taken = sum(n.name == base or n.name.startswith(f"{base}_") for n in self.nodes)
        name = f"{base}_{taken}" if taken else base
        made = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=name, **attributes))
        return made[0]

    def weight(self, name: str, *shape: int) -> str:
        """A trained weight, uniform within ±1/sqrt(fan-in)."""
        bound = max(1, int(numpy.prod(shape[1:]))) ** -0.5 if len(shape) > 1 else 0.1
        return self.store(name, self._random.uniform(-bound, bound, shape).astype(numpy.float32))

    def store(self, name: str, values: object, dtype: type = numpy.float32) -> str:
        """A stored tensor with the given values."""
        self.weights.append(numpy_helper.from_array(numpy.asarray(values, dtype), name))
        return name

    def model(self, name: str, x: list[object], y: str, shape: list[object], *domains: str) -> ModelProto:
        """The model from input ``x`` (name, type, shape) to output ``y``, checked."""
        node = next(n for n in self.nodes if y in n.output)
        node.output[list(node.output).index(y)] = "output"
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(*x)],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
            self.weights,
        )
        imports = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(d, 1) for d in domains)]
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="flopwise examples"
        )
        checker.check_model(model)
        return model


def tiny_resnet(classes: int = 10, name: str = "tiny_resnet") -> ModelProto:
    """A residual network for 64×64 images: a stem, three stages of two blocks, a classifier for ten classes."""
    net = Network()

    def conv(path: str, x: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> str:
        weight = net.weight(f"{path}.weight".replace("/", "."), outputs, inputs, kernel, kernel)
        pads = [kernel // 2] * 4
        return net.add("Conv", path, [x, weight], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)

    def norm(path: str, x: str, channels: int) -> str:
        base = path.replace("/", ".")
        scale = net.store(f"{base}.weight", numpy.ones(channels))
        bias = net.store(f"{base}.bias", numpy.zeros(channels))
        mean = net.store(f"{base}.running_mean", numpy.zeros(channels))
        variance = net.store(f"{base}.running_var", numpy.ones(channels))
        return net.add("BatchNormalization", path, [x, scale, bias, mean, variance])

    def block(path: str, x: str, inputs: int, outputs: int, stride: int) -> str:
        y = conv(f"{path}/conv1", x, inputs, outputs, stride=stride)
        y = net.add("Relu", f"{path}/relu1", [norm(f"{path}/norm1", y, outputs)])
        y = norm(f"{path}/norm2", conv(f"{path}/conv2", y, outputs, outputs), outputs)
        if stride != 1 or inputs != outputs:
            x = conv(f"{path}/shortcut/conv", x, inputs, outputs, kernel=1, stride=stride)
            x = norm(f"{path}/shortcut/norm", x, outputs)
        return net.add("Relu", f"{path}/relu2", [net.add("Add", path, [y, x])])

    x = net.add("Relu", "stem/relu", [norm("stem/norm", conv("stem/conv", "image", 3, 8, stride=2), 8)])
    x = net.add("MaxPool", "stem/pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 8
    for stage, (wider, stride) in enumerate([(8, 1), (16, 2), (32, 2)], 1):
        for index in range(2):
            x = block(f"stage{stage}/block{index}", x, channels, wider, stride if index == 0 else 1)
            channels = wider
    x = net.add("Flatten", "head/flatten", [net.add("GlobalAveragePool", "head/pool", [x])], axis=1)
    weight, bias = net.weight("head.fc.weight", classes, channels), net.weight("head.fc.bias", classes)
    x = net.add("Softmax", "head/softmax", [net.add("Gemm", "head/fc", [x, weight, bias], transB=1)], axis=-1)
    return net.model(name, ["image", TensorProto.FLOAT, [1, 3, 64, 64]], x, [1, classes])


def tiny_resnet_20() -> ModelProto:
    """The same with a classifier for twenty classes, to be compared with it."""
    return tiny_resnet(20, "tiny_resnet_20")


def transformer_block(width: int = 40, heads: int = 4, hidden: int = 160) -> ModelProto:
    """A pre-norm transformer block with a free batch and sequence: ``batch`` × ``sequence`` × width."""
    net = Network()

    def norm(path: str, x: str) -> str:
        scale = net.store(f"{path}.weight", numpy.ones(width))
        bias = net.store(f"{path}.bias", numpy.zeros(width))
        return net.add("LayerNormalization", path, [x, scale, bias], axis=-1, epsilon=1e-5)

    def linear(path: str, x: str, inputs: int, outputs: int) -> str:
        base = path.replace("/", ".")
        weight, bias = net.weight(f"{base}.weight", inputs, outputs), net.weight(f"{base}.bias", outputs)
        return net.add("Add", path, [net.add("MatMul", path, [x, weight]), bias])

    # The shape of one head is computed in the graph from the input's shape, as exporters do.
    shape = net.add("Shape", "attention", ["hidden_states"])
    index = [net.store(f"index_{i}", i, numpy.int64) for i in range(2)]
    first = net.store("first_axis", [0], numpy.int64)
    sizes = [
        net.add("Unsqueeze", "attention", [net.add("Gather", "attention", [shape, i], axis=0), first]) for i in index
    ]
    per_head = net.store("per_head", [heads, width // heads], numpy.int64)
    all_heads = net.store("all_heads", [width], numpy.int64)
    split = net.add("Concat", "attention", [*sizes, per_head], axis=0)
    joined = net.add("Concat", "attention", [*sizes, all_heads], axis=0)

    def by_head(path: str, x: str, perm: list[int]) -> str:
        y = linear(path, x, width, width)
        return net.add("Transpose", path, [net.add("Reshape", path, [y, split])], perm=perm)

    x = norm("norm1", "hidden_states")
    query = by_head("attention/query", x, [0, 2, 1, 3])
    key = by_head("attention/key", x, [0, 2, 3, 1])
    value = by_head("attention/value", x, [0, 2, 1, 3])
    scale = net.store("attention.scale", (width // heads) ** -0.5)
    scores = net.add("Mul", "attention", [net.add("MatMul", "attention", [query, key]), scale])
    weights = net.add("Softmax", "attention", [scores], axis=-1)
    mixed = net.add("Transpose", "attention", [net.add("MatMul", "attention", [weights, value])], perm=[0, 2, 1, 3])
    mixed = net.add("Reshape", "attention", [mixed, joined])
    x = net.add("Add", "residual", ["hidden_states", linear("attention/output", mixed, width, width)])
    y = net.add("Gelu", "mlp/act", [linear("mlp/up", norm("norm2", x), width, hidden)])
    x = net.add("Add", "residual", [x, linear("mlp/down", y, hidden, width)])
    symbolic = ["batch", "sequence", width]
    return net.model("transformer_block", ["hidden_states", TensorProto.FLOAT, symbolic], x, symbolic)


def custom_op() -> ModelProto:
    """A small network with an operator that nobody but its author knows, between two that everybody does."""
    net = Network()
    hidden = net.add("Gemm", "encoder", ["features", net.weight("encoder.weight", 16, 32)])
    spline = net.add("Spline", "spline", [hidden], domain="com.example", knots=8)
    y = net.add("Gemm", "decoder", [spline, net.weight("decoder.weight", 32, 4)])
    model = net.model("custom_op", ["features", TensorProto.FLOAT, [1, 16]], y, [1, 4], "com.example")
    # Nobody can infer the shape behind an unknown operator; a file may state it.
    model.graph.value_info.append(helper.make_tensor_value_info(spline, TensorProto.FLOAT, [1, 32]))
    return model


MODELS = (tiny_resnet, tiny_resnet_20, transformer_block, custom_op)


def main(folder: Path) -> None:
    """Write the models into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        path = folder / f"{make.__name__}.onnx"
        path.write_bytes(make().SerializeToString(deterministic=True))
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
