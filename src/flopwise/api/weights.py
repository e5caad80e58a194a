"""``flopwise.weights``: statistics and histograms of a model's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flopwise.analyses.weights.result import Weights
from flopwise.analyses.weights.weights import check_options, measured
from flopwise.readers.formats import open_stored


def weights(
    model: object,
    *,
    by: str = "layer",
    bins: int = 100,
    histogram: bool = True,
    layers: str | Sequence[str] | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Weights:
    """Statistics and histograms of a model's weights, in a stream.

    Args:
        model: as in :func:`flopwise.profile`, or the path of a file or directory with weights and no graph.
        by: "layer" puts the floating-point weights of a layer together, weight before bias; "tensor" takes every stored
            tensor by itself, integers too.
        bins: bins of each histogram, of equal width from the least to the greatest element.
        histogram: whether to make histograms; without them there are no percentiles.
        layers: only entries with a name that matches one of these patterns (``*``, ``?``, ``[...]``).
        threads: how many run side by side; None for all cores.
        progress: called with what is being done.
        options: further arguments of :func:`flopwise.read` (``inputs``, ``batch_size``, ``arguments`` ...).

    Raises:
        ModelError: the model cannot be read.
        InputError: an argument makes no sense, or no name matches.
    """
    check_options(by, bins, threads)
    if progress is not None:
        options["progress"] = progress
    with open_stored(model, **options) as stored:
        result = measured(stored, by, bins, histogram, layers, threads, progress)
    return replace(result, renderer=_as_text)


def _as_text(weights: Weights) -> str:
    from flopwise.report.commands.weights import weights_report
    from flopwise.report.report import as_text

    return as_text(weights_report(weights))
