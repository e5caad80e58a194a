"""Multiprocessors of GPUs, beside those that NVIDIA's papers on the chips print."""

from __future__ import annotations

import pytest

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
