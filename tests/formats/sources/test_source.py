from __future__ import annotations

import io
import mmap
import os
import pickle
from array import array
from pathlib import Path
from typing import Any

import pytest

from flopwise.errors import ModelError
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import BytesSource, FileSource, StreamSource

DATA = bytes(range(256)) * 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


class Drip(io.BytesIO):
    """A stream that gives a few bytes at a time, as a socket or a large file does."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(7 if size is None or size < 0 else min(size, 7))


def things(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return [
        str(path),
        path,
        DATA,
        bytearray(DATA),
        memoryview(DATA),
        memoryview(array("I", DATA)),
        io.BytesIO(DATA),
        Drip(DATA),
        open(path, "rb"),
        open(path, "rb", buffering=0),
        mapped,
    ]


def test_every_kind_reads_the_same(path: Path) -> None:
    for thing in things(path):
        source = open_source(thing)
        assert source.size == len(DATA), thing
        for offset, length in ((0, 0), (0, 1), (5, 300), (1023, 1), (1024, 0), (0, 1024)):
            assert source.read(offset, length) == DATA[offset : offset + length], thing
        source.close()


def test_nothing_is_read_past_the_end(path: Path) -> None:
    for thing in things(path):
        source = open_source(thing)
        with pytest.raises(ModelError, match=r"ends at byte 1024, but 1152921504606846976 more were expected"):
            source.read(1000, 24 + (1 << 60))  # a read of that size would fail in another way
        source.close()


def test_a_stream_keeps_its_position_and_stays_open(path: Path) -> None:
    with open(path, "rb") as file:
        file.seek(17)
        source = open_source(file)
        assert source.read(100, 3) == DATA[100:103]
        assert file.tell() == 17
        source.close()
        assert file.read(1) == DATA[17:18]


def test_a_file_is_let_go_and_opened_again(path: Path) -> None:
    source = FileSource(path)
    again = pickle.loads(pickle.dumps(source.later()))
    source.close()
    with pytest.raises(ModelError, match="cannot be read"):
        source.read(0, 1)
    os.rename(path, path.with_suffix(".away"))
    with pytest.raises(ModelError, match="no such file"):
        again()
    os.rename(path.with_suffix(".away"), path)
    second = again()
    assert second.read(0, 3) == DATA[:3]
    second.close()


def test_where_neighbours_lie(path: Path) -> None:
    with open(path, "rb") as file:
        assert StreamSource(file).folder == path.parent
    assert FileSource(path).folder == path.parent
    assert BytesSource(DATA).folder is None
    assert StreamSource(io.BytesIO(DATA)).folder is None


def test_a_file_that_shrinks(path: Path) -> None:
    source = FileSource(path)
    os.truncate(path, 100)
    with pytest.raises(ModelError, match="changed while it was read; it ends at byte 100 now"):
        source.read(90, 20)


class Broken(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


class OneWay(io.BytesIO):
    def seek(self, *_: Any) -> int:
        raise io.UnsupportedOperation("seek")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("abc")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    closed = io.BytesIO(DATA)
    closed.close()
    for thing, told in (
        (tmp_path / "none.onnx", r"none\.onnx: no such file"),
        ("a\0b", "no such file"),
        (tmp_path, "is a directory"),
        (pipe, "not a regular file"),
        (io.StringIO("abc"), "gives text, not bytes; open it with mode 'rb'"),
        (Broken(DATA), "<stream>: cannot be read .Input/output error"),
        (OneWay(DATA), "<stream>: cannot seek in it; save it to a file first"),
        (closed, "cannot seek"),
        (memoryview(DATA)[::2], "<bytes>: cannot be read"),
        (3, "cannot read a model from 3; give a path, bytes or an open binary file"),
        (None, "cannot read a model from None"),
    ):
        with pytest.raises(ModelError, match=told):
            open_source(thing).read(0, 3)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_without_permission(path: Path) -> None:
    path.chmod(0)
    with pytest.raises(ModelError, match="Permission denied"):
        open_source(path)


def test_data_beside_a_model_that_are_missing_are_named_after_it(tmp_path: Path) -> None:
    """The model's own name is near to that of its data, and no cure."""
    (tmp_path / "model.onnx").write_bytes(b"x")
    source = FileSource(tmp_path / "model.onnx")
    with pytest.raises(ModelError) as error:
        source.beside("model.onnx.data", "model.onnx: tensor 'w'")
    source.close()
    assert str(error.value) == "model.onnx: tensor 'w' lies in the file 'model.onnx.data', and there is no such file"
