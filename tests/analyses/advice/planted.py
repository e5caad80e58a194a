"""Networks of five families with a fault in their middle, and the same networks without it.

A family is what stands before a tensor ``h`` and behind a tensor ``g``; a fault is how ``h`` becomes ``g``. What a
fault costs is written down here by hand: ``n`` elements of ``h``, ``w`` along its last axis, four bytes each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Spec = tuple[str, str, str, dict[str, Any]]


@dataclass
class Network:
    """Operators in order, with stored tensors and inputs."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def add(self, op: str, inputs: str, output: str, **attributes: Any) -> None:
        """Append an operator that is named after its first result."""
        names = [name if name != "_" else "" for name in inputs.split()]
        outputs = output.split()
        self.nodes.append(helper.make_node(op, names, outputs, name=outputs[0], **attributes))

    def weight(self, name: str, *shape: int, values: Sequence[float] | None = None, dtype: Any = np.float32) -> str:
        """A stored tensor."""
        random = np.random.default_rng(len(self.weights))
        array = random.standard_normal(shape) * 0.3 if values is None else np.array(values).reshape(shape)
        self.weights[name] = array.astype(dtype)
        return name

    def model(self, output: str = "y", opset: int = 20) -> onnx.ModelProto:
        """The model in ONNX."""
        inputs = [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in self.inputs.items()]
        outputs = [helper.make_empty_tensor_value_info(output)]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "planted", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


@dataclass(frozen=True)
class Family:
    """What stands around a fault."""

    name: str
    shape: tuple[int, ...]
    before: Callable[[Network], None]
    behind: Callable[[Network], None]

    @property
    def n(self) -> int:
        return math.prod(self.shape)

    @property
    def w(self) -> int:
        return self.shape[-1]


def _cnn(net: Network) -> None:
    net.inputs["x"] = TensorProto.FLOAT, (1, 3, 16, 16)
    net.add("Conv", f"x {net.weight('c1', 16, 3, 3, 3)}", "a", pads=[1, 1, 1, 1], strides=[2, 2])
    net.add("Relu", "a", "h")


def _cnn_end(net: Network) -> None:
    net.add("Conv", f"g {net.weight('c2', 24, 16, 3, 3)}", "b")
    net.add("GlobalAveragePool", "b", "y")


def _decoder(net: Network) -> None:
    net.inputs["x"] = TensorProto.FLOAT, (1, 4, 8, 8)
    net.add("ConvTranspose", f"x {net.weight('up', 4, 8, 2, 2)}", "a", strides=[2, 2])
    net.add("LeakyRelu", "a", "h")


def _decoder_end(net: Network) -> None:
    net.add("Conv", f"g {net.weight('c2', 2, 8, 3, 3)}", "b", pads=[1, 1, 1, 1])
    net.add("Softmax", "b", "y", axis=1)


def _transformer(net: Network) -> None:
    net.inputs["x"] = TensorProto.FLOAT, (1, 12, 32)
    for name in "qkv":
        net.add("MatMul", f"x {net.weight('w' + name, 32, 32)}", name)
    net.add("Transpose", "k", "kt", perm=[0, 2, 1])
    net.add("MatMul", "q kt", "scores")
    net.add("Softmax", "scores", "p")
    net.add("MatMul", "p v", "h")


def _transformer_end(net: Network) -> None:
    net.add("MatMul", f"g {net.weight('wo', 32, 32)}", "o")
    net.add("Add", "o x", "y")


def _recurrent(net: Network) -> None:
    net.inputs["x"] = TensorProto.FLOAT, (6, 1, 20)
    net.add("LSTM", f"x {net.weight('lw', 1, 96, 20)} {net.weight('lr', 1, 96, 24)}", "l", hidden_size=24)
    net.add("Squeeze", f"l {net.weight('axes', 1, values=[1], dtype=np.int64)}", "h")


def _recurrent_end(net: Network) -> None:
    net.add("MatMul", f"g {net.weight('out', 24, 10)}", "y")


