"""Checks of a configuration: names of Keras and of the caller, and no more steps than anybody waits for."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from flopwise._limits import budget, spend
from flopwise._results import Json
from flopwise.errors import ModelError, UntrustedError
from flopwise.formats.keras.file import modern, without_gone

# Names that a configuration of a file may hold: Keras' own, and those that the caller has registered.
#
# Keras looks classes up by the names in a file, and some run what the file holds (https://nvd.nist.gov/vuln/detail/
# CVE-2025-1550, CVE-2025-8747, CVE-2025-9905); so every name is looked up here first, whatever version is
# installed.

#: Classes whose configuration holds code, or names a file that is loaded.
_CODE = frozenset({"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "__lambda__", "__typespec__"})

#: Keys of layers that take words, or the name of a file that holds them.
_FILES = ("vocabulary", "merges", "proto")

#: What stands for plain values in a configuration.
_VALUES = frozenset(
    {"__keras_tensor__", "__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__", "__tuple__"}
)

#: Public parts of Keras where names without a module are looked up, as older versions wrote them.
_PARTS = ("layers", "models", "initializers", "regularizers", "constraints", "dtype_policies", "activations", "src")

#: Keys that say how a model is trained, which costs of its layers do not depend on.
_TRAINING = ("compile_config",)

#: A number above this is the size of no model; what is made of one may not fit any memory.
_LARGEST = 1 << 31

#: Layers that make an array in memory when they are called, and the attributes whose product its size follows.
_ARRAYS = {
    "MelSpectrogram": ("fft_length", "num_mel_bins"),
    "STFTSpectrogram": ("frame_length", "fft_length"),
    "ContrastLimitedAdaptiveHistogramEqualization": ("tile_grid_size",),
}

#: Elements of such an array, at most: a spectrogram of 65,536 points in 512 bands.
_MOST_ELEMENTS = 1 << 25

_CURE = "--trust-code (trust_code=True) loads it, which runs that code"


def checked(config: Json, keras: ModuleType | None, source: str, trust_code: bool) -> Json:
    """The configuration without its training and its initial values, if it names nothing but Keras' own.

    Args:
        config: as the file has it.
        keras: the package; None before it is imported: then what can be refused without it is.
        source: the file, for messages.
        trust_code: whether other names, and code, are the caller's wish.

    Raises:
        UntrustedError: it holds code, or names something else.
        ModelError: it makes no sense.
    """
    check = _Check(keras, source, trust_code)
    try:
        result = check.value(config)
    except RecursionError:
        raise ModelError(f"{source}: its configuration is nested without end") from None
    assert isinstance(result, dict)
    return result


class _Check:
    """One configuration."""

    def __init__(self, keras: ModuleType | None, source: str, trust_code: bool) -> None:
        self.keras, self.source, self.trust_code = keras, source, trust_code
        if keras is None:
            return
        self.layers, self.layer = keras.layers, keras.layers.Layer
        kinds = (
            keras.Operation,
            keras.initializers.Initializer,
            keras.regularizers.Regularizer,
            keras.constraints.Constraint,
            keras.dtype_policies.DTypePolicy,
            keras.random.SeedGenerator,
        )
        quantizers = vars(getattr(keras, "quantizers", None) or object)
        newer = [quantizers[name] for name in ("Quantizer", "QuantizationConfig") if name in quantizers]
        self.kinds = (*kinds, *newer)

    def value(self, value: object) -> object:
        """A part of the configuration, as it is handed to Keras."""
        if isinstance(value, dict):
            return self.mapping(value)
        if isinstance(value, list):
            return [self.value(part) for part in value]
        if isinstance(value, int) and abs(value) >= _LARGEST:
            raise ModelError(f"{self.source}: the configuration holds the number {str(value)[:30]}, which no model has")
        return value

    def mapping(self, value: Json) -> object:
        """A mapping: of one object, or of any keys."""
        newer = modern(value)
        if isinstance(newer, str):
            return newer
        value, name = newer, newer.get("class_name")
        if name in ("__tuple__", "TensorShape") and isinstance(value.get("items"), list):
            return tuple([self.value(part) for part in value["items"]])
        inner = {key: part for key, part in value.items() if key not in (*_TRAINING, "shared_object_id")}
        if isinstance(name, str) and not self.trust_code:
            self.refuse(name, value)
        result = {key: self.value(part) for key, part in inner.items()}
        self.refuse_large_arrays(name, result)
        for key, part in result.items():
            if key == "config" and name != "InputLayer" and isinstance(part, dict) and "batch_input_shape" in part:
                part["input_shape"] = (part.pop("batch_input_shape") or [None])[1:]  # as the first layers of Keras 2.2
            if key.endswith("_initializer") and part is not None and not self.trust_code:
                result[key] = "zeros"  # elements that nobody reads
        return result if self.keras is None else {**result, **self.as_layer(name, result)}

    def as_layer(self, name: object, value: Json) -> Json:
        """What the configuration of a layer of Keras' own becomes in Keras 3; nothing for any other object."""
        config = value.get("config")
        if not isinstance(name, str) or not isinstance(config, dict) or "layers" in config or self.registered(name):
            return {}
        kind = self.find(value.get("module"), name)
        if not isinstance(kind, type) or not issubclass(kind, self.layer):
            return {}
        changed = {"config": without_gone(kind, config, f"{self.source}: {_layer(value)}")}
        if "module" in value or name not in vars(self.layers):
            return changed
        return {**changed, "module": "keras.layers", "registered_name": None}  # where wrappers look for their layers

    def refuse_large_arrays(self, name: object, value: Json) -> None:
        """Raise ModelError if a layer would make an array that is too large for its costs to be worth it."""
        config = value.get("config")
        if not isinstance(name, str) or name not in _ARRAYS or not isinstance(config, dict):
            return
        sizes = [one for key in _ARRAYS[name] for one in _numbers(config.get(key))]
        if math.prod(sizes) > _MOST_ELEMENTS:
            said = ", ".join(f"{key} {config[key]}" for key in _ARRAYS[name] if key in config)
            raise ModelError(
                f"{self.source}: {_layer(value)} makes an array of {math.prod(sizes):,} elements ({said[:80]})"
            )

    def refuse(self, name: str, value: Json) -> None:
        """Raise UntrustedError if an object of this class would run something of the file's, or of another package."""
        config = value.get("config")
        if name in _VALUES:
            return
        layer = _layer(value)
        if name in _CODE:
            raise UntrustedError(f"{self.source}: {layer} holds code, which is not run unasked; {_CURE}")
        if name == "function":
            if not self.is_function(config, value):
                raise UntrustedError(
                    f"{self.source}: the function {str(config)[:80]!r} is none of Keras'; give the model as an object, "
                    f"or {_CURE}"
                )
            return
        if isinstance(config, dict) and (
            file := next((config[k] for k in _FILES if isinstance(config.get(k), str)), "")
        ):
            raise UntrustedError(f"{self.source}: {layer} reads the file {file[:80]!r}; {_CURE}")
        if not self.is_class(name, value):
            home = value.get("module") or str(value.get("registered_name") or "").rpartition(">")[0] or "no module"
            raise UntrustedError(
                f"{self.source}: {layer} is of the class {name[:80]} ({str(home)[:80]}), which is none of Keras'; give "
                f"the model as an object, register the class, or {_CURE}"
            )

    def is_class(self, name: str, value: Json) -> bool:
        """True for a class of Keras' that makes layers, or what layers are made of, and for the caller's own."""
        registered = value.get("registered_name")
        if self.keras is None:
            return package_of(value) in ("", "keras", "keras_hub")
        if any(isinstance(one, str) and self.registered(one) for one in (registered, name)):
            return True
        kind = self.find(value.get("module"), name)
        return isinstance(kind, type) and issubclass(kind, self.kinds) and kind.__name__ not in _CODE

    def is_function(self, name: object, value: Json) -> bool:
        """True for an activation or operation of Keras', and for the caller's own."""
        if not isinstance(name, str):
            return False
        own = package_of(value) in ("", "builtins", "keras")
        if self.keras is None:
            return own
        if self.registered(name):
            return True
        parts = (getattr(self.keras, part, None) for part in ("activations", "initializers", "regularizers", "ops"))
        return own and any(callable(vars(part).get(name)) for part in parts if part is not None)

    def registered(self, name: str) -> bool:
        """True for a name that the caller's own program has registered."""
        return self.keras is not None and self.keras.saving.get_registered_object(name) is not None

    def find(self, module: object, name: str) -> object:
        """The object of a name in a module that Keras has imported; None for any other."""
        if module is None:
            homes = [getattr(self.keras, part, None) for part in _PARTS]
            homes += [sys.modules.get("keras.src.models"), sys.modules.get("keras.src.layers")]
        elif isinstance(module, str) and module.split(".")[0] == "keras":
            homes = [self.public(module), sys.modules.get(module)]
        else:
            return None
        return next((vars(home)[name] for home in homes if home is not None and name in vars(home)), None)

    def public(self, module: str) -> object:
        """A public part of Keras by its dotted name; None where there is none."""
        home: object = self.keras
        for part in module.split(".")[1:]:
            home = vars(home).get(part) if hasattr(home, "__dict__") else None
        return home if home is not None and hasattr(home, "__dict__") else None


def _numbers(value: object) -> list[int]:
    """The sizes that an attribute holds, at least 1."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [int(min(max(abs(one), 1), 1e18)) for one in values if isinstance(one, (int, float)) and one == one]


def package_of(value: Json) -> str:
    """The package that an object is of; "" where nobody says."""
    return str(value.get("module") or "").partition(".")[0]


def _layer(value: Json) -> str:
    config = value.get("config")
    name = value.get("name") or (config.get("name") if isinstance(config, dict) else None)
    return f"layer {str(name)[:80]!r}" if name else f"its {str(value.get('class_name'))[:80]}"


# A configuration is built in one pass over its layers, and refused where nobody would wait for all of its steps.

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
