"""What to give for the inputs of a module whose shapes are missing."""

from __future__ import annotations

import inspect

from torch import nn
from torch.nn.modules.conv import _ConvNd

from flopwise._user_code import on_command_line


def needed(model: nn.Module) -> list[str]:
    """Parameters of forward() without a default."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def missing(model: nn.Module) -> str:
    """The line that names every input that is needed, as the command line or Python takes it."""
    names = needed(model)
    dtype, shape = _first(model)
    words = f"{type(model).__name__} needs the shape of {'its input' if len(names) == 1 else 'its inputs'} "
    words += ", ".join(map(repr, names))
    if on_command_line():
        sized = f"{dtype}:{'x'.join(map(str, shape))}" if shape else "DTYPE:SHAPE"
        texts = [f"-i {name}:{'DTYPE:SHAPE' if position else sized}" for position, name in enumerate(names)]
        open_ = "DTYPE" in " ".join(texts)
        return f"{words}: give {' '.join(texts)}{' (DTYPE:SHAPE as f32:1x3x224x224)' if open_ else ''}"
    value = f"torch.empty({shape}, dtype=torch.int64)" if dtype == "i64" else str(shape or "SHAPE")
    pairs = [f"{name!r}: {'SHAPE' if position else value}" for position, name in enumerate(names)]
    return f"{words}: give inputs={{{', '.join(pairs)}}}"


def _first(model: nn.Module) -> tuple[str, tuple[int, ...]]:
    """Element type and shape that suit the first layer with weights; the shape is () where that is not plain."""
    for module in model.modules():
        if next(module.children(), None) is not None or next(module.parameters(recurse=False), None) is None:
            continue
        if isinstance(module, nn.Linear) and module.in_features:
            return "f32", (1, module.in_features)
        if isinstance(module, nn.Embedding):
            return "i64", (1, 128)
        if isinstance(module, _ConvNd) and module.in_channels:
            return "f32", (1, module.in_channels, *(224,) * len(module.kernel_size))
        break
    return "", ()
