"""Small tensors of two bytes have a table of the bit patterns that occur, with the figures of the table of all."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy
import pytest

import flopwise
from flopwise.analyses.weights import engine

#: A mixture of numbers, both zeros, both infinities, NaN, and numbers beyond what float64 can square.
VALUES = numpy.array([0x0000, 0x8000, 0x3C00, 0xBC01, 0x7C00, 0xFC00, 0x7E01, 0x0001, 0x7F00, 0x1234], "<u2")


@pytest.mark.parametrize("dtype", ["F16", "BF16", "I16", "U16"])
@pytest.mark.parametrize("values", [VALUES, VALUES[:4], VALUES[4:7], VALUES[:1], numpy.tile(VALUES, 50)])
def test_the_same_figures(dtype: str, values: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.safetensors"
    head = json.dumps({"w": {"dtype": dtype, "shape": [len(values)], "data_offsets": [0, values.nbytes]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + values.tobytes())
    small = flopwise.weights(path, by="tensor", bins=7)
    monkeypatch.setattr(engine, "SPARSE", -1)
    assert repr(flopwise.weights(path, by="tensor", bins=7).to_dict()) == repr(small.to_dict())