def _mlp(net: Network) -> None:
    net.inputs["x"] = TensorProto.FLOAT, (4, 40)
    net.add("Gemm", f"x {net.weight('w1', 40, 64)} {net.weight('b1', 64)}", "a")
    net.add("Tanh", "a", "h")


def _mlp_end(net: Network) -> None:
    net.add("Gemm", f"g {net.weight('w2', 64, 12)} {net.weight('b2', 12)}", "y")


FAMILIES = {
    family.name: family
    for family in (
        Family("cnn", (1, 16, 8, 8), _cnn, _cnn_end),
        Family("decoder", (1, 8, 16, 16), _decoder, _decoder_end),
        Family("transformer", (1, 12, 32), _transformer, _transformer_end),
        Family("recurrent", (6, 1, 24), _recurrent, _recurrent_end),
        Family("mlp", (4, 64), _mlp, _mlp_end),
    )
}


@dataclass(frozen=True)
class Fault:
    """A fault in a family: how ``h`` becomes ``g`` with it and without, and what the advice says."""

    name: str
    family: Family
    rule: str
    #: Names of the operators that go.
    layers: tuple[str, ...]
    macs: int
    nbytes: int
    flawed: Callable[[Network, Family], None]
    repaired: Callable[[Network, Family], None]

    def model(self, repaired: bool = False) -> onnx.ModelProto:
        """The network with the fault, or repaired."""
        return self._network(repaired).model()

    def weights(self, name: str) -> np.ndarray:
        """The elements of a stored tensor of the network with the fault."""
        return self._network(False).weights[name]

    def _network(self, repaired: bool) -> Network:
        net = Network()
        self.family.before(net)
        (self.repaired if repaired else self.flawed)(net, self.family)
        self.family.behind(net)
        return net


def _as_it_is(net: Network, f: Family) -> None:
    net.add("Identity", "h", "g")


def _dead(net: Network, f: Family) -> None:
    net.add("Exp", "h", "d1")
    net.add("Sigmoid", "d1", "d2")
    net.add("Identity", "h", "g")


def _dead_product(net: Network, f: Family) -> None:
    net.add("MatMul", f"h {net.weight('dw', f.w, 10)}", "d")
    net.add("Identity", "h", "g")


def _twice(net: Network, f: Family) -> None:
    net.add("Sigmoid", "h", "s1")
    net.add("Sigmoid", "h", "s2")
    net.add("Mul", "s1 s2", "g")


def _once(net: Network, f: Family) -> None:
    net.add("Sigmoid", "h", "s1")
    net.add("Mul", "s1 s1", "g")


def _products(net: Network, f: Family) -> None:
    net.add("MatMul", f"h {net.weight('rw', f.w, f.w)}", "m1")
    net.add("MatMul", "h rw", "m2")
    net.add("Add", "m1 m2", "g")


def _product(net: Network, f: Family) -> None:
    net.add("MatMul", f"h {net.weight('rw', f.w, f.w)}", "m1")
    net.add("Add", "m1 m1", "g")


def _scaled_weight(net: Network, f: Family) -> None:
    net.add("Mul", f"{net.weight('cw', f.w, f.w)} {net.weight('cs', f.w, f.w)}", "scaled")
    net.add("MatMul", "h scaled", "g")


def _product_of_weights(net: Network, f: Family) -> None:
    net.add("MatMul", f"{net.weight('cw', f.w, f.w)} {net.weight('cs', f.w, f.w)}", "merged")
    net.add("MatMul", "h merged", "g")


def _stored_weight(net: Network, f: Family) -> None:
    net.add("MatMul", f"h {net.weight('cw', f.w, f.w)}", "g")


def _casts(net: Network, f: Family) -> None:
    net.add("Cast", "h", "half", to=TensorProto.FLOAT16)
    net.add("Cast", "half", "g", to=TensorProto.FLOAT)


