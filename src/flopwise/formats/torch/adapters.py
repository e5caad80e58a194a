"""Low-rank adapters beside the linear layers of a frozen model (LoRA, https://arxiv.org/abs/2106.09685), as peft adds
them: B(A(x)) beside W x, A and B in single precision where the model is in half.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from flopwise.errors import InputError
from flopwise.formats.language.lora import Lora, beside, layers_of
from flopwise.formats.torch.kinds import Model, is_program_of_file


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
        yield beside(layers)
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
    scores = getattr(module, "get_output_embeddings", lambda: None)()
    plain = [path for path, part in linear.items() if part is scores]
    return [linear[path] for path in layers_of(lora, type(module).__name__, list(linear), plain)]


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
