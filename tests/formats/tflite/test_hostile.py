"""Files that nobody's converter wrote: one line, whatever they say."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tflite_models import Net, convolution, written

import flopwise


def _huge() -> bytes:
    net = Net()
    g = net.main
    x, y = g.tensor((2**31 - 1, 2**31 - 1, 8), name="x"), g.tensor((2**31 - 1, 2**31 - 1, 8), name="y")
    g.add("EXP", [x], [y])
    g.inputs, g.outputs = [x], [y]
    return net.bytes()


def _before_it_is_made() -> bytes:
    net = Net()
    g = net.main
    x, y, z = (g.tensor((1, 4), name=name) for name in "xyz")
    g.add("ADD", [x, z], [y], {})
    g.add("EXP", [y], [z])
    g.inputs, g.outputs = [x], [z]
    return net.bytes()


def _short_data() -> bytes:
    net = Net()
    g = net.main
    x, y = g.tensor((1, 4), name="x"), g.tensor((1, 9), name="y")
    g.add("FULLY_CONNECTED", [x, g.tensor((9, 4), data=[1, 2, 3], name="w"), -1], [y], {})
    g.inputs, g.outputs = [x], [y]
    return net.bytes()


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "huge": (_huge, "more elements than any memory can hold"),
    "cycle": (_before_it_is_made, "ADD reads 'z' before anything has made it"),
    "short data": (_short_data, "takes 144 bytes, but 12 are stored"),
    "cut off": (lambda: convolution().bytes()[:-200], "truncated or damaged TensorFlow Lite model"),
    "no subgraph": (lambda: written({0: ("uint32", 3)}), "it has no subgraph"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line(case: str) -> None:
    data, words = CASES[case]
    with pytest.raises(flopwise.ModelError) as raised:
        flopwise.profile(data())
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_archive_may_begin_behind_other_bytes(tmp_path: Path) -> None:
    """So that its members are aligned; `zipfile` opens it too."""
    for prefix in (b"\0\0", b"#" * 100, b"TFL" * 50_000):
        task = tmp_path / "net.task"
        task.write_bytes(prefix)
        with zipfile.ZipFile(task, "a") as archive:
            archive.writestr("one.tflite", convolution().bytes())
        assert flopwise.profile(task).total("macs") == flopwise.profile(convolution().bytes()).total("macs")
        assert flopwise.read(task).weights["conv/w"].array().shape == (4, 3, 3, 3)


def test_an_archive_holds_several_models_and_no_compressed_ones(tmp_path: Path) -> None:
    task = tmp_path / "net.task"
    with zipfile.ZipFile(task, "w") as archive:
        archive.writestr("one.tflite", convolution().bytes())
        archive.writestr("two.tflite", convolution("int8").bytes())
        archive.writestr("labels.txt", "a cat, or a dog")
        archive.writestr("notes.txt", "a cat, or a dog " * 9, zipfile.ZIP_DEFLATED)
    profile = flopwise.profile(task)
    assert profile.total("macs") == 2 * flopwise.profile(convolution().bytes()).total("macs")
    assert [t.name for t in profile.graph.inputs] == ["one/image", "two/image"]
    assert flopwise.read(task).weights["two/conv/w"].array().shape == (4, 3, 3, 3)
    with zipfile.ZipFile(task, "a") as archive:
        archive.writestr("THIRD", convolution().bytes())  # as LiteRT's tasks name theirs
    assert [t.name for t in flopwise.read(task).inputs] == ["one/image", "two/image", "THIRD/image"]
    with zipfile.ZipFile(task, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one.tflite", convolution().bytes())
    with pytest.raises(flopwise.ModelError, match="compressed or encrypted"):
        flopwise.profile(task)
    with zipfile.ZipFile(task, "w") as archive:
        archive.writestr("labels.txt", "a cat, or a dog")
    with pytest.raises(flopwise.ModelError, match="an archive without a TensorFlow Lite model; it holds labels"):
        flopwise.profile(task)


@pytest.mark.parametrize("length", [0, 3, 8, 21, 22, 40])
def test_a_short_file_is_one_line(length: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(bytes(length))
    with pytest.raises(flopwise.ModelError, match=r"m\.tflite: "):
        flopwise.profile(path)
