"""Models whose weights lie in files beside them, and models larger than protobuf takes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from tests.formats.models import conv_net, node, value
from tests.writers.onnx.writing import checked, shapes

import flopwise
from flopwise.errors import InputError
from flopwise.formats.onnx.read import resolve_onnx
from flopwise.formats.onnx.walk import read_skeleton
from flopwise.formats.sources.source import StreamSource
from flopwise.formats.sources.wire import BYTES, VARINT, message, number_field, varint
from flopwise.writers.onnx.plan import plan
from flopwise.writers.onnx.write import Rewrite

DATA = "weights/m.data"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A model with its data in a file in a folder beside it."""
    folder = tmp_path / "old"
    (folder / "weights").mkdir(parents=True)
    onnx.save(conv_net(), folder / "m.onnx", save_as_external_data=True, location=DATA, size_threshold=100)
    return folder / "m.onnx"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    (tmp_path / "new").mkdir()
    return tmp_path / "new" / "n.onnx"


def test_in_the_same_folder_the_references_stay(old: Path) -> None:
    before = {t.name: t for t in onnx.load(old, load_external_data=False).graph.initializer}
    data = (old.parent / DATA).read_bytes()
    flopwise.write_shapes(old, old.parent / "n.onnx")
    checked(old.parent / "n.onnx")
    assert {t.name: t for t in onnx.load(old.parent / "n.onnx", load_external_data=False).graph.initializer} == before
    assert (old.parent / DATA).read_bytes() == data
    assert sorted(os.listdir(old.parent)) == ["m.onnx", "n.onnx", "weights"]


def test_in_another_folder_the_data_is_missed(old: Path, new: Path) -> None:
    with pytest.raises(InputError, match=r"its data is in 'weights/m\.data' beside the model.*--copy-data, or leave"):
        flopwise.write_shapes(old, new)
    assert not os.listdir(new.parent)


def test_the_data_is_copied(old: Path, new: Path) -> None:
    flopwise.write_shapes(old, new, copy_data=True)
    assert list(checked(new).graph.initializer) == list(onnx.load(old).graph.initializer)
    assert (new.parent / DATA).read_bytes() == (old.parent / DATA).read_bytes()
    with pytest.raises(InputError, match="exists already and is not the model's data"):
        flopwise.write_shapes(old, new, copy_data=True)


def test_data_that_is_there_already(old: Path, new: Path) -> None:
    (new.parent / "weights").symlink_to(old.parent / "weights")
    flopwise.write_shapes(old, new)
    assert (new.parent / "weights").is_symlink()
    assert new.exists()


def test_missing_data(old: Path, new: Path) -> None:
    (old.parent / DATA).unlink()
    flopwise.write_shapes(old, old.parent / "n.onnx")
    with pytest.raises(InputError, match=r"m\.data: no such file, so the data cannot be copied"):
        flopwise.write_shapes(old, new, copy_data=True)


def test_data_outside_the_folder(old: Path, new: Path, tmp_path: Path) -> None:
    (old.parent / DATA).rename(tmp_path / "secret")
    (old.parent / DATA).symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="is outside the model's folder; refused"):
        flopwise.write_shapes(old, new, copy_data=True)
    assert not os.listdir(new.parent)


