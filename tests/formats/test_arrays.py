"""Arrays in NumPy's files as inputs: elements are read where they are few, and damaged files are refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

from flopwise.errors import InputError, ModelError
from flopwise.formats.arrays import ROOM, read_npy, read_npz


def saved(path: Path, array: Any) -> str:
    numpy.save(path, array)
    return str(path)


@pytest.mark.parametrize(("most", "read"), [(6, True), (5, False)])
def test_as_many_elements_are_read_as_are_asked_for(tmp_path: Path, most: int, read: bool) -> None:
    held = read_npy(saved(tmp_path / "a.npy", numpy.arange(6).reshape(2, 3)), most)
    assert (held.shape, held.dtype) == ((2, 3), numpy.int64)
    assert (None if held.value is None else held.value.tolist()) == ([[0, 1, 2], [3, 4, 5]] if read else None)


@pytest.mark.parametrize(("words", "read"), [(ROOM // 1024, True), (ROOM // 1024 + 1, False)])
def test_words_take_a_megabyte_at_most(tmp_path: Path, words: int, read: bool) -> None:
    held = read_npy(saved(tmp_path / "a.npy", numpy.zeros(words, "S1024")), 1 << 20)
    assert (held.value is not None) is read


def test_elements_that_are_stored_by_columns(tmp_path: Path) -> None:
    array = numpy.asfortranarray(numpy.arange(6).reshape(2, 3))
    held = read_npy(saved(tmp_path / "a.npy", array), 6)
    assert held.value.tolist() == array.tolist()


@pytest.mark.parametrize("missing", [1, 48])
def test_a_file_that_is_too_short(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "a.npy"
    saved(path, numpy.arange(6))
    whole = path.read_bytes()
    path.write_bytes(whole[:-missing])
    with pytest.raises(InputError, match=r"is truncated; an array of shape \(6,\) takes 48 bytes"):
        read_npy(str(path), 6)


@pytest.mark.parametrize(("size", "truncated"), [(8000, False), (7999, True)])
def test_a_file_of_an_array_that_is_not_read_is_as_long_as_its_elements(
    tmp_path: Path, size: int, truncated: bool
) -> None:
    path = tmp_path / "a.npy"
    saved(path, numpy.arange(1000))
    path.write_bytes(path.read_bytes()[:size])
    if truncated:
        with pytest.raises(InputError, match=r"is truncated; an array of shape \(1000,\) takes 8000 bytes"):
            read_npy(str(path), 6)
    else:
        assert read_npy(str(path), 6).shape == (1000,)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (numpy.array([{}], object), "holds Python objects, which are never loaded"),
        (numpy.zeros(2, [("a", "i4"), ("b", "f4")]), "holds no plain numbers"),
    ],
)
def test_what_is_never_loaded(tmp_path: Path, array: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_npy(saved(tmp_path / "a.npy", array), 6)


@pytest.mark.parametrize("data", [b"", b"abc", b"\x93NUMPY\x03\x00" + bytes(100)])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match="not a NumPy file, or damaged"):
        read_npy(str(tmp_path / "a.npy"), 6)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_npy(str(tmp_path / "a.npy"), 6)
    with pytest.raises(InputError, match="not a regular file"):
        read_npy(str(tmp_path), 6)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_arrays_of_an_archive(tmp_path: Path, method: int) -> None:
    stream = io.BytesIO()
    numpy.save(stream, numpy.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("x.npy", stream.getvalue())
        archive.writestr("readme.txt", "no array")
    held = read_npz(str(tmp_path / "a.npz"), 3)
    assert {name: one.value.tolist() for name, one in held.items()} == {"x": [0, 1, 2]}


def test_other_methods_than_deflate_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", b"")
    with pytest.raises((InputError, ModelError), match="is not compressed by deflate; refused"):
        read_npz(str(tmp_path / "a.npz"), 3)
