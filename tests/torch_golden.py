"""What PyTorch tests ask for that may not be here: recorded figures of tools, and published architectures."""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).resolve().parents[2] / "shared" / "golden" / "torch_ops.json"


@functools.lru_cache(maxsize=1)
def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_FILE.read_text())
    return found


def recorded(module: str, tool: str) -> Any:
    """What a tool said of a module; skips the test where the record is missing."""
    if not _FILE.exists():
        pytest.skip("the recorded figures are not here")
    return _recorded()[module][tool]


def architectures() -> Any:
    """The builders of ``torch_models``; skips the test where torchvision or transformers is missing."""
    for name in ("torch", "torchvision", "transformers"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    from tests.torch_models import MODELS

    return MODELS
