"""Elements of constants in every form in which TensorProto may hold them, by the shapes that they decide."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.formats.tensorflow.protobuf import field, graph, node, placeholder, shape, varint

import flopwise

INT32, INT64, FLOAT, DOUBLE, BFLOAT, HALF = 3, 9, 1, 2, 14, 19


def single(number: int, content: bytes) -> bytes:
    """A field of four or eight bytes, which is not packed."""
    return varint(number << 3 | (5 if len(content) == 4 else 1)) + content


def written(dtype: int, sizes: tuple[int, ...], elements: bytes) -> bytes:
    tensor = field(1, dtype) + field(2, shape(*sizes)) + elements
    return node(f"c{dtype}", "Const", dtype=field(6, dtype), value=field(8, tensor))


def packed(number: int, *values: int) -> bytes:
    return field(number, b"".join(map(varint, values)))


@pytest.mark.parametrize(
    ("dtype", "elements", "expected"),
    [
        (INT32, field(4, struct.pack("<3i", 2, -1, 4)), (2, 6, 4)),
        (INT32, packed(7, 2, 6, 4), (2, 6, 4)),
        (INT32, packed(7, 2, -1, 300), None),
        (INT32, packed(7, 12, -1, 1), (12, 4, 1)),
        (INT32, field(7, 2) + field(7, 6) + field(7, 4), (2, 6, 4)),
        (INT32, packed(7, 3, 4), (3, 4, 4)),  # the last one stands for those that are left out
        (INT32, packed(7, 2, 3, 4, 2), None),  # more than there are
        (INT32, field(4, struct.pack("<2i", 12, 4)), None),
        (INT64, field(4, struct.pack("<3q", 2, 6, -1)), (2, 6, 4)),
        (INT64, packed(10, 2, -1, 4), (2, 6, 4)),
        (INT64, field(10, -1) + packed(10, 6, 4), (2, 6, 4)),
        (INT64, packed(10, 128, -1, 3), None),
    ],
)
def test_whole_numbers(dtype: int, elements: bytes, expected: tuple[int, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    sizes = written(dtype, (3,), elements)
    path.write_bytes(graph(placeholder("x", 6, 8), sizes, node("y", "Reshape", "x", f"c{dtype}")))
    assert flopwise.profile(path).graph.outputs[0].shape == expected


@pytest.mark.parametrize(
    ("dtype", "elements"),
    [
        (FLOAT, field(4, struct.pack("<f", 2.5))),
        (FLOAT, field(5, struct.pack("<f", 2.5))),
        (FLOAT, single(5, struct.pack("<f", 2.5))),
        (DOUBLE, field(4, struct.pack("<d", 2.5))),
        (DOUBLE, field(6, struct.pack("<d", 2.5))),
        (DOUBLE, single(6, struct.pack("<d", 2.5))),
        (BFLOAT, packed(13, struct.unpack("<I", struct.pack("<f", 2.5))[0] >> 16)),
        (HALF, field(4, struct.pack("<e", 2.5))),
        (HALF, packed(13, *struct.unpack("<H", struct.pack("<e", 2.5)))),
    ],
)
def test_floating_numbers(dtype: int, elements: bytes, tmp_path: Path) -> None:
    """From 0, which is not written down, up to 2.5 in steps of 0.5."""
    path = tmp_path / "net.pb"
    tensors = [
        written(dtype, (), elements),
        node("zero", "Const", dtype=field(6, FLOAT), value=field(8, field(1, FLOAT) + field(2, b""))),
        node(
            "step", "Const", dtype=field(6, FLOAT), value=field(8, field(1, FLOAT) + field(5, struct.pack("<f", 0.5)))
        ),
    ]
    path.write_bytes(graph(*tensors, node("y", "Range", "zero", f"c{dtype}", "step", T=field(6, dtype))))
    assert flopwise.profile(path).graph.outputs[0].shape == (5,)
