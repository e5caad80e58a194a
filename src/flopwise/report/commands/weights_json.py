"""The weights of a model as JSON: every number an integer, a float or null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flopwise.analyses.weights.entry import PERCENTILES, Entry
from flopwise.report.formats import json

if TYPE_CHECKING:
    from flopwise.analyses.weights.weights import Weights

#: The figures of an entry, in order.
FIGURES = ("length", "zeros", "nan", "infinite", "min", "max", "mean", "deviation", "absmax", "l1", "l2")


def content(weights: Weights) -> dict[str, Any]:
    """The JSON schema ``flopwise.weights/1``; a histogram reaches from min to max."""
    return {
        "schema": "flopwise.weights/1",
        "model": {"source": weights.model, "format": weights.format},
        "by": weights.by,
        "bins": weights.bins,
        "totals": {"bytes": weights.total.nbytes, **_figures(weights.total)},
        "entries": [_entry(entry) for entry in weights.entries],
        "notes": list(weights.notes),
    }


def histograms(weights: Weights) -> str:
    """The JSON schema ``flopwise.histograms/1``: edges and counts of each entry; null for one without elements."""
    return json.dump(
        {
            "schema": "flopwise.histograms/1",
            "model": {"source": weights.model, "format": weights.format},
            "by": weights.by,
            "bins": weights.bins,
            "histograms": [
                {
                    "name": entry.name,
                    "op": entry.op or None,
                    "length": entry.length,
                    "zeros": entry.zeros,
                    "edges": None if entry.histogram is None else list(entry.histogram.edges),
                    "counts": None if entry.histogram is None else list(entry.histogram.counts),
                }
                for entry in weights.entries
            ],
        }
    )


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
