"""A TensorFlow Lite model as the file holds it: its subgraphs, and where the buffers lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flopwise.formats.tflite.file.schema import BUILTIN, CUSTOM, DTYPES, OPTIONS
from flopwise.readers.source.flatbuffer import FlatBuffer, Scalar, Table
from flopwise.readers.source.source import Source
from flopwise.readers.subgraphs.tensors import Extent, Level, Operator, Quantization, Sparsity, Tensor

#: What stands at the second four bytes of a model.
IDENTIFIER = b"TFL3"

#: Codes of builtin operators up to this one may stand in the first field, which has eight bits.
_OLD_CODES = 127


class Subgraph(NamedTuple):
    """One graph: that of the model, or of a control flow."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


class Model(NamedTuple):
    """All of a file but the elements of its tensors."""

    description: str
    subgraphs: tuple[Subgraph, ...]
    #: Where the metadata of each name lie.
    metadata: Mapping[str, Extent]
    #: Name of a signature -> its subgraph.
    signatures: Mapping[str, int]


def read_model(source: Source, start: int = 0, size: int | None = None) -> Model:
    """The model in a file, or in a part of it.

    Raises:
        ModelError: it makes no sense.
    """
    buffer = FlatBuffer(source, start, source.size - start if size is None else size)
    return _Reader(buffer).model()


class _Reader:
    """The tables of one file, by the field numbers of the schema."""

    def __init__(self, buffer: FlatBuffer) -> None:
        self.buffer = buffer
        self.root = buffer.root()
        self.buffers = [self._buffer(table) for table in self.root.tables(4)]
        self.codes = [self._code(table) for table in self.root.tables(1)]

    def model(self) -> Model:
        subgraphs = tuple([self._subgraph(table) for table in self.root.tables(2)])
        if not subgraphs:
            raise self.buffer.error("it has no subgraph")
        signatures = {table.text(2): int(table.number(4, "I")) for table in self.root.tables(7)}
        entries = [(table.text(0), table.number(1, "I")) for table in self.root.tables(6)]
        metadata = {name: found for name, place in entries if (found := self._of(place)) is not None}
        return Model(self.root.text(3), subgraphs, metadata, signatures)

    def _of(self, place: int) -> Extent | None:
        """The elements of a buffer."""
        if place >= len(self.buffers):
            raise self.buffer.error(f"buffer {place} is named, but there are {len(self.buffers)}")
        return self.buffers[place]

    def _buffer(self, table: Table) -> Extent | None:
        """Where a buffer's bytes lie; in a file of more than 2 GB behind the flatbuffer. None for an empty one."""
        start, count = table.extent(0, 1)
        if not count and table.number(1, "Q") > 1:
            start, count = table.number(1, "Q"), table.number(2, "Q")
            if start + count > self.buffer.size:
                raise self.buffer.error(f"a buffer ends at byte {start + count:,}, the file at {self.buffer.size:,}")
        return self._extent(start, count) if count else None

    def _extent(self, start: int, nbytes: int) -> Extent:
        return Extent(self.buffer.start + start, self.buffer.start + start + nbytes)

    def _code(self, table: Table) -> tuple[str, str]:
        """The operator that a code stands for, and the name of a custom one."""
        old = table.number(0, "b")
        code = max(old, table.number(3, "i", old)) if old < _OLD_CODES else table.number(3, "i", old)
        if not 0 <= code < len(BUILTIN):
            raise self.buffer.error(f"builtin operator {code}; the newest that is known is {len(BUILTIN) - 1}")
        return BUILTIN[code], table.text(1)

    def _subgraph(self, table: Table) -> Subgraph:
        tensors = tuple([self._tensor(one) for one in table.tables(0)])
        inputs, outputs = table.numbers(1), table.numbers(2)
        operators = tuple([self._operator(one) for one in table.tables(3)])
        for place in (*inputs, *outputs, *(p for o in operators for p in (*o.inputs, *o.outputs))):
            if not -1 <= place < len(tensors):
                raise self.buffer.error(f"tensor {place} is named, but there are {len(tensors)}")
        return Subgraph(table.text(4), tensors, inputs, outputs, operators)

    def _tensor(self, table: Table) -> Tensor:
        name, shape = table.text(3), table.numbers(0)
        if any(extent < 0 for extent in shape):
            raise self.buffer.error(f"tensor {name!r} has the shape {list(shape[:8])}")
        code = table.number(1, "b")
        if not 0 <= code < len(DTYPES):
            raise self.buffer.error(f"tensor {name!r} has the element type {code}")
        sparsity = table.table(6)
        return Tensor(
            name,
            shape,
            table.numbers(7) or shape,
            DTYPES[code],
            self._of(table.number(2, "I")),
            self._quantization(table.table(4)),
            table.number(5, "?", False),
            None if sparsity is None else self._sparsity(sparsity),
        )

    def _quantization(self, table: Table | None) -> Quantization | None:
        if table is None:
            return None
        scales, count = table.extent(2, 4)
        zeros, zero_count = table.extent(3, 8)
        if not count:
            return None
        extents = self._extent(scales, 4 * count), self._extent(zeros, 8 * zero_count)
        return Quantization(
            extents[0], count, table.numbers(2, "f")[0], table.numbers(3, "q"), extents[1], table.number(6)
        )

    def _sparsity(self, table: Table) -> Sparsity:
        levels = []
        for level in table.tables(2):
            if level.number(0, "b") == 0:
                levels.append(Level(level.number(1, "i", 1)))
            else:
                levels.append(Level(-1, self._indices(level, 2), self._indices(level, 4)))
        return Sparsity(table.numbers(0), table.numbers(1), tuple(levels))

    def _indices(self, level: Table, field: int) -> tuple[int, ...]:
        """A vector of 32, 16 or 8 bits, as the field before it says."""
        kinds: dict[int, Scalar] = {1: "i", 2: "H", 3: "B"}
        kind, table = kinds.get(level.number(field, "B")), level.table(field + 1)
        return () if kind is None or table is None else table.numbers(0, kind)

    def _operator(self, table: Table) -> Operator:
        place = table.number(0, "I")
        if place >= len(self.codes):
            raise self.buffer.error(f"operator code {place} is named, but there are {len(self.codes)}")
        op, custom = self.codes[place]
        options = table.table(4) or table.table(12)
        read: dict[str, object] = {}
        for name, (number, kind, default, vector) in OPTIONS.get(op, {}).items():
            if vector:
                read[name] = () if options is None else options.numbers(number, kind)
            else:
                read[name] = default if options is None else options.number(number, kind, default)
        if op == "BUCKETIZE":
            read["boundaries"] = 0 if options is None else options.extent(0, 4)[1]
        return Operator(op, custom if op == CUSTOM else "", table.numbers(1), table.numbers(2), read)
