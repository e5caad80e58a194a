"""The graph of an ONNX file without its weights: payloads and exporter metadata are skipped by seeking.

What is left, some tens of kilobytes, is a valid ModelProto whose large tensors have dims and a type but no data; where
the data lies is remembered. Field numbers: see ``flopwise.formats.kit.tensors``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flopwise.errors import ModelError
from flopwise.formats.kit.tensors import DEEPEST, Pieces, Skeleton, Stored, refuse_impossible, refuse_twin, tag
from flopwise.formats.onnx.tensors import FIELD_COST, SMALL, TensorWalk
from flopwise.formats.sources.open import refuse_other_formats, refuse_other_names
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import BYTES, RUN, VARINT, Field, message, number_field, read_varint

#: The key under which external data says where it lies; what contains it is looked into however small it is.
LOCATION = b"location"

#: Nodes up to this many bytes are looked at in one piece.
USUAL = 1 << 14

#: The tag of a node in a graph.
_NODE = 1 << 3 | BYTES

#: Tags in a usual node: inputs, outputs, name, operator, attributes, documentation, domain, overload, metadata.
_OF_NODE: frozenset[int] = frozenset({n << 3 | BYTES for n in (1, 2, 3, 4, 5, 6, 7, 8, 9)})
_ATTRIBUTE, _DOCUMENTATION, _METADATA = (n << 3 | BYTES for n in (5, 6, 9))

#: Metadata of nodes and values that says something about modules and parameters; all other metadata is skipped.
METADATA_KEPT: frozenset[bytes] = frozenset(
    {
        b"pkg.torch.onnx.name_scopes",
        b"pkg.torch.onnx.class_hierarchy",
        b"pkg.torch.export.graph_signature.InputSpec.kind",
        b"pkg.onnxscript.optimizer.folded_from",
        b"pkg.torch.export.ExportedProgram.graph_signature",
        b"flopwise.initializer",
    }
)


def read_skeleton(source: Source, largest: int | None = None) -> Skeleton:
    """The model in a source without its weights, and where these lie.

    Args:
        source: the file.
        largest: bytes that the model may take without its weights; None: 512 MB.

    Raises:
        ModelError: the source is not an ONNX model, is truncated or damaged, or too large.
    """
    refuse_other_formats(source)
    try:
        return _Walk(source, largest).model()
    except ModelError:
        refuse_other_names(source)
        raise


class _Walk(TensorWalk):
    """One pass over a file. Each method rewrites the message at [start, end) without what is to be skipped."""

    def __init__(self, source: Source, largest: int | None = None) -> None:
        super().__init__(source, largest)
        self.main_nodes = Pieces()
        self.main_tensors = Pieces()
        self.initializers: dict[str, Stored] = {}
        self.inner: dict[str, Stored] = {}

    def nested(self, number: int, field: Field, rewrite: Callable[[int, int], list[bytes]]) -> bytes:
        """The field with its content rewritten."""
        return message(number, rewrite(field.start, field.end))

    def model(self) -> Skeleton:
        parts: list[bytes] = []
        has_graph = False
        for field in self.window.fields(0, self.source.size):
            number, wire = field.number, field.wire
            if number == 7 and wire == BYTES:
                has_graph = True
                parts.append(self.nested(7, field, lambda a, b: self.graph(a, b, 0)))
            elif number == 25 and wire == BYTES:
                parts.append(self.nested(25, field, self.function))
            elif wire == (VARINT if number in (1, 5) else BYTES) and number in (1, 2, 3, 4, 5, 8):
                parts.append(self.keep(field))
            elif number not in (6, 14, 20) and number < 26:  # text, metadata, training graphs; and later additions
                raise ModelError(f"{self.source.name}: not an ONNX model (field {number} at byte {field.tag})")
        if not has_graph:
            raise ModelError(f"{self.source.name}: not an ONNX model (it holds no graph)")
        return Skeleton(b"".join(parts), self.initializers, self.inner, self.main_nodes, self.main_tensors)

    def graph(self, start: int, end: int, depth: int) -> list[bytes]:
        if depth > DEEPEST:
            raise ModelError(f"{self.source.name}: control flow nests deeper than {DEEPEST}")
        parts: list[bytes] = []
        nodes, tensors = (parts, parts) if depth else (self.main_nodes, self.main_tensors)
        for field in self.window.fields(start, end, _NODE, SMALL):
            number = field.number
            if field.wire == RUN:
                nodes.append(self.nodes(field, depth))
            elif field.wire != BYTES:
                continue
            elif number == 1:
                nodes.append(self.node(field, 1, depth))
            elif number == 5:
                tensors.append(self.initializer(field, depth))
            elif number == 15:
                tensors.append(self.sparse_initializer(field, depth))
            elif number in (2, 11, 12):
                parts.append(self.keep(field))
            elif number == 13:
                parts.append(self.value_info(field))
            elif number == 16:
                parts.extend(self.metadata(field))
        return parts

    def function(self, start: int, end: int) -> list[bytes]:
        parts: list[bytes] = []
        for field in self.window.fields(start, end):
            if field.number == 7 and field.wire == BYTES:
                parts.append(self.node(field, 7, 0))
            elif field.number == 11 and field.wire == BYTES:
                parts.append(self.attribute(field, 11, 0))
            elif field.number not in (8, 12, 14):
                parts.append(self.keep(field))
        return parts

    def nodes(self, run: Field, depth: int) -> bytes:
        """Small nodes, as they stand in the source unless something in them lies elsewhere."""
        whole = self.window.bytes(run.start, run.end)
        if LOCATION in whole:
            return b"".join([self.node(node, 1, depth) for node in self.window.fields(run.start, run.end)])
        self.charge(len(whole) + (run.value - 1) * FIELD_COST)
        return whole

    def node(self, node: Field, number: int, depth: int) -> bytes:
        if node.end - node.start <= SMALL and LOCATION not in (whole := self.keep(node)):
            return whole
        if node.end - node.start <= USUAL and (usual := self.usual_node(node)) is not None:
            return message(number, usual)
        parts: list[bytes] = []
        for field in self.window.fields(node.start, node.end):
            if field.number == 5 and field.wire == BYTES:
                parts.append(self.attribute(field, 5, depth))
            elif field.number == 9 and field.wire == BYTES:
                parts.extend(self.metadata(field))
            elif field.number in (1, 2, 3, 4, 7, 8):
                parts.append(self.keep(field))
        return message(number, parts)

    def usual_node(self, node: Field) -> list[bytes] | None:
        """The fields of a node as exporters write it, in one pass; None when something in it needs a closer look."""
        data = self.window.bytes(node.start, node.end)
        if LOCATION in data:
            return None
        parts: list[bytes] = []
        at = kept_from = 0
        try:
            while at < len(data):
                tag = at
                key, length, at = data[at], data[at + 1], at + 2
                if length > 127:
                    length, at = read_varint(data, at - 1)
                start, at = at, at + length
                if key not in _OF_NODE or (key == _ATTRIBUTE and length > SMALL):
                    return None
                if key == _METADATA:
                    if data[start] != 1 << 3 | BYTES or data[start + 1] > 127:
                        return None
                    if data[start + 2 : start + 2 + data[start + 1]] in METADATA_KEPT:
                        continue
                elif key != _DOCUMENTATION:
                    continue
                parts.append(data[kept_from:tag])
                kept_from = at
        except IndexError:
            return None
        if at != len(data):
            return None
        parts.append(data[kept_from:])
        self.charge(sum(map(len, parts)))
        return parts

    def attribute(self, attribute: Field, number: int, depth: int) -> bytes:
        if attribute.end - attribute.start <= SMALL and LOCATION not in (whole := self.keep(attribute)):
            return whole
        parts: list[bytes] = []
        for field in self.window.fields(attribute.start, attribute.end):
            if field.wire == BYTES and field.number in (5, 10):
                parts.append(self.tensor(field, field.number))
            elif field.wire == BYTES and field.number in (6, 11):
                parts.append(self.nested(field.number, field, lambda a, b: self.graph(a, b, depth + 1)))
            elif field.wire == BYTES and field.number in (22, 23):
                parts.append(self.sparse_tensor(field, field.number))
            elif field.number in (7, 8):
                return self.keep(attribute)  # a list of numbers, one field each: nothing to skip
            elif field.number != 13:
                parts.append(self.keep(field))
        return message(number, parts)

    def value_info(self, value: Field) -> bytes:
        if value.end - value.start <= SMALL // 4:
            return self.keep(value)
        parts: list[bytes] = []
        for field in self.window.fields(value.start, value.end):
            if field.number == 4 and field.wire == BYTES:
                parts.extend(self.metadata(field))
            elif field.number in (1, 2):
                parts.append(self.keep(field))
        return message(13, parts)

    def metadata(self, entry: Field) -> list[bytes]:
        """A metadata entry if it is one of those kept, else nothing."""
        head = self.window.bytes(entry.start, min(entry.end, entry.start + 64))
        if len(head) > 2 and head[0] == 1 << 3 | BYTES and head[1] < len(head) - 1:  # a short key comes first, as usual
            return [self.keep(entry)] if head[2 : 2 + head[1]] in METADATA_KEPT else []
        for field in self.window.fields(entry.start, entry.end):
            if field.number == 1 and field.wire == BYTES:
                short = field.end - field.start < 64
                kept_key = short and self.window.bytes(field.start, field.end) in METADATA_KEPT
                return [self.keep(entry)] if kept_key else []
        return []

    def initializer(self, field: Field, depth: int) -> bytes:
        if usual := self.usual_tensor(field):
            stored, content = usual
            if depth:
                return message(5, [content, self.remember(stored, depth)])
            self.enter(stored)
            length = len(content)
            return b"%c%c%b" % (5 << 3 | BYTES, length, content) if length < 128 else message(5, [content])
        if field.end - field.start <= SMALL and (whole := self.small_tensor(field)):
            mark = self.remember(whole, depth)
            kept = self.keep(field)
            return message(5, [kept[-(field.end - field.start) :], mark]) if mark else kept
        tensor = self.take_apart(field)
        payload = self.small_payload(tensor)
        return message(5, [*tensor.head, *payload, self.remember(tensor.with_elements(payload), depth)])

    def sparse_initializer(self, sparse: Field, depth: int) -> bytes:
        """A sparse initialiser as a dense one without data: its cost follows its shape."""
        dims, values, indices, _ = self.sparse(sparse)
        refuse_impossible(self.source.name, values.name, values.code, dims)
        stored = replace(values.stored(), dims=tuple(dims), lies=(), sparse=(values.stored(), indices.stored()))
        head = [message(8, [values.name.encode()]), number_field(2, values.code)]
        return message(5, [*head, *(number_field(1, d) for d in dims), self.remember(stored, depth)])

    def remember(self, stored: Stored, depth: int) -> bytes:
        """Write down where an initialiser lies; in the body of a control flow it gets a mark, as names repeat."""
        if depth == 0:
            self.enter(stored)
            return b""
        mark = tag(len(self.inner))
        self.inner[mark] = stored
        return message(12, [mark.encode()])

    def enter(self, stored: Stored) -> None:
        """Write down where an initialiser of the main graph lies.

        Raises:
            ModelError: another one has its name; runtimes take one of the two.
        """
        twin = self.initializers.setdefault(stored.name, stored)
        if twin is not stored:
            refuse_twin(self.source.name, twin, stored)
            self.initializers[stored.name] = stored

    def tensor(self, field: Field, number: int) -> bytes:
        """A tensor in an attribute; when its elements are left out, it gets a name by which they are found again."""
        tensor = self.take_apart(field)
        payload = self.small_payload(tensor)
        if not payload:
            name = tag(len(self.inner))
            self.inner[name] = replace(tensor.stored(), mark=name)
            payload = [message(8, [name.encode()])]
        return message(number, tensor.head + payload)

    def sparse_tensor(self, field: Field, number: int) -> bytes:
        """A sparse tensor in an attribute, without its values and indices."""
        dims, values, indices, parts = self.sparse(field)
        name = tag(len(self.inner))
        self.inner[name] = replace(
            values.stored(), dims=tuple(dims), lies=(), sparse=(values.stored(), indices.stored()), mark=name
        )
        head = [*values.head, message(8, [name.encode()])]
        return message(number, [message(1, head), message(2, indices.head), *parts])
