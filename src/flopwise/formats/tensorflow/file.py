"""A graph as a file holds it: nodes, functions, signatures, variables; elements of tensors by their places.

Sources: tensorflow/core/framework/{graph,node_def,function,attr_value,tensor,types}.proto and
tensorflow/core/protobuf/{saved_model,meta_graph,saved_object_graph}.proto of TensorFlow 2.21.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.sources.schema import Message, Messages, Place, schema
from flopwise.formats.sources.source import Source
from flopwise.operators.shape import Element

#: Numbers of element types (types.proto); those of references are 100 more.
DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64",
    9: "int64", 10: "bool", 11: "int8", 12: "uint8", 13: "int32", 14: "bfloat16", 15: "int16", 16: "uint16",
    17: "uint16", 18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64",
}  # fmt: skip

#: Elements of a tensor that are kept at most; more decide no shape.
_FEW = 8192

#: Axes of a tensor at most (tensorflow/core/framework/tensor_shape.h, MaxDimensions).
_AXES = 254

WHAT = "TensorFlow graph"

#: The messages of graphs and checkpoints, as far as counts, shapes, names and weights follow from them.
SCHEMA = schema("""
SavedModel: meta_graphs 2 place*
MetaGraphDef: graph_def 2 GraphDef, signature_def 5 SignatureEntry*, object_graph_def 7 SavedObjectGraph
SignatureEntry: key 1 text, value 2 SignatureDef
SignatureDef: inputs 1 TensorEntry*, outputs 2 TensorEntry*
TensorEntry: key 1 text, value 2 TensorInfo
TensorInfo: name 1 text
SavedObjectGraph: nodes 1 SavedObject*
SavedObject: variable 7 SavedVariable
SavedVariable: trainable 3 int, name 6 text
GraphDef: node 1 place*, library 2 FunctionDefLibrary
FunctionDefLibrary: function 1 place*
FunctionDef: signature 1 OpDef, node_def 3 place*, ret 4 RetEntry*
OpDef: name 1 text, input_arg 2 ArgDef*, output_arg 3 ArgDef*
ArgDef: name 1 text
RetEntry: key 1 text, value 2 text
NodeDef: name 1 text, op 2 text, input 3 text*, attr 5 AttrEntry*
AttrEntry: key 1 text, value 2 place
AttrValue: list 1 ListValue, s 2 text~, i 3 int, f 4 float, b 5 int, type 6 int, shape 7 TensorShapeProto, \
tensor 8 TensorProto, func 10 NameAttrList
ListValue: s 2 text*, i 3 int*, f 4 float*, b 5 int*, type 6 int*, shape 7 TensorShapeProto*, tensor 8 TensorProto*, \
func 9 NameAttrList*
NameAttrList: name 1 text
TensorShapeProto: dim 2 Dim*, unknown_rank 3 int
Dim: size 1 int
TensorProto: dtype 1 int, tensor_shape 2 TensorShapeProto, tensor_content 4 place, float_val 5 float~, \
double_val 6 double~, int_val 7 int~, int64_val 10 int~, bool_val 11 int~, half_val 13 int~, uint32_val 16 int~, \
uint64_val 17 int~
BundleHeaderProto: num_shards 1 uint
BundleEntryProto: dtype 1 int, shape 2 TensorShapeProto, shard_id 3 uint, offset 4 uint, size 5 uint
TrackableObjectGraph: nodes 1 TrackableObject*
TrackableObject: attributes 2 SerializedTensor*
SerializedTensor: full_name 2 text, checkpoint_key 3 text
""")

#: Messages that a graph may hold: of a hundred thousand nodes.
_MOST = 1 << 23


class Constant(NamedTuple):
    """A stored tensor."""

    dtype: str
    shape: tuple[int, ...]
    #: Where its elements lie one after the other; None where they do not.
    place: tuple[int, int] | None
    #: Its elements where they are few; one stands for all.
    elements: tuple[Element, ...] | None


class Function(NamedTuple):
    """The name of a function in an attribute."""

    name: str


class Node(NamedTuple):
    """A node of a graph or of a function."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any]


@dataclass
class Body:
    """A function: its arguments and results by name, and what each result is."""

    name: str = ""
    arguments: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)

    @functools.cached_property
    def ops(self) -> dict[str, str]:
        """The operator of each node."""
        return {node.name: node.op for node in reversed(self.nodes)}


@dataclass
class File:
    """A graph with its functions."""

    nodes: list[Node] = field(default_factory=list)
    functions: dict[str, Body] = field(default_factory=dict)
    #: Signature -> inputs and outputs: name for users -> "node:index".
    signatures: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    #: Variable -> whether it is trained.
    trained: dict[str, bool] = field(default_factory=dict)


