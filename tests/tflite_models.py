"""A writer of small TensorFlow Lite models: tables by the field numbers of the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

flatbuffers = __import__("pytest").importorskip("flatbuffers")
tflite = __import__("pytest").importorskip("tflite")

CODES = {name: code for name, code in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
TYPES = {name.lower(): code for name, code in vars(tflite.TensorType).items() if not name.startswith("_")}

#: The fields of a table: number -> kind and value. Kinds are "bool", "int8" ... of one number, "text", "table",
#: "tables", and "[int32]" ... of vectors.
Fields = Mapping[int, tuple[str, Any]]


def written(fields: Fields) -> bytes:
    """A flatbuffer of one table and those in it."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_table(builder, fields), b"TFL3")
    return bytes(builder.Output())


def _table(builder: Any, fields: Fields) -> int:
    offsets = {number: _offset(builder, kind, value) for number, (kind, value) in fields.items()}
    builder.StartObject(max(fields, default=-1) + 1)
    for number, (kind, value) in fields.items():
        if offsets[number] is not None:
            builder.PrependUOffsetTRelativeSlot(number, offsets[number], 0)
        else:
            getattr(builder, f"Prepend{kind.capitalize()}Slot")(number, value, None)
    return builder.EndObject()


def _offset(builder: Any, kind: str, value: Any) -> int | None:
    if kind == "text":
        return builder.CreateString(value)
    if kind == "table":
        return _table(builder, value)
    if kind == "tables":
        tables = [_table(builder, one) for one in value]
        builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            builder.PrependUOffsetTRelative(table)
        return builder.EndVector()
    if kind.startswith("["):
        return builder.CreateNumpyVector(np.asarray(value, kind[1:-1]))
    return None


class Subgraph:
    """The tensors and operators of one subgraph; tensors go by their numbers."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.tensors: list[Fields] = []
        self.operators: list[Fields] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        data: Any = None,
        *,
        name: str = "",
        scale: Sequence[float] = (),
        zero: Sequence[int] = (),
        axis: int = 0,
        signature: Sequence[int] | None = None,
        **more: Any,
    ) -> int:
        """A tensor; with data it is stored."""
        fields: dict[int, tuple[str, Any]] = {
            0: ("[int32]", shape),
            1: ("int8", TYPES[dtype]),
            2: ("uint32", 0 if data is None else self.net.buffer(np.asarray(data, dtype).tobytes())),
            3: ("text", name or f"t{len(self.tensors)}"),
        }
        if scale:
            quantization = {2: ("[float32]", scale), 3: ("[int64]", zero or [0] * len(scale)), 6: ("int32", axis)}
            fields[4] = ("table", quantization)
        if signature is not None:
            fields[7] = ("[int32]", signature)
        if more.get("variable"):
            fields[5] = ("bool", True)
        if "sparsity" in more:
            fields[6] = ("table", more["sparsity"])
        self.tensors.append(fields)
        return len(self.tensors) - 1

    def add(
        self, op: str, inputs: Sequence[int], outputs: Sequence[int], options: Fields | None = None, custom: str = ""
    ) -> None:
        """An operator; its options by the field numbers of their table."""
        fields: dict[int, tuple[str, Any]] = {
            0: ("uint32", self.net.code(op, custom)),
            1: ("[int32]", inputs),
            2: ("[int32]", outputs),
        }
        if options is not None:
            fields |= {3: ("uint8", 1), 4: ("table", options)}
        self.operators.append(fields)

    def fields(self) -> Fields:
        """Its table."""
        ends = {1: ("[int32]", self.inputs), 2: ("[int32]", self.outputs)}
        return {0: ("tables", self.tensors), **ends, 3: ("tables", self.operators)}


class Net:
    """A model: ``net.main`` is its first subgraph."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = [b""]
        self.codes: list[tuple[str, str]] = []
        self.subgraphs: list[Subgraph] = []
        self.metadata: dict[str, bytes] = {}
        self.main = self.subgraph()

    def subgraph(self) -> Subgraph:
        """One more subgraph."""
        self.subgraphs.append(Subgraph(self))
        return self.subgraphs[-1]

    def buffer(self, data: bytes) -> int:
        """The number of a buffer with these bytes."""
        self.buffers.append(data)
        return len(self.buffers) - 1

    def code(self, op: str, custom: str) -> int:
        """The number of an operator code."""
        if (op, custom) not in self.codes:
            self.codes.append((op, custom))
        return self.codes.index((op, custom))

    def bytes(self) -> bytes:
        """The file."""
        metadata = [{0: ("text", name), 1: ("uint32", self.buffer(data))} for name, data in self.metadata.items()]
        codes = [
            {0: ("int8", min(CODES[op], 127)), 3: ("int32", CODES[op]), **({1: ("text", custom)} if custom else {})}
            for op, custom in self.codes
        ]
        buffers = [{0: ("[uint8]", np.frombuffer(data, np.uint8))} if data else {} for data in self.buffers]
        return written(
            {
                0: ("uint32", 3),
                1: ("tables", codes),
                2: ("tables", [one.fields() for one in self.subgraphs]),
                4: ("tables", buffers),
                6: ("tables", metadata),
            }
        )


