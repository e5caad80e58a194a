"""Multiprocessors of GPUs, beside those that NVIDIA's papers on the chips print, and blocks of onnxruntime's layout."""

from __future__ import annotations

import pytest

from flopwise.analyses.advice.subject import blocks
from flopwise.analyses.timing.catalog import find

#: Device -> full multiprocessors, of the white papers on Volta, Turing, Ampere (GA100 and GA102), Hopper and Ada.
PRINTED = {
    "v100-sxm2": 80,
    "t4": 40,
    "a100-sxm-80gb": 108,
    "rtx-3090": 82,
    "h100-sxm": 132,
    "h100-pcie": 114,
    "rtx-4090": 128,
    "mi300x": None,
}


@pytest.mark.parametrize("name", PRINTED)
def test_multiprocessors_are_those_of_the_papers(name: str) -> None:
    assert find(name).multiprocessors == PRINTED[name]


@pytest.mark.parametrize(
    ("flags", "channels"), [("sse2 avx avx2 avx512f", 16), ("sse2 avx avx2 fma", 8), ("sse2", 8), ("asimd", None)]
)
def test_blocks_of_channels_are_those_of_the_processor(flags: str, channels: int | None) -> None:
    unit = blocks(flags.split())
    assert (None if unit is None else unit.of("float32")) == channels
