"""Each verified figure of a device is what its source prints, in the source's unit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flopwise.analyses.timing import catalog

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Unit as printed -> units of a table (TFLOP/s, GB/s) in one of it.
UNITS = {"TFLOPS": 1, "TOPS": 1, "PFLOPS": 1e3, "POPS": 1e3, "GB/s": 1, "TB/s": 1e3}

#: Device -> streaming multiprocessors and boost clock (MHz), of which the vendor's figures are products.
CHIPS = {
    "rtx-a6000": (84, 1800),
    "rtx-3060": (28, 1777),
    "rtx-3070": (46, 1725),
    "rtx-3080": (68, 1710),
    "rtx-3090": (82, 1695),
    "rtx-3090-ti": (84, 1860),
    "rtx-6000-ada": (142, 2505),
    "rtx-4060": (24, 2460),
    "rtx-4070": (46, 2475),
    "rtx-4070-ti": (60, 2610),
    "rtx-4080": (76, 2505),
    "rtx-4090": (128, 2520),
    "rtx-pro-6000": (188, 2617),
    "rtx-5070": (48, 2512),
    "rtx-5070-ti": (70, 2452),
    "rtx-5080": (84, 2617),
    "rtx-5090": (170, 2407),
}

#: Operations of one of their multiprocessors in a cycle, dense; desktop cards halve sums of float32 (bfloat16, TF32).
RATES = {
    ("vector", "float32"): 256,
    ("vector", "float16"): 256,
    ("matrix", "tfloat32"): 512,
    ("matrix", "bfloat16"): 1024,
    ("matrix", "float16"): 1024,
    ("matrix", "float8e4m3fn"): 2048,
    ("matrix", "float6e2m3"): 2048,
    ("matrix", "int8"): 2048,
    ("matrix", "int4"): 4096,
    ("matrix", "float4e2m1"): 4096,
}


class Key(NamedTuple):
    """Which figure of a device."""

    device: str
    source: str
    what: str
    dtype: str
    dense: bool


class Printed(NamedTuple):
    """A figure as printed, and half of its last place, in the units of the tables."""

    value: float
    half: float


def printed(number: str, unit: str, share: float = 1) -> Printed:
    """A figure with a share of it that is meant."""
    digits = len(number.partition(".")[2])
    return Printed(float(number) * UNITS[unit] * share, 0.5 * 10**-digits * UNITS[unit] * share)


def entries() -> Iterator[tuple[Key, Printed]]:
    for line in Path(__file__).with_name("printed.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        devices, source, figures = line.split(" / ")
        for figure in figures.split("; "):
            *key, number, unit = figure.split()
            what, types = key[0], key[1].split(",") if len(key) > 1 else [""]
            dense, _, sparse = number.partition("|")
            for device in devices.split():
                for dtype in types:
                    if number.startswith("*"):
                        yield Key(device, source, what, dtype, True), printed(number[1:], unit, 0.5)
                        yield Key(device, source, what, dtype, False), printed(number[1:], unit)
                        continue
                    yield Key(device, source, what, dtype, True), printed(dense, unit)
                    if sparse:
                        yield Key(device, source, what, dtype, False), printed(sparse, unit)


def verified() -> Iterator[tuple[Key, float]]:
    """The verified figures of the tables but for derived ones, links and networks."""
    for table in (name for name in catalog.TABLES if name != "cpu"):
        text = files("flopwise.analyses.timing").joinpath(f"data/{table}.toml").read_text("utf-8")
        content: dict[str, Any] = tomllib.loads(text)
        for device in content["device"]:
            for row in device["figures"]:
                opened = row.get("verified", content["document"][row["source"]]["opened"])
                if opened and row["what"] not in ("link", "network") and row.get("kind") != "derived":
                    key = Key(device["id"], row["source"], row["what"], row.get("dtype", ""), row.get("dense", True))
                    yield key, row["value"]


PRINTED = tuple(entries())
VERIFIED = tuple(verified())


@pytest.mark.parametrize("device", sorted({key.device for key, _ in VERIFIED}))
def test_a_verified_figure_is_what_its_source_prints(device: str) -> None:
    for key, value in VERIFIED:
        if key.device == device:
            figures = [figure for other, figure in PRINTED if other == key]
            assert figures or device in CHIPS, (key, "is not in printed.txt")
            assert all(abs(value - figure.value) <= 1.001 * figure.half for figure in figures), (key, value)


@pytest.mark.parametrize("device", sorted({key.device for key, _ in PRINTED}))
def test_a_printed_figure_is_in_the_tables_whichever_source_they_name(device: str) -> None:
    for key, figure in PRINTED:
        if key.device == device:
            values = [value for other, value in VERIFIED if other._replace(source=key.source) == key]
            assert any(abs(value - figure.value) <= 1.001 * figure.half for value in values), (key, values)


@pytest.mark.parametrize("name", CHIPS)
def test_figures_of_a_card_are_multiprocessors_times_clock_times_rate(name: str) -> None:
    count, mhz = CHIPS[name]
    device = catalog.find(name)
    desktop = "GeForce" in device.name
    for peak in device.peaks:
        if peak.dtype is None or peak.above_rated_mhz is not None:
            continue
        rate = RATES[peak.what, peak.dtype] // (2 if desktop and peak.dtype in ("bfloat16", "tfloat32") else 1)
        cycle = count * mhz * 1e6 * rate * (1 if peak.dense else 2)
        assert peak.value == pytest.approx(cycle, rel=0.005), peak
    (first,) = [peak for peak in device.peaks if peak.what == "l1" and peak.above_rated_mhz is None]
    assert first.value == pytest.approx(count * mhz * 1e6 * 128, rel=0.001)
