"""A Keras model in any form -> Graph: what its own backend runs, on tensors without elements."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise.errors import InputError, ModelError
from flopwise.formats.keras.build import model_of
from flopwise.formats.keras.elements import with_elements
from flopwise.formats.keras.inputs import chosen, stated_inputs
from flopwise.formats.keras.kinds import is_name
from flopwise.formats.keras.steps import few_steps
from flopwise.graph import Graph
from flopwise.readers.options import TorchOptions
from flopwise.readers.source.location import naming

if TYPE_CHECKING:
    import keras


def read_keras(
    model: object,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    options: TorchOptions = TorchOptions(),  # noqa: B008 - it cannot be changed
) -> Graph:
    """The graph of a Keras model.

    Args:
        model: a layer or model, a ``.keras`` or ``.h5`` file, ``keras.applications:ResNet50`` or ``keras:net.py:make``.
        inputs: shapes or arrays; None: those that the model states, its batch 1.
        dims: values of names that stand for sizes in shapes.
        batch_size: first dimension of every input.
        progress: called with the name of each step.
        options: mode, gradients, arguments of a callable, and whether code in a file may run.

    Raises:
        ModelError: the model cannot be rebuilt or fails, or Keras is not there.
        InputError: inputs are missing or do not fit.
    """
    if options.past is not None or options.new is not None:
        raise InputError("past and new tokens are for language models; a Keras model takes the length of its inputs")
    progress("importing Keras")
    layer, name = model_of(model, options)
    source = name or f"{type(layer).__module__}.{type(layer).__qualname__}"
    if not layer.built:
        raise ModelError(f"{source}: has no weights yet; call it once, or build() it, before it is counted")
    stated = stated_inputs(layer)
    with naming(source):
        specs = None if stated is None else chosen(stated[0], inputs, dims, batch_size, source)
    if stated is None and inputs is None:
        raise InputError(f"{source}: states no inputs; give their shapes (-i 1x224x224x3)")
    import keras

    if keras.backend.backend() == "torch":
        from flopwise.formats.keras.modules import as_modules, called
        from flopwise.formats.torch.read import read_torch

        module = called(layer, stated and stated[1], tuple(one.name for one in stated[0]) if stated else ())
        arguments = inputs if specs is None else (specs, {})
        with as_modules(layer), few_steps(keras, source):
            graph = read_torch(
                module,
                arguments,
                dims if specs is None else None,
                batch_size if specs is None else None,
                progress,
                mode=options.mode or "eval",
                grad=options.grad,
                attention=options.attention,
                name=name,
            )
        return _as_keras(graph, layer, source, model)
    if options.grad:
        raise InputError(f"{source}: training on Keras' JAX backend is not followed; set KERAS_BACKEND=torch")
    from flopwise.formats.keras.traced import traced

    with few_steps(keras, source):
        graph = traced(layer, source, specs, stated and stated[1], inputs, dims, batch_size, options)
    return _as_keras(graph, layer, source, model)


def module_of(
    model: object, options: TorchOptions, progress: Callable[[str], None], in_memory: bool = False
) -> keras.Layer:
    """The module of PyTorch's that a Keras model is.

    Raises:
        ModelError: Keras runs on another backend.
    """
    layer, name = model_of(model, options, in_memory)
    import keras

    if keras.backend.backend() != "torch":
        raise ModelError(f"{name or type(layer).__name__}: that needs Keras on PyTorch; set KERAS_BACKEND=torch")
    return layer


def _as_keras(graph: Graph, layer: keras.Layer, source: str, model: object) -> Graph:
    name = getattr(layer, "name", "") or type(layer).__name__
    # a graph of layers, as the file is that it is saved to
    program = graph.program._replace(each_call=False)
    graph = replace(graph, name=name, format="keras", source=source, program=program)
    if isinstance(model, (str, os.PathLike)) and not is_name(model):
        return with_elements(graph, layer, os.fspath(model))
    return graph
