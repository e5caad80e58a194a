"""Arrays of NumPy's own files that are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flopwise
from flopwise.errors import ModelError


@pytest.mark.parametrize("missing", [1, 100])
def test_an_array_that_ends_too_soon_is_refused(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((5, 6), np.float32))
    assert flopwise.weights(path).total.length == 30
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(ModelError, match=r"a\.npy: is truncated; an array of shape \(5, 6\) takes 120 bytes"):
        flopwise.weights(path)
