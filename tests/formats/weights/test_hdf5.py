"""HDF5 in a process of its own: what it hands over, and how it ends."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest

h5py = pytest.importorskip("h5py")

import flopwise  # noqa: E402
from flopwise._child import EndedError, LateError  # noqa: E402
from flopwise.errors import ModelError  # noqa: E402
from flopwise.formats.sources.source import BytesSource, FileSource  # noqa: E402
from flopwise.formats.weights import hdf5  # noqa: E402
from flopwise.formats.weights.hdf5 import Hdf5  # noqa: E402

#: Files that make HDF5 itself go round and round.
HANGING = Path(__file__).parents[4] / "shared/reproducers/attack"


def opened(path: Path) -> Any:
    return lambda: FileSource(path)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_datasets_and_their_elements(version: str, tmp_path: Path) -> None:
    arrays = {
        "a/b/plain": numpy.arange(12, dtype="f").reshape(3, 4),
        "a/packed": numpy.arange(90_000, dtype="f8").reshape(300, 300),
        "a/foreign": numpy.arange(5, dtype=">i4"),
        "scalar": numpy.float16(2.5),
        "empty": numpy.zeros((0, 3), "f"),
    }
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=version) as file:
        for name, array in arrays.items():
            file.create_dataset(
                name, data=array, **({"chunks": (50, 300), "compression": "gzip"} if "packed" in name else {})
            )
        file["a/again"] = h5py.SoftLink("/a/packed")
    file = pickle.loads(pickle.dumps(Hdf5(FileSource(path).later())))
    content = file.content()
    assert (set(content.groups), content.links) == ({"/", "a", "a/b"}, ("a/again",))
    assert {dataset.place for dataset in content.datasets} == set(arrays)
    for dataset in content.datasets:
        numpy.testing.assert_array_equal(file.elements(dataset), arrays[dataset.place])
        assert (dataset.offset is None) == (dataset.place in ("a/packed", "empty"))
    child = file._child
    file.close()
    assert child.process.returncode is not None


class Fake:
    """A child that says the same again and again, or fails."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked, self.ended = answer, 0, 0

    def send(self, request: object) -> None:
        pass

    def receive(self, seconds: float) -> object:
        self.asked += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def end(self) -> None:
        self.ended += 1


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ({"read": [0, 100]}, "HDF5 reads it over and over"),
        ({"read": [0, 101]}, "HDF5 reads it over and over"),
        ({"error": "bad object header"}, r"truncated or damaged \(bad object header\)"),
        (LateError(), r"comes to no end with it within 2\.5 seconds of the processor \(the limit native_seconds\)"),
        (EndedError(-11), "the process in which HDF5 reads it ended with exit code -11"),
        (KeyboardInterrupt(), ""),
    ],
)
def test_whatever_becomes_of_the_child_it_is_ended(answer: object, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child = Fake(answer)
    monkeypatch.setattr(hdf5, "Child", lambda function: child)
    error = KeyboardInterrupt if isinstance(answer, KeyboardInterrupt) else ModelError
    with pytest.raises(error, match=line):
        Hdf5(lambda: BytesSource(bytes(100))).content()
    assert child.ended
    assert child.asked < 1 + hdf5._OFTEN + (hdf5._PAGE << 4) // 100 + 2


@pytest.mark.skipif(not HANGING.exists(), reason="the damaged files are not here")
@pytest.mark.parametrize("name", ["hang215.h5", "hang4509.h5"])
def test_files_that_hdf5_comes_to_no_end_with(name: str) -> None:
    with flopwise.limits(native_seconds=0.5), pytest.raises(ModelError, match="the limit native_seconds"):
        flopwise.weights(HANGING / name)
