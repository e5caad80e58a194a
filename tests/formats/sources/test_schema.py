from __future__ import annotations

import struct

import pytest

from flopwise.errors import ModelError
from flopwise.formats.sources.schema import LONGEST, Message, Messages, Unknown, schema
from flopwise.formats.sources.source import BytesSource
from flopwise.formats.sources.wire import message, number_field, varint

SCHEMA = schema("""
Net: name 1 text, layer 2 Layer*, head 3 Layer, note 9 10 skip
Layer Part: size 1 int*, scale 2 float, first 3 int~, data 4 place*, inner 5 Layer, big 6 uint
""")


def read(data: bytes, unknown: Unknown | None = None) -> Message:
    return Messages(BytesSource(data, "m"), SCHEMA, "net").message("Net", (0, len(data)), unknown=unknown)


def test_numbers_packed_or_one_by_one() -> None:
    minus = varint((1 << 64) - 1)
    layer = message(1, [varint(300), minus]) + number_field(1, 7) + b"\x15" + struct.pack("<f", 0.5) + b"\x30" + minus
    values = read(message(1, [b"n\xff"]) + message(2, [layer]) + message(9, [b"..."]))
    assert values == {"name": "n\\xff", "layer": [{"size": [300, -1, 7], "scale": 0.5, "big": (1 << 64) - 1}]}


def test_parts_of_one_message_come_together() -> None:
    assert read(message(3, [number_field(1, 1)]) + message(3, [number_field(1, 2)])) == {"head": {"size": [1, 2]}}


@pytest.mark.parametrize("filler", [0, 1 << 16])
def test_places_are_those_of_the_file_however_long_a_message_is(filler: int) -> None:
    data = message(2, [message(4, [b"x" * filler]), message(4, [b"abc"])])
    start, end = read(data)["layer"][0]["data"][1]
    assert data[start:end] == b"abc"


def test_of_a_long_list_the_beginning_is_enough() -> None:
    assert len(read(message(2, [message(3, [varint(300) * LONGEST])]))["layer"][0]["first"]) == LONGEST // 2
    with pytest.raises(ModelError, match=r"^m: truncated or damaged net \(size is \d+ bytes long\)$"):
        read(message(2, [message(1, [varint(300) * LONGEST])]))


def test_unknown_fields_are_told_and_wrong_ones_refused() -> None:
    unknown: Unknown = []
    read(message(2, [number_field(77, 1)]) + message(78, [b"abc"]), unknown)
    assert [(kind, field.number) for kind, field in unknown] == [("Layer", 77), ("Net", 78)]
    with pytest.raises(ModelError, match="field 1 of Net is of another type"):
        read(number_field(1, 1))
    with pytest.raises(ModelError, match="a number does not end"):
        read(message(2, [message(1, [b"\xff"])]))


def test_messages_do_not_nest_without_end() -> None:
    data = b""
    for _ in range(200):
        data = message(5, [data])
    with pytest.raises(ModelError, match="nested too deep"):
        read(message(2, [data]))
    with pytest.raises(ModelError, match="more than 3 messages"):
        Messages(BytesSource(message(2, []) * 4), SCHEMA, "net", most=3).message("Net", (0, 8))