def read_file(source: Source, saved: bool) -> File:
    """The graph of a file, in a SavedModel its first one.

    Raises:
        ModelError: it makes no sense, or holds no nodes.
    """
    decoder, file = Decoder(source), File()
    if saved:
        graphs = decoder.message("SavedModel", (0, decoder.size)).get("meta_graphs", ())
        if not graphs:
            raise ModelError(f"{source.name}: a SavedModel without a graph")
        meta = decoder.message("MetaGraphDef", graphs[0])
        graph = meta.get("graph_def", {})
        file.signatures = {
            one.get("key", ""): (_names(one["value"], "inputs"), _names(one["value"], "outputs"))
            for one in meta.get("signature_def", ())
            if "value" in one
        }
        variables = [one.get("variable", {}) for one in meta.get("object_graph_def", {}).get("nodes", ())]
        file.trained = {one["name"]: bool(one.get("trainable")) for one in variables if one.get("name")}
    else:
        graph = decoder.message("GraphDef", (0, decoder.size))
    file.nodes = [decoder.node(place) for place in graph.get("node", ())]
    bodies = [decoder.function(place) for place in graph.get("library", {}).get("function", ())]
    file.functions = {body.name: body for body in bodies}
    if not file.nodes:
        raise ModelError("not a TensorFlow graph (no nodes)")
    return file


def _names(signature: Message, side: str) -> dict[str, str]:
    """The tensors of a signature by the names that users know."""
    entries = [(one.get("key", ""), one.get("value", {})) for one in signature.get(side, ())]
    return {key: value["name"] for key, value in entries if "name" in value}


class Decoder(Messages):
    """The content of the messages of one file."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, SCHEMA, WHAT, _MOST)

    def function(self, place: Place) -> Body:
        """A function of the library."""
        message = self.message("FunctionDef", place)
        signature, results = message.get("signature", {}), message.get("ret", ())
        arguments, outputs = [
            [one["name"] for one in signature.get(side, ()) if "name" in one] for side in ("input_arg", "output_arg")
        ]
        return Body(
            signature.get("name", ""),
            arguments,
            outputs,
            [self.node(one) for one in message.get("node_def", ())],
            {one.get("key", ""): one.get("value", "") for one in results},
        )

    def node(self, place: Place) -> Node:
        """A node; attributes that begin with "_" are TensorFlow's own."""
        message = self.message("NodeDef", place)
        entries = [(one.get("key", ""), one["value"]) for one in message.get("attr", ()) if "value" in one]
        attrs = {key: self._attribute(value) for key, value in entries if not key.startswith("_")}
        inputs = tuple([name for name in message.get("input", ()) if not name.startswith("^")])
        return Node(message.get("name", ""), message.get("op", ""), inputs, attrs)

    def _attribute(self, place: Place) -> Any:
        """The value of an attribute; None for one of a kind that nothing here asks for."""
        for kind, value in self.message("AttrValue", place).items():
            if kind != "list":
                return self._value(kind, value)
            return [self._value(inner, one) for inner, many in value.items() for one in many]
        return None

    def _value(self, kind: str, value: Any) -> Any:
        if kind == "b":
            return bool(value)
        if kind == "type":
            return DTYPES.get(value % 100, "")
        if kind == "shape":
            return self.shape(value)
        if kind == "tensor":
            return self._tensor(value)
        return Function(value.get("name", "")) if kind == "func" else value

    def shape(self, message: Message) -> tuple[int, ...] | None:
        """A shape with -1 for what is open; None where even the rank is."""
        if message.get("unknown_rank"):
            return None
        sizes = tuple([one.get("size", 0) for one in message.get("dim", ())])
        if len(sizes) > _AXES:
            raise self.damaged(f"a shape has more than {_AXES} sizes")
        if sizes and min(sizes) < -1:
            raise self.damaged(f"a shape has the size {min(sizes)}")
        return sizes

    def _tensor(self, message: Message) -> Constant:
        dtype, shape = DTYPES.get(message.get("dtype", 0), ""), self.shape(message.get("tensor_shape", {})) or ()
        if any(size < 0 for size in shape):
            raise self.damaged("a stored tensor has an open size")
        bits = message.get("half_val", ())  # of float16 and bfloat16
        if dtype == "float16":
            values = [struct.unpack("<e", struct.pack("<H", value & 0xFFFF))[0] for value in bits]
        elif dtype == "bfloat16":
            values = [struct.unpack("<f", struct.pack("<I", (value & 0xFFFF) << 16))[0] for value in bits]
        else:
            values = [one for name, numbers in message.items() if name.endswith("_val") for one in numbers[:_FEW]]
        return Constant(dtype, shape, message.get("tensor_content"), tuple(values[:_FEW]) or None)
