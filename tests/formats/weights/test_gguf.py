"""GGUF: headers and blocks of files that the gguf package writes, and files that cannot be right."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.work import calls_at_most

import flopwise
from flopwise.errors import ModelError
from flopwise.formats.table import open_stored
from flopwise.graph.dtypes import TYPES

#: Types that the package can also quantise.
BOTH = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")


@pytest.mark.upstream
def test_the_table_of_types_is_that_of_the_package() -> None:
    gguf = pytest.importorskip("gguf")
    for kind, (elements, nbytes) in gguf.constants.GGML_QUANT_SIZES.items():
        ours = TYPES.get(kind.value)
        if ours is None or kind.name == "Q8_1":  # never in a file; the package has its size of before 2023
            continue
        assert (ours.elements, ours.nbytes or nbytes) == (elements, nbytes)
        if ours.nbytes:
            assert ours.name.lower() == kind.name.lower()


@pytest.mark.upstream
def test_what_the_package_writes(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    rng = numpy.random.default_rng(0)
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_array("tokenizer.ggml.tokens", [f"token {i}" for i in range(30_000)])
    writer.add_array("tokenizer.ggml.scores", [0.5] * 1000)
    writer.add_float32("some.number", 1.5)
    writer.add_bool("some.truth", True)
    expected = {}
    for kind in BOTH:
        code = gguf.GGMLQuantizationType[kind]
        data = gguf.quants.quantize(rng.standard_normal((3, 2, 512)).astype(numpy.float32), code)
        writer.add_tensor(f"blk.{kind}.weight", data, raw_dtype=code)
        expected[f"blk.{kind}.weight"] = gguf.quants.dequantize(data, code).reshape(3, 2, 512)
    for dtype in ("int8", "int16", "int32", "int64", "float64"):
        expected[f"{dtype}.bias"] = rng.integers(-9, 9, 7).astype(dtype)
        writer.add_tensor(f"{dtype}.bias", expected[f"{dtype}.bias"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_stored(tmp_path / "a.gguf") as stored:
        assert [p.name for p in stored.tensors] == list(expected)
        for payload in stored.tensors:
            numpy.testing.assert_array_equal(payload.array(), expected[payload.name])
            blocks = list(payload.blocks(100))
            numpy.testing.assert_array_equal(numpy.concatenate(blocks), expected[payload.name].reshape(-1))
        assert stored.tensors[3].dtype == "q4_0"
        assert stored.tensors[3].nbytes == 3 * 2 * 512 // 32 * 18
    profile = flopwise.profile(str(tmp_path / "a.gguf"))
    assert profile.total("params") == len(BOTH) * 3072 + 7 * 2  # wide integers are tables
    row = next(r for r in profile.rows if r.name == "blk.Q4_0.weight")
    assert (row.params, row.weight_bytes, row.count) == (3072, 1728, None)


@pytest.mark.parametrize("code", [c for c, t in TYPES.items() if t.nbytes and t.name not in ("q8_1", "q8_K")])
def test_blocks_of_random_bits(tmp_path: Path, code: int) -> None:
    """Every block type as the package dequantises it."""
    gguf = pytest.importorskip("gguf")
    kind = TYPES[code]
    try:
        name = gguf.GGMLQuantizationType(code)
        data = numpy.random.default_rng(code).integers(0, 256, (4, 6 * kind.nbytes), numpy.uint8)
        with numpy.errstate(all="ignore"):
            expected = gguf.quants.dequantize(data, name)
    except (ValueError, NotImplementedError):
        pytest.skip(f"this gguf package does not know {kind.name}")
    path = _file(tmp_path, [_tensor("a", (6 * kind.elements, 4), code, 0)], data=data.tobytes())
    with open_stored(path) as stored, numpy.errstate(all="ignore"):
        found = numpy.concatenate(list(stored.tensors[0].blocks(1000)))
    assert stored.tensors[0].shape == (4, 6 * kind.elements)
    numpy.testing.assert_array_equal(found.reshape(4, -1), expected)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _tensor(name: str, dims: tuple[int, ...], code: int, offset: int) -> bytes:
    return _text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, code, offset)


def _file(
    folder: Path,
    tensors: list[bytes],
    entries: list[bytes] | None = None,
    data: bytes = bytes(64),
    **changed: Any,
) -> Path:
    entries = entries or []
    counts = (changed.get("version", 3), changed.get("tensors", len(tensors)), changed.get("entries", len(entries)))
    head = b"GGUF" + struct.pack("<IQQ", *counts) + b"".join(entries) + b"".join(tensors)
    path = folder / "a.gguf"
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


ARRAYS = _text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 20
LONG = _text("a") + struct.pack("<IIQ", 9, 8, 10**15)

BAD: list[tuple[dict[str, Any], str]] = [
    ({"tensors": [_tensor("a", (8,), 0, 64)]}, "truncated: tensor 'a' ends at byte"),
    ({"tensors": [_tensor("a", (2**40, 2**40), 0, 0)]}, "truncated: tensor 'a' ends at byte"),
    ({"tensors": [_tensor("a", (8,), 0, 0), _tensor("b", (8,), 0, 0)]}, "tensors 'a' and 'b' overlap"),
    ({"tensors": [_tensor("a", (8,), 0, 0), _tensor("a", (8,), 0, 32)]}, "two tensors are named 'a'"),
    ({"tensors": [_tensor("a", (8,), 0, 4)]}, "does not begin at a multiple of 32"),
    ({"tensors": [_tensor("a", (8,), 99, 0)]}, "has the unknown type 99"),
    ({"tensors": [_tensor("a", (33,), 2, 0)]}, "not whole blocks of q4_0"),
    ({"tensors": [_tensor("a", (1,) * 9, 0, 0)]}, "has 9 dimensions"),
    ({"tensors": [_text("a") + struct.pack("<I", 2**32 - 1)]}, "has 4,294,967,295 dimensions"),
    ({"tensors": [struct.pack("<Q", 2**63) + bytes(80)]}, "the name of a tensor has"),
    ({"tensors": [], "entries": [ARRAYS]}, "metadata of type 9"),
    ({"tensors": [], "entries": [LONG]}, "1,000,000,000,000,000 values do not fit"),
    ({"tensors": [], "entries": [_text("a") + struct.pack("<IQ", 8, 2**63)]}, "its header is truncated"),
    ({"tensors": [], "entries": [_text("general.alignment") + struct.pack("<II", 4, 0)]}, "not a power of 2"),
]


@pytest.mark.parametrize(("made", "told"), BAD, ids=[b[1][:30] for b in BAD])
def test_files_that_cannot_be_right(tmp_path: Path, made: dict[str, Any], told: str) -> None:
    _refused(_file(tmp_path, **made), told)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"tensors": 2**60}, "tensors do not fit"),
        ({"entries": 2**60}, "entries of metadata do not fit"),
        ({"version": 1}, "GGUF version 1 is unknown"),
        ({"version": 3 << 24}, "a big-endian GGUF file"),
    ],
)
def test_counts_that_lie(tmp_path: Path, changed: dict[str, int], told: str) -> None:
    path = _file(tmp_path, [])
    counts = {"version": 3, "tensors": 0, "entries": 0} | changed
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", *counts.values()) + bytes(100))
    _refused(path, told)


def test_what_a_header_may_have_at_most(tmp_path: Path) -> None:
    nested = _text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3 + struct.pack("<IQI", 4, 1, 7)
    aligned = _text("general.alignment") + struct.pack("<II", 4, 16)
    tensors = [_tensor("a" * (1 << 16), (1,) * 8, 0, 0), _tensor("b", (0, 2**63 - 1), 0, 16)]
    with open_stored(_file(tmp_path, tensors, [nested, aligned])) as stored:
        assert [tensor.shape for tensor in stored.tensors] == [(1,) * 8, (2**63 - 1, 0)]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"tensors": [_tensor("a" * ((1 << 16) + 1), (1,), 0, 0)]}, "the name of a tensor has 65,537 bytes"),
        ({"tensors": [_tensor("a", (0, 2**63), 0, 0)]}, "has the impossible shape"),
        ({"tensors": [], "entries": [_text("general.alignment") + struct.pack("<II", 4, 48)]}, "not a power of 2"),
        (
            {
                "tensors": [],
                "entries": [
                    _text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 4 + struct.pack("<IQI", 4, 1, 7)
                ],
            },
            "metadata of type 9",
        ),
    ],
    ids=["name", "extent", "alignment", "nested"],
)
def test_one_more_than_that_is_refused(tmp_path: Path, made: dict[str, Any], told: str) -> None:
    _refused(_file(tmp_path, **made), told)


def test_a_header_as_long_as_the_limit(tmp_path: Path) -> None:
    path = _file(tmp_path, [_tensor("a", (8,), 0, 0)], data=bytes(32))
    head = 24 + len(_tensor("a", (8,), 0, 0))
    with flopwise.limits(header_bytes=head):
        assert len(open_stored(path).tensors) == 1
    with flopwise.limits(header_bytes=1), pytest.raises(ModelError, match="more than the limit header_bytes"):
        open_stored(path)


def test_a_file_cut_anywhere(tmp_path: Path) -> None:
    path = _file(tmp_path, [_tensor("a", (8,), 0, 0)], [_text("k") + struct.pack("<IQ", 8, 1) + b"x"], bytes(32))
    whole = path.read_bytes()
    open_stored(path).close()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            open_stored(path)


def _refused(path: Path, told: str) -> None:
    with calls_at_most(2_000_000), pytest.raises(ModelError) as error:
        open_stored(path)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
