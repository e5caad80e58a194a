"""Formulas of batches kept on disk, each under a digest of the model's structure."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flopwise._version import __version__
from flopwise.analyses.meter.totals import Totals
from flopwise.analyses.timing.store import default_path
from flopwise.errors import InputError
from flopwise.writers.atomic import write

SCHEMA = "flopwise.meter/1"


def structure(model: nn.Module) -> str:
    """A digest of a module's classes, settings, and shapes and types of its tensors, with the versions in use."""
    digest = hashlib.sha256(f"{__version__} {torch.__version__}".encode())
    for line in _lines(model):
        digest.update(line.encode("utf-8", "replace"))
    return digest.hexdigest()


def _lines(model: nn.Module) -> Iterator[str]:
    for path, module in model.named_modules():
        kind = type(module)
        settings = {k: v for k, v in vars(module).items() if isinstance(v, (bool, int, float, str, type(None)))}
        yield f"{path} {kind.__module__}.{kind.__qualname__} {module.extra_repr()} {sorted(settings.items())}\n"
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        yield f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.device.type} {tensor.requires_grad}\n"
    config: Any = getattr(model, "config", None)
    yield json.dumps(config.to_dict(), default=str, sort_keys=True) if hasattr(config, "to_dict") else ""


def path_of(digest: str) -> Path:
    """The file of a formula: beside the stored times of engines, in the user's data folder."""
    return default_path().parent / "meters" / f"{digest}.json"


def load(digest: str) -> Totals | None:
    """The formula that is kept under a digest; None where there is none, or its file is damaged."""
    try:
        content: Mapping[str, Any] = json.loads(path_of(digest).read_text("utf-8"))
        return Totals.from_dict(content) if content["schema"] == SCHEMA else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep(digest: str, totals: Totals) -> None:
    """Keep a formula; where the folder cannot be written, the next process derives it anew."""
    path = path_of(digest)
    with contextlib.suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(json.dumps({"schema": SCHEMA, **totals.to_dict()}).encode(), path)
