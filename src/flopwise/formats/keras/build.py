"""The model of a file or of a name, made without memory for its weights."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.errors import InputError, ModelError, with_article
from flopwise.formats.keras.config import checked, package_of
from flopwise.formats.keras.file import config_of
from flopwise.formats.keras.framework import keras_for
from flopwise.formats.keras.kinds import PREFIX, is_name
from flopwise.formats.keras.steps import built_once, few_steps
from flopwise.formats.torch.load import argument_values, looked_up, model_errors, silent
from flopwise.readers.options import TorchOptions

if TYPE_CHECKING:
    import keras


def model_of(model: object, options: TorchOptions, in_memory: bool = False) -> tuple[keras.Layer, str]:
    """The model that something stands for, and where it comes from ("" for an object).

    Args:
        model: an object, a path, or a name.
        options: the arguments of a callable, and whether code of a file may run.
        in_memory: whether its weights are to have elements.

    Raises:
        ModelError: it cannot be made.
        InputError: there are arguments for what is not a callable.
    """
    if not is_name(model) and options.arguments:
        raise InputError("arguments are for a model that is given as package.module:callable")
    if not isinstance(model, (str, os.PathLike)):
        keras_for(f"{type(model).__module__}.{type(model).__qualname__}")
        return model, ""
    if is_name(model):
        return _called(str(model).removeprefix(PREFIX), options, in_memory)
    return _of_file(os.fspath(model), options.trust_code), os.fspath(model)


def _called(name: str, options: TorchOptions, in_memory: bool) -> tuple[keras.Layer, str]:
    keras = keras_for(name)
    make = looked_up(name)
    if isinstance(make, keras.layers.Layer):
        return make, name
    arguments = argument_values(name, options.arguments or {})
    if name.startswith("keras.applications") and "weights" not in arguments:
        arguments["weights"] = None  # else they would be downloaded
    if not callable(make):
        raise ModelError(f"{name}: is {with_article(type(make).__name__)}, not a callable that returns a Keras model")
    with model_errors(name, "it made the model"), silent(), abstract(keras, in_memory):
        made = make(**arguments)
    if not isinstance(made, keras.layers.Layer):
        raise ModelError(f"{name}: returned {with_article(type(made).__name__)}, not a Keras model")
    return made, name


def _of_file(path: str, trust_code: bool) -> keras.Layer:
    config = config_of(path)
    if "keras" not in sys.modules:
        checked(config, None, path, trust_code)  # nobody waits for its import to be told of a file that is refused
    keras = keras_for(path, hub=package_of(config) == "keras_hub")
    config = checked(config, keras, path, trust_code)
    legacy = path.lower().endswith((".h5", ".hdf5"))
    running = (silent(), abstract(keras), few_steps(keras, path), built_once(keras))
    with model_errors(path, "it was rebuilt"), first_cause(), contextlib.ExitStack() as stack:
        for context in running:
            stack.enter_context(context)
        model = _rebuilt(keras, config, legacy, trust_code)
    if not isinstance(model, keras.layers.Layer):
        raise ModelError(f"{path}: its configuration is of {with_article(type(model).__name__)}, not of a Keras model")
    return model


def _rebuilt(keras: ModuleType, config: Json, legacy: bool, trust_code: bool) -> keras.Layer:
    if not legacy:
        return keras.saving.deserialize_keras_object(config, safe_mode=not trust_code)
    from keras.src.legacy.saving import saving_utils
    from keras.src.legacy.saving.saving_options import keras_option_scope
    from keras.src.saving import serialization_lib

    with keras_option_scope(use_legacy_config=True), serialization_lib.SafeModeScope(not trust_code):
        return saving_utils.model_from_config(config)


@contextlib.contextmanager
def first_cause() -> Iterator[None]:
    """In the block, an error is that of the layer that failed, not of those around it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        first: BaseException = error
        while first.__context__ is not None and "could not be deserialized" in str(first):
            first = first.__context__
        if first is error:
            raise
        raise first from None


@contextlib.contextmanager
def abstract(keras: ModuleType, in_memory: bool = False) -> Iterator[None]:
    """In the block, variables of Keras' take no memory: meta tensors of PyTorch, shapes alone on JAX."""
    if in_memory:
        yield
    elif keras.backend.backend() == "torch":
        from flopwise.readers.torch.runs.restore import without_dynamo

        with keras.device("meta"), without_dynamo():
            yield
    else:
        with keras.StatelessScope(initialize_variables=False):
            yield
