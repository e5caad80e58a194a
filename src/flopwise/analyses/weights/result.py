"""The statistics of a model's weights, and what JSON says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flopwise.analyses.weights.entry import PERCENTILES, Entry

#: The figures of an entry in JSON, in order.
FIGURES = ("length", "zeros", "nan", "infinite", "min", "max", "mean", "deviation", "absmax", "l1", "l2")


@dataclass(frozen=True, eq=False)
class Weights:
    """The statistics of a model's weights, entry by entry and in total.

    >>> import numpy as np
    >>> from flopwise.analyses.weights.weights import weights_of_arrays
    >>> found = weights_of_arrays({"a": np.float32([1, 2, 3, 0])})
    >>> found["a"].mean, found["a"].zeros
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
    #: How ``print(weights)`` looks; provided by whoever knows the reports.
    renderer: Callable[[Weights], str] | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """The JSON schema ``flopwise.weights/1``: every number an integer, a float or null."""
        return {
            "schema": "flopwise.weights/1",
            "model": {"source": self.model, "format": self.format},
            "by": self.by,
            "bins": self.bins,
            "totals": {"bytes": self.total.nbytes, **_figures(self.total)},
            "entries": [_entry(entry) for entry in self.entries],
            "notes": list(self.notes),
        }

    def histograms(self) -> dict[str, Any]:
        """The JSON schema ``flopwise.histograms/1``: edges and counts of each entry; null for one without elements."""
        return {
            "schema": "flopwise.histograms/1",
            "model": {"source": self.model, "format": self.format},
            "by": self.by,
            "bins": self.bins,
            "histograms": [
                {
                    "name": entry.name,
                    "op": entry.op or None,
                    "length": entry.length,
                    "zeros": entry.zeros,
                    "edges": None if entry.histogram is None else list(entry.histogram.edges),
                    "counts": None if entry.histogram is None else list(entry.histogram.counts),
                }
                for entry in self.entries
            ],
        }

    def __str__(self) -> str:
        return self.renderer(self) if self.renderer else repr(self)


def _figures(entry: Entry) -> dict[str, Any]:
    return {key: entry.figure(key) for key in FIGURES}


def _entry(entry: Entry) -> dict[str, Any]:
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
