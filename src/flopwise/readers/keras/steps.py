"""Layers that are run step after step, refused where nobody would wait for all steps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from flopwise.errors import ModelError

#: Steps that one layer may take, and all layers of a model together: each is a call of Python's.
_STEPS, _TOTAL = 10_000, 100_000


@contextlib.contextmanager
def few_steps(keras: ModuleType, source: str) -> Iterator[None]:
    """In the block, a layer that would run too many steps one by one raises ModelError, others their own words alone.

    TimeDistributed runs so on every backend, recurrent layers on PyTorch and where they are unrolled.
    """
    loops = keras.backend.backend() == "torch"
    layers = (keras.layers.TimeDistributed, keras.layers.RNN)
    before: list[Callable[..., object]] = [layer.call for layer in layers]
    total, refusal = 0, ""

    def count(layer: Any, steps: object) -> None:
        nonlocal total, refusal
        recurrent = isinstance(layer, keras.layers.RNN)
        number = steps if isinstance(steps, int) and (not recurrent or loops or layer.unroll) else 0
        total += number
        if number > _STEPS or total > _TOTAL:
            most = f"layer {layer.name!r} has {number:,} steps" if number > _STEPS else f"it has {total:,} steps"
            cure = "; KERAS_BACKEND=jax counts them as a loop" if recurrent and not layer.unroll else ""
            refusal = f"{source}: {most}, which {'PyTorch runs' if loops else 'Keras runs'} one by one{cure}"
            raise ModelError(refusal)

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
