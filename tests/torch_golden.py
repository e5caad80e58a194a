"""What the tools said of the small modules of ``torch_modules``, recorded beside this repository."""

from __future__ import annotations

import functools
import json
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