def convolution(dtype: str = "float32", activation: int = 3) -> Net:
    """An image 8 × 8 × 3, a convolution 3 × 3 with stride 2 to 4 channels, RELU6, a depthwise one, a dense layer."""
    net = Net()
    g = net.main
    whole = {"scale": [0.5], "zero": [3]} if dtype != "float32" else {}
    weights = {"scale": [0.25, 0.5, 0.5, 0.125]} if dtype != "float32" else {}
    bias = "int32" if dtype != "float32" else "float32"
    x = g.tensor((1, 8, 8, 3), dtype, name="image", **whole)
    w = g.tensor((4, 3, 3, 3), dtype, np.arange(108).reshape(4, 3, 3, 3) % 5, name="conv/w", **weights)
    b = g.tensor((4,), bias, np.ones(4), name="conv/b", **weights)
    y = g.tensor((1, 4, 4, 4), dtype, name="conv", **whole)
    options = {0: ("int8", 0), 1: ("int32", 2), 2: ("int32", 2), 3: ("int8", activation)}
    g.add("CONV_2D", [x, w, b], [y], options)
    depth = g.tensor((1, 3, 3, 4), dtype, np.ones((1, 3, 3, 4)), name="depth/w", axis=3, **weights)
    z = g.tensor((1, 4, 4, 4), dtype, name="depth", **whole)
    options = {0: ("int8", 0), 1: ("int32", 1), 2: ("int32", 1), 3: ("int32", 1), 4: ("int8", 0)}
    g.add("DEPTHWISE_CONV_2D", [y, depth, b], [z], options)
    dense = g.tensor((10, 64), dtype, np.zeros((10, 64)), name="dense/w", **({"scale": [1.0]} if whole else {}))
    out = g.tensor((1, 10), dtype, name="dense", **whole)
    g.add("FULLY_CONNECTED", [z, dense, -1], [out], {0: ("int8", 0)})
    g.inputs, g.outputs = [x], [out]
    return net


def _counting(net: Net, limit: int | None, width: int = 4) -> tuple[Subgraph, Subgraph]:
    """The subgraphs of a loop that counts to a limit and doubles a vector; without one the caller's vector decides."""
    cond, body = net.subgraph(), net.subgraph()
    count, vector = cond.tensor((), "int32", name="count"), cond.tensor((1, width), name="vector")
    flag = cond.tensor((), "bool", name="flag")
    if limit is None:
        axes, sum_ = cond.tensor((2,), "int32", [0, 1]), cond.tensor((), name="sum")
        cond.add("SUM", [vector, axes], [sum_], {0: ("bool", False)})
        cond.add("LESS", [sum_, cond.tensor((), data=[9.0])], [flag], {})
    else:
        cond.add("LESS", [count, cond.tensor((), "int32", [limit])], [flag], {})
    cond.inputs, cond.outputs = [count, vector], [flag]
    count, vector = body.tensor((), "int32", name="count"), body.tensor((1, width), name="vector")
    more, twice = body.tensor((), "int32", name="more"), body.tensor((1, width), name="twice")
    body.add("ADD", [count, body.tensor((), "int32", [1])], [more], {})
    body.add("MUL", [vector, body.tensor((), data=[2.0])], [twice], {})
    body.inputs, body.outputs = [count, vector], [more, twice]
    return cond, body


def loop(limit: int | None) -> bytes:
    """A model that doubles a vector in a loop; see ``_counting``."""
    net = Net()
    g = net.main
    _counting(net, limit)
    x, y, end = g.tensor((1, 4), name="x"), g.tensor((1, 4), name="y"), g.tensor((), "int32", name="end")
    start = g.tensor((), "int32", np.int32(0), name="start")
    g.add("WHILE", [start, x], [end, y], {0: ("int32", 1), 1: ("int32", 2)})
    g.inputs, g.outputs = [x], [y]
    return net.bytes()