def _casts_around(net: Network, f: Family) -> None:
    net.add("Cast", "h", "half", to=TensorProto.FLOAT16)
    net.add("Reshape", f"half {net.weight('flat', 1, values=[-1], dtype=np.int64)}", "r")
    net.add("Cast", "r", "back", to=TensorProto.FLOAT)
    _shaped(net, f, "back")


def _no_casts_around(net: Network, f: Family) -> None:
    net.add("Reshape", f"h {net.weight('flat', 1, values=[-1], dtype=np.int64)}", "r")
    _shaped(net, f, "r")


def _shaped(net: Network, f: Family, name: str) -> None:
    shape = net.weight("shape", len(f.shape), values=f.shape, dtype=np.int64)
    net.add("Sqrt", name, "root")
    net.add("Reshape", f"root {shape}", "g")


def _there_and_back(net: Network, f: Family) -> None:
    perm = [*range(len(f.shape))][::-1]
    net.add("Transpose", "h", "t1", perm=perm)
    net.add("Transpose", "t1", "g", perm=perm)


def _around_relu(net: Network, f: Family) -> None:
    perm = [*range(len(f.shape))][::-1]
    net.add("Transpose", "h", "t1", perm=perm)
    net.add("Relu", "t1", "r")
    net.add("Transpose", "r", "g", perm=perm)


def _relu(net: Network, f: Family) -> None:
    net.add("Relu", "h", "g")


def _two_turns(net: Network, f: Family) -> None:
    net.add("Transpose", "h", "t1", perm=[1, 2, 0])
    net.add("Transpose", "t1", "t2", perm=[1, 2, 0])
    net.add("Exp", "t2", "e")
    net.add("Transpose", "e", "g", perm=[1, 2, 0])


def _norm(net: Network, f: Family) -> None:
    axes = net.weight("na", 1, values=[-1], dtype=np.int64)
    net.add("ReduceMean", f"h {axes}", "mean")
    net.add("Sub", "h mean", "centred")
    net.add("Pow", f"centred {net.weight('two', values=[2.0])}", "square")
    net.add("ReduceMean", f"square {axes}", "variance")
    net.add("Add", f"variance {net.weight('eps', values=[1e-5])}", "shifted")
    net.add("Sqrt", "shifted", "root")
    net.add("Div", "centred root", "normal")
    net.add("Mul", f"normal {net.weight('gamma', f.w)}", "scaled")
    net.add("Add", f"scaled {net.weight('beta', f.w)}", "g")


def _one_norm(net: Network, f: Family) -> None:
    net.add("LayerNormalization", f"h {net.weight('gamma', f.w)} {net.weight('beta', f.w)}", "g")


def _rms(net: Network, f: Family) -> None:
    axes = net.weight("na", 1, values=[-1], dtype=np.int64)
    net.add("Mul", "h h", "square")
    net.add("ReduceMean", f"square {axes}", "variance")
    net.add("Add", f"variance {net.weight('eps', values=[1e-5])}", "shifted")
    net.add("Sqrt", "shifted", "root")
    net.add("Reciprocal", "root", "inverse")
    net.add("Mul", "h inverse", "normal")
    net.add("Mul", f"{net.weight('gamma', f.w)} normal", "g")


def _batch_norm(net: Network, f: Family) -> None:
    c = f.shape[1]
    net.add("Conv", f"h {net.weight('bc', c, c, 3, 3)}", "conv", pads=[1, 1, 1, 1])
    names = " ".join(net.weight(f"bn{i}", c, values=[0.5 + i] * c) for i in range(4))
    net.add("BatchNormalization", f"conv {names}", "g")


def _conv(net: Network, f: Family) -> None:
    c = f.shape[1]
    bias = net.weight("bb", c)
    net.add("Conv", f"h {net.weight('bc', c, c, 3, 3)} {bias}", "g", pads=[1, 1, 1, 1])


