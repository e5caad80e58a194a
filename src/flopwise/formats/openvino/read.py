"""A net in the form in which the ONNX reader holds a model: layers as operators with rules of their own."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from flopwise.errors import ModelError, damaged
from flopwise.formats.kit.build import scope_of_path
from flopwise.formats.kit.lowering import Lowered
from flopwise.formats.kit.nodes import Nodes
from flopwise.formats.kit.program import Graph, Model, Node, TensorType, Value, Values, named
from flopwise.formats.kit.program import Graph as Layers
from flopwise.formats.kit.read import Dialect, Opened, in_one_line, opened_as, refuse_large
from flopwise.formats.kit.tensors import CODES, Stored, elements, kept
from flopwise.formats.onnx.normalize import in_execution_order
from flopwise.formats.openvino.decode import ACROSS, Layer, Mapped, Net, dtype_of, extent, read_net
from flopwise.formats.openvino.decode import CODES as AS_CODES
from flopwise.formats.openvino.decode import Port as LayerPort
from flopwise.formats.openvino.layers import Application
from flopwise.formats.openvino.table import CONTROL_FLOW, lower
from flopwise.formats.options import OnnxOptions
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.graph import Module
from flopwise.graph.dtypes import BITS
from flopwise.graph.names import FreshNames, primed
from flopwise.operators.shape import Element
from flopwise.sizes.control import Port, Ports, Slice

#: The operator sets of ONNX whose definitions the lowered operators follow.
_OPSETS = {"": 21, "com.microsoft": 1, "openvino": 1}

#: The bodies of a layer, their maps, and the names of the bodies in the house.
_BRANCHES = {"then_body": ("then_port_map", "then_branch"), "else_body": ("else_port_map", "else_branch")}

_COMMA = re.compile(r"(?<!\\),")


class Beside:
    """The ``.bin`` beside a model, opened when somebody reads; it need not be there."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._bin: Source | None = None
        #: Why it cannot be read; "" as far as it can.
        self.missing = ""
        self.name = f"{os.path.splitext(os.path.basename(source.name))[0]}.bin"

    def read(self, start: int, length: int) -> bytes:
        """Bytes of it; b"" where they are not there."""
        if self.missing:
            return b""
        try:
            if self._bin is None:
                self._bin = self._source.beside(self.name, f"{self._source.name}: weights")
            return self._bin.read(start, length) if start + length <= self._bin.size else b""
        except ModelError as error:
            self.missing = str(error)
            return b""

    def close(self) -> None:
        """Close it if it is open."""
        if self._bin is not None:
            self._bin.close()


class Program:
    """The graphs of a model."""

    def __init__(self, source: Source, beside: Beside) -> None:
        self._source, self._beside = source, beside
        self.warnings: list[str] = []
        self.nodes = Nodes()

    def model(self, net: Net) -> Model:
        """The model of a net."""
        return Model(9, dict(_OPSETS), {}, self._graph(net))

    def _graph(self, net: Net) -> Graph:
        return _Builder(self, self._source.name, self._beside, net).graph()

    def body(self, net: Net) -> tuple[Graph, dict[str, int], dict[str, int]]:
        """A body, and the places of its Parameters and Results by their identifiers."""
        places: tuple[dict[str, int], dict[str, int]] = {}, {}
        for layer in net.layers:
            for side, kind in zip(places, ("Parameter", "Result"), strict=True):
                if layer.type == kind:
                    side[layer.id] = len(side)
        return self._graph(net), *places


