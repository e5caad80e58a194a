"""An OpenVINO model as the file holds it: layers, their ports, and the edges between them, from XML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from xml.parsers import expat

from flopwise._limits import within_limit
from flopwise.errors import ModelError, damaged
from flopwise.formats.sources.source import Source

# A net as the file holds it: layers, their ports, and the edges between them.
#
# https://docs.openvino.ai/2025/documentation/openvino-ir-format.html


@dataclass(slots=True)
class Port:
    """An input or output of a layer."""

    id: str
    #: Element type; None where the file states none.
    dtype: str | None
    #: Names of the tensor, separated by commas; "" for none.
    names: str = ""
    #: Extents, None for one that is open.
    dims: list[int | None] = field(default_factory=list)


@dataclass(slots=True)
class Mapped:
    """A connection between a port of a layer with a body and the body."""

    #: "input" or "output".
    side: str
    #: The port of the layer; "-1" for none.
    port: str
    #: The Parameter or Result in the body.
    layer: str
    #: What it is for: "current_iteration", "execution_condition", or "" for data.
    purpose: str = ""
    #: The axis that is sliced, or along which results are joined; None: the whole tensor.
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part: int = 1


@dataclass(slots=True)
class Layer:
    """A layer."""

    id: str
    name: str
    #: "Convolution".
    type: str
    #: The operator set: "opset1", "extension".
    version: str = ""
    #: Its attributes as texts.
    data: Mapping[str, str] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    #: "body", "then_body" and "else_body" -> the net.
    bodies: dict[str, Net] = field(default_factory=dict)
    #: "port_map", "then_port_map" and "else_port_map" -> how ports and bodies are connected.
    maps: dict[str, list[Mapped]] = field(default_factory=dict)
    #: Results of the body -> the Parameter that is handed them in the next iteration.
    back: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The layer as a message names it."""
        return f"{self.type} {self.name or self.id!r}"


@dataclass(slots=True)
class Net:
    """A net, or a body of control flow."""

    name: str = ""
    layers: list[Layer] = field(default_factory=list)
    #: (layer, input port) -> (layer, output port) that feeds it.
    edges: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)


# Element types by the names that the file has for them.
#
# https://docs.openvino.ai/2025/api/c_cpp_api/group__ov__element__cpp__api.html

#: In attributes ("f32") and on ports ("FP32", here in lower case) -> the name of the house.
_TYPES: dict[str, str] = {
    "f64": "float64",
    "fp64": "float64",
    "f32": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8e4m3fn",
    "f8e5m2": "float8e5m2",
    "f8e8m0": "float8e8m0",
    "f4e2m1": "float4e2m1",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i4": "int4",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "u4": "uint4",
    "u2": "uint2",
    "boolean": "bool",
    "bool": "bool",
    "string": "string",
}

#: Types without a name in the house -> one of as many bits, whose numbers are codes then.
CODES: dict[str, str] = {"nf4": "uint4"}

#: Types whose elements lie across bytes -> bits of one.
ACROSS: dict[str, int] = {"u1": 1, "u3": 3, "u6": 6}


def dtype_of(name: str) -> str | None:
    """The name of the house of an element type; None where it is open, or has none.

    >>> dtype_of("FP16"), dtype_of("boolean"), dtype_of("UNSPECIFIED")
    ('float16', 'bool', None)
    """
    plain = name.lower()
    return _TYPES.get(plain) or CODES.get(plain)


# The XML of a model, event by event: only layers, ports and edges are kept, and nothing outside the file is looked
# at.
#
# A document type, and with it every entity that a file could define, is refused; so are nests deeper, and files
# longer, than any model is.

#: Bytes that are parsed at a time.
_PIECE = 1 << 20

#: How deep elements may nest: eight bodies in one another, four elements each, and some to spare.
_DEEPEST = 40

#: What elements weigh that are kept, and all of them together at most: some 200,000 layers with theirs.
_WEIGHTS = {"layer": 16, "port": 4, "edge": 2}
_MOST = 1 << 23

