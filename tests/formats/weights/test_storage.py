"""Where elements lie: bytes come to the last one that is stored, and none beyond."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from flopwise.errors import ModelError
from flopwise.formats.sources.source import BytesSource, FileSource
from flopwise.formats.weights.storage import Runs, SourceStorage, Stream, in_parts


def storage(data: bytes = bytes(range(10))) -> SourceStorage:
    return SourceStorage.from_source(BytesSource(data, "a"))


def test_bytes_are_read_up_to_the_end() -> None:
    assert bytes(storage().read(7, 10)) == bytes([7, 8, 9])
    assert bytes(storage().read(10, 10)) == b""


@pytest.mark.parametrize(("start", "end"), [(7, 11), (-1, 3), (5, 4)])
def test_bytes_that_are_not_there(start: int, end: int) -> None:
    with pytest.raises(ModelError, match=f"bytes {start} to {end} are wanted, but it has 10"):
        storage().read(start, end)


@pytest.mark.parametrize("more", [b"", b"0", b"012"])
def test_a_file_of_another_size_than_before_is_refused(tmp_path: Path, more: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"01")
    held = SourceStorage.from_source(FileSource(str(path)))
    assert bytes(held.read(0, 2)) == b"01"
    held.close()
    path.write_bytes(more)
    with pytest.raises(ModelError, match="changed while it was read"):
        held.read(0, 1)
    path.write_bytes(b"23")
    assert bytes(held.read(0, 2)) == b"23"


@pytest.mark.parametrize(
    ("at_least", "reads"), [(0, [(2, 5), (5, 8), (8, 9)]), (5, [(2, 5), (5, 8), (8, 9)]), (6, [(2, 8), (8, 9)])]
)
def test_parts_have_a_size_and_reads_at_least_as_much(at_least: int, reads: list[tuple[int, int]]) -> None:
    asked: list[tuple[int, int]] = []

    def read(start: int, end: int) -> bytes:
        asked.append((start, end))
        return bytes(range(start, end))

    assert [bytes(part) for part in in_parts(read, 2, 9, 3, at_least)] == [b"\2\3\4", b"\5\6\7", b"\x08"]
    assert asked == reads


def test_several_ranges_are_one_row_of_bytes() -> None:
    runs = Runs(storage(), ((1, 4), (6, 7), (8, 10)))
    assert [bytes(part) for part in runs.parts(4)] == [b"\1\2\3\6", b"\x08\x09"]
    assert runs.view() is None


def test_one_range_of_a_file_is_seen_without_a_copy(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(10)))
    held = SourceStorage.from_source(FileSource(str(tmp_path / "a")))
    view = Runs(held, ((2, 5),)).view()
    assert view is not None
    assert bytes(view) == b"\2\3\4"
    assert Runs(storage(), ((2, 5),)).view() is None


@pytest.mark.parametrize(("skip", "length", "missing"), [(2, 8, 0), (2, 9, 1), (11, 1, 1)])
def test_a_stream_has_as_many_bytes_as_it_should(skip: int, length: int, missing: int) -> None:
    stream = Stream("a", lambda: io.BytesIO(bytes(range(10))), skip, length)
    if missing:
        with pytest.raises(ModelError, match=f"a: is truncated; {missing} bytes are missing"):
            list(stream.parts(100))
    else:
        assert b"".join(stream.parts(3)) == bytes(range(2, 10))


def test_a_file_that_gets_shorter_while_it_is_read(tmp_path: Path) -> None:
    """Where the mapping of a file ends before it, a read would end the process."""
    path = tmp_path / "data"
    path.write_bytes(bytes(range(256)) * 64)
    storage = SourceStorage.from_source(FileSource(path))
    assert bytes(storage.read(0, 4)) == b"\0\1\2\3"
    os.truncate(path, 8192)
    with pytest.raises(ModelError, match="changed while it was read; it has 8,192 bytes now"):
        storage.read(12_000, 16_000)
    assert bytes(storage.read(256, 258)) == b"\0\1"
    storage.close()