class _Builder:
    """One graph in the making."""

    def __init__(self, program: Program, name: str, beside: Beside, net: Net) -> None:
        self._program, self._name, self._beside, self._net = program, name, beside, net
        self._layers = {layer.id: layer for layer in net.layers}
        if len(self._layers) != len(net.layers):
            raise self._damaged("two layers have one id")
        fresh = FreshNames(form=primed)
        #: (layer, port) -> the name of the tensor.
        self._tensors = {
            (layer.id, port.id): fresh.fresh(_tensor_name(layer, place))
            for layer in net.layers
            for place, port in enumerate(layer.outputs)
        }
        self._stored: dict[str, Stored] = {}
        self._constants: dict[str, tuple[Element, ...] | None] = {}

    def graph(self) -> Graph:
        """The graph."""
        inputs: list[Value] = []
        outputs: list[Value | None] = []
        nodes: list[Node] = []
        values: list[Value] = []
        for layer in self._net.layers:
            if layer.type == "Const":
                self._constant(layer)
        for layer in self._net.layers:
            if layer.type == "Parameter":
                inputs.append(self._parameter(layer))
            elif layer.type == "Result":
                outputs.append(Value(self._source_of(layer, layer.inputs[0]), None, {}) if layer.inputs else None)
            elif layer.type != "Const":
                nodes.append(self._node(layer))
                values += self._stated(layer)
        if None in outputs:
            raise self._damaged("a Result takes nothing")
        fixed = Values([], lambda data: values)
        return Graph(self._net.name, nodes, inputs, [o for o in outputs if o is not None], self._stored, fixed)

    def _damaged(self, why: str) -> ModelError:
        return damaged(self._name, why, "OpenVINO model")

    def _parameter(self, layer: Layer) -> Value:
        if len(layer.outputs) != 1:
            raise self._damaged(f"{layer} has {len(layer.outputs)} outputs")
        said = layer.data.get("shape", "").strip().strip("[]{}")
        try:
            dims = [extent(part.strip()) for part in said.split(",")] if said else []
        except ValueError:
            raise self._damaged(f"the shape of {layer} is {said[:60]!r}") from None
        dtype = dtype_of(layer.data.get("element_type", "")) or layer.outputs[0].dtype
        type_ = TensorType(dtype, None if said == "..." else tuple(dims))
        return Value(self._tensors[layer.id, layer.outputs[0].id], type_, {})

    def _constant(self, layer: Layer) -> None:
        """Take in a stored tensor."""
        if len(layer.outputs) != 1:
            raise self._damaged(f"{layer} has {len(layer.outputs)} outputs")
        data, name = layer.data, self._tensors[layer.id, layer.outputs[0].id]
        try:
            said = data.get("shape", "").strip()
            dims = tuple([int(part) for part in said.split(",")]) if said else ()
            start, length = int(data.get("offset", "0")), int(data.get("size", "0"))
        except ValueError:
            raise self._damaged(f"shape, offset or size of {layer} is no number") from None
        if min(dims, default=0) < 0 or start < 0 or length < 0 or len(dims) > 64:
            raise self._damaged(f"shape, offset or size of {layer} makes no sense")
        kind = data.get("element_type", "").lower()
        dtype = dtype_of(kind)
        if dtype is None:
            if kind not in ACROSS:
                raise self._damaged(f"{layer} has the element type {kind[:20]!r}")
            dtype, dims = "uint8", (length,)
            self._program.warnings.append(f"elements of {name!r} are of type {kind}; its bytes are shown as they are")
        elif kind in AS_CODES:
            self._program.warnings.append(f"elements of {name!r} are of type {kind}; their codes are shown as {dtype}")
        payload = b""
        if dtype != "string" and kept(CODES[dtype], dims) and length == (math.prod(dims) * BITS[dtype] + 7) // 8:
            payload = self._beside.read(start, length)
        where = {"location": self._beside.name, "offset": str(start), "length": str(length)}
        self._stored[name] = Stored(name, dims, dtype, (), where, payload=payload)

    def _source_of(self, layer: Layer, port: LayerPort) -> str:
        """The tensor that feeds an input."""
        source = self._net.edges.get((layer.id, port.id))
        if source is None:
            raise self._damaged(f"nothing feeds input {port.id!r} of {layer}")
        if source not in self._tensors:
            raise self._damaged(f"{layer} takes output {source[1]!r} of layer {source[0]!r}, and there is none")
        return self._tensors[source]

    def _elements(self, name: str) -> tuple[Element, ...] | None:
        """The elements of a small stored tensor."""
        if name not in self._constants:
            stored = self._stored.get(name)
            self._constants[name] = None if stored is None else elements(stored)
        return self._constants[name]

    def _node(self, layer: Layer) -> Node:
        names = [self._source_of(layer, port) for port in layer.inputs]
        outputs = tuple([self._tensors[layer.id, port.id] for port in layer.outputs])
        bodies: dict[str, object] = {}
        try:
            application = Application(layer, lambda place: self._elements(names[place]))
            if layer.bodies:
                lowered, bodies = self._with_bodies(layer)
            else:
                lowered = lower(application)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._damaged(f"attributes of {layer} make no sense: {' '.join(str(error).split())[:100]}") from None
        stated = [port.dtype for port in layer.outputs]
        nodes = self._program.nodes
        return nodes.node(layer.type, layer.name, lowered, names, outputs, stated if all(stated) else (), (), bodies)

    def _with_bodies(self, layer: Layer) -> tuple[Lowered, dict[str, object]]:
        """The operator of the house for a layer with bodies, and these with their connections."""
        op = CONTROL_FLOW.get(layer.type.lower())
        if op is None:
            raise ValueError("it has a body")
        if op == "If":
            branches_: dict[str, Graph | tuple[Graph, ...]] = {}
            ports: dict[str, Ports] = {}
            for part, (map_, name) in _BRANCHES.items():
                graph, parameters, results = self._program.body(layer.bodies[part])
                branches_[name] = graph
                ports[name] = _ports(layer, layer.maps.get(map_, []), parameters, results)
            return Lowered(op), {**branches_, "ports": ports}
        graph, parameters, results = self._program.body(layer.bodies["body"])
        connected = _ports(layer, layer.maps.get("port_map", []), parameters, results)
        if layer.type.lower() == "loop":
            connected = connected._replace(most=0, first=1, endless=True)
        return Lowered(op), {"body": graph, "ports": connected}

    def _stated(self, layer: Layer) -> Iterator[Value]:
        """The shapes that the file states of a layer's results; a port without extents may be of any rank."""
        for port in layer.outputs:
            if port.dims:
                yield Value(self._tensors[layer.id, port.id], TensorType(port.dtype, tuple(port.dims)), {})


