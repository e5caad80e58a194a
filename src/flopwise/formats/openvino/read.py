"""An OpenVINO model -> Graph: opened from XML, and from there on as an ONNX model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from flopwise.formats.onnx.file.model import Graph as Layers
from flopwise.formats.onnx.foreign import opened_as, refuse_large
from flopwise.formats.onnx.normalize.names import named
from flopwise.formats.onnx.normalize.sorting import in_execution_order
from flopwise.formats.onnx.read import Dialect, Opened, in_one_line
from flopwise.formats.openvino.decode import read_net
from flopwise.formats.openvino.program import Beside, Program, modules
from flopwise.formats.sources.open import open_source
from flopwise.readers.options import OnnxOptions

_OPENVINO = Dialect("openvino", modules, states=False)


def opened_openvino(
    model: object, options: OnnxOptions | None = None, progress: Callable[[str], None] = lambda step: None
) -> Opened:
    """An OpenVINO model before any size is chosen.

    Args:
        model: a path, bytes or an open binary file: the XML.
        options: how large its graph may be.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
    """
    progress("reading the model")
    with in_one_line():
        source = open_source(model)
    beside = Beside(source)
    try:
        with in_one_line(source.name):
            refuse_large(source, options)
            program = Program(source, beside)
            model_ = program.model(read_net(source))
            model_ = replace(model_, graph=named(in_execution_order(model_.graph)))
    finally:
        beside.close()
        source.close()
    remarks = []
    if beside.missing:
        remarks.append(f"{beside.name} is not there; sizes that numbers in it decide are those that the file states")
    biases = _biases_of_one_channel(model_.graph)
    return opened_as(model_, source.name, source, _OPENVINO, program.warnings, remarks, biases)


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
