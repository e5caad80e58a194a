"""Small files of text that options name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flopwise import limits
from flopwise.cli import main
from flopwise.errors import InputError
from flopwise.formats.sources.text import json_object, text_of_file

RESNET = str(Path(__file__).parents[3] / "examples/tiny_resnet.onnx")


def test_the_text(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes("é\r\n".encode())
    assert text_of_file(path) == "é\r\n"


@pytest.mark.parametrize(
    ("data", "told"), [(b"\xff", "is not text in UTF-8"), (bytes(11), "more than the limit text_bytes of 10")]
)
def test_what_is_refused(data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(data)
    with limits(text_bytes=10), pytest.raises(InputError, match=told):
        text_of_file(path)


def test_a_file_is_as_long_as_the_limit_at_most(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(bytes(10))
    with limits(text_bytes=10):
        assert text_of_file(tmp_path / "t") == "\0" * 10


@pytest.mark.parametrize(("length", "content"), [(1 << 20, {"a": 1}), ((1 << 20) + 1, {})])
def test_settings_are_read_from_files_of_up_to_a_megabyte(tmp_path: Path, length: int, content: object) -> None:
    (tmp_path / "t").write_text('{"a": 1}'.ljust(length))
    assert json_object(str(tmp_path / "t")) == content


@pytest.mark.parametrize("text", ["", "[1]", "1", '{"a"', "[" * 100_000])
def test_what_holds_no_object_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    assert json_object(str(tmp_path / "t")) == {}
    assert json_object(str(tmp_path / "absent")) == {}


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (str(tmp_path), "a\0b"):
        with pytest.raises(InputError):
            text_of_file(path)
    with pytest.raises(FileNotFoundError):
        text_of_file(tmp_path / "absent")


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
@pytest.mark.parametrize("option", ["--budget", "--rules"])
def test_a_device_and_a_pipe(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in ("/dev/zero", str(pipe)):
        command = "check" if option == "--budget" else "profile"
        assert main([command, RESNET, option, path]) == 2
        assert capsys.readouterr().err == f"flopwise: {path}: not a regular file\n"
