"""The XML of a model, event by event: only layers, ports and edges are kept, and nothing outside the file is looked at.

A document type, and with it every entity that a file could define, is refused; so are nests deeper, and files longer,
than any model is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from xml.parsers import expat

from flopwise._limits import within_limit
from flopwise.errors import ModelError, damaged
from flopwise.formats.openvino.file.net import Layer, Mapped, Net, Port
from flopwise.formats.openvino.file.types import dtype_of
from flopwise.readers.source.source import Source

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
