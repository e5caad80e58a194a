"""Many small tensors measured together have the figures that each has by itself, to the last bit."""

from __future__ import annotations

import marshal
from pathlib import Path

import numpy
import pytest

import flopwise
from flopwise.analyses.weights import weights as module
from flopwise.analyses.weights.engine import Engine, Scanned


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive of small arrays: usual ones, and some with every oddity of floating point."""
    random, arrays = numpy.random.default_rng(0), {}
    for i in range(900):
        kind = (numpy.float32, numpy.float64, numpy.float16, numpy.int64)[i % 4 if i % 3 == 0 else i % 2]
        array = random.standard_normal(int(random.integers(1, 40) if i % 5 else 270)) * 10.0 ** random.integers(-3, 4)
        arrays[f"l{i}"] = array.astype(kind)
    wide = numpy.finfo(numpy.float64).max
    step = numpy.nextafter(numpy.float64(1e16), numpy.inf)
    odd = [
        [1, numpy.nan],
        [1, -numpy.inf, 2],
        [3, 3, 3],
        [0.0, -0.0],
        [-wide, wide],
        [5e-324, 0],
        [1e16, step, step],
        [],
    ]
    arrays |= {f"odd{i}": numpy.array(values) for i, values in enumerate(odd)}
    path = tmp_path_factory.mktemp("weights") / "small.npz"
    numpy.savez(path, **arrays)  # type: ignore[arg-type] # the stub
    return str(path)


def bits(value: object) -> bytes:
    """Plain data to the last bit: zeros with their sign, and NaN equal to itself."""
    return marshal.dumps(value, 2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bins", [1, 7, 100, 1000])
def test_to_the_last_bit(path: str, threads: int, bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    many = flopwise.weights(path, bins=bins, threads=threads)
    monkeypatch.setattr(module, "MANY", 1 << 30)
    each = flopwise.weights(path, bins=bins, threads=threads)
    assert bits(many.to_dict()) == bits(each.to_dict())
    assert bits(many.histograms()) == bits(each.histograms())


def test_without_histograms(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = flopwise.weights(path, histogram=False, by="tensor")
    monkeypatch.setattr(module, "MANY", 1 << 30)
    assert bits(many.to_dict()) == bits(flopwise.weights(path, histogram=False, by="tensor").to_dict())


def test_few_are_looked_at_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []
    scan = Engine.scan

    def watched(self: Engine, source: flopwise.StoredTensor, factor: float = 1.0, room: int = 0) -> Scanned:
        alone.append(source.name)
        return scan(self, source, factor, room)

    monkeypatch.setattr(Engine, "scan", watched)
    flopwise.weights(path, threads=1)
    assert len(alone) < 450
