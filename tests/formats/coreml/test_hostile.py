"""Files that coremltools never wrote: one line, whatever they say."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.formats.coreml.by_hand import (
    CONVOLUTION,
    IMAGE,
    KERNEL,
    RESULT,
    WEIGHT,
    constant,
    encoded,
    in_file,
    inline,
    operation,
    program,
    read,
    tensor,
)

import flopwise

_FILE = "@model_path/weights/weight.bin"


def _of(*operations: dict[str, Any], **more: Any) -> bytes:
    return encoded("Model", program(list(operations), **more))


def _kernel(type_: Any = WEIGHT, data: bytes = KERNEL, field: str = "floats") -> dict[str, Any]:
    return constant("w", inline(type_, field, data), type_)


def _conv(**inputs: str | bytes) -> dict[str, Any]:
    return operation("conv", "y", RESULT, **{"x": "x", "weight": "w", **inputs})


def _nested(depth: int) -> dict[str, Any]:
    inner = operation("relu", "y0", IMAGE, x="x")
    for level in range(1, depth):
        block = {"outputs": [f"y{level - 1}"], "operations": [inner]}
        inner = {**operation("cond", f"y{level}", IMAGE, pred="x"), "blocks": [block, {"outputs": ["x"]}]}
    return {**inner, "outputs": [{"name": "y", "type": IMAGE}]}


def _typed(depth: int) -> Any:
    type_: Any = tensor(11, 1)
    for _ in range(depth):
        type_ = {"listType": {"type": type_}}
    return type_


#: What is done to the convolution -> the file, and words of the error.
CASES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a Core ML model"),
    "cut off": (CONVOLUTION[:-100], "truncated or damaged at byte"),
    "text": (b"<html>no model</html>", "truncated or damaged at byte"),
    "trees": (encoded("Model", {"specificationVersion": 1}) + b"\xf2\x12\x00", "a tree ensemble, not an ML program"),
    "a pipeline": (encoded("Model", {"specificationVersion": 1}) + b"\xd2\x0c\x00", "a pipeline, not an ML program"),
    "deep": (_of(_nested(60)), "blocks are nested too deep"),
    "deep types": (_of({"type": "list_read", "outputs": [{"name": "y", "type": _typed(300)}]}), "are nested too deep"),
    "huge": (_of(_kernel(), _conv(), image=tensor(11, 2**62, 3, 8, 8)), "more elements than any memory"),
    "beyond 63 bits": (
        _of(_kernel(), _conv(), image=tensor(11, 2**63, 3, 8, 8)),
        "has the shape [-9223372036854775808",
    ),
    "many axes": (_of(_kernel(tensor(11, *[1] * 200)), _conv()), "has the shape"),
    "fewer elements": (_of(_kernel(data=KERNEL[:-4]), _conv()), "'w' takes 432 bytes, but 428 are there"),
    "a kernel of 2^62": (_of(_kernel(tensor(11, 2**62)), _conv()), "takes 18446744073709551616 bytes"),
    "no such name": (_of(_conv()), "nothing makes 'w'"),
    "no output": (_of(_kernel(), _conv(), outputs=("z",)), "nothing makes the output 'z'"),
    "a cycle": (_of(_kernel(), _conv(x="y")), "nothing makes 'y'"),
    "two of one name": (_of(_kernel(), _conv(), _conv()), "two results are named 'y'"),
    "no number": (_of(_kernel(), _conv(groups="x")), "groups is no constant"),
    "an endless number": (_of(_kernel(), _conv(groups=inline(tensor(23), "ints", b"\xff"))), "a number does not end"),
    "another pad": (_of(_kernel(), _conv(pad_type=inline(tensor(23), "ints", b"\x01"))), "pad_type is (1,)"),
    "blocks": (_of({**_conv(weight="x"), "blocks": [{}, {}, {}]}), "it has 3 blocks"),
    "outside": (
        _of(constant("w", in_file(WEIGHT, "@model_path/../../../etc/passwd", 64), WEIGHT), _conv()),
        "outside the model's folder; refused",
    ),
    "an absolute path": (
        _of(constant("w", in_file(WEIGHT, "/etc/passwd", 64), WEIGHT), _conv()),
        "outside the model's folder; refused",
    ),
    "no block": (
        encoded("Model", {"mlProgram": {"functions": [{"key": "main", "value": {"opset": "CoreML5"}}]}}),
        "there is no block for the operator set 'CoreML5'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line(case: str, tmp_path: Path) -> None:
    data, words = CASES[case]
    path = tmp_path / "net.mlmodel"
    path.write_bytes(data)
    with pytest.raises(flopwise.FlopwiseError) as raised:
        flopwise.profile(path)
    assert words in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def _package(folder: Path, specification: bytes = CONVOLUTION, weights: bytes | None = None) -> Path:
    path = folder / "net.mlpackage"
    inside = path / "Data" / "com.apple.CoreML"
    (inside / "weights").mkdir(parents=True)
    (inside / "model.mlmodel").write_bytes(specification)
    if weights is not None:
        (inside / "weights" / "weight.bin").write_bytes(weights)
    _manifest(path, "com.apple.CoreML/model.mlmodel")
    return path


def _manifest(path: Path, model: object) -> None:
    entries = {"itemInfoEntries": {"a": {"path": model}}, "rootModelIdentifier": "a"}
    (path / "Manifest.json").write_text(json.dumps(entries))


@pytest.mark.parametrize("place", ["../../../../../../etc/passwd", "/etc/passwd", "../Manifest.json"])
def test_a_manifest_that_points_outside_is_refused(place: str, tmp_path: Path) -> None:
    path = _package(tmp_path)
    _manifest(path, place)
    with pytest.raises(flopwise.ModelError, match="lies outside the package; refused"):
        flopwise.profile(path)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"itemInfoEntries": {}}', "[" * 100_000, "null"])
def test_a_manifest_that_names_nothing_is_refused(manifest: str, tmp_path: Path) -> None:
    path = _package(tmp_path)
    (path / "Manifest.json").write_text(manifest)
    with pytest.raises(flopwise.ModelError, match=r"Manifest.json names no model"):
        flopwise.profile(path)
    (path / "Manifest.json").unlink()
    with pytest.raises(flopwise.ModelError, match="no package of Core ML"):
        flopwise.profile(path)


def test_links_out_of_a_package_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONVOLUTION)
    path = _package(tmp_path)
    inside = path / "Data" / "com.apple.CoreML"
    (inside / "model.mlmodel").unlink()
    (inside / "model.mlmodel").symlink_to(secret)
    with pytest.raises(flopwise.ModelError, match="lies outside the package; refused"):
        flopwise.profile(path)
    (inside / "model.mlmodel").unlink()
    data = _of(constant("w", in_file(WEIGHT, _FILE, 64), WEIGHT), _conv())
    (inside / "model.mlmodel").write_bytes(data)
    (inside / "weights" / "weight.bin").symlink_to(secret)
    with pytest.raises(flopwise.ModelError, match="outside the model's folder; refused"):
        flopwise.profile(path)


def _stored(offset: int = 128, length: int = 432, mark: int = 0xDEADBEEF) -> bytes:
    return bytes(64) + struct.pack("<IIQQ", mark, 2, length, offset).ljust(64, b"\0") + KERNEL


@pytest.mark.parametrize(
    ("offset", "weights", "words"),
    [
        (2**62, _stored(), "has no tensor at"),
        (2**63, _stored(), "has no tensor at"),
        (64, _stored(offset=2**63), "has no tensor at"),
        (64, _stored(mark=1), "has no tensor at"),
        (64, _stored(length=431), "takes 432 bytes, but 431 are stored"),
        (64, b"", "has no tensor at"),
    ],
)
def test_places_outside_the_weights_are_refused(offset: int, weights: bytes, words: str, tmp_path: Path) -> None:
    data = _of(constant("w", in_file(WEIGHT, _FILE, offset), WEIGHT), _conv())
    with pytest.raises(flopwise.ModelError, match=words):
        flopwise.profile(_package(tmp_path, data, weights))


def test_weights_lie_where_the_header_says_and_need_not_be_there(tmp_path: Path) -> None:
    data = _of(constant("w", in_file(WEIGHT, _FILE, 64), WEIGHT), _conv())
    path = _package(tmp_path, data, _stored())
    graph = flopwise.read(path)
    assert graph.weights["w"].array().ravel().tolist() == list(range(108))
    assert flopwise.profile(path).total("macs") == 4 * 36 * 27
    (path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin").unlink()
    assert flopwise.profile(path).total("macs") == 4 * 36 * 27
    assert "weights/weight.bin is not there" in " ".join(flopwise.read(path).warnings)
    with pytest.raises(flopwise.ModelError, match="no such file"):
        flopwise.read(path).weights["w"].array()


def test_a_file_of_countless_messages_is_refused_before_it_takes_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.formats.sources.schema.MOST", 10_000)

    data = _of(*[{"type": "const"}] * 20_000)
    with pytest.raises(flopwise.ModelError, match="it has more than 10,000 messages"):
        read(data)


def test_a_few_changes_end_in_a_line_or_a_number() -> None:

    chance = random.Random(0)
    tracemalloc.start()
    for _ in range(400):
        changed = bytearray(CONVOLUTION)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(changed))
            if chance.random() < 0.7:
                changed[place] = chance.randrange(256)
            else:
                changed[place : place + chance.randint(1, 20)] = b""
        try:
            flopwise.profile(read(bytes(changed))).to_dict()
        except flopwise.FlopwiseError as error:
            assert "\n" not in str(error)  # noqa: PT017
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
