"""Which reader a model is for, by the name of its file or by what it is."""

from __future__ import annotations

import os
import sys

#: Endings of Caffe's files: a net as text, a net with its weights.
CAFFE = (".prototxt", ".caffemodel", ".caffemodel.h5")

#: Endings of files that PyTorch writes.
TORCH = (".pt2", ".pt", ".pth", ".ckpt", ".bin", ".ts", ".torchscript")


def is_callable(model: object) -> bool:
    """Whether a text names a callable, as ``package.module:callable`` or ``file.py:callable``."""
    if not isinstance(model, str) or "://" in model or os.path.exists(model):
        return False
    where, colon, name = model.rpartition(":")
    if not colon or not all(part.isidentifier() for part in name.split(".")):
        return False
    return where.endswith(".py") or all(part.isidentifier() for part in where.split("."))


def is_torch_file(model: object) -> bool:
    """Whether a model is a file of PyTorch's."""
    return isinstance(model, (str, os.PathLike)) and str(os.fspath(model)).lower().endswith(TORCH)


def is_caffe(model: object) -> bool:
    """Whether a model is a file of Caffe's."""
    return isinstance(model, (str, os.PathLike)) and str(os.fspath(model)).lower().endswith(CAFFE)


def is_module(model: object) -> bool:
    """Whether a model is a PyTorch module; asks PyTorch only when somebody has imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(model, torch.nn.Module) or (
        "torch.export" in sys.modules and isinstance(model, torch.export.ExportedProgram)
    )
