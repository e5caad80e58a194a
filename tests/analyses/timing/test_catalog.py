"""The tables of devices: every figure has a source, a unit, and says whether it is dense."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.cases import each

from flopwise.analyses.timing import catalog, machine
from flopwise.analyses.timing.device import LEVELS, Device, arithmetic, fastest, holders
from flopwise.errors import InputError
from flopwise.graph.dtypes import BITS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLES: dict[str, dict[str, Any]] = {
    name: tomllib.loads(files("flopwise.analyses.timing").joinpath(f"data/{name}.toml").read_text("utf-8"))
    for name in catalog.TABLES
}
DEVICES = {device.id: device for device in catalog.devices()}


def refusal(row: dict[str, Any], documents: dict[str, Any]) -> str:
    """Why a figure may not stand in a table; "" when it may."""
    if row.get("source") not in documents:
        return "no source"
    if row["what"] in ("matrix", "vector"):
        if not isinstance(row.get("dense"), bool):
            return "neither dense nor sparse"
        if row.get("dtype") not in {*BITS, "tfloat32"}:
            return "no element type"
        if row.get("unit") != "TFLOP/s":
            return "no unit"
    elif "multiprocessors" in row:
        return "" if row["what"] == "l1" and min(row["multiprocessors"], row["mhz"]) > 0 else "no value"
    elif row["what"] not in (*LEVELS, "link", "network") or row.get("unit") != "GB/s":
        return "no unit"
    return "" if row.get("value", 0) > 0 else "no value"


@pytest.mark.parametrize("name", [name for name in catalog.TABLES if name not in ("cpu", "mcu")])
def test_every_figure_has_a_source_a_unit_and_a_flag(name: str) -> None:
    table = TABLES[name]
    for device in table["device"]:
        assert any(row["what"] == "dram" for row in device["figures"]), device["id"]
        for row in device["figures"]:
            assert not refusal(row, table["document"]), (device["id"], row)
        for cache in device.get("caches", ()):
            assert cache["source"] in table["document"]
            assert cache["level"] in LEVELS


@pytest.mark.parametrize("name", [name for name in catalog.TABLES if name != "cpu"])
def test_reported_memory_has_a_source_and_is_near_the_vendors(name: str) -> None:
    for row in (row for row in TABLES[name]["device"] if "memory_reported" in row):
        reported = row["memory_reported"]
        assert reported["source"] in TABLES[name]["document"]
        assert (reported["kind"] == "derived") == ("how" in reported), row["id"]
        device = DEVICES[row["id"]]
        assert device.capacity_bytes == reported["mib"] << 20
        assert device.capacity_bytes == pytest.approx(device.memory_bytes, rel=0.08), row[
            "id"
        ]  # GiB are 7.4 % more than GB


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"source": None}, "no source"),
        ({"source": "a blog"}, "no source"),
        ({"dense": None}, "neither dense nor sparse"),
        ({"unit": "TOPS"}, "no unit"),
        ({"dtype": None}, "no element type"),
        ({"value": 0}, "no value"),
    ],
)
def test_a_figure_without_its_source_is_refused(change: dict[str, Any], why: str) -> None:
    row = {"what": "matrix", "dtype": "float16", "value": 1, "unit": "TFLOP/s", "dense": True, "source": "a"}
    assert refusal(row, {"a": {}}) == ""
    assert refusal({**row, **change}, {"a": {}}) == why


def test_cpus_say_what_their_figures_follow_from() -> None:
    table = TABLES["cpu"]
    for name, core in table["core"].items():
        assert core["source"] in table["document"], name
        assert core["most_ghz"] >= max(
            (c["ghz"] for d in table["device"] for c in d["cores"] if c["core"] == name), default=0
        ), name
    for device in table["device"]:
        assert device["source"] in table["document"]
        assert all(part["core"] in table["core"] for part in device["cores"])


@pytest.mark.parametrize("name", catalog.TABLES)
def test_documents_have_a_title_and_a_link(name: str) -> None:
    table = TABLES[name]
    for key, document in table["document"].items():
        assert re.match(r"https://\S+$", document["url"]), key
        assert document["title"]
        assert ": " not in document["title"], "what a figure was derived of stands before a colon"
    text = files("flopwise.analyses.timing").joinpath(f"data/{name}.toml").read_text("utf-8")
    for key in table["document"]:
        assert f'source = "{key}"' in text, f"{key} is the source of nothing"


def test_there_are_enough_devices_and_no_name_stands_for_two() -> None:
    assert len(DEVICES) >= 60
    names = [key for device in DEVICES.values() for key in {catalog._key(name) for name in spoken(device)}]
    assert len(names) == len({*names})


@each("device", DEVICES.values())
def test_sparse_figures_are_no_more_than_twice_the_dense_ones(device: Device) -> None:
    for peak in device.peaks:
        if not peak.dense:
            dense = [p.value for p in device.peaks if p.dense and (p.what, p.dtype) == (peak.what, peak.dtype)]
            assert dense, f"{peak.dtype} has a figure with sparsity and none without"
            assert dense[0] < peak.value <= 2.02 * dense[0]


@each("device", DEVICES.values())
def test_narrower_types_and_nearer_memories_are_no_slower(device: Device) -> None:
    rates = {t: device.flops(t) for t in ("float64", "float32", "float16", "float8e4m3fn")}
    known = [p.value for t, p in rates.items() if p is not None and p.dtype == t]
    assert known == sorted(known)
    best = [max((p.value for p in device.peaks if p.what == level), default=None) for level in LEVELS]
    levels = [value for value in best if value is not None]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.parametrize(
    ("name", "dtype", "tera", "giga"),
    [
        ("h100", "bfloat16", 989.4, 3350),  # some tables have 3,072 GB/s, with which a floor would be too high
        ("h20", "bfloat16", 148, 4000),  # 900 GB/s is its NVLink
        ("h200", "bfloat16", 989.4, 4916.7),  # 3,201 MHz x 6,144 bits, above the 4.8 TB/s of the datasheet
        ("b100", "bfloat16", 1750, 8000),
        ("b300", "bfloat16", 2250, 8000),
        ("b300", "float8e4m3fn", 4500, 8000),
        ("gb300", "bfloat16", 2500, 8000),
        ("rtx-pro-6000", "bfloat16", 503.8, 1792),
        ("rtx-pro-6000", "tfloat32", 251.9, 1792),
        ("a10g", "bfloat16", 70, 600),
        ("a10g", "float32", 35, 600),
        ("a100-sxm-40gb", "bfloat16", 312, 1555),
        ("a100-pcie-80gb", "float32", 19.5, 1935),
        ("h100-pcie", "float16", 756, 2039),
        ("mi300x", "float8e4m3fn", 2614.9, 5325),
        ("tpu-v5e", "int8", 393, 819),
        ("rtx-4090", "float32", 82.6, 1008),
        ("epyc-9654", "float32", 96 * 3.7 * 32 / 1e3, 460.8),
        ("xeon-platinum-8480+", "bfloat16", 56 * 3.8 * 1024 / 1e3, 307.2),
        ("core-i9-13900k", "float32", (8 * 5.8 * 32 + 16 * 4.3 * 16) / 1e3, 89.6),
    ],
)
def test_known_figures(name: str, dtype: str, tera: float, giga: float) -> None:
    device = catalog.find(name)
    peak, memory = device.rated(dtype), device.bandwidth()
    assert peak is not None
    assert memory is not None
    assert peak.value == pytest.approx(tera * 1e12)
    assert memory.value == pytest.approx(giga * 1e9)


#: GB/s of one lane or link, each way.
WAYS = {
    "PCIe 3.0": 1,
    "PCIe 4.0": 2,
    "PCIe 5.0": 4,
    "NVLink 2.0": 25,
    "NVLink 3.0": 25,
    "NVLink 3.0 (GA102)": 14.0625,
    "NVLink 4.0": 25,
    "NVLink 5.0": 50,
    "InfiniBand 200 Gb/s": 25,
    "InfiniBand 400 Gb/s": 50,
    "RoCE 400 Gb/s": 50,
}


@each("device", [d for d in DEVICES.values() if d.kind != "cpu"])
def test_a_link_is_what_goes_one_way(device: Device) -> None:
    for peak in device.peaks:
        if peak.what in ("link", "network"):
            way, _, count = peak.via.rpartition(" x")
            rate = WAYS[way] if way in WAYS else float(way.rpartition(" ")[2])
            assert peak.value == pytest.approx(rate * int(count) * 1e9)
    network, link = device.link("network"), device.link()
    assert network is None or (link is not None and link.devices and network.value < link.value)


#: Desktop cards and the A10G multiply bfloat16 at half the rate of float16 with a float16 sum.
HALVED = re.compile(r"rtx-[2345]0\d0|a10g")


@each("device", [d for d in DEVICES.values() if d.vendor == "nvidia"])
def test_the_rates_of_tensor_cores_stand_in_their_proportions(device: Device) -> None:
    dense = {p.dtype: p.value for p in device.peaks if p.what == "matrix" and p.dense and p.above_rated_mhz is None}
    if "bfloat16" not in dense:
        return
    half = 2 if HALVED.match(device.id) else 1
    assert dense["float16"] == pytest.approx(half * dense["bfloat16"], rel=0.02)
    assert dense["bfloat16"] == pytest.approx(2 * dense["tfloat32"], rel=0.02)
    if "float8e4m3fn" in dense:
        assert dense["float8e4m3fn"] == pytest.approx(2 * dense["float16"], rel=0.04)


@pytest.mark.parametrize("device", [d for d in DEVICES.values() if "GeForce" in d.name], ids=lambda d: d.id)
def test_desktop_cards_have_figures_at_the_highest_clock(device: Device) -> None:
    for dtype in ("float16", "float32"):
        rated, highest = device.rated(dtype), device.flops(dtype)
        assert rated is not None
        assert highest is not None
        assert highest.above_rated_mhz is not None
        assert 1.1 < highest.value / rated.value < 1.4
        assert " MHz in place of " in highest.source


def test_a_type_is_computed_in_any_that_holds_it() -> None:
    def best(device: str, dtype: str) -> str | None:
        peak = DEVICES[device].flops(dtype)
        return None if peak is None else peak.dtype

    assert best("a100-sxm-80gb", "float8e4m3fn") in ("float16", "bfloat16")  # not int8, which does not hold it
    assert best("gb300", "int8") == "float16"  # its own figure is the lower one
    assert best("h100-sxm", "float4e2m1") == "float8e4m3fn"
    assert best("b200", "int2") == "float4e2m1"
    assert best("t4", "bfloat16") == "float16"  # the device does not have it
    assert best("rtx-4090", "bfloat16") == "bfloat16"
    assert best("a100-sxm-80gb", "float32") == "float32"
    assert arithmetic(("float32",)) == ("float32", "tfloat32")
    assert fastest(DEVICES["jetson-thor"], arithmetic(("float32",))).dtype == "tfloat32"  # type: ignore[union-attr]


#: What the library of narrow types calls them.
NARROW = {
    "int8": np.int8,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
    "float6e2m3": ml_dtypes.float6_e2m3fn,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("narrow", NARROW)
def test_what_holds_a_type_holds_each_of_its_values(narrow: str) -> None:
    codes = np.arange(1 << BITS[narrow], dtype=np.uint8)
    values = codes.astype(NARROW[narrow]) if "int" in narrow else codes.view(NARROW[narrow])
    numbers = values.astype(np.float32)[np.isfinite(values.astype(np.float32))]
    numbers = numbers - 8 * (narrow == "uint4")  # a zero point
    wide = {**NARROW, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
    checked = [name for name in holders(narrow) if name in wide and name != narrow]
    for name in checked:
        if (narrow, name) != ("float8e5m2", "float8e4m3fn"):  # which the same units compute
            scaled = numbers * (2 if (narrow, name) == ("float4e2m1", "int8") else 1)
            assert (scaled.astype(wide[name]).astype(np.float32) == scaled).all(), name
    assert "bfloat16" in checked


def spoken(device: Device) -> tuple[str, ...]:
    """What a device is called: identifier, name and aliases."""
    return (device.id, device.name, *device.aliases)


@each("device", DEVICES.values())
def test_names_are_found_whatever_their_case_and_separators(device: Device) -> None:
    for name in spoken(device):
        for separator in ("", " ", "_", "-", " - "):
            written = re.sub(r"[\s_-]+", separator, name)
            assert machine.named(written) == machine.named(written.upper()) == device
    assert machine.named(f"{device.vendor} {device.id}") == device


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("rtx4090", "rtx-4090"),
        ("nvidia_geforce_rtx_4090", "rtx-4090"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("H100_SXM", "h100-sxm"),
        ("a100 80gb", "a100-sxm-80gb"),
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("Tesla T4", "t4"),
        ("Instinct MI300X", "mi300x"),
        ("TPUv5e", "tpu-v5e"),
        ("M3 Max", "apple-m3-max"),
        ("i9-13900K", "core-i9-13900k"),
    ],
)
def test_the_ways_in_which_people_write_names(name: str, identifier: str) -> None:
    assert catalog.find(name).id == identifier


@pytest.mark.parametrize(("name", "near"), [("h10", "h100"), ("rtx 4095", "rtx-4090"), ("mi301x", "mi300x")])
def test_an_unknown_device_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError, match=f"^unknown device '{name}'; did you mean .*'{near}'"):
        catalog.find(name)


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("mi300", "mi300a, mi300x"),
        ("A100 SXM", "a100-sxm-40gb, a100-sxm-80gb"),
        ("gb", "gb200, gb300"),
        ("Xeon", "xeon-e5-2690-v4, xeon-platinum-8180, .*"),
        ("rtx", "rtx-a6000, .* and \\d+ more"),
    ],
)
def test_an_ambiguous_name_lists_the_candidates(name: str, candidates: str) -> None:
    with pytest.raises(InputError, match=f"^device '{name}' is ambiguous: {candidates}$"):
        catalog.find(name)


def test_a_name_like_no_other_is_answered_without_a_guess() -> None:
    with pytest.raises(InputError, match=r"^unknown device '!!!'; flopwise devices lists all$"):
        catalog.find("!!!")