def _one_hot(cast: bool) -> Callable[[Network, Family], None]:
    def build(net: Network, f: Family) -> None:
        net.inputs["tokens"] = TensorProto.INT64, f.shape[:-1]
        depth, values = net.weight("depth", values=[50], dtype=np.int64), net.weight("hot", 2, values=[0, 1])
        if cast:
            values = net.weight("hot", 2, values=[0, 1], dtype=np.int64)
        net.add("OneHot", f"tokens {depth} {values}", "onehot")
        if cast:
            net.add("Cast", "onehot", "floats", to=TensorProto.FLOAT)
        net.add("MatMul", f"{'floats' if cast else 'onehot'} {net.weight('table', 50, f.w)}", "rows")
        net.add("Add", "h rows", "g")

    return build


def _gather(net: Network, f: Family) -> None:
    net.inputs["tokens"] = TensorProto.INT64, f.shape[:-1]
    net.add("Gather", f"{net.weight('table', 50, f.w)} tokens", "rows")
    net.add("Add", "h rows", "g")


def _upsampled(mode: str, first: bool) -> Callable[[Network, Family], None]:
    def build(net: Network, f: Family) -> None:
        c = f.shape[1]
        scales = net.weight("scales", 4, values=[1, 1, 2, 2])
        weight = net.weight("pw", c, c, 1, 1)
        if first:
            net.add("Resize", f"h _ {scales}", "large", mode=mode)
            net.add("Conv", f"large {weight}", "p")
        else:
            net.add("Conv", f"h {weight}", "small")
            net.add("Resize", f"small _ {scales}", "p", mode=mode)
        net.add("AveragePool", "p", "g", kernel_shape=[2, 2], strides=[2, 2])

    return build


def _quantized(net: Network, f: Family, start: str) -> str:
    scale, zero = net.weight("scale", values=[0.5]), net.weight("zero", values=[3], dtype=np.uint8)
    net.add("QuantizeLinear", f"{start} {scale} {zero}", f"{start}.q")
    return f"{scale} {zero}"


def _requantized(net: Network, f: Family) -> None:
    setting = _quantized(net, f, "h")
    net.add("DequantizeLinear", f"h.q {setting}", "wide")
    net.add("Reshape", f"wide {net.weight('flat', 1, values=[-1], dtype=np.int64)}", "r")
    net.add("QuantizeLinear", f"r {setting}", "again")
    _dequantized(net, f, "again", setting)


def _moved_as_it_is(net: Network, f: Family) -> None:
    setting = _quantized(net, f, "h")
    net.add("Reshape", f"h.q {net.weight('flat', 1, values=[-1], dtype=np.int64)}", "r")
    _dequantized(net, f, "r", setting)


def _dequantized(net: Network, f: Family, name: str, setting: str) -> None:
    net.add("Reshape", f"{name} {net.weight('shape', len(f.shape), values=f.shape, dtype=np.int64)}", "shaped")
    net.add("DequantizeLinear", f"shaped {setting}", "back")
    net.add("Add", "back h", "g")


def _keys(again: bool) -> Callable[[Network, Family], None]:
    """Keys of earlier tokens and of a new one, with those of the earlier ones computed twice, or kept."""

    def build(net: Network, f: Family) -> None:
        net.add("MatMul", f"h {net.weight('wk', f.w, f.w)}", "old")
        net.add("Sigmoid", "h", "new")
        if again:
            net.add("Concat", "h new", "all", axis=0)
            net.add("MatMul", "all wk", "keys")
        else:
            net.add("MatMul", "new wk", "fresh")
            net.add("Concat", "old fresh", "keys", axis=0)
        net.add("Split", "keys", "first second", axis=0, num_outputs=2)
        net.add("Mul", "old first", "sum")
        net.add("Add", "sum second", "g")

    return build


