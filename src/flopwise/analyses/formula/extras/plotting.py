"""Costs against one symbol, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flopwise._current_folder import without
from flopwise.errors import InputError


def drawn(symbol: str, sizes: Sequence[int], lines: Mapping[str, Sequence[int | None]], title: str) -> Any:
    """A figure of matplotlib with a line for each label.

    Args:
        symbol: what the x axis is.
        sizes: the places on it.
        lines: label -> a value for each size; None is a gap.
        title: stands above.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        with without("matplotlibrc"):
            from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib: pip install 'flopwise[figures]'") from None
    plot = Figure(layout="constrained")
    axes = plot.subplots()
    for label, values in lines.items():
        axes.plot(list(sizes), [float("nan") if v is None else v for v in values], label=label)
    axes.set_xlabel(symbol)
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend()
    return plot
