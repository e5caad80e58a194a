"""An ONNX model -> Graph: weights never read, shapes resolved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from flopwise.formats.kit.program import Model, named, one_line
from flopwise.formats.kit.read import Opened, Resolved, graph_of, in_one_line, resolved_at
from flopwise.formats.kit.stored import notes
from flopwise.formats.kit.tensors import Pieces, Reopen, Skeleton, check_external, hard_links, with_small
from flopwise.formats.onnx.decode import MARK, decoded, with_initializers
from flopwise.formats.onnx.memory import opened
from flopwise.formats.onnx.normalize import in_execution_order
from flopwise.formats.onnx.normalize import settled as settled_versions
from flopwise.formats.onnx.walk import read_skeleton
from flopwise.formats.options import OnnxOptions
from flopwise.formats.sources.source import Source
from flopwise.graph import Graph
from flopwise.graph.construction import MANY, give_back, no_search_for_garbage
from flopwise.sizes.run import in_short


def read_onnx(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of an ONNX model with the shape of every tensor that can be resolved.

    Args:
        model: a path, bytes, an open binary file that can seek, or an ``onnx.ModelProto``.
        inputs: shapes of the model's inputs where the file leaves them open, or other shapes than the file's; see
            ``flopwise.formats.inputs.input_specs``.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        options: how often loops run, which inputs are states, what is assumed of open dimensions, and how large a graph
            may be.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
        InputError: an input's shape is missing, or does not fit; or there is no such loop.
    """
    with no_search_for_garbage():  # none between the two either
        graph = graph_of(
            _in_brief(resolve_onnx(model, inputs, dims, batch_size, options, progress)), progress, last=True
        )
        if len(graph.nodes) >= MANY:
            give_back()
        return graph


def resolve_onnx(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Resolved:
    """An ONNX model with the shape of every tensor that can be resolved; arguments and errors as for `read_onnx`."""
    chosen = options or OnnxOptions()
    return resolved_at(opened_onnx(model, chosen, progress), inputs, dims, batch_size, chosen, progress)


def opened_onnx(
    model: object, options: OnnxOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """An ONNX model before any size is chosen; arguments and errors as for `read_onnx`."""
    progress("reading the graph")
    with in_one_line(), no_search_for_garbage():
        skeleton, name, source = _skeleton(model, options or OnnxOptions())
    with in_one_line(name), no_search_for_garbage():
        return _opened(skeleton, name, source, progress)


def _remarks(skeleton: Skeleton, source: Source) -> list[str]:
    """Remarks on the source of the model: data files with further names, and what was downloaded."""
    stored = (*skeleton.initializers.values(), *skeleton.inner.values())
    links = in_short(hard_links(stored, source.folder), "more data files are hard links")
    return [*map(one_line, links), *filter(None, [source.network_summary()])]


def _opened(
    skeleton: Skeleton, name: str, source: Source, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    model, warnings = _model(skeleton, name, progress)
    reopen, noted = source.later(), notes(model.graph)
    model = _with_small(model, name, reopen)
    model = replace(model, graph=named(in_execution_order(model.graph)))
    return Opened(model, skeleton, name, reopen, noted, tuple(warnings), tuple(_remarks(skeleton, source)))


def _model(
    skeleton: Skeleton, name: str, progress: Callable[[str], None] = lambda step: None
) -> tuple[Model, list[str]]:
    """The model of a file in one spelling, and what to warn of.

    Raises:
        ModelError: it is damaged, or not whole.
    """
    model = decoded(skeleton, name)
    if skeleton.mentions(MARK):
        model = replace(model, graph=with_initializers(model.graph))
    check_external(itertools.chain(skeleton.initializers.values(), skeleton.inner.values()))
    model, warnings = settled_versions(model)
    if model.functions:
        from flopwise.formats.onnx.functions import inlined

        progress("inlining functions")
        model = inlined(model, len(skeleton.model))
    graph, stored = model.graph, model.graph.initializers
    fed = [value for value in graph.inputs if value.name not in stored]  # the oldest files list what is stored as well
    return model if len(fed) == len(graph.inputs) else replace(model, graph=replace(graph, inputs=fed)), warnings


def _skeleton(model: object, options: OnnxOptions) -> tuple[Skeleton, str, Source]:
    with opened(model) as source:
        return read_skeleton(source, options.largest_graph), source.name, source


def _with_small(model: Model, name: str, reopen: Reopen) -> Model:
    """The model with the elements of small tensors that lie in files of external data."""
    stored = model.graph.initializers
    if not any(place.external for place in stored.values()):
        return model
    filled = {key: with_small(place, name, reopen) for key, place in stored.items()}
    return replace(model, graph=replace(model.graph, initializers=filled))


def _in_brief(resolved: Resolved) -> Resolved:
    """The model without the pieces of its file, which nobody asks for any more."""
    skeleton = resolved.skeleton._replace(head=b"", nodes=Pieces(), tensors=Pieces())
    return resolved._replace(skeleton=skeleton)
