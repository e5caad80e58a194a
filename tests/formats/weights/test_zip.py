"""Archives of weights: their limits hold at their ends, and what is damaged or cannot be right is refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

import flopwise
from flopwise.errors import ModelError
from flopwise.formats.sources.source import BytesSource
from flopwise.formats.table import open_stored
from flopwise.formats.weights.storage import Archive, Reading, SourceStorage, refuse_rare_compression, within_bounds


def member(length: int, method: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    """An entry of a directory."""
    info = zipfile.ZipInfo("data.pkl")
    info.file_size, info.compress_type = length, method
    return info


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """The bytes of an archive with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    return file.getvalue()


def opened(data: bytes) -> Archive:
    return Archive(SourceStorage.from_source(BytesSource(data, "a.zip")))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_has_as_many_bytes_as_the_limit_on_headers_at_most(method: int) -> None:
    with flopwise.limits(header_bytes=1000):
        within_bounds(member(1000, method), "a.pt")
        with pytest.raises(ModelError, match=r"'data\.pkl' has 1,001 bytes, more than the limit header_bytes of 1,000"):
            within_bounds(member(1001, method), "a.pt")


def test_a_compressed_member_unpacks_to_as_many_bytes_as_the_limit_at_most() -> None:
    with flopwise.limits(unpacked_bytes=1000):
        within_bounds(member(1001), "a.pt")
        within_bounds(member(1000, zipfile.ZIP_DEFLATED), "a.pt")
        with pytest.raises(ModelError, match="unpacks to 1,001 bytes, more than the limit unpacked_bytes of 1,000"):
            within_bounds(member(1001, zipfile.ZIP_DEFLATED), "a.pt")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_than_deflate_are_refused_whatever_the_length(method: int) -> None:
    for refuse in (refuse_rare_compression, within_bounds):
        with pytest.raises(ModelError, match="is not compressed by deflate; refused"):
            refuse(member(1, method), "a.pt")
    with pytest.raises(ModelError, match="is not compressed by deflate; refused"):
        opened(archive({"a": b"1"}, method))


def test_a_member_is_read_whole_up_to_the_limit() -> None:
    packed = opened(archive({"a/data.pkl": bytes(1000)}, zipfile.ZIP_DEFLATED))
    with flopwise.limits(unpacked_bytes=1000):
        assert packed.content("a/data.pkl") == bytes(1000)
    with flopwise.limits(unpacked_bytes=999), pytest.raises(ModelError, match="the limit unpacked_bytes of 999"):
        packed.content("a/data.pkl")


def test_what_a_directory_takes_is_limited() -> None:
    reading = Reading(BytesSource(bytes(100), "a.zip"))
    with flopwise.limits(header_bytes=50):
        assert len(reading.read(50)) == 50
        reading.seek(0)
        with pytest.raises(ModelError, match="the directory of the archive has 51 bytes, more than the limit"):
            reading.read(51)


def test_two_members_of_one_name_are_refused() -> None:
    data = archive({"one": b"1", "two": b"2"}).replace(b"two", b"one")
    with pytest.raises(ModelError, match="its archive has two members 'one'"):
        opened(data)


def test_members_that_overlap_are_refused() -> None:
    data = bytearray(archive({"a": bytes(100), "b": bytes(100)}))
    length = data.index(b"PK\x01\x02") + 20
    least = 30 + 100  # of the first member: its header without the name, and its bytes
    place = data.index(b"PK\x03\x04", 1)
    for longer, refused in ((place - 30, False), (place - 30 + 1, True)):
        assert place > least
        data[length : length + 8] = longer.to_bytes(4, "little") * 2
        if refused:
            with pytest.raises(ModelError, match="members 'a' and 'b' of its archive overlap"):
                opened(bytes(data))
        else:
            opened(bytes(data))


def test_bytes_of_a_member_end_where_it_ends() -> None:
    held = opened(archive({"a": bytes(100)}))
    assert b"".join(held.span("a", 40, 100).parts(64)) == bytes(60)
    for start, end in ((40, 101), (-1, 5), (6, 5)):
        with pytest.raises(ModelError, match="are wanted, but it has 100"):
            held.span("a", start, end)


def damaged(whole: bytes) -> bytes:
    """An archive whose directory has another checksum for its first member."""
    data = bytearray(whole)
    data[data.index(b"PK\x01\x02") + 16] ^= 1
    return bytes(data)


def array(count: int, behind: int) -> bytes:
    """A file of NumPy's with so many bytes behind its elements."""
    file = io.BytesIO()
    numpy.save(file, numpy.arange(count, dtype=numpy.uint8))
    return file.getvalue() + bytes(behind)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_compressed_array_that_does_not_match_its_checksum_is_refused(tmp_path: Path, behind: int) -> None:
    whole = archive({"w.npy": array(100_000, behind)}, zipfile.ZIP_DEFLATED)
    path = tmp_path / "a.npz"
    path.write_bytes(whole)
    assert open_stored(path).tensors[0].array().sum() == numpy.arange(100_000, dtype=numpy.uint8).sum()
    path.write_bytes(damaged(whole))
    (tensor,) = open_stored(path).tensors
    with pytest.raises(ModelError, match="cannot be read"):
        tensor.array()


def test_a_pickle_that_does_not_match_its_checksum_is_refused() -> None:
    held: Any = opened(damaged(archive({"a/data.pkl": b"N."})))
    with pytest.raises(zipfile.BadZipFile):
        held.content("a/data.pkl")
