"""Figures of weights: percentiles within a histogram, and None where there is nothing to know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopwise.analyses.weights.result import Entry, Histogram
from flopwise.analyses.weights.weights import weights_of_arrays


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1.0), (0.25, 1.5), (0.5, 2.0), (0.5001, 3.0002), (0.75, 3.5), (1.0, 4.0)]
)
def test_elements_are_spread_evenly_over_their_bin(share: float, value: float) -> None:
    histogram = Histogram((0.0, 1.0, 2.0, 3.0, 4.0), (0, 5, 0, 5))
    assert histogram.percentile(share) == pytest.approx(value)


@pytest.mark.parametrize("counts", [(), (0, 0)])
def test_without_elements_there_is_no_percentile(counts: tuple[int, ...]) -> None:
    assert Histogram((0.0, 1.0, 2.0)[: len(counts) + 1], counts).percentile(0.5) is None


def entry() -> Entry:
    return weights_of_arrays({"a": np.float32([1, 2, 3, 0])}, bins=10)["a"]


def test_a_percentile_lies_between_the_least_and_the_largest() -> None:
    wide = replace(entry(), histogram=Histogram((-10.0, 10.0), (4,)))
    assert [wide.figure(key) for key in ("p1", "p50", "p99")] == [0.0, 0.0, 3.0]


def test_figures_that_nobody_knows() -> None:
    assert replace(entry(), histogram=None).figure("p50") is None
    assert replace(entry(), min=None).figure("p50") is None
    assert replace(entry(), max=None).figure("p50") is None
    assert entry().figure("zero%") == 25.0
    assert replace(entry(), length=0, zeros=0).figure("zero%") is None
    assert weights_of_arrays({"a": np.float32([])})["a"].mean is None
