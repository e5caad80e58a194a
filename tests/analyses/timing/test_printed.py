"""Each figure of a device is what its source prints, in the source's unit, or follows from such figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.cases import each

from flopwise.analyses.timing import catalog

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Unit as printed -> units of a table (TFLOP/s, GB/s) in one of it.
UNITS = {"GFLOPS": 1e-3, "TFLOPS": 1, "TOPS": 1, "PFLOPS": 1e3, "POPS": 1e3, "GB/s": 1, "TB/s": 1e3}

#: Device -> streaming multiprocessors and boost clock (MHz), of which the vendor's figures are products.
CHIPS = {
    "a10g": (80, 1710),
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
    "rtx-pro-6000-max-q": (188, 2280),
    "rtx-2060": (30, 1680),
    "rtx-2070": (36, 1710),
    "rtx-2080": (46, 1800),
    "rtx-2080-ti": (68, 1635),
    "jetson-agx-orin": (16, 1300),
    "jetson-orin-nx": (8, 918),
    "jetson-orin-nano-super": (8, 1020),
    "rtx-5070": (48, 2512),
    "rtx-5070-ti": (70, 2452),
    "rtx-5080": (84, 2617),
    "rtx-5090": (170, 2407),
}

#: Apple's GPUs of which no figure is printed -> cores and highest clock (MHz); a core has 128 lanes.
APPLE = {
    "apple-m3": (10, 1600),
    "apple-m3-pro": (18, 1600),
    "apple-m3-max": (40, 1600),
    "apple-m3-ultra": (80, 1600),
    "apple-m4": (10, 1678),
    "apple-m4-pro": (20, 1678),
    "apple-m4-max": (40, 1678),
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

#: The same of Turing, whose vector units are half as many, and of Orin, whose tensor cores do twice as much.
TURING = {**RATES, ("vector", "float32"): 128}
ORIN = {**RATES, **{(what, dtype): 2 * rate for (what, dtype), rate in RATES.items() if what == "matrix"}}


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


def table(name: str) -> dict[str, Any]:
    return tomllib.loads(files("flopwise.analyses.timing").joinpath(f"data/{name}.toml").read_text("utf-8"))


def stated() -> Iterator[tuple[Key, float]]:
    """The figures of the tables but for derived ones, links and networks."""
    for device in (device for name in catalog.TABLES if name != "cpu" for device in table(name)["device"]):
        for row in device.get("figures", ()):
            if row["what"] not in ("link", "network") and row.get("kind") != "derived":
                key = Key(device["id"], row["source"], row["what"], row.get("dtype", ""), row.get("dense", True))
                yield key, row["value"]


PRINTED = tuple(entries())
STATED = tuple(stated())


@each("device", sorted({key.device for key, _ in STATED}))
def test_a_figure_is_what_its_source_prints(device: str) -> None:
    for key, value in STATED:
        if key.device == device:
            figures = [figure for other, figure in PRINTED if other == key]
            assert figures or device in CHIPS, (key, "is not in printed.txt")
            assert all(abs(value - figure.value) <= 1.001 * figure.half for figure in figures), (key, value)


@each("device", sorted({key.device for key, _ in PRINTED}))
def test_a_printed_figure_is_in_the_tables_whichever_source_they_name(device: str) -> None:
    for key, figure in PRINTED:
        if key.device == device:
            values = [value for other, value in STATED if other._replace(source=key.source) == key]
            assert any(abs(value - figure.value) <= 1.001 * figure.half for value in values), (key, values)


@pytest.mark.parametrize("name", CHIPS)
def test_figures_of_a_card_are_multiprocessors_times_clock_times_rate(name: str) -> None:
    count, mhz = CHIPS[name]
    device = catalog.find(name)
    halved = "GeForce" in device.name or name == "a10g"
    rates = TURING if name.startswith("rtx-20") else ORIN if "orin" in name else RATES
    for peak in device.peaks:
        if peak.dtype is None or peak.above_rated_mhz is not None or ("orin" in name and peak.dtype == "int8"):
            continue  # Orin's int8 is of the GPU and accelerators together
        rate = rates[peak.what, peak.dtype] // (2 if halved and peak.dtype in ("bfloat16", "tfloat32") else 1)
        cycle = count * mhz * 1e6 * rate * (1 if peak.dense else 2)
        assert peak.value == pytest.approx(cycle, rel=0.01 if peak.value < 1e13 else 0.005), peak
    for first in (peak for peak in device.peaks if peak.what == "l1" and peak.above_rated_mhz is None):
        assert first.value == pytest.approx(count * mhz * 1e6 * 128, rel=0.001)


@pytest.mark.parametrize("name", APPLE)
def test_figures_that_apple_does_not_print_are_cores_times_lanes_times_clock(name: str) -> None:
    count, mhz = APPLE[name]
    vector = [peak for peak in catalog.find(name).peaks if peak.what == "vector"]
    assert [peak.value for peak in vector] == [pytest.approx(count * 128 * 2 * mhz * 1e6, rel=1e-4)] * 2


CPUS = [
    line.split(" / ")
    for line in Path(__file__).with_name("printed_cpus.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_a_chip_is_what_its_source_prints() -> None:
    rows = {row["id"]: row for row in table("cpu")["device"]}
    lines = [line for line in CPUS if line[0] in rows]
    assert sorted(rows) == sorted(name for name, *_ in lines)
    for name, source, cores, cache, memory in lines:
        row, channels = rows[name], [int(number) for number in memory.split(" x ")]
        assert row["source"] == source
        assert [(c["count"], c["ghz"]) for c in row["cores"]] == [
            (int(count), float(ghz)) for count, ghz in (part.split(" x ") for part in cores.split(", "))
        ]
        assert row["llc_bytes"] == float(cache) * 2**20, name
        assert [row["memory"]["channels"], row["memory"]["mega_transfers"]] == channels


#: Instruction -> operations in a bit of its register.
IN_A_BIT = {"fma": 2 / 32, "load": 1 / 8, "dot-int8": 2 / 8, "dot-bfloat16": 2 / 16, "bytes-in-pairs": 2 / 16}


def test_a_core_does_in_a_cycle_what_is_measured() -> None:
    cores = table("cpu")["core"]
    lines = [line for line in CPUS if line[0].split()[0] in cores]
    assert {name for names, *_ in lines for name in names.split()} == {*cores}
    for name, source, figures in ((name, *rest) for names, *rest in lines for name in names.split()):
        core = cores[name]
        assert source in table("cpu")["document"]
        sums = core["fma_units"] * core["vector_bits"] / 16
        for figure in figures.split("; "):
            what, bits, cycles = (*figure.split(), "1")[:3]
            if what in ("l1", "l2"):
                assert core[f"{what}_bytes"] == int(bits) << 10
                continue
            unit, _, dtype = what.partition("-")
            if unit == "tile":
                assert core["matrix"][dtype] == 2 * int(bits) / float(cycles)
                continue
            stated = {"fma": sums, "load": core["load_bytes"]}.get(what)
            stated = stated or sums * core["factors"]["int8" if what == "bytes-in-pairs" else dtype]
            assert 0.92 < stated / (IN_A_BIT[what] * int(bits) / float(cycles)) < 1.3, (name, figure)
