"""``flopwise.weights``: statistics and histograms of a model's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flopwise.analyses.weights.result import Weights
from flopwise.analyses.weights.weights import check_options, measured
from flopwise.api.read import read
from flopwise.conventions import Convention, get
from flopwise.graph import StoredTensor
from flopwise.graph.names import layer_names
from flopwise.profiles.count import profile_graph
from flopwise.readers.formats import open_stored
from flopwise.readers.weights.tensor import StoredTensors


def weights(
    model: object,
    *,
    by: str = "layer",
    bins: int = 100,
    histogram: bool = True,
    layers: str | Sequence[str] | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
    convention: str | Convention | None = None,
    **options: Any,
) -> Weights:
    """Statistics and histograms of a model's weights, in a stream.

    Args:
        model: as in ``flopwise.profile``, or the path of a file or directory with weights and no graph.
        by: "layer" puts the floating-point weights of a layer together, weight before bias; "tensor" takes every stored
            tensor by itself, integers too.
        bins: bins of each histogram, of equal width from the least to the greatest element.
        histogram: whether to make histograms; without them there are no percentiles.
        layers: only entries with a name that matches one of these patterns (``*``, ``?``, ``[...]``).
        threads: how many run side by side; None for all cores.
        progress: called with what is being done.
        convention: the convention whose tool's names and types the layers get ("benanza"); None for flopwise's own.
        options: further arguments of ``flopwise.read`` (``inputs``, ``batch_size``, ``arguments`` ...).

    Raises:
        ModelError: the model cannot be read.
        InputError: an argument makes no sense, or no name matches.
    """
    check_options(by, bins, threads)
    if progress is not None:
        options["progress"] = progress
    with open_stored(model, **options) as stored:
        if convention is not None:
            stored = _named(stored, model, get(convention), options)
        result = measured(stored, by, bins, histogram, layers, threads, progress)
    return replace(result, renderer=_as_text)


def _named(stored: StoredTensors, model: object, convention: Convention, options: dict[str, Any]) -> StoredTensors:
    """The stored tensors with the names and types that a convention's tool gives their layers."""
    graph = read(model, **options)
    rows = {id(row.node): row for row in profile_graph(graph, convention).rows}
    pairs = zip(layer_names(graph.nodes), graph.nodes, strict=True)
    named = {name: rows[id(node)] for name, node in pairs if id(node) in rows}

    def renamed(tensor: StoredTensor) -> StoredTensor:
        row = named.get(tensor.layer)
        return tensor if row is None else replace(tensor, layer=row.name, op=row.type)

    return replace(stored, tensors=tuple(map(renamed, stored.tensors)))


def _as_text(weights: Weights) -> str:
    from flopwise.report.commands.weights import weights_report
    from flopwise.report.report import as_text

    return as_text(weights_report(weights))