def _ports(layer: Layer, maps: list[Mapped], parameters: Mapping[str, int], results: Mapping[str, int]) -> Ports:
    """The connections between a layer and one of its bodies.

    Raises:
        LookupError: a map names what is not there.
    """
    inputs = {port.id: place for place, port in enumerate(layer.inputs)}
    outputs = {port.id: place for place, port in enumerate(layer.outputs)}
    taken, given, iteration, condition = [], [], None, None
    for one in maps:
        slice_ = None if one.axis is None else Slice(one.axis, one.start, one.end, one.stride, one.part)
        if one.axis is not None and one.axis < 0:
            raise ValueError(f"axis {one.axis}")
        if one.side == "input":
            if one.purpose == "current_iteration":
                iteration = parameters[one.layer]
            else:
                taken.append(Port(inputs[one.port], parameters[one.layer], slice_))
        else:
            if one.purpose == "execution_condition":
                condition = results[one.layer]
            if one.port in outputs:
                given.append(Port(outputs[one.port], results[one.layer], slice_))
    back = {parameters[to]: results[result] for result, to in layer.back.items()}
    return Ports(tuple(taken), tuple(given), back, iteration, condition)


def _tensor_name(layer: Layer, place: int) -> str:
    """A tensor by the name that users know: the layer's where the file lists it, else the first that it lists."""
    port = layer.outputs[place]
    listed = [name.replace("\\,", ",") for name in _COMMA.split(port.names)] if port.names else []
    if listed and layer.name not in listed:
        return listed[0]
    return layer.name if len(layer.outputs) == 1 or not layer.name else f"{layer.name}.{place}"


#: What the front end for PyTorch puts before the paths of modules, and that for ONNX behind the names of operators.
_MODULE, _WITHOUT_BIAS = "__module.", "/WithoutBiases"


def modules(name: str) -> tuple[Module, ...]:
    """The modules that the name of a layer says, outermost first.

    >>> [module.path for module in modules("__module.features.0/aten::_convolution/Convolution")]
    ['features', 'features.0']
    """
    name = name.removesuffix(_WITHOUT_BIAS)
    if not name.startswith(_MODULE):
        return scope_of_path(name)
    steps = name[len(_MODULE) :].partition("/")[0].split(".")
    return tuple([Module(".".join(steps[: count + 1]), "") for count in range(len(steps))])


_OPENVINO = Dialect("openvino", modules, states=False)


def opened_openvino(
    model: object, options: OnnxOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """An OpenVINO model before any size is chosen.

    Args:
        model: a path, bytes or an open binary file: the XML.
        options: how large its graph may be.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source = open_source(model)
    beside = Beside(source)
    try:
        with in_one_line(source.name):
            refuse_large(source, options)
            program = Program(source, beside)
            model_ = program.model(read_net(source))
            model_ = replace(model_, graph=named(in_execution_order(model_.graph)))
    finally:
        beside.close()
        source.close()
    remarks = []
    if beside.missing:
        remarks.append(f"{beside.name} is not there; sizes that numbers in it decide are those that the file states")
    biases = _biases_of_one_channel(model_.graph)
    return opened_as(model_, source.name, source, _OPENVINO, program.warnings, remarks, biases)


def _biases_of_one_channel(graph: Layers) -> set[str]:
    """The stored tensors of one element that are added to a product whose stored weight gives one channel."""
    stored, origins, products, biases = graph.initializers, dict[str, str](), set[str](), set[str]()
    for node in graph.nodes:
        inputs = [origins.get(name, name) for name in node.inputs]
        sizes = [stored[name].dims if name in stored else () for name in inputs]
        if node.op == "Cast":  # compressed to half precision
            origins[node.outputs[0]] = inputs[0]
        elif len(inputs) > 1 and (sizes[1][:1] == (1,) if node.op == "Conv" else node.op == "MatMul" and 1 in sizes[1]):
            products.update(node.outputs)
        elif node.op == "Add" and not products.isdisjoint(inputs):
            biases.update(name for name, size in zip(inputs, sizes, strict=True) if size and math.prod(size) == 1)
    return biases
