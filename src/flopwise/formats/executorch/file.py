"""A program of ExecuTorch's as the file holds it: values, operators and instructions of its methods.

Source: schema/program.fbs and schema/extended_header.cpp of ExecuTorch 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flopwise.errors import damaged
from flopwise.formats.sources.flatbuffer import Extent, FlatBuffer
from flopwise.formats.sources.schema import Message, schema
from flopwise.formats.sources.source import Source

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


WHAT = "ExecuTorch program"

SCHEMA = schema("""
Program: execution_plan 1 ExecutionPlan*, constant_buffer 2 Buffer*, segments 4 DataSegment*, \
constant_segment 5 SubsegmentOffsets, mutable_data_segments 6 SubsegmentOffsets*, named_data 7 NamedData*
Buffer: storage 0 @B
DataSegment: offset 0 Q, size 1 Q
SubsegmentOffsets: segment_index 0 I, offsets 1 Q*
NamedData: key 0 text, segment_index 1 I
ExecutionPlan: name 0 text, values 2 EValue*, inputs 3 i*, outputs 4 i*, chains 5 Chain*, operators 6 Operator*, \
delegates 7 BackendDelegate*, areas 8 q*
EValue: kind 0 B, content 1 table
Int: value 0 q
Bool: value 0 ?
Double: value 0 d
Tensor: scalar_type 0 b, sizes 2 i*, data_buffer_idx 5 I, allocation_info 6 AllocationDetails, shape_dynamism 8 b, \
extra 9 ExtraTensorInfo
String: value 0 text
IntList: value 0 q*
DoubleList: value 0 d*
BoolList: value 0 B*
TensorList OptionalTensorList: value 0 i*
AllocationDetails: memory_id 0 I, low 1 I, high 2 I
ExtraTensorInfo: segment 0 Q, name 1 text, location 2 b
Chain: instructions 2 Instruction*
Operator: name 0 text, overload 1 text
BackendDelegate: id 0 text
Instruction: kind 0 B, content 1 table
KernelCall DelegateCall: first 0 i, args 1 i*
MoveCall JumpFalseCall: first 0 i, second 1 i
""")

#: The unions of the schema: kinds of values and of instructions by their codes; nothing, and what frees a value.
_VALUES = {
    2: "Int", 3: "Bool", 4: "Double", 5: "Tensor", 6: "String", 7: "IntList", 8: "DoubleList", 9: "BoolList",
    10: "TensorList", 11: "OptionalTensorList",
}  # fmt: skip
_INSTRUCTIONS = {1: "KernelCall", 2: "DelegateCall", 3: "MoveCall", 4: "JumpFalseCall"}
_NULL, _FREE = 1, 5


def read_program(source: Source) -> tuple[Method, ...]:
    """The methods of a program.

    Raises:
        ModelError: it makes no sense.
    """
    head = source.read(0, min(source.size, 40))
    if head[4:8] != IDENTIFIER:
        raise damaged(source.name, "it does not begin as one", WHAT)
    size, base = source.size, 0
    if head[8:12] == _HEADER and len(head) >= 32:
        size, base = (int.from_bytes(head[place : place + 8], "little") for place in (16, 24))
    buffer = FlatBuffer(source, 0, min(size, source.size), SCHEMA, WHAT)
    root = buffer.root("Program")
    reader = _Reader(buffer, base, root, {one["key"]: one["segment_index"] for one in root["named_data"]})
    methods = tuple([reader.method(table) for table in reader.root["execution_plan"]])
    if not methods:
        raise buffer.error("it has no method")
    return methods


class _Reader(NamedTuple):
    """The tables of one file."""

    buffer: FlatBuffer
    #: Where segments begin.
    base: int
    root: Message
    #: Segments by the names of the tensors in them.
    named: Mapping[str, int]

    def method(self, table: Message) -> Method:
        values = tuple([self._value(one["kind"], one["content"]) for one in table["values"]])
        names = [f"{one['name']}.{one['overload']}".removesuffix(".") for one in table["operators"]]
        delegates = [one["id"] for one in table["delegates"]]
        chains = table["chains"]
        if len(chains) > 1:
            raise self.buffer.error(f"a method has {len(chains)} chains; those of one are read")
        instructions = [
            self._instruction(one["kind"], one["content"], names, delegates)
            for chain in chains
            for one in chain["instructions"]
        ]
        for place in (*table["inputs"], *table["outputs"], *_used(instructions), *_members(values)):
            if not -1 <= place < len(values):
                raise self.buffer.error(f"value {place} is named, but there are {len(values)}")
        return Method(table["name"], values, table["inputs"], table["outputs"], tuple(instructions), table["areas"])

    def _instruction(self, code: int, at: int | None, names: list[str], delegates: list[str]) -> Instruction:
        if at is None or code == _FREE:
            return None
        kind = _INSTRUCTIONS.get(code)
        if kind is None:
            raise self.buffer.error(f"an instruction of kind {code}")
        table = self.buffer.table(kind, at)
        if kind == "MoveCall":
            return Move(table["first"], table["second"])
        if kind == "JumpFalseCall":
            return Jump(table["first"], table["second"])
        known = names if kind == "KernelCall" else delegates
        if not 0 <= table["first"] < len(known):
            raise self.buffer.error(f"operator {table['first']} is named, but there are {len(known)}")
        return Kernel(known[table["first"]], table["args"], kind == "DelegateCall")

    def _value(self, code: int, at: int | None) -> Any:
        """A value: a tensor, a number, a text, a list; None for nothing."""
        if at is None or code == _NULL:
            return None
        kind = _VALUES.get(code)
        if kind is None:
            raise self.buffer.error(f"a value of kind {code}")
        table = self.buffer.table(kind, at)
        if kind == "Tensor":
            return self._tensor(table)
        value = table["value"]
        if kind == "IntList":
            return Items(value)
        if kind in ("TensorList", "OptionalTensorList"):
            return Members(value)
        if kind == "BoolList":
            return [bool(one) for one in value]
        return list(value) if kind == "DoubleList" else float(value) if kind == "Double" else value

    def _tensor(self, table: Message) -> Value:
        sizes, code = table["sizes"], table["scalar_type"]
        if code not in DTYPES or any(size < 0 for size in sizes):
            raise self.buffer.error(f"a tensor has the element type {code} and the shape {list(sizes[:8])}")
        extra, index, planned = table["extra"] or _NO_EXTRA, table["data_buffer_idx"], table["allocation_info"]
        place = None
        if extra["location"] == 1:  # in a file of its own, or under its name in this one
            number = self.named.get(extra["name"], -1)
            if 0 <= number < len(self.root["segments"]):
                place = self._in_segment(self.root["segments"][number])
        elif index:
            group, groups = self.root["constant_segment"], self.root["mutable_data_segments"]
            if planned is not None:
                group = groups[extra["segment"]] if extra["segment"] < len(groups) else None
            place = self._place(group, index)
        stored = bool(extra["location"] == 1 or index)
        address = None if planned is None else address_of(planned)
        dynamic = table["shape_dynamism"] != 0
        return Value(DTYPES[code], sizes, dynamic, extra["name"], place, stored, planned is not None, address)

    def _place(self, group: Message | None, index: int) -> Extent:
        """Where the elements of a tensor begin, and where what they lie in ends."""
        inline, segments = self.root["constant_buffer"], self.root["segments"]
        if index < len(inline):
            start, count = inline[index]["storage"]
            return Extent(start, start + count)
        number, offsets = (0, ()) if group is None else (group["segment_index"], group["offsets"])
        if index >= len(offsets) or number >= len(segments):
            raise self.buffer.error(f"constant {index} is named, but there are {len(offsets)}")
        return self._in_segment(segments[number], offsets[index])

    def _in_segment(self, segment: Message, offset: int = 0) -> Extent:
        start, end = self.base + segment["offset"] + offset, self.base + segment["offset"] + segment["size"]
        if not start <= end <= self.buffer.source.size:
            raise self.buffer.error(f"elements at byte {start:,} of {self.buffer.source.size:,}")
        return Extent(start, end)


_NO_EXTRA: Message = {"segment": 0, "name": "", "location": 0}


def address_of(planned: Message) -> tuple[int, int]:
    """The buffer in which a tensor lies, and the byte of it: ``AllocationDetails`` has it in two halves."""
    return planned["memory_id"], planned["low"] | planned["high"] << 32


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