def faults(families: Mapping[str, Family] = FAMILIES) -> Iterator[Fault]:
    """The planted faults, five families of them."""
    for f in families.values():
        n, w, rest = f.n, f.w, f.n // f.w
        yield Fault("dead", f, "dead-work", ("d1", "d2"), 0, 16 * n, _dead, _as_it_is)
        nbytes = 4 * (n + 10 * w + 10 * rest)
        yield Fault("dead product", f, "dead-work", ("d",), 10 * n, nbytes, _dead_product, _as_it_is)
        yield Fault("repeated", f, "repeated-work", ("s2",), 0, 8 * n, _twice, _once)
        yield Fault("casts", f, "cast-pairs", ("half", "g"), 0, 12 * n, _casts, _as_it_is)
        yield Fault("scaled weight", f, "constant-work", ("scaled",), 0, 12 * w * w, _scaled_weight, _stored_weight)
        yield Fault("turned twice", f, "layout", ("t1", "g"), 0, 16 * n, _there_and_back, _as_it_is)
        spelled = ("mean", "centred", "square", "variance", "shifted", "root", "normal", "scaled", "g")
        # reads and writes: seven operators move n elements in, five n out; the others one for each row of them
        moved = (n + rest) + (2 * n + rest) + (2 * n + 1) + (n + rest) + (2 * rest + 1) + 2 * rest
        moved += (2 * n + rest) + (2 * n + w) + (2 * n + w) + 2  # and the axes of the two means, 8 bytes each
        yield Fault("norm", f, "normalization", spelled, 0, 4 * (moved + 2) - 4 * (2 * n + 2 * w), _norm, _one_norm)
    t, r, m = (families[name] for name in ("transformer", "recurrent", "mlp"))
    for f in (t, r, m):
        n, w = f.n, f.w
        yield Fault("repeated product", f, "repeated-work", ("m2",), n * w, 4 * (2 * n + w * w), _products, _product)
        gone = ("merged",)
        yield Fault("merged", f, "constant-work", gone, w**3, 12 * w * w, _product_of_weights, _stored_weight)
        tokens = n // w
        hot = 4 * (50 * tokens + 2) + 8 + 8 * tokens
        product = 4 * (50 * tokens + 50 * w + n)
        picked = 4 * 2 * n + 8 * tokens
        macs, saved = 50 * n, hot + product - picked
        yield Fault("one-hot", f, "one-hot", ("onehot", "rows"), macs, saved, _one_hot(False), _gather)
        cast = (8 * 2 + 8 * 50 * tokens + 8 + 8 * tokens) + 12 * 50 * tokens + product - picked
        layers = ("onehot", "floats", "rows")
        yield Fault("one-hot integers", f, "one-hot", layers, macs, cast, _one_hot(True), _gather)
        gone = ("half", "r", "back")
        yield Fault("casts around", f, "cast-pairs", gone, 0, 12 * n, _casts_around, _no_casts_around)
        # the rows of h are read and written once less; in place of rows, products are joined
        gone = ("all", "keys")
        nbytes = 4 * (n + n)
        yield Fault("keys again", f, "recomputed-rows", gone, n * w, nbytes, _keys(True), _keys(False))
    for f in families.values():
        moved, back = _requantized, _moved_as_it_is
        gone = ("wide", "r", "again")
        nbytes = 2 * (5 * f.n + 5)  # one byte and four of each number, scale and zero point; a Reshape moves nothing
        yield Fault("quantised again", f, "quantized-moves", gone, 0, nbytes, moved, back)
    yield Fault("around", t, "layout", ("t1", "r", "g"), 0, 16 * t.n, _around_relu, _relu)
    yield Fault("around", m, "layout", ("t1", "r", "g"), 0, 16 * m.n, _around_relu, _relu)
    for f in (families["cnn"], families["decoder"]):
        n, c = f.n, f.shape[1]
        yield Fault("batch norm", f, "batch-norm", ("conv", "g"), 0, 8 * n + 12 * c, _batch_norm, _conv)
        for mode in ("nearest", "linear"):
            flawed, repaired = _upsampled(mode, True), _upsampled(mode, False)
            yield Fault(f"upsampled {mode}", f, "upsampling", ("large", "p"), 3 * n * c, 24 * n, flawed, repaired)
