"""Models of other formats, such as OpenVINO and Core ML, in the form in which an ONNX model is opened."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from flopwise.errors import ModelError
from flopwise.formats.onnx.file.model import Model
from flopwise.formats.onnx.file.roles import kind_of_constant, uses
from flopwise.formats.onnx.file.skeleton import Pieces, Skeleton
from flopwise.formats.onnx.file.stored import Notes
from flopwise.formats.onnx.file.weights import hard_links
from flopwise.formats.onnx.read import Dialect, Opened
from flopwise.formats.sources.source import Source
from flopwise.readers.options import OnnxOptions


def refuse_large(source: Source, options: OnnxOptions | None) -> None:
    """Raise ModelError if a file is larger than a graph may be."""
    most = None if options is None else options.largest_graph
    if most is not None and source.size > most:
        raise ModelError(f"it takes {source.size:,} bytes, more than the limit of {most:,}")


def opened_as(
    model: Model,
    name: str,
    source: Source,
    dialect: Dialect,
    warnings: Iterable[str],
    remarks: Iterable[str],
    biases: Container[str] = (),
) -> Opened:
    """An opened model.

    Args:
        model: its graph, with nodes in execution order and control flow named.
        name: what to call it in a message.
        source: of its elements; it may be closed.
        dialect: how its format differs from ONNX.
        warnings: on its graph.
        remarks: on its files.
        biases: stored tensors that are parameters, although a single number of theirs would be a setting.
    """
    graph = model.graph
    stored, taken = graph.initializers, uses(graph.nodes, graph.initializers, graph.operations)
    settings = [
        key
        for key, one in stored.items()
        if key not in biases
        and kind_of_constant(one.dtype, len(one.dims), math.prod(one.dims), taken.get(key, ())) == "constant"
    ]
    notes = Notes(dict.fromkeys(settings, "CONSTANT_TENSOR"), {}, False)
    skeleton = Skeleton(b"", {}, {}, Pieces(), Pieces())
    remarks = (*hard_links(stored.values(), source.folder), *remarks)
    return Opened(model, skeleton, name, source.later(), notes, tuple(warnings), remarks, dialect)
