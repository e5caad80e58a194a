"""Formulas of TensorFlow Lite models and TensorFlow graphs, against profiles at other sizes than they were made at."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.formats.converted import converted

import flopwise
from flopwise.errors import InputError

SAVED = Path(__file__).parents[1] / "tensorflow" / "data" / "saved"


@pytest.mark.parametrize(
    ("name", "shape", "sizes"),
    [("resnet", ("N", 3, 64, 64), {"N": 5}), ("mobilenet_v3", (1, 3, "H", "W"), {"H": 416, "W": 37})],
)
def test_a_converted_network(name: str, shape: tuple[int | str, ...], sizes: dict[str, int], tmp_path: Path) -> None:
    path = converted(name, tmp_path)
    (image,) = (tensor.name for tensor in flopwise.read(path).inputs)
    formula = flopwise.formula(path, {image: shape})
    profile = flopwise.profile(path, {image: tuple([sizes.get(str(size), size) for size in shape])})
    for total in ("macs", "flops", "params", "output_bytes"):
        assert formula.value(total, **sizes) == profile.total(total)


def test_a_saved_model() -> None:
    formula = flopwise.formula(SAVED, {"x": ("N", 5, 4)})
    assert formula.value("macs", N=9) == 9 * 336 == flopwise.profile(SAVED, batch_size=9).total("macs")


def test_sizes_that_a_file_has_fixed(tmp_path: Path) -> None:
    """The U-Net resizes to 32 × 32, whatever comes in; a size that is a number everywhere is no formula."""
    path = converted("unet", tmp_path)
    (image,) = (tensor.name for tensor in flopwise.read(path).inputs)
    with pytest.raises(InputError, match="takes H = 32 and no other size that was tried"):
        flopwise.formula(path, {image: (1, 3, "H", 32)})
    with pytest.raises(InputError, match="has no open dimension"):
        flopwise.formula(path)
