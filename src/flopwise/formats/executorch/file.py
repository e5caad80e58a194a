"""A program of ExecuTorch's as the file holds it: values, operators and instructions of its methods.

Source: schema/program.fbs and schema/extended_header.cpp of ExecuTorch 1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flopwise.readers.source.flatbuffer import FlatBuffer, Table
from flopwise.readers.source.source import Source
from flopwise.readers.subgraphs.tensors import Extent

#: What stands at the second four bytes of a program, and of the header behind it.
IDENTIFIER, _HEADER = b"ET12", b"eh00"

#: Numbers of element types (scalar_type.fbs).
DTYPES: Mapping[int, str] = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    12: "int8", 13: "uint8", 14: "int32", 15: "bfloat16", 16: "uint4", 17: "uint2", 23: "float8e5m2",
    24: "float8e4m3fn", 25: "float8e5m2fnuz", 26: "float8e4m3fnuz", 27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip


class Value(NamedTuple):
    """A tensor of a method; its sizes are bounds where they are not static."""

    dtype: str
    shape: tuple[int, ...]
    dynamic: bool
    name: str
    #: Where its elements lie; None for one that is computed, or whose elements lie in another file.
    place: Extent | None
    #: Whether it is stored: its elements are in the file or in another one.
    stored: bool
    #: Whether it is written, and keeps what is written.
    mutable: bool
    #: The area of memory and the byte in it where it is planned; a view has that of what it looks at.
    address: tuple[int, int] | None


class Items(NamedTuple):
    """A list of values by their numbers; -1 stands for none."""

    values: tuple[int, ...]


class Kernel(NamedTuple):
    """An instruction that runs an operator, or what a backend has compiled."""

    #: With its namespace and overload: "aten::add.out"; of a backend its name.
    name: str
    args: tuple[int, ...]
    delegated: bool = False


class Move(NamedTuple):
    """An instruction that makes a value another one."""

    source: int
    target: int


class Jump(NamedTuple):
    """An instruction that goes on elsewhere if a value is false."""

    condition: int
    target: int


Instruction = Kernel | Move | Jump | None


class Method(NamedTuple):
    """An entry point of a program."""

    name: str
    values: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    #: Bytes of each area of memory that is planned ahead.
    areas: tuple[int, ...]


def read_program(source: Source) -> tuple[Method, ...]:
    """The methods of a program.

    Raises:
        ModelError: it makes no sense.
    """
    head = source.read(0, min(source.size, 40))
    if head[4:8] != IDENTIFIER:
        raise FlatBuffer(source, 0, source.size, _WHAT).error("it does not begin as one")
    size, base = source.size, 0
    if head[8:12] == _HEADER and len(head) >= 32:
        size, base = (int.from_bytes(head[place : place + 8], "little") for place in (16, 24))
    buffer = FlatBuffer(source, 0, min(size, source.size), _WHAT)
    return _Reader(buffer, base).methods()


_WHAT = "ExecuTorch program"


class _Reader:
    """The tables of one file, by the field numbers of the schema."""

    def __init__(self, buffer: FlatBuffer, base: int) -> None:
        self.buffer, self.root, self.base = buffer, buffer.root(), base
        self.segments = [(table.number(0, "Q"), table.number(1, "Q")) for table in self.root.tables(4)]
        self.inline = [table.extent(0, 1) for table in self.root.tables(2)]
        constants = self.root.table(5)
        self.constants = self._offsets(constants)
        self.initial = [self._offsets(table) for table in self.root.tables(6)]
        self.named = {table.text(0): table.number(1, "I") for table in self.root.tables(7)}

    def methods(self) -> tuple[Method, ...]:
        methods = tuple([self._method(table) for table in self.root.tables(1)])
        if not methods:
            raise self.buffer.error("it has no method")
        return methods

    def _offsets(self, table: Table | None) -> tuple[int, tuple[int, ...]]:
        """A segment, and where in it the elements of each tensor begin."""
        return (0, ()) if table is None else (table.number(0, "I"), table.numbers(1, "Q"))

    def _method(self, table: Table) -> Method:
        values = tuple([self._value(one) for one in table.tables(2)])
        operators = [(one.text(0), one.text(1)) for one in table.tables(6)]
        names = [f"{name}.{overload}" if overload else name for name, overload in operators]
        delegates = [one.text(0) for one in table.tables(7)]
        chains = list(table.tables(5))
        if len(chains) > 1:
            raise self.buffer.error(f"a method has {len(chains)} chains; those of one are read")
        instructions = [self._instruction(one, names, delegates) for chain in chains for one in chain.tables(2)]
        inputs, outputs = table.numbers(3), table.numbers(4)
        for place in (*inputs, *outputs, *_used(instructions), *_members(values)):
            if not -1 <= place < len(values):
                raise self.buffer.error(f"value {place} is named, but there are {len(values)}")
        return Method(table.text(0), values, inputs, outputs, tuple(instructions), table.numbers(8, "q"))

    def _instruction(self, table: Table, names: list[str], delegates: list[str]) -> Instruction:
        kind, content = table.number(0, "B"), table.table(1)
        if content is None or kind == 5:  # which frees a value
            return None
        first, second = content.number(0), content.number(1) if kind > 2 else 0
        if kind in (1, 2):
            known = names if kind == 1 else delegates
            if not 0 <= first < len(known):
                raise self.buffer.error(f"operator {first} is named, but there are {len(known)}")
            return Kernel(known[first], content.numbers(1), kind == 2)
        if kind == 3:
            return Move(first, second)
        if kind == 4:
            return Jump(first, second)
        raise self.buffer.error(f"an instruction of kind {kind}")

    def _value(self, table: Table) -> Any:
        """A value: a tensor, a number, a text, a list; None for nothing."""
        kind, content = table.number(0, "B"), table.table(1)
        if content is None or kind == 1:
            return None
        if kind == 5:
            return self._tensor(content)
        rule = _VALUES.get(kind)
        if rule is None:
            raise self.buffer.error(f"a value of kind {kind}")
        return rule(content)

    def _tensor(self, table: Table) -> Value:
        sizes, code = table.numbers(2), table.number(0, "b")
        if code not in DTYPES or any(size < 0 for size in sizes):
            raise self.buffer.error(f"a tensor has the element type {code} and the shape {list(sizes[:8])}")
        extra, index, planned = table.table(9), table.number(5, "I"), table.table(6)
        name = extra.text(1) if extra is not None else ""
        outside = extra is not None and extra.number(2, "b") == 1
        place = None
        if outside:
            place = self._named(name)
        elif index:
            group = self.constants
            if planned is not None:
                which = extra.number(0, "Q") if extra is not None else 0
                group = self.initial[which] if which < len(self.initial) else (0, ())
            place = self._place(group, index)
        dynamic = table.number(8, "b") != 0
        address = None if planned is None else address_of(planned)
        return Value(DTYPES[code], sizes, dynamic, name, place, bool(outside or index), planned is not None, address)

    def _place(self, group: tuple[int, tuple[int, ...]], index: int) -> Extent | None:
        """Where the elements of a tensor begin, and where what they lie in ends."""
        if index < len(self.inline):
            start, count = self.inline[index]
            return Extent(start, start + count)
        number, offsets = group
        if index >= len(offsets) or number >= len(self.segments):
            raise self.buffer.error(f"constant {index} is named, but there are {len(offsets)}")
        start, size = self.segments[number]
        return self._extent(start + offsets[index], start + size)

    def _named(self, name: str) -> Extent | None:
        number = self.named.get(name)
        if number is None or number >= len(self.segments):
            return None
        start, size = self.segments[number]
        return self._extent(start, start + size)

    def _extent(self, start: int, end: int) -> Extent:
        start, end = self.base + start, self.base + end
        if not start <= end <= self.buffer.source.size:
            raise self.buffer.error(f"elements at byte {start:,} of {self.buffer.source.size:,}")
        return Extent(start, end)


#: Kind of a value in the union of the schema -> what reads it.
_VALUES: Mapping[int, Callable[[Table], Any]] = {
    2: lambda table: table.number(0, "q"),
    3: lambda table: bool(table.number(0, "?", False)),
    4: lambda table: float(table.number(0, "d", 0.0)),
    6: lambda table: table.text(0),
    7: lambda table: Items(table.numbers(0, "q")),
    8: lambda table: list(table.numbers(0, "d")),
    9: lambda table: [bool(one) for one in table.numbers(0, "B")],
    10: lambda table: Members(table.numbers(0)),
    11: lambda table: Members(table.numbers(0)),
}


def address_of(planned: Table) -> tuple[int, int]:
    """The buffer in which a tensor lies, and the byte of it: ``AllocationDetails`` has it in two halves."""
    return planned.number(0, "I"), planned.number(1, "I") | planned.number(2, "I") << 32


class Members(NamedTuple):
    """A list of tensors by their numbers; -1 stands for none."""

    values: tuple[int, ...]


def _used(instructions: list[Instruction]) -> list[int]:
    used: list[int] = []
    for one in instructions:
        if isinstance(one, Kernel):
            used += one.args
        elif isinstance(one, Move):
            used += (one.source, one.target)
        elif isinstance(one, Jump):
            used.append(one.condition)
    return used


def _members(values: tuple[object, ...]) -> list[int]:
    return [place for value in values if isinstance(value, (Items, Members)) for place in value.values]
