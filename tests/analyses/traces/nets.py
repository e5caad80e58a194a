"""Small networks in ONNX, named as PyTorch's exporter names them, and what onnxruntime records of them."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from flopwise.profiles.profile import Profile

LEVELS = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}


class Net:
    """A network that grows node by node; random weights."""

    def __init__(self, prefix: str = "", **inputs: Sequence[int]) -> None:
        self._prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._inputs = inputs
        self._numbers: Counter[str] = Counter()
        self._random = np.random.default_rng(0)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """The first result of a new node; the others are called after it."""
        result = self._fresh(op.lower())
        others = [f"{result}.{number}" for number in range(1, outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), [result, *others], name=f"node_{result}", **attributes))
        return result

    def weight(self, *shape: int) -> str:
        """A stored tensor of small random numbers."""
        return self.constant(self._random.standard_normal(shape).astype(np.float32) * 0.1)

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A stored tensor."""
        name = self._fresh("weight")
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def model(self, output: str) -> onnx.ModelProto:
        """The network as a model with one result."""
        infos = [
            helper.make_tensor_value_info(name, TensorProto.INT64 if name == "tokens" else TensorProto.FLOAT, shape)
            for name, shape in self._inputs.items()
        ]
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", infos, [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def conv(self, x: str, into: int, out: int, kernel: int = 3, group: int = 1, **attributes: Any) -> str:
        """A convolution that keeps the size."""
        weights = self.weight(out, into // group, kernel, kernel), self.weight(out)
        return self.add("Conv", x, *weights, pads=[kernel // 2] * 4, group=group, **attributes)

    def norm(self, x: str, width: int) -> str:
        """A layer norm."""
        return self.add("LayerNormalization", x, self.weight(width), self.weight(width))

    def linear(self, x: str, into: int, out: int) -> str:
        """A matrix product and a bias."""
        return self.add("Add", self.add("MatMul", x, self.weight(into, out)), self.weight(out))

    def silu(self, x: str) -> str:
        """x times its sigmoid."""
        return self.add("Mul", x, self.add("Sigmoid", x))

    def gelu(self, x: str) -> str:
        """Gelu by its definition."""
        e = self.add("Erf", self.add("Div", x, self.constant(2**0.5, np.float32)))
        product = self.add("Mul", x, self.add("Add", e, self.constant(1, np.float32)))
        return self.add("Mul", product, self.constant(0.5, np.float32))

    def attention(self, x: str, length: int, width: int, heads: int, mask: str = "") -> str:
        """Self-attention as exporters write it out."""
        parts = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            shape = self.constant([1, length, heads, width // heads])
            parts.append(self.add("Transpose", self.add("Reshape", self.linear(x, width, width), shape), perm=order))
        scores = self.add("Mul", self.add("MatMul", parts[0], parts[1]), self.constant(0.25, np.float32))
        scores = self.add("Add", scores, mask) if mask else scores
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), parts[2])
        joined = self.add("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.linear(self.add("Reshape", joined, self.constant([1, length, width])), width, width)

    def block(self, x: str, length: int, width: int, mask: str = "") -> str:
        """A layer of a transformer, norms first."""
        x = self.add("Add", x, self.attention(self.norm(x, width), length, width, 4, mask))
        hidden = self.gelu(self.linear(self.norm(x, width), width, 4 * width))
        return self.add("Add", x, self.linear(hidden, 4 * width, width))

    def _fresh(self, name: str) -> str:
        self._numbers[name] += 1
        return f"{self._prefix}{name}_{self._numbers[name]}"


def cnn(batch: int = 1, size: int = 32) -> onnx.ModelProto:
    """Convolutions with norms, one of them depthwise, and a classifier."""
    net = Net(x=(batch, 3, size, size))
    x = "x"
    for into, out, group in ((3, 16, 1), (16, 32, 1), (32, 32, 32), (32, 24, 1)):
        x = net.conv(x, into, out, group=group)
        statistics = [net.weight(out), net.weight(out), net.weight(out), net.constant(np.ones(out, np.float32))]
        x = net.add("Relu", net.add("BatchNormalization", x, *statistics))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(net.add("Gemm", x, net.weight(10, 24), net.weight(10), transB=1))


def residual(batch: int = 1) -> onnx.ModelProto:
    """Two bottlenecks with their sums."""
    net = Net(x=(batch, 3, 32, 32))
    x = net.add("Relu", net.conv("x", 3, 32, 3, strides=[2, 2]))
    for _ in range(2):
        y = net.add("Relu", net.conv(x, 32, 16, 1))
        y = net.add("Relu", net.conv(y, 16, 16, 3))
        x = net.add("Relu", net.add("Add", net.conv(y, 16, 32, 1), x))
    return net.model(net.add("GlobalAveragePool", x))


def dense() -> onnx.ModelProto:
    """Layers that each take what all before them made, normalised first."""
    net = Net(x=(1, 3, 40, 40))
    x = net.add("MaxPool", net.add("Relu", net.conv("x", 3, 24, 5)), kernel_shape=[2, 2], strides=[2, 2])
    for channels in (24, 40):
        scale, bias, mean, variance = (net.constant(np.full(channels, 0.5), np.float32) for _ in range(4))
        y = net.add("Relu", net.add("BatchNormalization", x, scale, bias, mean, variance))
        x = net.add("Concat", x, net.conv(y, channels, 16, 3), axis=1)
    return net.model(net.add("GlobalAveragePool", x))


def vit() -> onnx.ModelProto:
    """Patches, two layers of a transformer, a classifier."""
    net = Net(x=(1, 3, 32, 32))
    patches = net.add("Conv", "x", net.weight(64, 3, 8, 8), net.weight(64), strides=[8, 8])
    x = net.add("Transpose", net.add("Reshape", patches, net.constant([1, 64, 16])), perm=[0, 2, 1])
    x = net.add("Add", x, net.weight(1, 16, 64))
    for _ in range(2):
        x = net.block(x, 16, 64)
    x = net.add("Gather", net.norm(x, 64), net.constant(0), axis=1)
    return net.model(net.add("Gemm", x, net.weight(64, 10), net.weight(10)))


def bert() -> onnx.ModelProto:
    """Tokens and two layers with a mask that is made of the tokens."""
    net = Net(tokens=(1, 24))
    x = net.norm(net.add("Gather", net.weight(100, 64), "tokens"), 64)
    kept = net.add("Greater", "tokens", net.constant(3))
    low = net.add("Where", kept, net.constant(0, np.float32), net.constant(-1e4, np.float32))
    mask = net.add("Unsqueeze", low, net.constant([1, 2]))
    for _ in range(2):
        x = net.block(x, 24, 64, mask)
    return net.model(x)


def yolo() -> onnx.ModelProto:
    """Stages with splits, pooling pyramids, an enlargement and joints."""
    net = Net(x=(1, 3, 48, 48))
    early = net.silu(net.conv("x", 3, 16))
    half = net.add("Split", early, net.constant([8, 8]), axis=1, outputs=2)
    inner = net.add("Add", f"{half}.1", net.silu(net.conv(f"{half}.1", 8, 8)))
    x = net.silu(net.conv(net.add("Concat", half, f"{half}.1", inner, axis=1), 24, 16, 1))
    deep = net.silu(net.conv(x, 16, 32, 3, strides=[2, 2]))
    pooled = [deep]
    for _ in range(3):
        pooled.append(net.add("MaxPool", pooled[-1], kernel_shape=[5, 5], pads=[2] * 4))
    deep = net.silu(net.conv(net.add("Concat", *pooled, axis=1), 128, 32, 1))
    scales = net.constant([1, 1, 2, 2], np.float32)
    up = net.add(
        "Resize", deep, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    head = net.conv(net.silu(net.conv(net.add("Concat", up, x, axis=1), 48, 32)), 32, 20, 1)
    flat = net.add("Reshape", head, net.constant([1, 20, 2304]))
    box = net.add("Split", flat, net.constant([4, 16]), axis=1, outputs=2)
    scaled = net.add("Mul", net.add("Sigmoid", box), net.constant(32, np.float32))
    return net.model(net.add("Concat", scaled, net.add("Sigmoid", f"{box}.1"), axis=1))


def shuffle() -> onnx.ModelProto:
    """Units as ShuffleNet V2 has them, of widths that fill blocks of 8 channels, of 16, or neither."""
    net = Net(x=(1, 3, 56, 56))
    x, width = net.add("Relu", net.conv("x", 3, 24, 3, strides=[2, 2])), 24
    for half, stride in ((20, 2), (20, 1), (36, 2), (36, 1)):
        both, into = [x, x], width
        if stride == 1:
            first = net.add("Split", x, net.constant([half, half]), axis=1, outputs=2)
            both, into = [first, f"{first}.1"], half
        y = net.add("Relu", net.conv(both[1], into, half, 1))
        y = net.conv(y, half, half, 3, half, strides=[stride] * 2)
        y = net.add("Relu", net.conv(y, half, half, 1))
        if stride == 2:
            both[0] = net.conv(both[0], into, into, 3, into, strides=[2, 2])
            both[0] = net.add("Relu", net.conv(both[0], into, half, 1))
        x, width, size = net.add("Concat", both[0], y, axis=1), 2 * half, 14 if half == 20 else 7
        pairs = net.add("Reshape", x, net.constant([1, 2, half, size, size]))
        x = net.add("Transpose", pairs, perm=[0, 2, 1, 3, 4])
        x = net.add("Reshape", x, net.constant([1, width, size, size]))
    x = net.add("Relu", net.conv(x, width, 100, 1))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(net.add("Gemm", x, net.weight(10, 100), net.weight(10), transB=1))


def lstm() -> onnx.ModelProto:
    """Tokens, a recurrent layer in both directions whose weights are put together of slices, a classifier."""
    net = Net(tokens=(1, 20))
    x = net.add("Transpose", net.add("Gather", net.weight(100, 32), "tokens"), perm=[1, 0, 2])
    weights = []
    for width in (32, 48):
        whole = net.weight(1, 192, width)
        turned = [
            net.add("Slice", whole, net.constant([first]), net.constant([last]), net.constant([1]))
            for first, last in ((48, 192), (0, 48))
        ]
        weights.append(net.add("Concat", *[net.add("Concat", *turned, axis=1)] * 2, axis=0))
    y = net.add("LSTM", x, *weights, hidden_size=48, direction="bidirectional")
    y = net.add("Reshape", net.add("Transpose", y, perm=[2, 0, 1, 3]), net.constant([1, 20, 96]))
    return net.model(net.add("Softmax", net.linear(y, 96, 10), axis=-1))


def quantised() -> onnx.ModelProto:
    """Two convolutions and a product whose operands are quantised and dequantised before each."""
    net = Net(x=(1, 3, 16, 16))
    step, zero = net.constant(0.05, np.float32), net.constant(0, np.int8)
    random = np.random.default_rng(1)

    def through(x: str) -> str:
        return net.add("DequantizeLinear", net.add("QuantizeLinear", x, step, zero), step, zero)

    def stored(*shape: int) -> str:
        return net.add("DequantizeLinear", net.constant(random.integers(-9, 9, shape), np.int8), step, zero)

    x = through("x")
    for into, out in ((3, 16), (16, 24)):
        x = through(net.add("Relu", net.add("Conv", x, stored(out, into, 3, 3), pads=[1] * 4)))
    x = through(net.add("Flatten", through(net.add("GlobalAveragePool", x))))
    return net.model(through(net.add("MatMul", x, stored(24, 10))))


def looped() -> onnx.ModelProto:
    """A loop of five rounds over a product, behind another product."""
    net, body = Net(x=(32, 64)), Net(prefix="inner_")
    x = net.add("MatMul", "x", net.weight(64, 64))
    y = body.add("Tanh", body.add("MatMul", "state", body.weight(64, 64)))
    going = body.add("Identity", "going")
    infos = [
        helper.make_tensor_value_info(n, t, []) for n, t in (("round", TensorProto.INT64), ("going", TensorProto.BOOL))
    ]
    state = helper.make_tensor_value_info("state", TensorProto.FLOAT, [32, 64])
    results = [
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(y, TensorProto.FLOAT, [32, 64]),
    ]
    graph = helper.make_graph(body.nodes, "body", [*infos, state], results, body.weights)
    return net.model(net.add("Loop", net.constant(5), "", x, body=graph))


NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "cnn": cnn,
    "residual": residual,
    "dense": dense,
    "vit": vit,
    "bert": bert,
    "yolo": yolo,
    "shuffle": shuffle,
    "lstm": lstm,
}


def recorded(model: onnx.ModelProto, folder: Path, level: str = "all", parallel: bool = False, runs: int = 3) -> Path:
    """The profile that onnxruntime writes of some runs of a model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.intra_op_num_threads = options.inter_op_num_threads = 2 if parallel else 1
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL if parallel else ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{LEVELS[level]}")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    feeds = {
        each.name: random.integers(0, 100, each.shape) if "int" in each.type else random.random(each.shape, np.float32)
        for each in session.get_inputs()
    }
    for _ in range(runs):
        session.run(None, feeds)
    return Path(session.end_profiling())


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a profile, decoded at once."""
    read: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return read


def made_up(counted: Profile) -> str:
    """A profile as onnxruntime writes it, of one run of a model, each of whose nodes took 10 µs."""
    run = {"cat": "Session", "ph": "X", "pid": 1, "tid": 1, "dur": 10 * len(counted.rows) + 20, "ts": 0}
    nodes: list[dict[str, Any]] = []
    for number, row in enumerate(counted.rows):
        seen, made = ([{"float": list(t.dims)} for t in ts] for ts in (row.node.known_inputs, row.node.known_outputs))
        args = {"op_name": row.node.op, "input_type_shape": seen, "output_type_shape": made}
        times = {"ts": 10 + 10 * number, "dur": 10}
        nodes.append({**run, **times, "cat": "Node", "name": f"{row.node.name}_kernel_time", "args": args})
    return json.dumps([*nodes, {**run, "name": "model_run", "args": {}}])


if __name__ == "__main__":
    # What onnxruntime records on this processor at level all: ``python -m tests.analyses.traces.nets avx512.json.gz``;
    # on a lesser one: ``qemu-x86_64 -cpu Haswell python -m tests.analyses.traces.nets avx2.json.gz``.
    with tempfile.TemporaryDirectory() as folder, gzip.open(sys.argv[1], "wt", encoding="utf-8") as file:
        json.dump({name: events(recorded(model(), Path(folder), runs=1)) for name, model in NETS.items()}, file)
