"""Figures of weights that are hard to draw, and the names of their files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from flopwise.analyses.weights.weights import weights_of_arrays

pytest.importorskip("matplotlib")

from flopwise.errors import InputError
from flopwise.report.commands.weights import draw

HARD = {
    "huge": np.array([1e308, -1e308, 3e307, 0.0]),
    "tiny": np.array([5e-324, 1e-310, 0.0]),
    "equal": np.full(5, 3.3),
    "zeros": np.zeros(4),
    "near": np.float32([1, 1 + 2**-23]),
    "nan": np.float32([np.nan, 1, np.inf]),
    "only nan": np.float32([np.nan]),
    "empty": np.zeros(0),
    "../../../etc/passwd": np.arange(3.0),
    "$\\frac{1}{2}$ \x1b[31m \u202e 重み": np.arange(3.0),
    "x" * 300: np.arange(3.0),
    "A": np.arange(3.0),
    "a": np.arange(3.0),
    "": np.arange(3.0),
    "overview": np.arange(3.0),
}


@pytest.mark.parametrize("format_", ["png", "svg", "pdf"])
@pytest.mark.filterwarnings("error", "ignore:Glyph")
def test_everything_is_drawn(tmp_path: Path, format_: str) -> None:
    found = weights_of_arrays(HARD)
    paths = draw(found, str(tmp_path / "figures"), format_)
    drawn = [entry for entry in found.entries if entry.histogram is not None]
    assert len(drawn) == len(HARD) - 2
    assert len(paths) == len(set(map(str.lower, paths))) == len(drawn) + 1
    assert {os.path.dirname(path) for path in paths} == {str(tmp_path / "figures")}
    assert sorted(map(os.path.basename, paths)) == sorted(os.listdir(tmp_path / "figures"))
    assert all(len(os.path.basename(path)) < 100 for path in paths)


def test_the_overview_has_pages(tmp_path: Path) -> None:
    found = weights_of_arrays({f"layer.{i}": np.arange(3.0) + i for i in range(33)}, bins=3)
    names = [os.path.basename(path) for path in draw(found, str(tmp_path))]
    assert names[:3] == ["overview-1.png", "overview-2.png", "layer.0.png"]


def test_the_same_weights_give_the_same_file(tmp_path: Path) -> None:
    found = weights_of_arrays({"a": np.arange(9.0)})
    for format_ in ("png", "svg", "pdf"):
        first = [Path(path).read_bytes() for path in draw(found, str(tmp_path / "1"), format_)]
        assert first == [Path(path).read_bytes() for path in draw(found, str(tmp_path / "2"), format_)]


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="known: png, svg, pdf"):
        draw(weights_of_arrays({"a": np.arange(9.0)}), str(tmp_path), "gif")
