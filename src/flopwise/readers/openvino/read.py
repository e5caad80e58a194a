"""An OpenVINO model -> Graph: opened from XML, and from there on as an ONNX model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flopwise.errors import ModelError
from flopwise.graph import Graph
from flopwise.readers.onnx.file.model import Graph as Layers
from flopwise.readers.onnx.file.roles import kind_of_constant, uses
from flopwise.readers.onnx.file.skeleton import Pieces, Skeleton
from flopwise.readers.onnx.file.stored import Notes
from flopwise.readers.onnx.file.weights import hard_links
from flopwise.readers.onnx.normalize.names import named
from flopwise.readers.onnx.normalize.sorting import in_execution_order
from flopwise.readers.onnx.read import Dialect, Opened, graph_of, in_one_line, resolved_at, stored_at
from flopwise.readers.openvino.file.xml import read_net
from flopwise.readers.openvino.program import Beside, Program, modules
from flopwise.readers.options import OpenvinoOptions
from flopwise.readers.source.open import open_source

_OPENVINO = Dialect("openvino", modules, states=False)


def read_openvino(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OpenvinoOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of an OpenVINO model with the shape of every tensor that can be resolved.

    Args:
        model: a path, bytes or an open binary file: the XML.
        inputs: shapes of the model's inputs where the file leaves them open, or other shapes than the file's.
        dims: values of symbolic dimensions in ``inputs``.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        options: how often loops run.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
        InputError: an input's shape is missing, or does not fit; or there is no such loop.
    """
    opened = opened_openvino(model, options, progress)
    return graph_of(resolved_at(opened, inputs, dims, batch_size, options, progress), progress)


def read_stored(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OpenvinoOptions | None = None,
) -> Graph:
    """The graph of an OpenVINO model for its stored tensors, which need no input shapes.

    Raises:
        ModelError: the model cannot be read.
        InputError: what is given does not fit.
    """
    return stored_at(opened_openvino(model, options), inputs, dims, batch_size, options)


def opened_openvino(
    model: object, options: OpenvinoOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """An OpenVINO model before any size is chosen.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source = open_source(model)
    beside = Beside(source)
    try:
        with in_one_line(source.name):
            if options is not None and options.largest_graph is not None and source.size > options.largest_graph:
                raise ModelError(f"it takes {source.size:,} bytes, more than the limit of {options.largest_graph:,}")
            program = Program(source, beside)
            model_ = program.model(read_net(source))
            model_ = replace(model_, graph=named(in_execution_order(model_.graph)))
    finally:
        beside.close()
        source.close()
    stored = model_.graph.initializers
    remarks = hard_links(stored.values(), source.folder)
    if beside.missing:
        remarks.append(f"{beside.name} is not there; sizes that numbers in it decide are those that the file states")
    taken = uses(model_.graph.nodes, stored, model_.graph.operations)
    biases = _biases_of_one_channel(model_.graph)
    settings = [
        name
        for name, one in stored.items()
        if name not in biases
        and kind_of_constant(one.dtype, len(one.dims), math.prod(one.dims), taken.get(name, ())) == "constant"
    ]
    notes = Notes(dict.fromkeys(settings, "CONSTANT_TENSOR"), {}, False)
    skeleton = Skeleton(b"", {}, {}, Pieces(), Pieces())
    warnings, reopen = tuple(program.warnings), source.later()
    return Opened(model_, skeleton, source.name, reopen, notes, warnings, tuple(remarks), _OPENVINO)


def _biases_of_one_channel(graph: Layers) -> set[str]:
    """The stored tensors of one element that are added to a product whose stored weight gives one channel."""
    stored, origins, products, biases = graph.initializers, dict[str, str](), set[str](), set[str]()
    for node in graph.nodes:
        inputs = [origins.get(name, name) for name in node.inputs]
        sizes = [stored[name].dims if name in stored else () for name in inputs]
        if node.op == "Cast":  # compressed to half precision
            origins[node.outputs[0]] = inputs[0]
        elif len(inputs) > 1 and (sizes[1][:1] == (1,) if node.op == "Conv" else node.op == "MatMul" and 1 in sizes[1]):
            products.update(node.outputs)
        elif node.op == "Add" and not products.isdisjoint(inputs):
            biases.update(name for name, size in zip(inputs, sizes, strict=True) if size and math.prod(size) == 1)
    return biases
