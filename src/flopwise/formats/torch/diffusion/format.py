"""Folders that are pipelines of diffusers, and the packages that reading one needs."""

from __future__ import annotations

import os
from importlib.util import find_spec

from flopwise.errors import ModelError

#: The file of a pipeline's folder that names its class and its components.
FILE = "model_index.json"


def is_pipeline(model: object) -> bool:
    """True if a text names a pipeline of diffusers: a ``model_index.json``, or a folder that holds one."""
    if not isinstance(model, (str, os.PathLike)):
        return False
    name = os.fsdecode(model)
    return os.path.basename(name) == FILE or os.path.isfile(os.path.join(name, FILE))


def require(model: str | os.PathLike[str]) -> None:
    """Say how to get what pipelines need, where it is missing.

    Raises:
        ModelError: PyTorch, transformers or diffusers is not installed.
    """
    if any(find_spec(name) is None for name in ("torch", "transformers", "diffusers")):
        needs = "diffusion pipelines need PyTorch, transformers and diffusers: pip install 'flopwise[diffusion]'"
        raise ModelError(f"{os.fsdecode(model)}: {needs}")
