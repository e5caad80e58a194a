"""The statistics of a model's weights: of one tensor, one layer or all of them, and what JSON says of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flopwise._results import Json, Printed, fields
from flopwise.analyses.weights.portable import Moments

#: Key of a percentile -> share of the elements that are no greater.
PERCENTILES = {"p1": 0.01, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, eq=False)
class Histogram:
    """The number of finite elements in each of several bins of equal width.

    Bin k holds what is at least ``edges[k]`` and less than ``edges[k + 1]``; the last holds its upper edge too.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def percentile(self, share: float) -> float | None:
        """The value that ``share`` of the elements do not exceed, within the width of a bin; None without elements.

        Elements are taken as spread evenly over their bin.
        """
        rank, passed = share * sum(self.counts), 0
        for k, count in enumerate(self.counts):
            if count and passed + count >= rank:
                within = max(rank - passed, 0.0) / count
                return self.edges[k] * (1 - within) + self.edges[k + 1] * within
            passed += count
        return None


@dataclass(frozen=True, eq=False)
class Entry:
    """The statistics of one tensor, of a layer's weights together, or of the model's.

    Those of values are over the finite elements and None where there are none; they are in the weights' own unit.
    """

    name: str
    #: The operator that uses the weights; "" where it is unknown.
    op: str
    #: Element types, each once.
    dtypes: tuple[str, ...]
    #: Shapes of the tensors, in order.
    shapes: tuple[tuple[int, ...], ...]
    #: Stored bytes.
    nbytes: int
    length: int
    zeros: int
    nan: int
    infinite: int
    min: float | None
    max: float | None
    mean: float | None
    #: Population standard deviation.
    deviation: float | None
    #: Greatest magnitude, sum of magnitudes, root of the sum of squares.
    absmax: float | None
    l1: float | None
    l2: float | None
    histogram: Histogram | None = None
    #: Names of the tensors, in order.
    tensors: tuple[str, ...] = ()

    def figure(self, key: str) -> Any:
        """An attribute, or a percentile; None where it is not known."""
        if key in PERCENTILES:
            value = None if self.histogram is None else self.histogram.percentile(PERCENTILES[key])
            if value is None or self.min is None or self.max is None:
                return None
            return min(max(value, self.min), self.max)
        if key == "zero%":
            return 100 * self.zeros / self.length if self.length else None
        return getattr(self, key)


def figures(moments: Moments, factor: float = 1.0) -> Json:
    """The figures of an entry, from the moments of its elements times ``factor``."""
    numbers: Json = {
        **fields(moments, "length zeros nan infinite"),
    }
    values: Sequence[float | None] = [None] * 7
    if moments.count:
        mean, deviation = moments.mean, math.sqrt(max(moments.squares, 0.0) / moments.count)
        l2 = math.sqrt(moments.count) * math.hypot(mean, deviation)
        absmax = max(abs(moments.low), abs(moments.high))
        scaled = (moments.low, moments.high, mean, deviation, absmax, moments.magnitude + 0.0, l2)
        values = [v / factor if math.isfinite(v / factor) else None for v in scaled]  # too large for a float64
    return numbers | dict(zip(("min", "max", "mean", "deviation", "absmax", "l1", "l2"), values, strict=True))


#: The figures of an entry in JSON, in order.
FIGURES = ("length", "zeros", "nan", "infinite", "min", "max", "mean", "deviation", "absmax", "l1", "l2")


@dataclass(frozen=True, eq=False)
class Weights(Printed):
    """The statistics of a model's weights, entry by entry and in total.

    >>> import numpy as np
    >>> from flopwise.analyses.weights.weights import weights_of_arrays
    >>> weights = weights_of_arrays({"a": np.float32([1, 2, 3, 0])})
    >>> weights["a"].mean, weights["a"].zeros
    (1.5, 1)
    """

    model: str
    format: str
    #: "layer" or "tensor".
    by: str
    bins: int
    entries: tuple[Entry, ...]
    #: All entries together; without a histogram.
    total: Entry
    notes: tuple[str, ...] = ()
    #: What ran over the elements, with its version.
    engine: str = ""

    def __getitem__(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def to_dict(self) -> Json:
        """The JSON schema ``flopwise.weights/1``: every number an integer, a float or null."""
        return {
            "schema": "flopwise.weights/1",
            "model": {"source": self.model, "format": self.format},
            **fields(self, "by bins"),
            "totals": {"bytes": self.total.nbytes, **_figures(self.total)},
            "entries": [_entry(entry) for entry in self.entries],
            "notes": list(self.notes),
        }

    def histograms(self) -> Json:
        """The JSON schema ``flopwise.histograms/1``: edges and counts of each entry; null for one without elements."""
        return {
            "schema": "flopwise.histograms/1",
            "model": {"source": self.model, "format": self.format},
            **fields(self, "by bins"),
            "histograms": [
                {
                    "name": entry.name,
                    "op": entry.op or None,
                    **fields(entry, "length zeros"),
                    "edges": None if entry.histogram is None else list(entry.histogram.edges),
                    "counts": None if entry.histogram is None else list(entry.histogram.counts),
                }
                for entry in self.entries
            ],
        }


def _figures(entry: Entry) -> Json:
    return {key: entry.figure(key) for key in FIGURES}


def _entry(entry: Entry) -> Json:
    return {
        "name": entry.name,
        "op": entry.op or None,
        "tensors": list(entry.tensors),
        "shapes": [list(shape) for shape in entry.shapes],
        "dtypes": list(entry.dtypes),
        "bytes": entry.nbytes,
        **_figures(entry),
        **{key: entry.figure(key) for key in PERCENTILES},
        "histogram": None if entry.histogram is None else list(entry.histogram.counts),
    }
