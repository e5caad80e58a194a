"""A Keras model in any form -> Graph: what its own backend runs, on tensors without elements."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flopwise._user_code import on_command_line
from flopwise.errors import InputError, ModelError
from flopwise.formats.format import late
from flopwise.formats.inputs import Dims, InputSpec, input_specs
from flopwise.formats.keras.build import model_of
from flopwise.formats.keras.config import few_steps
from flopwise.formats.keras.kinds import is_name
from flopwise.formats.keras.stored import with_elements
from flopwise.formats.options import TorchOptions
from flopwise.formats.sources.location import naming
from flopwise.graph import Graph

if TYPE_CHECKING:
    import keras


# The inputs of a model: what it states itself, at the sizes that the user chose.


@dataclass(frozen=True)
class Stated:
    """An input that a model states: its name, its shape with None for sizes that are open, its element type."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


def stated_inputs(model: object) -> tuple[tuple[Stated, ...], object] | None:
    """The inputs of a model of layers, and the nested structure in which it takes them; None where it states none."""
    functional = getattr(model, "_functional", None) or model
    struct = getattr(functional, "_inputs_struct", None)
    tensors = getattr(functional, "inputs", None)
    if struct is None or not tensors:
        return None
    return tuple([Stated(t.name, tuple(t.shape), t.dtype) for t in tensors]), struct


def chosen(
    stated: tuple[Stated, ...], inputs: object, dims: Mapping[str, int] | None, batch_size: int | None, source: str
) -> list[InputSpec]:
    """The inputs at their sizes, in the model's order; a first size that is open is the batch, and 1.

    Args:
        stated: as the model has them.
        inputs: shapes or arrays by name, in the model's order, or texts of the form ``name:dtype:shape[:data]``.
        dims: values of names that stand for sizes in shapes.
        batch_size: the first size of every input.
        source: the model, for messages.

    Raises:
        InputError: a size is open and nobody has chosen it, or a shape does not fit.
    """
    names = [one.name for one in stated]
    specs = {spec.name: spec for spec in input_specs(_by_name(inputs, names), names)}
    sizes = Dims(dims)
    result = [_one(one, specs.get(one.name), sizes, batch_size, source) for one in stated]
    sizes.check()
    return result


def _by_name(inputs: object, names: list[str]) -> object:
    """A sequence of shapes or arrays as a mapping from the names of inputs."""
    if isinstance(inputs, (list, tuple)) and len(inputs) == len(names):
        shapes = all(isinstance(one, (list, tuple)) or hasattr(one, "shape") for one in inputs)
        if shapes:
            return dict(zip(names, inputs, strict=True))
    return inputs


def _one(one: Stated, spec: InputSpec | None, sizes: Dims, batch_size: int | None, source: str) -> InputSpec:
    """An input at its size."""
    shape = list(one.shape) if spec is None else _given(one, spec, sizes, source)
    if batch_size is not None and shape:
        if one.shape[0] not in (None, batch_size):
            raise InputError(f"{source}: the batch of input {one.name!r} is fixed at {one.shape[0]}")
        shape[0] = batch_size
    elif shape and shape[0] is None:
        shape[0] = sizes.get("batch", 1)
    if None in shape:
        raise InputError(
            f"{source}: sizes of input {one.name!r} are open ({_text(one.shape)}); {_cure(one.name, shape)}"
        )
    dtype = spec.dtype if spec is not None and spec.dtype else one.dtype
    value = spec.value if spec is not None else None
    return InputSpec(one.name, tuple([size for size in shape if size is not None]), dtype, value)


def _given(one: Stated, spec: InputSpec, sizes: Dims, source: str) -> list[int | None]:
    """The shape that the user gave, if it is one of the input's."""
    if len(spec.shape) != len(one.shape):
        raise InputError(f"{source}: input {one.name!r} has {len(one.shape)} dimensions, not {len(spec.shape)}")
    shape: list[int | None] = [_size(size, sizes, one.name) for size in spec.shape]
    if any(own not in (None, size) for size, own in zip(shape, one.shape, strict=True)):
        raise InputError(f"{source}: input {one.name!r} is {_text(one.shape)} (?: any size), not {_text(shape)}")
    return shape


def _cure(name: str, shape: list[int | None]) -> str:
    """An example of how sizes are given."""
    sizes = ["64" if size is None else str(size) for size in shape]
    if on_command_line():
        return f"give -i {name}:{'x'.join(sizes)}, for example"
    return f"give inputs={{{name!r}: ({', '.join(sizes)})}}, for example"


def _size(size: int | str, sizes: Dims, name: str) -> int:
    if isinstance(size, int):
        return size
    value = sizes.find(size)
    if value is None:
        raise InputError(f"input {name!r}: {size!r} has no value; give --dim {size}=NUMBER")
    return value


def _text(shape: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape)


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
    with few_steps(keras, source):
        graph = late("keras.traced:traced")(
            layer, source, specs, stated and stated[1], inputs, dims, batch_size, options
        )
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