def test_a_model_that_fails_takes_its_copies_away(old: Path, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flopwise.writers.onnx.write.Pieces.write", full)
    with pytest.raises(InputError, match=r"n\.onnx: cannot be written \(No space left on device\)"):
        flopwise.write_shapes(old, new, copy_data=True)
    assert not [p for p in new.parent.rglob("*") if p.is_file()]


def test_bytes_do_not_say_where_their_data_lies(old: Path, new: Path) -> None:
    with pytest.raises(InputError, match="which was not given as a path"):
        flopwise.write_shapes(old.read_bytes(), new)
    flopwise.write_shapes(old.read_bytes(), new, weights=False)
    assert new.exists()


# --- larger than 2 GB ---


def halves(rows: int, columns: int) -> tuple[bytes, int, bytes]:
    """A model with one inline weight: the bytes before it, how many zeros it has, and the bytes after it."""
    size = rows * columns * 4
    head = number_field(1, rows) + number_field(1, columns) + number_field(2, 1) + message(8, [b"w"])
    head += varint(9 << 3 | BYTES) + varint(size)
    start = onnx.GraphProto(node=[node("MatMul", "x w", "h"), node("Relu", "h", "y")], input=[value("x", ("N", rows))])
    end = onnx.GraphProto(name="g", output=[value("y", ("N", None))]).SerializeToString()
    first = start.SerializeToString() + varint(5 << 3 | BYTES) + varint(len(head) + size) + head
    opset = message(8, [varint(2 << 3 | VARINT) + varint(17)])
    length = len(first) + size + len(end)
    return number_field(1, 8) + opset + varint(7 << 3 | BYTES) + varint(length) + first, size, end


class Hole(io.RawIOBase):
    """A file with so many zeros in it that they are not in memory."""

    def __init__(self, before: bytes, zeros: int, after: bytes) -> None:
        self.before, self.zeros, self.after = before, zeros, after
        self.position = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset if whence == 0 else len(self.before) + self.zeros + len(self.after) + offset
        return self.position

    def tell(self) -> int:
        return self.position

    def read(self, size: int = -1) -> bytes:
        end = self.position + size
        head, tail = len(self.before), len(self.before) + self.zeros
        data = self.before[self.position : end]
        data += bytes(max(min(end, tail) - max(self.position, head), 0))
        data += self.after[max(self.position - tail, 0) : max(end - tail, 0)]
        self.position += len(data)
        return data


def test_nothing_over_2_gb_is_lost() -> None:
    before, zeros, after = halves(49152, 16384)
    assert zeros == 3 << 30
    stream = Hole(before, zeros, after)
    resolved = resolve_onnx(stream, dims={"N": 2})
    source = StreamSource(stream)  # type: ignore[arg-type] # it reads and seeks
    pieces = Rewrite(source, None, None, ()).model(plan(resolved))
    parts: list[bytes] = []
    run = [0]

    def sink(data: bytes) -> None:
        if data.count(0) == len(data):
            run[0] += len(data)
        parts.append(data if data.count(0) < len(data) else b"")

    pieces.write(source, sink)
    written = b"".join(parts)
    assert len(written) + run[0] == pieces.size
    # What is left is read as a file with a hole of the same size, at the place where the weight begins.
    cut = written.index(b"\x42\x01w") + 3 + 1 + len(varint(zeros))
    head, missing = written[:cut], zeros - (pieces.size - len(written))
    skeleton = read_skeleton(StreamSource(Hole(head, zeros, written[cut + missing :])))  # type: ignore[arg-type]
    assert skeleton.initializers["w"].dims == (49152, 16384)
    (place,) = skeleton.initializers["w"].places
    assert place.end - place.start == zeros
    graph = onnx.ModelProto.FromString(skeleton.model).graph
    assert shapes(graph) == {"x": (2, 49152), "h": (2, 16384), "y": (2, 16384)}


_PEAK = """
import sys
import flopwise
flopwise.write_shapes(sys.argv[1], sys.argv[2], dims={"N": 2}, annotate=True)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak of memory")
def test_weights_take_no_memory(tmp_path: Path) -> None:
    """A model of 400 MB, or of 3 GB where FLOPWISE_LARGE is set, is written in less than 100 MB."""
    before, zeros, after = halves(49152 if os.environ.get("FLOPWISE_LARGE") else 6400, 16384)
    path, new = tmp_path / "m.onnx", tmp_path / "n.onnx"
    with open(path, "wb") as file:
        file.write(before)
        file.seek(zeros, os.SEEK_CUR)
        file.write(after)
    ended = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path), str(new)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 100 * 1024
    assert new.stat().st_size > path.stat().st_size > zeros
    assert flopwise.profile(new).total("params") * 4 == zeros
