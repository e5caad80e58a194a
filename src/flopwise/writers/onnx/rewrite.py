"""The bytes of an ONNX file with its plan carried out: one walk over the file, in which what stays is copied by place.

Lengths of nested messages are summed, never measured by building the message: the ranges that are copied may be larger
than memory, and than the 2 GB that protobuf can parse or write.
Field numbers: see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from flopwise.formats.onnx.file.decode import Decoder
from flopwise.formats.onnx.file.stripped import MARK
from flopwise.formats.onnx.file.tensors import TensorWalk
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import BYTES, VARINT, Field, message, varint
from flopwise.writers.onnx.plan import GraphPlan
from flopwise.writers.onnx.stripped import Hollow
from flopwise.writers.onnx.values import Ends, put

#: Keys of metadata that begin so are written by flopwise.
OURS = "flopwise."

#: Positions in ``Graph.nodes`` -> metadata of the operator that stands for these; empty for none.
NoteOf = Callable[[Sequence[int]], Mapping[str, str]]


class Rewrite(TensorWalk):
    """A walk over a file that gives its bytes with new shapes, outputs and notes, and without weights if so wished."""

    def __init__(self, source: Source, note: NoteOf | None, hollow: Hollow | None, outputs: Sequence[str]) -> None:
        """
        Args:
            source: the file, or other bytes of a model.
            note: metadata for operators; None to leave operators as they are.
            hollow: what writes tensors without their elements; None to keep the elements.
            outputs: names of tensors that become outputs of the model.
        """
        super().__init__(source)
        self.decoder = Decoder({}, source.name)
        self.note = note
        self.hollow = hollow
        self.outputs = outputs

    def parts(self, start: int, end: int) -> list[Field]:
        """All that is in a message, so that nothing is lost."""
        return list(self.window.fields(start, end, with_groups=True))

    def model(self, plan: GraphPlan) -> Pieces:
        """The whole file."""
        fields = self.parts(0, self.source.size)
        graphs = [f for f in fields if f.number == 7 and f.wire == BYTES]
        out = Pieces()
        for field in fields:
            if field.number == 7 and field.wire == BYTES:
                if field is graphs[0]:  # protobuf reads several as one
                    out.field(7, self.graph(graphs, plan))
            elif field.number == 25 and field.wire == BYTES and self.hollow:
                out.field(25, self.function(field))
            elif field.number == 20 and field.wire == BYTES and self.hollow:
                training = self.parts(field.start, field.end)
                out.field(20, self.with_graphs(training, (1, 2), GraphPlan()))
            else:
                out.copy(field.tag, field.end)
        return out

    def graph(self, messages: Sequence[Field], plan: GraphPlan) -> Pieces:
        """A graph, given as one message or more."""
        fields = [f for m in messages for f in self.parts(m.start, m.end)]
        constants, stored = self.constants(fields)
        ends = Ends(plan, self.outputs if plan.main else ())
        others = Pieces()
        for field in fields:
            if field.wire != BYTES:
                others.copy(field.tag, field.end)
            elif field.number == 1:
                self.node(others, field, 1, plan)
            elif field.number in (5, 15) and field.start in stored:
                others.add(stored[field.start])
            elif field.number in (11, 12, 13):
                content = self.window.bytes(field.start, field.end)
                value = self.decoder.value(content)
                if field.number == 11 and value.name in constants:
                    continue  # in old files every initialiser is an input as well
                changed = put(ends, field.number, value, content)
                if changed is None:
                    others.copy(field.tag, field.end)
                elif changed:
                    others.add(message(field.number, [changed]))
            else:
                others.copy(field.tag, field.end)
        for number, entry in ends.new():
            others.add(message(number, [entry]))
        if not constants:
            return others
        out = Pieces()
        for constant in constants.values():  # before the operators that use them
            out.add(constant)
        out.extend(others)
        return out

    def constants(self, fields: Sequence[Field]) -> tuple[dict[str, bytes], dict[int, bytes]]:
        """Initialisers that lose their elements, as operators by name; and what is written in place of each field."""
        constants: dict[str, bytes] = {}
        places: dict[int, bytes] = {}
        if not self.hollow:
            return constants, places
        for field in fields:
            if field.wire != BYTES or field.number not in (5, 15):
                continue
            constant: bytes | None
            if field.number == 15:
                dims, values, _, _ = self.sparse(field)
                name, constant = values.name, self.hollow.sparse(values, dims)
            else:
                tensor = self.take_apart(field)
                name, inline, constant = tensor.name, self.hollow.inline(tensor), self.hollow.initializer(tensor)
                if inline is not None:
                    places[field.start] = message(5, [inline])
            if constant is not None:
                constants[name], places[field.start] = message(1, [constant]), b""
        return constants, places

    def node(self, out: Pieces, field: Field, number: int, plan: GraphPlan) -> None:
        """Append an operator."""
        if not (self.note or self.hollow or plan.bodies):
            out.copy(field.tag, field.end)
            return
        fields = self.parts(field.start, field.end)
        first = self.first_text(fields, 2)
        note = self.note(plan.positions.get(first, ())) if self.note else {}
        constant = self.hollow is not None and self.first_text(fields, 4) == "Constant"
        content = Pieces()
        changed = bool(note)
        for part in fields:
            is_attribute, is_note = part.wire == BYTES and part.number == 5, part.wire == BYTES and part.number == 9
            if is_attribute and (rewritten := self.attribute(part, first, plan, constant)) is not None:
                content.field(5, rewritten)
                changed = True
            elif is_note and self.note and self.is_ours(part):
                changed = True
            else:
                content.copy(part.tag, part.end)
        if not changed:
            out.copy(field.tag, field.end)
            return
        for key, text in note.items():
            content.add(message(9, [message(1, [key.encode()]), message(2, [text.encode()])]))
        out.field(number, content)

    def attribute(self, field: Field, first: str, plan: GraphPlan, constant: bool) -> Pieces | None:
        """An attribute of the operator that makes ``first``; None when it stays."""
        fields = self.parts(field.start, field.end)
        if constant:
            return self.held(fields)
        if not any(f.number in (6, 11) and f.wire == BYTES for f in fields):
            return None
        body = plan.bodies.get((first, self.first_text(fields, 1)))
        return self.with_graphs(fields, (6, 11), body or GraphPlan(stale=plan.stale))

    def with_graphs(self, fields: Iterable[Field], numbers: tuple[int, ...], plan: GraphPlan) -> Pieces:
        """A message whose fields of these numbers are graphs."""
        content = Pieces()
        for part in fields:
            if part.wire == BYTES and part.number in numbers:
                content.field(part.number, self.graph([part], plan))
            else:
                content.copy(part.tag, part.end)
        return content

    def held(self, fields: Sequence[Field]) -> Pieces | None:
        """The attribute of a Constant operator without the elements of its tensor; None when it stays."""
        assert self.hollow is not None
        changed = None
        for part in fields:
            if part.number == 5 and part.wire == BYTES:
                changed = self.hollow.attribute(self.take_apart(part))
            elif part.number == 22 and part.wire == BYTES:
                dims, values, _, _ = self.sparse(part)
                changed = self.hollow.zeros(values.code, dims)
        if changed is None:
            return None
        content = Pieces()
        content.add(changed)
        return content

    def function(self, field: Field) -> Pieces:
        """A local function without weights."""
        assert self.hollow is not None
        fields = self.parts(field.start, field.end)
        content = Pieces()
        version = max((self.opset(f) for f in fields if f.number == 9), default=0)
        outside, self.hollow.version = self.hollow.version, version
        for part in fields:
            if part.number == 7 and part.wire == BYTES:
                self.node(content, part, 7, GraphPlan())
            else:
                content.copy(part.tag, part.end)
        self.hollow.version = outside
        return content

    def opset(self, field: Field) -> int:
        """The version of the standard operators that an import of operators names; 0 for other operators."""
        parts = list(self.window.fields(field.start, field.end))
        version = next((f.value for f in parts if f.number == 2 and f.wire == VARINT), 0)
        return version if self.first_text(parts, 1) in ("", "ai.onnx") else 0

    def is_ours(self, field: Field) -> bool:
        """True where an entry of metadata was written by flopwise as a note."""
        key = self.first_text(self.window.fields(field.start, field.end), 1)
        return key.startswith(OURS) and key != MARK

    def first_text(self, fields: Iterable[Field], number: int) -> str:
        """The first text under a number that is not empty; "" if there is none."""
        texts = (self.text(f) for f in fields if f.number == number and f.wire == BYTES and f.end > f.start)
        return next(texts, "")


#: Bytes that are copied at a time.
CHUNK = 1 << 20


class Pieces:
    """Bytes one after the other, some of them in a source."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        #: Length of the whole in bytes.
        self.size = 0
        self._parts: list[bytes | tuple[int, int]] = []

    def add(self, data: bytes) -> None:
        """Append new bytes."""
        self._parts.append(data)
        self.size += len(data)

    def copy(self, start: int, end: int) -> None:
        """Append the bytes [start, end) of the source."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, tuple) and last[1] == start:
            self._parts[-1] = (last[0], end)
        else:
            self._parts.append((start, end))
        self.size += end - start

    def field(self, number: int, content: Pieces) -> None:
        """Append a length-delimited field with this content."""
        self.add(varint(number << 3 | BYTES) + varint(content.size))
        self.extend(content)

    def extend(self, other: Pieces) -> None:
        """Append all of another."""
        for part in other._parts:
            if isinstance(part, bytes):
                self.add(part)
            else:
                self.copy(*part)

    def write(self, source: Source, sink: Callable[[bytes], object]) -> None:
        """Hand the bytes over in order, a chunk at a time.

        Args:
            source: what the ranges are ranges of.
            sink: takes bytes, as the ``write`` of a file does.

        Raises:
            ModelError: the source cannot be read.
        """
        for part in self._parts:
            if isinstance(part, bytes):
                sink(part)
                continue
            for start in range(part[0], part[1], CHUNK):
                sink(source.read(start, min(CHUNK, part[1] - start)))
