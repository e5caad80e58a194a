"""Multiprocessors of GPUs beside what the table of devices has of their first caches."""

from __future__ import annotations

import pytest

from flopwise.analyses.advice.units import MULTIPROCESSORS, multiprocessors_of
from flopwise.analyses.timing.catalog import find

#: Device -> the clock of its first caches in the table, in MHz; each multiprocessor loads 128 bytes in a cycle.
CLOCKS = {
    "v100-sxm2": 1530,
    "t4": 1590,
    "a100-sxm-80gb": 1410,
    "rtx-3090": 1695,
    "h100-sxm": 1980,
    "h100-pcie": 1755,
    "rtx-4090": 2520,
}


@pytest.mark.parametrize("name", CLOCKS)
def test_first_caches_are_those_of_the_multiprocessors(name: str) -> None:
    device = find(name)
    (cache,) = [peak for peak in device.peaks if peak.what == "l1" and peak.above_rated_mhz is None]
    number = multiprocessors_of(device)
    assert number is not None
    assert round(number * 128 * CLOCKS[name] * 1e6) == round(cache.value)


def test_all_are_looked_at() -> None:
    assert {multiprocessors_of(find(name)) for name in CLOCKS} == set(MULTIPROCESSORS.values())
