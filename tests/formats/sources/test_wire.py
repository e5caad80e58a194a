from __future__ import annotations

import random

import pytest

from flopwise.errors import ModelError
from flopwise.formats.sources.source import BytesSource
from flopwise.formats.sources.wire import (
    BYTES,
    FIRST_READ,
    FIXED32,
    FIXED64,
    LONGEST_READ,
    VARINT,
    Window,
    fields,
    message,
    number_field,
    signed,
    varint,
    varints,
)


def window(data: bytes) -> Window:
    return Window(BytesSource(data, "m"))


def test_fields_by_place() -> None:
    data = number_field(1, 300) + message(2, [b"abc"]) + b"\x1d" + b"1234" + b"\x21" + b"12345678" + message(5, [])
    found = list(window(data).fields(0, len(data)))
    assert [(f.number, f.wire, f.value) for f in found] == [
        (1, VARINT, 300),
        (2, BYTES, 0),
        (3, FIXED32, 0),
        (4, FIXED64, 0),
        (5, BYTES, 0),
    ]
    assert [data[f.start : f.end] for f in found] == [b"", b"abc", b"1234", b"12345678", b""]
    assert [f.tag for f in found] == [0, *(f.end for f in found[:-1])]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 32) - 1, 1 << 62, (1 << 64) - 1])
def test_numbers_there_and_back(value: int) -> None:
    assert varints(varint(value)) == [value]
    data = number_field(536870911, value)
    (found,) = window(data).fields(0, len(data))
    assert (found.number, found.value) == (536870911, value)


def test_signs() -> None:
    assert [signed(v) for v in (0, 5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)] == [0, 5, (1 << 63) - 1, -1 << 63, -1]


def test_a_number_may_be_longer_than_needed() -> None:
    assert varints(b"\x81\x80\x80\x00") == [1]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x08", "a number does not end"),
        (b"\x08\x80", "a number does not end"),
        (b"\x08" + b"\xff" * 11, "a number does not end"),
        (b"\xff" * 30, "a number does not end"),
        (b"\x00\x00", "field number 0"),
        (b"\x0c", "wire type 4"),
        (b"\x0e\x00", "wire type 6"),
        (b"\x0a\x05abc", "field 1 is 2 bytes longer than what holds it"),
        (b"\x0a" + varint((1 << 64) - 1), "field 1 is 18446744073709551615 bytes longer"),
        (b"\x0d123", "field 1 is 1 bytes longer"),
    ],
)
def test_damage(data: bytes, told: str) -> None:
    with pytest.raises(ModelError, match=f"m: truncated or damaged at byte 0 .{told}"):
        list(window(data).fields(0, len(data)))


def test_groups_are_left_out() -> None:
    group, field = b"\x0b\x08\x01\x13\x0a\x01a\x14\x0c", b"\x0a\x01a"
    assert [f.tag for f in window(field + group + field).fields(0, 15)] == [0, 12]
    assert [f.tag for f in window(field * 2 + group + field).fields(0, 18, run=10, longest=9)] == [0, 15]
    whole = list(window(field + group + field).fields(0, 15, with_groups=True))
    assert [(f.tag, f.start, f.end) for f in whole] == [(0, 2, 3), (3, 3, 12), (12, 14, 15)]
    assert list(fields(field + group + field)) == [(10, 2, 3), (10, 14, 15)]
    assert list(fields(field + group + field, with_groups=True)) == [(10, 2, 3), (11, 3, 12), (10, 14, 15)]
    for damaged in (b"\x0b", b"\x0c", b"\x0b\x14", b"\x03\x04", b"\x0b" * 101 + b"\x0c" * 101):
        with pytest.raises(ModelError, match="damaged"):
            list(window(damaged).fields(0, len(damaged)))
        with pytest.raises(ModelError, match="damaged"):
            list(fields(damaged))


def test_groups_nest_100_deep_at_most() -> None:
    data = b"\x0b" * 100 + b"\x0c" * 100
    assert list(window(data).fields(0, len(data))) == list(fields(data)) == []


def test_a_message_that_ends_after_the_file() -> None:
    with pytest.raises(ModelError, match="5 bytes are missing"):
        list(window(b"\x08\x01").fields(0, 7))
    with pytest.raises(ModelError, match="5 bytes are missing"):
        window(b"\x08\x01").bytes(0, 7)


class Recorded(BytesSource):
    """Bytes that remember what was read of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []

    def part(self, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return super().part(offset, length)


def test_little_is_read_after_a_jump() -> None:
    data = b"".join(number_field(1, 7) + message(2, [bytes(100_000)]) for _ in range(50))
    source = Recorded(data)
    assert len(list(Window(source).fields(0, len(data)))) == 100
    assert len(source.reads) == 50
    assert max(length for _, length in source.reads) == FIRST_READ


def test_more_is_read_as_reading_goes_on() -> None:
    data = number_field(1, 7) * 500_000
    source = Recorded(data)
    assert sum(1 for _ in Window(source).fields(0, len(data))) == 500_000
    assert max(length for _, length in source.reads) == LONGEST_READ
    assert sum(length for _, length in source.reads) < 1.01 * len(data)


def test_any_bytes_are_read_or_refused() -> None:
    rng = random.Random(0)
    for _ in range(300):
        data = rng.randbytes(rng.randrange(200))
        try:
            found = list(window(data).fields(0, len(data)))
        except ModelError:
            continue
        assert not data or found[-1].end == len(data)
