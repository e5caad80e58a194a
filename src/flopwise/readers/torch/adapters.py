"""Low-rank adapters beside the linear layers of a frozen model (LoRA, https://arxiv.org/abs/2106.09685), as peft adds
them: B(A(x)) beside W x, A and B in single precision where the model is in half.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import nn

from flopwise.errors import InputError, counted
from flopwise.readers.torch.kinds import Model, is_program_of_file

_EXAMPLE = "write r=16,targets=q_proj,v_proj"


@dataclass(frozen=True)
class Lora:
    """Adapters of one rank."""

    rank: int
    #: Names of the layers that get one, or ends of their paths; empty for every linear layer but the vocabulary's.
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"LoRA of rank {self.rank} on {', '.join(self.targets) or 'every linear layer'}"


def lora_of(text: str) -> Lora:
    """Adapters by their description, such as ``r=16,targets=q_proj,v_proj``; without targets every linear layer.

    Raises:
        InputError: a key is unknown, or the rank is missing or no number.
    """
    settings: dict[str, list[str]] = {}
    key = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        key = name.strip() if equals else key
        if key not in ("r", "targets"):
            raise InputError(f"lora {text!r}: {key or part!r} is no setting of it; {_EXAMPLE}")
        settings.setdefault(key, []).append((value if equals else part).strip())
    (rank,) = settings["r"] if len(settings.get("r", ())) == 1 else ("",)
    if not rank.isdecimal() or int(rank) < 1:
        raise InputError(f"lora {text!r}: its rank is a number of at least 1; {_EXAMPLE}")
    targets = tuple(settings.get("targets", ()))
    if not all(targets):
        raise InputError(f"lora {text!r}: a target is empty; {_EXAMPLE}")
    return Lora(int(rank), () if targets == ("all-linear",) else targets)


@contextlib.contextmanager
def adapted(module: Model, lora: Lora) -> Iterator[str]:
    """The module has adapters, which alone are trained; afterwards it is as it was. Yields a note on them.

    Raises:
        InputError: a target is no linear layer of the module, or it is no module.
    """
    if not isinstance(module, nn.Module) or is_program_of_file(module):
        raise InputError("lora: adapters lie beside the layers of a module, and this is a program")
    layers = _targets(module, lora)
    asked = {parameter: parameter.requires_grad for parameter in module.parameters()}
    module.requires_grad_(False)
    handles = [_attach(layer, lora.rank) for layer in layers]
    try:
        yield f"adapters as peft adds them, beside {counted(len(layers), 'layer')}; the base is frozen"
    finally:
        for layer, handle in zip(layers, handles, strict=True):
            handle.remove()
            del layer.lora_A, layer.lora_B
        for parameter, trained in asked.items():
            parameter.requires_grad_(trained)


def _targets(module: Model, lora: Lora) -> list[nn.Module]:
    """The layers that get an adapter.

    Raises:
        InputError: a target is none of them.
    """
    linear = {path: part for path, part in module.named_modules() if _features(part) is not None}
    if not lora.targets:
        scores = getattr(module, "get_output_embeddings", lambda: None)()
        if not (others := [part for part in linear.values() if part is not scores]):
            raise InputError(f"lora: {type(module).__name__} has no linear layer that an adapter could lie beside")
        return others
    for target in lora.targets:
        if not any(_ends_in(path, target) for path in linear):
            names = sorted({path.rpartition(".")[2] for path in linear})
            near = get_close_matches(target, names, n=3) or names[:12]
            raise InputError(f"lora: {type(module).__name__} has no linear layer {target!r}; it has {', '.join(near)}")
    return [part for path, part in linear.items() if any(_ends_in(path, target) for target in lora.targets)]


def _ends_in(path: str, target: str) -> bool:
    return path == target or path.endswith(f".{target}")


def _features(part: nn.Module) -> tuple[int, int] | None:
    """The features that a linear layer takes and makes; None for another."""
    if isinstance(part, nn.Linear):
        return part.in_features, part.out_features
    if type(part).__name__ == "Conv1D":  # transformers' own, of GPT-2
        inner, outer = part.weight.shape  # type: ignore[misc]
        return int(inner), int(outer)
    return None


def _attach(layer: nn.Module, rank: int) -> Any:
    """Put an adapter beside a layer, and its product behind the layer's; the handle of that."""
    features = _features(layer)
    assert features is not None
    weight: torch.Tensor = layer.weight  # type: ignore[assignment]
    dtype = torch.float32 if weight.dtype in (torch.float16, torch.bfloat16) else weight.dtype
    down = nn.Linear(features[0], rank, bias=False, device=weight.device, dtype=dtype)
    up = nn.Linear(rank, features[1], bias=False, device=weight.device, dtype=dtype)
    layer.add_module("lora_A", down)
    layer.add_module("lora_B", up)

    def beside(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        scaling = 2.0  # alpha / rank: one product for each element whatever it is
        adapted: torch.Tensor = output + up(down(inputs[0].to(dtype))) * scaling
        return adapted.to(output.dtype)

    return layer.register_forward_hook(beside)
