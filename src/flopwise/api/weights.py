"""``flopwise.weights``: statistics and histograms of a model's weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise._arguments import Arguments, checked
from flopwise.analyses.weights.result import Weights
from flopwise.analyses.weights.weights import check_options, measured
from flopwise.api.read import checked_batch_size, read
from flopwise.conventions import Convention, get
from flopwise.formats.options import Keywords
from flopwise.formats.table import open_stored
from flopwise.formats.weights.tensor import StoredTensors
from flopwise.graph import StoredTensor
from flopwise.graph.names import layer_names
from flopwise.profiles.count import profile_graph

if TYPE_CHECKING:
    from typing_extensions import Unpack


@checked
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
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    **keywords: Unpack[Keywords],
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
        inputs: as in ``flopwise.read``, like ``dims`` and ``batch_size``.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model cannot be read.
        InputError: an argument makes no sense, or no name matches.
    """
    check_options(by, bins, threads)
    reading: Arguments = {"inputs": inputs, "dims": dims, "batch_size": checked_batch_size(batch_size), **keywords}
    if progress is not None:
        reading["progress"] = progress
    with open_stored(model, **reading) as stored:
        if convention is not None:
            stored = _with_tool_names(stored, model, get(convention), reading)
        return measured(stored, by, bins, histogram, layers, threads, progress)


def _with_tool_names(stored: StoredTensors, model: object, convention: Convention, reading: Arguments) -> StoredTensors:
    """The stored tensors with the names and types that a convention's tool gives their layers."""
    graph = read(model, **reading)
    rows = {id(row.node): row for row in profile_graph(graph, convention).rows}
    pairs = zip(layer_names(graph.nodes), graph.nodes, strict=True)
    named = {name: rows[id(node)] for name, node in pairs if id(node) in rows}

    def renamed(tensor: StoredTensor) -> StoredTensor:
        row = named.get(tensor.layer)
        return tensor if row is None else replace(tensor, layer=row.name, op=row.type)

    return replace(stored, tensors=tuple(map(renamed, stored.tensors)))
