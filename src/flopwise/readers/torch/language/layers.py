"""The layers of a model that are alike, and a twin of the model that has only the first of each kind.

Two layers are alike if their modules have the same classes, tensors of the same sizes and the same settings, but for
the layer's own number, and if the configuration says the same of both.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from flopwise.errors import FlopwiseError
from flopwise.readers.torch.kinds import Config, Kwargs, Model
from flopwise.readers.torch.language.model import built
from flopwise.readers.torch.runs.modules import is_plain


@dataclass(frozen=True)
class Twin:
    """A model with the first layers of another, among which there is one of each kind."""

    module: nn.Module
    #: The path of the list of layers.
    path: str
    #: How many layers the twin has.
    layers: int
    #: For each layer of the model, the first layer that is like it.
    kinds: tuple[int, ...]

    def like(self, layer: int) -> int | None:
        """The last layer of the twin before a layer that is like it; None for none but the model's first."""
        before = range(min(layer, self.layers) - 1, 0, -1)
        return next((other for other in before if self.kinds[other] == self.kinds[layer]), None)


def twin_of(model: Model, trust_code: bool = False) -> Twin | None:
    """The twin of a model of transformers; None for one whose layers are few, or differ too much.

    Args:
        model: the module that was built from its configuration.
        trust_code: whether code that belongs to the model may run.
    """
    if (found := list_of_layers(model)) is None:
        return None
    (path, layers), count = found, len(found[1])
    config, text = model.config, model.config.get_text_config(decoder=True)
    parts = [dict(layer.named_modules()) for layer in layers]
    tensors = [id(tensor) for layer in layers for tensor in (*layer.parameters(), *layer.buffers())]
    if len(set(tensors)) < len(tensors):  # layers share them
        return None
    each = [value for value in vars(text).values() if isinstance(value, (list, tuple)) and len(value) == count]
    kinds: list[int] = []  # by layer, the first that is like it
    for number, part in enumerate(parts):
        alike = (
            kind
            for kind in dict.fromkeys(kinds)
            if all(value[kind] == value[number] for value in each) and _alike(parts[kind], part, (kind, number))
        )
        kinds.append(next(alike, number))
    first = _enough(kinds)
    if first is None:
        return None
    short = shortened(config, count, first)
    try:
        module: Model = built(short, type(model).__name__, model.dtype, trust_code)
    except FlopwiseError:
        return None
    if type(module) is not type(model) or not _begins(model, module, path, (count, first)):
        return None
    return Twin(module, path, first, tuple(kinds))


def list_of_layers(model: Model) -> tuple[str, nn.ModuleList] | None:
    """The path of the list of a model's layers, and the list; None where there is not one of as many as it says."""
    count = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", None)
    lists = [(path, part) for path, part in model.named_modules() if isinstance(part, nn.ModuleList)]
    lists = [(path, part) for path, part in lists if len(part) == count]
    return lists[0] if len(lists) == 1 and not getattr(model.config, "is_encoder_decoder", False) else None


def _enough(kinds: list[int]) -> int | None:
    """The least number of layers after which each kind was seen behind the first layer, and one more, which shows that
    what is alike runs alike; None where that leaves hardly any out."""
    for number in range(2, len(kinds)):
        if set(kinds[number:]) <= set(kinds[1:number]):
            return number + 1 if number + 3 <= len(kinds) else None
    return None


def shortened(config: Config, count: int, first: int) -> object:
    """The configuration of a model with the first layers alone."""
    short = copy.deepcopy(config)
    text = short.get_text_config(decoder=True)
    for name, value in list(vars(text).items()):
        if isinstance(value, (list, tuple)) and len(value) == count:
            setattr(text, name, value[:first])
    text.num_hidden_layers = first
    return short


def _begins(model: nn.Module, twin: nn.Module, path: str, counts: tuple[int, int]) -> bool:
    """True if a twin is what a model begins with, and ends with what the model ends with."""
    modules, own = dict(model.named_modules()), dict(twin.named_modules())
    left_out = {f"{path}.{number}" for number in range(counts[1], counts[0])}
    depth = path.count(".") + 2
    names = [name for name in modules if ".".join(name.split(".")[:depth]) not in left_out]
    return names == list(own) and all(_same(modules[name], own[name], counts) for name in names)


def _alike(parts: Mapping[str, nn.Module], others: Mapping[str, nn.Module], numbers: tuple[int, int]) -> bool:
    """True if two layers are alike."""
    return parts.keys() == others.keys() and all(_same(parts[name], others[name], numbers) for name in parts)


def _same(one: nn.Module, other: nn.Module, numbers: tuple[int, int]) -> bool:
    """True if two modules are the same but for a number that stands for each."""
    if type(one) is not type(other) or one.training != other.training:
        return False
    for own, others in ((one._parameters, other._parameters), (one._buffers, other._buffers)):
        if own.keys() != others.keys() or any(_type(own[name]) != _type(others[name]) for name in own):
            return False
    settings, others = _settings(one), _settings(other)
    return settings.keys() == others.keys() and all(
        _same_setting(settings[name], others[name], numbers) for name in settings
    )


def _type(tensor: torch.Tensor | None) -> object:
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.requires_grad)


def _settings(module: nn.Module) -> Kwargs:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _same_setting(one: Any, other: Any, numbers: tuple[int, int]) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, functools.partial):
        return (one.func, one.args, one.keywords) == (other.func, other.args, other.keywords)
    if callable(one) and not isinstance(one, nn.Module):
        return getattr(one, "__func__", one) is getattr(other, "__func__", other)
    if not is_plain(one):
        return not isinstance(one, torch.dtype)
    if isinstance(one, (list, tuple)) and len(one) == numbers[0]:
        return bool(one[: numbers[1]] == other)
    return bool(one == other) or (one, other) == numbers
