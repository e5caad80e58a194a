"""Bytes in which the weights of a model of transformers are stored, by the rules that hold for every model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from torch import nn

from flopwise.errors import InputError
from flopwise.formats.language.gguf import widths_of_gguf
from flopwise.formats.language.stored import Weights, Widths, named_widths, stored_widths


def module_widths(module: nn.Module, model: object = None, name: str | None = None) -> Widths:
    """Storage of a module's weights: by the name of a quantisation, else as files and configuration say.

    Args:
        module: the model that transformers built.
        model: the path that it was built from.
        name: the quantisation; None: the model's own.

    Raises:
        InputError: a setting of the quantisation is none that its method has, or its name is unknown.
        ModelError: a file of weights is damaged.
    """
    weights = weights_of_module(module)
    if name is not None:
        return named_widths(weights, name)
    path = os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else ""
    if path.lower().endswith(".gguf"):
        return widths_of_gguf(weights, path)
    settings: Any = getattr(module.config, "quantization_config", None)
    if settings is not None and not isinstance(settings, Mapping):
        if not hasattr(settings, "to_dict"):
            raise InputError(f"quantization_config is {type(settings).__name__}; an object of settings is expected")
        settings = settings.to_dict()
    return stored_widths(lambda: weights, path, {} if settings is None else {"quantization_config": settings})


def weights_of_module(module: nn.Module) -> Weights:
    """The weights of a module as tools of quantisation see them: those of linear layers, and stacks of experts."""
    shapes = {path: tuple(parameter.shape) for path, parameter in module.named_parameters()}
    products = []
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            linear = isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"
            if (linear and name == "weight") or parameter.dim() == 3:
                products.append(f"{path}.{name}" if path else name)
    head = getattr(module, "get_output_embeddings", lambda: None)()
    tied = getattr(module, "all_tied_weights_keys", None) or {}
    last = list(shapes)[-1:]
    default = [path for path, part in module.named_modules() if head is not None and part is head]
    plain = [*default, "lm_head", *(name.removesuffix(".weight") for name in (*tied, *tied.values(), *last))]
    config: Any = module.config
    config = config.get_text_config(decoder=True)
    heads = getattr(config, "num_attention_heads", 1) or 1
    shared = heads // (getattr(config, "num_key_value_heads", None) or heads)
    experts = int(getattr(config, "num_local_experts", 0) or 0)
    layers = int(getattr(config, "num_hidden_layers", 1) or 1)
    return Weights(
        shapes, products, plain, layers, shared, experts, bool(getattr(config, "tie_word_embeddings", False))
    )
