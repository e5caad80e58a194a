"""A configuration is built in one pass over its layers, and refused where nobody would wait for all of its steps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from flopwise._limits import budget, spend
from flopwise._results import Json
from flopwise.errors import ModelError

#: Operators that a step of a recurrent cell, or of a layer in TimeDistributed, runs: those of an LSTM.
_OPERATORS = 12


@contextlib.contextmanager
def few_steps(keras: ModuleType, source: str) -> Iterator[None]:
    """In the block, a layer that would run too many steps one by one raises ModelError, others their own words alone.

    TimeDistributed runs so on every backend, recurrent layers on PyTorch and where they are unrolled.
    """
    loops = keras.backend.backend() == "torch"
    layers = (keras.layers.TimeDistributed, keras.layers.RNN)
    before: list[Callable[..., object]] = [layer.call for layer in layers]
    refusal = ""

    def count(layer: Any, steps: object) -> None:
        nonlocal refusal
        recurrent = isinstance(layer, keras.layers.RNN)
        number = steps if isinstance(steps, int) and (not recurrent or loops or layer.unroll) else 0
        cells = len(getattr(layer.cell, "cells", "1")) if recurrent else 1
        try:
            spend(repeated_nodes=_OPERATORS * number * cells)
        except ModelError:
            of_each = f" of {cells:,} cells" if cells > 1 else ""
            one_by_one = f"{number:,} steps{of_each}, which {'PyTorch runs' if loops else 'Keras runs'} one by one"
            cure = "; KERAS_BACKEND=jax counts them as a loop" if recurrent and not layer.unroll else ""
            refusal = f"{source}: layer {layer.name!r} has {one_by_one}{cure} (the limit repeated_nodes)"
            raise ModelError(refusal) from None

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(call)
        def steps(self: Any, *args: object, **kwargs: object) -> object:
            count(self, keras.tree.flatten((args, kwargs))[0].shape[1])
            return call(self, *args, **kwargs)

        return steps

    for layer, call in zip(layers, before, strict=True):
        layer.call = counted(call)
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()  # which puts the arguments of the call into each message, in colours
    try:
        with budget(source):  # a model is run more than once
            yield
    except Exception:
        if refusal:  # Keras puts words of its own around it
            raise ModelError(refusal) from None
        raise
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()
        for layer, call in zip(layers, before, strict=True):
            layer.call = call


@contextlib.contextmanager
def built_once(keras: ModuleType) -> Iterator[None]:
    """In the block, Keras builds a Sequential model of a configuration when it has all layers.

    Keras 3.15 builds it anew with each layer that it adds (``Sequential.from_config``), in quadratic time and memory.
    """
    kind = keras.Sequential
    add, from_config = kind.add, kind.__dict__["from_config"]

    def read(cls: Any, /, config: Json, *arguments: object, **keywords: object) -> Any:
        shape = config.get("build_input_shape")
        config = {key: value for key, value in config.items() if key != "build_input_shape"}
        model = from_config.__func__(cls, config, *arguments, **keywords)
        if model._layers:
            model._maybe_rebuild()
        if not model._functional and shape and isinstance(shape, (tuple, list)):
            model.build(shape)
        return model

    kind.add = lambda self, layer, rebuild=True: add(self, layer, rebuild=False)
    kind.from_config = classmethod(read)
    try:
        yield
    finally:
        kind.add, kind.from_config = add, from_config
