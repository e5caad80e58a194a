"""A Keras model on its JAX backend, traced as a function of variables and inputs that are shapes alone."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace

import jax
import keras

from flopwise.formats.inputs import InputSpec
from flopwise.formats.jax.arguments import Call, abstract
from flopwise.formats.jax.program import Program
from flopwise.formats.jax.read import graph_of
from flopwise.formats.keras.stored import paths_of, stored_variable, weights_of
from flopwise.formats.options import JaxOptions, TorchOptions
from flopwise.graph import Graph


def traced(
    layer: keras.Layer,
    source: str,
    specs: list[InputSpec] | None,
    struct: object,
    inputs: object,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: TorchOptions,
) -> Graph:
    """The graph of a model.

    Args:
        layer: the model.
        source: where it comes from.
        specs: its inputs at their sizes; None for a model that states none.
        struct: the structure in which it takes them.
        inputs: as the user gave them, for a model that states none.
        dims: as given, for such a model.
        batch_size: as given, for such a model.
        options: the mode, and the element type.

    Raises:
        ModelError: the model fails with these inputs.
        InputError: they do not fit.
    """
    takes = inspect.signature(layer.call).parameters
    extra = {"training": options.mode == "train"} if "training" in takes else {}
    names = tuple(spec.name for spec in specs) if specs is not None else _names(takes)

    shapes, names_of = _specs(layer)
    weights = weights_of(layer)
    params = {names_of[id(v)]: shapes[names_of[id(v)]] for v in layer.variables if id(v) in weights}
    others = {name: shape for name, shape in shapes.items() if name not in params}
    trained, still = (
        [names_of[id(v)] for v in group] for group in (layer.trainable_variables, layer.non_trainable_variables)
    )

    def function(
        params: Mapping[str, jax.Array], statistics: Mapping[str, jax.Array], *arrays: jax.Array, **named: jax.Array
    ) -> object:
        packed = arrays if specs is None else (keras.tree.pack_sequence_as(struct, list(arrays)),)
        values = {**params, **statistics}
        result, _ = layer.stateless_call(
            [values[name] for name in trained],
            [values[name] for name in still],
            *packed,
            **named,
            **extra,
        )
        return result

    def prepared(call: Call) -> Call:
        return Call((params, others, *call.args), call.kwargs)

    program = Program(
        getattr(layer, "name", "") or type(layer).__name__,
        source,
        function,
        names,
        names[:1],
        frozenset(),
        prepared,
        ("params", "batch_stats"),
        open_ended=specs is None,
        scopes=lambda kinds: scopes(layer, kinds),
    )
    if specs is not None:
        inputs, dims, batch_size = specs, None, None
    graph = graph_of(program, inputs, dims, batch_size, JaxOptions(element_type=options.element_type))
    stored = {names_of[id(v)]: stored_variable(names_of[id(v)], v, id(v) in weights) for v in layer.variables}
    return replace(graph, format="keras", weights=stored)


def _names(takes: Mapping[str, inspect.Parameter]) -> tuple[str, ...]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    own = [name for name, one in takes.items() if one.kind not in kinds]
    return tuple(name for name in own if name not in ("training", "mask"))


def _specs(layer: keras.Layer) -> tuple[dict[str, jax.ShapeDtypeStruct], dict[int, str]]:
    """Shapes and types of variables by their paths, in order, and the path of each by its id."""
    paths = paths_of(layer)
    result: dict[str, jax.ShapeDtypeStruct] = {}
    names: dict[int, str] = {}
    for variable in layer.variables:
        name = paths.get(id(variable)) or variable.path.replace("/", ".")
        key, number = name, 1
        while key in result:
            number += 1
            key = f"{name}_{number}"
        result[key] = abstract(tuple(variable.shape), jax.numpy.dtype(variable.dtype))
        names[id(variable)] = key
    return result, names


@contextlib.contextmanager
def scopes(root: keras.Layer, kinds: dict[str, str]) -> Iterator[None]:
    """In the block, each layer that is called runs in a scope of its name; its class is added to ``kinds`` by path."""
    owner = keras.Layer
    original = owner.__call__
    around: list[str] = []

    def call(self: keras.Layer, *args: object, **kwargs: object) -> object:
        name = str(getattr(self, "name", "") or type(self).__name__).replace("/", "_").replace(".", "_")
        around.append(name)
        kinds.setdefault(".".join(around), type(self).__name__)
        try:
            with jax.named_scope(name):
                return original(self, *args, **kwargs)
        finally:
            around.pop()

    owner.__call__ = call
    try:
        yield
    finally:
        owner.__call__ = original
