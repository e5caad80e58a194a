"""Language models in the table of formats: a configuration, from which transformers builds the model."""

from __future__ import annotations

from dataclasses import replace

from flopwise.readers.torch.format import TORCH
from flopwise.readers.torch.language.config import is_language_model

LANGUAGE = replace(
    TORCH, name="config", models="language models (config.json)", endings=("config.json",), matches=is_language_model
)
