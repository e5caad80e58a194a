"""The model of a file or of a name, made by Keras itself without memory for its weights."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise._user_code import on_command_line
from flopwise.errors import InputError, ModelError, with_article
from flopwise.formats.keras.config import built_once, checked, few_steps, package_of
from flopwise.formats.keras.file import config_of
from flopwise.formats.keras.kinds import PREFIX, is_name
from flopwise.formats.options import TorchOptions
from flopwise.formats.torch.load import argument_values, looked_up, model_errors, silent

if TYPE_CHECKING:
    import keras


# Keras itself: imported when it is needed, on a backend that can be read, without files left behind.

#: Backends, the one that is taken where nobody has chosen first.
BACKENDS = ("torch", "jax")

#: Backend -> packages that Keras imports where they are installed and no reading of a model needs: for figures, for
#: training, for compilation. They are most of the memory and of the time that its import takes.
_NEEDLESS = {"torch": ("matplotlib", "pandas", "jax", "torch._dynamo"), "jax": ("matplotlib", "pandas")}

_NEEDS = "Keras 3 is needed for that: pip install 'flopwise[keras]'"


def keras_for(source: str, hub: bool = False) -> ModuleType:
    """Keras, imported if nobody has done so: on the backend of ``KERAS_BACKEND``, else on PyTorch, else on JAX.

    Args:
        source: the model, for messages.
        hub: whether keras_hub is to add its classes.

    Raises:
        ModelError: Keras 3 is not there, or runs on a backend whose programs cannot be read.
    """
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "backend"):
        if find_spec("keras") is None:
            raise ModelError(f"{source}: {_NEEDS}")
        with _surroundings(source), model_errors("keras", "it was imported"), silent():
            keras = importlib.import_module("keras")
    if not str(getattr(keras, "__version__", "")).startswith("3"):
        raise ModelError(f"{source}: {_NEEDS}; there is Keras {getattr(keras, '__version__', '')}")
    name = keras.backend.backend()
    if name not in BACKENDS:
        raise ModelError(
            f"{source}: Keras runs on {name} in this process; set KERAS_BACKEND={' or '.join(BACKENDS)} before it is "
            "imported"
        )
    if hub:
        if find_spec("keras_hub") is None:
            raise ModelError(f"{source}: is a model of keras_hub's, which is needed for that: pip install keras-hub")
        with model_errors("keras_hub", "it was imported"), silent():
            importlib.import_module("keras_hub")
    return keras


@contextmanager
def _surroundings(source: str) -> Iterator[None]:
    """Settings of the process while Keras is imported: its backend, and a folder for the file that it writes."""
    backend = os.environ.get("KERAS_BACKEND") or _there(source)
    if backend not in BACKENDS:
        raise ModelError(f"{source}: KERAS_BACKEND is {backend!r}; set it to {' or '.join(BACKENDS)}, or leave it away")
    changes = {"KERAS_BACKEND": backend}
    with ExitStack() as stack:
        home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
        if not os.path.isfile(os.path.join(home, "keras.json")):
            changes["KERAS_HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
        before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        if on_command_line():  # else a program may train with what it imports
            stack.enter_context(_without(_NEEDLESS[backend]))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """In the block, packages that nobody has imported yet count as not installed, and TorchDynamo compiles nothing."""
    away = [name for name in names if name not in sys.modules]
    for name in away:
        sys.modules[name] = _Dynamo(name) if name == "torch._dynamo" else None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in away:
            sys.modules.pop(name, None)


class _Dynamo(ModuleType):
    """A stand-in for TorchDynamo while Keras is imported, which marks functions that are not to be compiled."""

    @staticmethod
    def disable(function: object = None) -> object:
        """The function as it is, or a decorator that leaves one so."""
        return function or (lambda function: function)


def _there(source: str) -> str:
    """The first backend that is installed."""
    name = next((name for name in BACKENDS if find_spec(name) is not None), None)
    if name is None:
        raise ModelError(f"{source}: Keras needs PyTorch or JAX: pip install 'flopwise[torch]' or 'flopwise[jax]'")
    return name


# The model of a file or of a name, made without memory for its weights.


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
        from flopwise.formats.torch.record.keep import without_dynamo

        with keras.device("meta"), without_dynamo():
            yield
    else:
        with keras.StatelessScope(initialize_variables=False):
            yield
