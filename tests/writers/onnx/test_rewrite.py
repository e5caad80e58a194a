"""Messages put together from new bytes and ranges of a source."""

from __future__ import annotations

import pytest

from flopwise.errors import ModelError
from flopwise.formats.sources.source import BytesSource, Source
from flopwise.formats.sources.wire import Window
from flopwise.writers.onnx.write import CHUNK, Pieces


class Zeros(Source):
    """Any number of zeros, none of them in memory."""

    name = "zeros"

    def __init__(self, size: int) -> None:
        self.size = size

    def part(self, offset: int, length: int) -> bytes:
        return bytes(length)


def written(pieces: Pieces, source: Source) -> bytes:
    parts: list[bytes] = []
    pieces.write(source, parts.append)
    return b"".join(parts)


def test_bytes_and_ranges_in_order() -> None:
    source = BytesSource(b"0123456789")
    pieces = Pieces()
    pieces.add(b"<")
    pieces.copy(2, 4)
    pieces.copy(4, 7)  # goes on where the last one stopped
    pieces.copy(0, 1)
    pieces.add(b">")
    assert written(pieces, source) == b"<234560>"
    assert pieces.size == 8


def test_nested_lengths() -> None:
    inner, middle, outer = Pieces(), Pieces(), Pieces()
    inner.copy(0, 300)
    middle.field(3, inner)
    middle.add(b"\x08\x01")
    outer.field(7, middle)
    data = written(outer, BytesSource(bytes(300)))
    window = Window(BytesSource(data))
    (found,) = window.fields(0, len(data))
    assert (found.number, found.end) == (7, len(data) == outer.size and len(data))
    parts = list(window.fields(found.start, found.end))
    assert [(p.number, p.end - p.start) for p in parts] == [(3, 300), (1, 0)]


def test_nothing_is_taken_together() -> None:
    """A range of 5 GB goes through in chunks, and lengths beyond 32 bits are right."""
    size = 5 << 30
    inner, outer = Pieces(), Pieces()
    inner.copy(0, size)
    outer.field(9, inner)
    sizes: list[int] = []

    def sink(data: bytes) -> None:
        sizes.append(len(data))
        if len(sizes) > 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        outer.write(Zeros(size), sink)
    assert sizes == [6, CHUNK, CHUNK, CHUNK]
    assert outer.size == 6 + size


def test_an_empty_range() -> None:
    pieces = Pieces()
    pieces.copy(5, 5)
    assert written(pieces, BytesSource(b"")) == b""


def test_a_source_that_ends_too_early() -> None:
    pieces = Pieces()
    pieces.copy(0, 10)
    with pytest.raises(ModelError, match="ends at byte 3, but 7 more were expected"):
        written(pieces, BytesSource(b"abc"))
