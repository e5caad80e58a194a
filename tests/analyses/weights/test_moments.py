"""Statistics and histograms against numpy in float64, for every element type and for nasty elements."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from tests.analyses.weights.arrays import arrays, expected

from flopwise.analyses.weights import engine
from flopwise.analyses.weights.portable import Ruler
from flopwise.analyses.weights.weights import measured, weights_of_arrays
from flopwise.formats.weights.tensor import ArrayElements, StoredTensors
from flopwise.graph.stored import StoredTensor

ARRAYS = arrays()


@pytest.fixture(params=["portable", "compiled"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if request.param == "compiled":
        pytest.importorskip("numba")
    found = import_module(f"flopwise.analyses.weights.{request.param}")
    monkeypatch.setattr(engine, "loops", lambda elements: found)
    return found


@pytest.mark.parametrize("name", ARRAYS)
def test_statistics_are_those_of_numpy(loops: ModuleType, name: str) -> None:
    array = ARRAYS[name]
    entry = weights_of_arrays({"x": array}, by="tensor")["x"]
    wide = array.astype(np.float64)
    counts = (wide.size, (wide == 0).sum(), np.isnan(wide).sum(), np.isinf(wide).sum())
    assert (entry.length, entry.zeros, entry.nan, entry.infinite) == counts
    truth = expected(array)
    if not truth:
        assert (entry.min, entry.mean, entry.deviation, entry.l1, entry.histogram) == (None,) * 5
        return
    assert (entry.min, entry.max, entry.absmax) == (truth["min"], truth["max"], truth["absmax"])
    scale = truth["l1"] / wide.size  # the mean of numbers of both signs may be as near to zero as it likes
    for key in ("mean", "deviation", "l1", "l2"):
        found = entry.figure(key)
        if found is None:
            assert not np.isfinite(truth[key])
            continue
        room = 1e-12 * max(abs(truth[key]), scale if key == "mean" else 0.0)
        assert abs(found - truth[key]) <= room, (key, found, truth[key])


@pytest.mark.parametrize("name", ARRAYS)
def test_histograms_are_those_of_numpy(loops: ModuleType, name: str) -> None:
    array = ARRAYS[name].astype(np.float64)
    finite = array[np.isfinite(array)]
    for bins in (1, 7, 100, 256, 257, 1000):
        found = weights_of_arrays({"x": ARRAYS[name]}, by="tensor", bins=bins)["x"].histogram
        if found is None:
            assert not finite.size
            continue
        assert sum(found.counts) == finite.size
        assert len(found.edges) == bins + 1
        edges = np.array(found.edges)
        place = np.clip(np.searchsorted(edges, finite, side="right") - 1, 0, bins - 1)
        assert found.counts == tuple(np.bincount(place, minlength=bins)), bins
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                counts, numpy_edges = np.histogram(finite, bins)
        except (ValueError, RuntimeWarning):
            continue  # the range is too wide or too narrow for numpy
        assert np.array_equal(numpy_edges, edges), bins
        assert found.counts == tuple(counts), bins


def test_every_dtype_of_ml_dtypes(loops: ModuleType) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(3)
    for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"):
        kind = np.dtype(getattr(ml_dtypes, name))
        array = rng.integers(0, 256, 4096 * kind.itemsize, dtype=np.uint8)
        array = (array & 15 if "int4" in name else array).view(kind)
        with np.errstate(invalid="ignore"):  # signaling NaN
            wide = array.astype(np.float32).astype(np.float64)
        mapped = name == "bfloat16"
        stored = array.view(np.uint16) if mapped else array.astype(np.float32)
        dtype = name.replace("_", "")
        payload = StoredTensor(
            "x", array.shape, dtype, array.nbytes, elements=ArrayElements(lambda s=stored: s, flat=mapped)
        )
        entry = measured(StoredTensors("m", "f", (payload,)), by="tensor")["x"]
        with np.errstate(over="ignore"):
            truth = expected(wide)
        assert (entry.min, entry.max) == (truth["min"], truth["max"])
        assert entry.nan == np.isnan(wide).sum()
        assert entry.infinite == np.isinf(wide).sum()
        assert entry.deviation == pytest.approx(truth["deviation"], rel=1e-12)
        finite = wide[np.isfinite(wide)]
        assert entry.histogram is not None
        assert entry.histogram.counts == tuple(np.histogram(finite, 100)[0])


def test_threads_and_layers_change_nothing() -> None:
    rng = np.random.default_rng(4)
    array = rng.standard_normal(5_000_000, dtype=np.float32)
    one, many = (weights_of_arrays({"x": array}, threads=n)["x"] for n in (1, 4))
    assert one.histogram is not None
    assert many.histogram is not None
    assert one.histogram.counts == many.histogram.counts == tuple(np.histogram(array.astype(np.float64), 100)[0])
    assert one.deviation == pytest.approx(many.deviation, rel=1e-14)


def test_percentiles_lie_within_a_bin() -> None:
    array = np.random.default_rng(5).standard_normal(100_000)
    entry = weights_of_arrays({"x": array})["x"]
    assert entry.max is not None
    assert entry.min is not None
    width = (entry.max - entry.min) / 100
    for key, share in (("p1", 1), ("p5", 5), ("p25", 25), ("p50", 50), ("p75", 75), ("p95", 95), ("p99", 99)):
        assert abs(entry.figure(key) - np.percentile(array, share)) <= width


def test_total_is_that_of_all_elements() -> None:
    rng = np.random.default_rng(6)
    parts = {str(i): rng.standard_normal(n) * 10**i + i for i, n in enumerate((10, 70_000, 3))}
    total, every = weights_of_arrays(parts).total, np.concatenate(list(parts.values()))
    assert total.length == every.size
    assert total.mean == pytest.approx(every.mean(), rel=1e-12)
    assert total.deviation == pytest.approx(every.std(), rel=1e-12)


def test_what_is_tiny_beside_what_is_huge_is_not_zero(loops: ModuleType) -> None:
    entry = weights_of_arrays({"x": np.array([1e200, 1e-200, 0.0, 3e-320])})["x"]
    assert (entry.zeros, entry.min, entry.max, entry.absmax) == (1, 0.0, 1e200, 1e200)
    entry = weights_of_arrays({"x": np.array([1e200, 1e-200])})["x"]
    assert (entry.zeros, entry.min, entry.mean) == (0, 1e-200, 5e199)


def test_the_total_of_what_has_squares_beyond_float64() -> None:
    rng = np.random.default_rng(8)
    parts = {"a": rng.standard_normal(500) * 1e200, "b": rng.standard_normal(70_000), "c": np.array([1e-200, 0.0])}
    total, every = weights_of_arrays(parts).total, np.concatenate(list(parts.values()))
    scaled = every * 2.0**-600
    assert total.deviation == pytest.approx(scaled.std() * 2.0**600, rel=1e-12)
    assert total.l2 == pytest.approx(np.sqrt((scaled**2).sum()) * 2.0**600, rel=1e-12)
    assert (total.zeros, total.length) == (1, every.size)
    assert (total.max, total.min) == (every.max(), every.min())


def test_a_range_wider_than_float64_has_edges_in_order() -> None:
    ruler = Ruler(-1.7e308, 1.7e308, 100)
    assert np.all(np.diff(ruler.edges) > 0)
    assert ruler.place(np.array([-1.7e308, 0.0, 1.7e308])).tolist() == [0, 50, 99]


def _tensors(**arrays: np.ndarray) -> StoredTensors:  # type: ignore[type-arg] # any element type
    tensors = tuple(
        StoredTensor(name, a.shape, a.dtype.name, a.nbytes, "layer", elements=ArrayElements(lambda a=a: a, flat=True))
        for name, a in arrays.items()
    )
    return StoredTensors("m", "f", tensors)


@pytest.mark.parametrize("extreme", [1e-200, 1e200, np.finfo(np.float64).max, np.finfo(np.float64).smallest_subnormal])
def test_no_warning_where_the_result_is_defined(loops: ModuleType, extreme: float) -> None:
    stored = _tensors(
        x=np.array([extreme, 0, np.inf, -np.inf, np.nan] * 20_000),
        y=np.array([0, np.inf, np.nan, 0, 0], np.float16),
        z=np.arange(65536, dtype=np.uint16).view(np.float16)[31 * 1024 : 32 * 1024],  # infinity and every NaN
        w=np.full(70_000, extreme),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (entry,) = measured(stored).entries
        measured(stored, by="tensor")
    assert (entry.max, entry.min) == (extreme, 0)
    assert entry.infinite == 40_002
    assert entry.nan == 20_001 + 1023
