"""The layers of a model as modules of PyTorch: with paths, and with weights and statistics under their own names."""

from __future__ import annotations

import contextlib
import inspect
import keyword
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras
import torch
from torch import nn

from flopwise.formats.keras.stored import own_variables, sublayers

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values


def called(layer: keras.Layer, struct: object, names: tuple[str, ...]) -> nn.Module:
    """A module that calls a model with its inputs one by one, by name, and has the model's modules for its own.

    Args:
        layer: the model.
        struct: the structure in which it takes its inputs; None where it takes them as they are.
        names: of its inputs; () where they are the parameters of its call.
    """
    parameters = inspect.signature(layer.call).parameters
    training = "training" in parameters

    def forward(self: nn.Module, *args: object, **kwargs: object) -> object:
        if struct is not None:
            args = (keras.tree.pack_sequence_as(struct, [*args, *kwargs.values()]),)
            kwargs = {}
        return layer(*args, **kwargs, **({"training": bool(layer.training)} if training else {}))

    def named_modules(self: nn.Module, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Module]]:
        yield from nn.Module.named_modules(layer, *args, **kwargs)

    kind = type(layer).__name__
    one = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [p for name, p in parameters.items() if name not in ("training", "mask")]
    takes = [inspect.Parameter(_identifier(name), one) for name in names] or own
    forward.__signature__ = inspect.Signature([inspect.Parameter("self", one), *takes])  # type: ignore[attr-defined]
    members = {"forward": forward, "named_modules": named_modules, "__module__": type(layer).__module__}
    module: nn.Module = type(kind, (nn.Module,), members)()
    return module


def _identifier(name: str) -> str:
    """A name that Python takes for one."""
    plain = "".join(c if c.isalnum() else "_" for c in name)
    return plain if plain.isidentifier() and not keyword.iskeyword(plain) else f"input_{plain}"


class _Shown(dict[str, nn.Module]):
    """The modules of a layer by their attributes, of which PyTorch lists its sublayers alone, by their own names."""

    def __init__(self, modules: dict[str, nn.Module], parts: dict[str, nn.Module]) -> None:
        super().__init__(modules)
        foreign = {key: one for key, one in modules.items() if key != "_torch_params" and not hasattr(one, "_layers")}
        self._parts = {**foreign, **parts}

    def items(self) -> dict_items[str, nn.Module]:
        return self._parts.items()

    def values(self) -> dict_values[str, nn.Module]:
        return self._parts.values()

    def keys(self) -> dict_keys[str, nn.Module]:
        return self._parts.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)


@contextlib.contextmanager
def as_modules(model: nn.Module) -> Iterator[None]:
    """In the block, PyTorch finds the layers of a model, and their variables, as modules and their tensors.

    Keras hides both from it: layers call each other past PyTorch's registers, and the variables of all of them are in
    one dictionary of the model. Statistics, which training moves without gradients, are buffers.
    """
    before: list[tuple[keras.Layer, dict[str, object]]] = []
    seen: set[int] = set()

    def take(layer: keras.Layer) -> None:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        own = vars(layer)
        before.append((layer, {key: own[key] for key in ("_modules", "_parameters", "_buffers")}))
        parts = sublayers(layer)
        own["_modules"] = _Shown(own["_modules"], parts)
        trained, still = own_variables(layer)
        own["_parameters"] = {**own["_parameters"], **_values(trained)}
        own["_buffers"] = {**own["_buffers"], **_values(still)}
        for part in parts.values():
            take(part)

    take(model)
    try:
        yield
    finally:
        for layer, own in before:
            vars(layer).update(own)


def _values(variables: dict[str, keras.Variable]) -> dict[str, torch.Tensor]:
    return {name: variable.value for name, variable in variables.items()}