#: Versions of the format that are read; older ones have no operator sets.
_VERSIONS = ("10", "11")

_Attributes = dict[str, str]

_Thing = TypeVar("_Thing")


def read_net(source: Source) -> Net:
    """The net of a model.

    Raises:
        ModelError: the file is no model, is damaged, or asks for more than a model may.
    """
    within_limit("header_bytes", source.size, f"{source.name}: has")
    parser = _Parser(source.name)
    for start in range(0, source.size, _PIECE):
        parser.feed(source.read(start, min(_PIECE, source.size - start)))
    return parser.finished()


class _Parser:
    """The state between two events."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._net: Net | None = None
        #: The elements around, and what each has become: a net, a layer, a list of ports or of maps, a port.
        self._tags: list[str] = []
        self._things: list[object] = []
        #: Depth at which an element begins that is passed over; 0 for none.
        self._skipped = 0
        self._depth = 0
        self._count = 0
        self._text: list[str] = []
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._expat.EntityDeclHandler = self._refuse_doctype
        self._expat.ExternalEntityRefHandler = self._refuse_doctype

    def feed(self, data: bytes) -> None:
        """Parse a piece."""
        self._parse(data, False)

    def finished(self) -> Net:
        """The net."""
        self._parse(b"", True)
        if self._net is None:
            raise ModelError(f"{self._name}: XML without an element")
        return self._net

    def _parse(self, data: bytes, last: bool) -> None:
        try:
            self._expat.Parse(data, last)
        except expat.ExpatError as error:
            raise damaged(self._name, str(error), "XML") from None
        except (LookupError, ValueError) as error:  # an encoding that there is not, a number that is none
            raise damaged(self._name, str(error), "OpenVINO model") from None

    def _refuse_doctype(self, *_: object) -> int:
        raise ModelError(f"{self._name}: has a document type (DTD), as no OpenVINO model has; refused")

    def _start(self, tag: str, attributes: _Attributes) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ModelError(f"{self._name}: elements nest deeper than {_DEEPEST}; refused")
        if self._skipped:
            return
        around = self._tags[-1] if self._tags else ""
        rule = _RULES.get((around, tag))
        if rule is None:
            if not around:
                raise ModelError(f"{self._name}: XML, but no OpenVINO model: its root is <{tag[:40]}>, not <net>")
            self._skipped = self._depth
            return
        self._count += _WEIGHTS.get(tag, 1)
        if self._count > _MOST:
            raise ModelError(f"{self._name}: has more layers, ports and edges than any model; refused")
        thing = rule(self._things[-1] if self._things else None, attributes)
        if not around:
            self._net = self._root(thing, attributes)
        self._tags.append(tag)
        self._things.append(thing)

    def _root(self, net: object, attributes: _Attributes) -> Net:
        version = attributes.get("version", "")
        if version not in _VERSIONS:
            what = f"version {version[:20]}" if version else "no version"
            raise ModelError(
                f"{self._name}: an OpenVINO model of {what}; versions 10 and 11 are read; convert it anew with 'ovc'"
            )
        return _as(Net, net)

    def _end(self, tag: str) -> None:
        if self._skipped:
            self._skipped = 0 if self._depth == self._skipped else self._skipped
            self._depth -= 1
            return
        self._depth -= 1
        self._tags.pop()
        thing = self._things.pop()
        if tag == "dim":
            text, self._text = "".join(self._text).strip(), []
            _as(Port, thing).dims.append(extent(text))

    def _characters(self, text: str) -> None:
        if not self._skipped and self._tags and self._tags[-1] == "dim" and len(self._text) < 8:
            self._text.append(text[:64])


def extent(text: str) -> int | None:
    """An extent; None for one that is open, or lies between two.

    Raises:
        ValueError: it is none.

    >>> extent("3"), extent("-1"), extent("1..8"), extent("?")
    (3, None, None, None)
    """
    if text in ("?", "-1") or ".." in text:
        return None
    number = int(text)
    if not 0 <= number < 1 << 63 or len(text) > 20:
        raise ValueError(f"{text[:40]!r} is no extent")
    return number


def _as(kind: type[_Thing], thing: object) -> _Thing:
    """The object that the enclosing element has become.

    Raises:
        ValueError: the element lies where none does.
    """
    if not isinstance(thing, kind):
        raise ValueError("its elements lie in one another as they never do")
    return thing


def _net(around: object, attributes: _Attributes) -> Net:
    return Net(attributes.get("name", ""))


def _same(around: object, attributes: _Attributes) -> object:
    return around


def _layer(around: object, attributes: _Attributes) -> Layer:
    net = _as(Net, around)
    name, kind, version = (attributes.get(key, "") for key in ("name", "type", "version"))
    layer = Layer(attributes.get("id", ""), name, kind, version)
    net.layers.append(layer)
    return layer


def _data(around: object, attributes: _Attributes) -> None:
    _as(Layer, around).data = attributes


def _inputs(around: object, attributes: _Attributes) -> list[Port]:
    return _as(Layer, around).inputs


def _outputs(around: object, attributes: _Attributes) -> list[Port]:
    return _as(Layer, around).outputs


def _port(around: object, attributes: _Attributes) -> Port:
    port = Port(attributes.get("id", ""), dtype_of(attributes.get("precision", "")), attributes.get("names", ""))
    _as(list, around).append(port)
    return port


def _edge(around: object, attributes: _Attributes) -> None:
    names = ("to-layer", "to-port", "from-layer", "from-port")
    to_layer, to_port, from_layer, from_port = (attributes.get(name, "") for name in names)
    _as(Net, around).edges[to_layer, to_port] = from_layer, from_port


def _body(part: str) -> Callable[[object, _Attributes], Net]:
    def rule(around: object, attributes: _Attributes) -> Net:
        return _as(Layer, around).bodies.setdefault(part, Net(part))

    return rule


def _map(part: str) -> Callable[[object, _Attributes], list[Mapped]]:
    def rule(around: object, attributes: _Attributes) -> list[Mapped]:
        return _as(Layer, around).maps.setdefault(part, [])

    return rule


def _mapped(side: str) -> Callable[[object, _Attributes], None]:
    def rule(around: object, attributes: _Attributes) -> None:
        axis = attributes.get("axis")
        _as(list, around).append(
            Mapped(
                side,
                attributes.get("external_port_id", ""),
                attributes.get("internal_layer_id", ""),
                attributes.get("purpose", ""),
                None if axis is None else int(axis),
                *(int(attributes.get(name, default)) for name, default in _SLICES),
            )
        )

    return rule


#: The numbers that say how a tensor is sliced, with what they are where they are left out.
_SLICES = (("start", "0"), ("end", "-1"), ("stride", "1"), ("part_size", "1"))


def _back(around: object, attributes: _Attributes) -> None:
    _as(Layer, around).back[attributes.get("from-layer", "")] = attributes.get("to-layer", "")


_BODIES = ("body", "then_body", "else_body")
_MAPS = ("port_map", "then_port_map", "else_port_map")

#: (element around, element) -> what it becomes. All others are passed over with what they hold.
_RULES: dict[tuple[str, str], Callable[[object, _Attributes], object]] = {
    ("", "net"): _net,
    **{(net, part): _same for net in ("net", *_BODIES) for part in ("layers", "edges")},
    ("layers", "layer"): _layer,
    ("layer", "data"): _data,
    ("layer", "input"): _inputs,
    ("layer", "output"): _outputs,
    ("input", "port"): _port,
    ("output", "port"): _port,
    ("port", "dim"): _same,
    ("edges", "edge"): _edge,
    **{("layer", part): _body(part) for part in _BODIES},
    **{("layer", part): _map(part) for part in _MAPS},
    **{(part, side): _mapped(side) for part in _MAPS for side in ("input", "output")},
    ("layer", "back_edges"): _same,
    ("back_edges", "edge"): _back,
}
