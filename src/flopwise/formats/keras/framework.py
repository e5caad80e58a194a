"""Keras itself: imported when it is needed, on a backend that can be read, without files left behind."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from types import ModuleType

from flopwise._user_code import on_command_line
from flopwise.errors import ModelError
from flopwise.formats.torch.load import model_errors, silent

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
