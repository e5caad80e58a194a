"""A Core ML model -> Graph: opened from a package or a specification, and from there on as an ONNX model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from flopwise.errors import ModelError
from flopwise.graph import Graph
from flopwise.readers.coreml.file.message import Specification
from flopwise.readers.coreml.file.package import opened as opened_source
from flopwise.readers.coreml.file.schema import OTHERS
from flopwise.readers.coreml.file.weights import Weights
from flopwise.readers.coreml.program import Program, modules
from flopwise.readers.onnx.file.model import Graph as Operations
from flopwise.readers.onnx.file.model import Model
from flopwise.readers.onnx.file.roles import kind_of_constant, uses
from flopwise.readers.onnx.file.skeleton import Pieces, Skeleton
from flopwise.readers.onnx.file.stored import Notes
from flopwise.readers.onnx.file.weights import hard_links
from flopwise.readers.onnx.normalize.names import named
from flopwise.readers.onnx.normalize.sorting import in_execution_order
from flopwise.readers.onnx.read import Dialect, Opened, graph_of, in_one_line, resolved_at, stored_at
from flopwise.readers.options import CoremlOptions

_COREML = Dialect("coreml", modules, states=False)

#: The operator sets of ONNX whose definitions the lowered operators follow.
_OPSETS = {"": 21, "coreml": 1}

#: The function that a program without another word runs.
_MAIN = "main"


def read_coreml(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: CoremlOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of a Core ML model with the shape of every tensor that can be resolved.

    Args:
        model: a package, or the path, the bytes or an open binary file of a specification.
        inputs: other shapes of the model's inputs than the file's.
        dims: values of symbolic dimensions in ``inputs``.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        options: how often loops run.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
        InputError: an input's shape is missing, or does not fit; or there is no such loop.
    """
    opened = opened_coreml(model, options, progress)
    return graph_of(resolved_at(opened, inputs, dims, batch_size, options, progress), progress)


def read_stored(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: CoremlOptions | None = None,
) -> Graph:
    """The graph of a Core ML model for its stored tensors, which need no input shapes.

    Raises:
        ModelError: the model cannot be read.
        InputError: what is given does not fit.
    """
    return stored_at(opened_coreml(model, options), inputs, dims, batch_size, options)


def opened_coreml(
    model: object, options: CoremlOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """A Core ML model before any size is chosen.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source, name = opened_source(model)
    weights = Weights(source)
    try:
        with in_one_line(name):
            if options is not None and options.largest_graph is not None and source.size > options.largest_graph:
                raise ModelError(f"it takes {source.size:,} bytes, more than the limit of {options.largest_graph:,}")
            graph, warnings = _graph(Specification(source), weights)
            graph = named(in_execution_order(graph))
    finally:
        weights.close()
        source.close()
    stored = graph.initializers
    remarks = hard_links(stored.values(), source.folder)
    remarks += [f"{file} is not there; numbers in it decide no size" for file in weights.missing]
    taken = uses(graph.nodes, stored, graph.operations)
    settings = [
        name
        for name, one in stored.items()
        if kind_of_constant(one.dtype, len(one.dims), math.prod(one.dims), taken.get(name, ())) == "constant"
    ]
    notes = Notes(dict.fromkeys(settings, "CONSTANT_TENSOR"), {}, False)
    skeleton = Skeleton(b"", {}, {}, Pieces(), Pieces())
    whole = Model(9, dict(_OPSETS), {}, graph)
    return Opened(whole, skeleton, name, source.later(), notes, tuple(warnings), tuple(remarks), _COREML)


def _graph(specification: Specification, weights: Weights) -> tuple[Operations, list[str]]:
    """The graph of the program in a specification, and what to warn of.

    Raises:
        ModelError: it is no program, or damaged.
    """
    kinds = [OTHERS[number] for number in sorted(specification.numbers()) if number in OTHERS]
    if kinds:
        raise ModelError(
            f"{kinds[0]}, not an ML program; convert the network it was made from with coremltools 7 or newer, or give "
            "that network"
        )
    whole = specification.message("Model", (0, specification.size))
    functions = {one.get("key", ""): one.get("value", {}) for one in whole.get("mlProgram", {}).get("functions", [])}
    description = whole.get("description", {})
    chosen = description.get("defaultFunctionName") or _MAIN
    chosen = chosen if chosen in functions else next(iter(functions), "")
    if not chosen:
        raise ModelError("not a Core ML model, or one without a program")
    described = next((one for one in description.get("functions", []) if one.get("name") == chosen), description)
    shapes = {one.get("name", ""): _default(one) for one in described.get("input", [])}
    graph = Program(specification, weights).graph(functions[chosen], shapes)
    others = [name for name in functions if name != chosen]
    return graph, [f"function {chosen!r} is counted; others are {', '.join(others)}"] if others else []


def _default(feature: Mapping[str, Any]) -> tuple[int | None, ...]:
    """The extents of an input where nobody chooses others."""
    kind = feature.get("type", {})
    if "imageType" in kind:
        image = kind["imageType"]
        channels = 1 if image.get("colorSpace") in _GREY else 3
        return (1, channels, image.get("height"), image.get("width"))
    return tuple(kind.get("multiArrayType", {}).get("shape", ()))


#: Codes of images of one channel.
_GREY = (10, 40)
