"""The devices that flopwise knows, from the tables in ``data``.

A table is read as text first and parsed only where it names the device, because parsing all of them takes longer than
profiling a small model.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from importlib.resources import files
from typing import Any, TypeAlias

from flopwise.analyses.timing.device import Cache, Clock, Device, Peak, ReportedMemory, Unit
from flopwise.errors import InputError
from flopwise.formats.sources.text import parse_toml

#: A device, a core, a figure or a document, as a table has it.
Row: TypeAlias = Mapping[str, Any]

#: The tables, in the order in which devices are listed.
TABLES = ("nvidia", "jetson", "amd", "apple", "google", "cpu", "mcu")

#: Words that people write before a model's name or leave out.
_BRANDS = re.compile(
    "^(nvidia|geforce|tesla|amd|instinct|radeon|intel|core|apple|google|aws|ampere"
    "|stmicroelectronics|st(?=stm32)|nordic|raspberrypi|espressif)+"
)

#: How many candidates for an ambiguous name are listed.
_LISTED = 8

_UNITS: dict[str, tuple[Unit, Decimal]] = {
    "TFLOP/s": ("FLOP/s", Decimal(10**12)),
    "GB/s": ("B/s", Decimal(10**9)),
    "us": ("s", Decimal("1e-6")),
}
_DEVICE = "\n[[device]]\n"

#: Bytes that a multiprocessor of NVIDIA's loads from its first cache in a cycle.
_LOADED = 128


def devices() -> tuple[Device, ...]:
    """Every device of the tables."""
    return tuple(_device(block, header) for name in TABLES for block, header in _blocks(name))


def find(name: str) -> Device:
    """The device of a name or an alias; case, separators and the words of a brand do not matter.

    Raises:
        InputError: no device goes by that name, or several begin with it; the candidates are in the message.
    """
    key = _key(name)
    for table in TABLES:
        for block, header in _blocks(table):
            if key in _keys(block):
                return _device(block, header)
    raise InputError(_unknown(name, key))


def _unknown(name: str, key: str) -> str:
    """The message for a name that is no device's: those that begin with it, or the nearest."""
    devices = [_names(block) for table in TABLES for block, _ in _blocks(table)]
    begun = [names[0] for names in devices if any(_begins(_key(other), key) for other in names)]
    if len(begun) > 1:
        more = f" and {len(begun) - _LISTED} more" if len(begun) > _LISTED else ""
        return f"device {name!r} is ambiguous: {', '.join(begun[:_LISTED])}{more}"
    spoken = {_key(other): other for names in devices for other in reversed(names)}
    near = difflib.get_close_matches(key, spoken, 4, 0.5)
    near += [other for other in spoken if key and key in other and other not in near][: max(0, 5 - len(near))]
    hint = f"did you mean {' or '.join(repr(spoken[other]) for other in near)}? " if near else ""
    return f"unknown device {name!r}; {hint}flopwise devices lists all"


#: Words of the names of GPUs that do not tell models apart.
_COMMON = {"nvidia", "geforce", "tesla", "gpu", "hbm3", "hbm2e", "amd", "instinct", "radeon", "graphics", "vf"}


def nearest_gpu(name: str, memory: int) -> Device | None:
    """The GPU of the tables that a driver means by a name: of several the one whose memory is nearest.

    Args:
        name: as drivers and profilers write it, such as "NVIDIA H100 80GB HBM3".
        memory: its bytes.
    """
    words = {*name.lower().replace("-", " ").split()} - _COMMON
    near = [d for d in devices() if d.kind == "gpu" and words & {*d.id.split("-"), *d.id.replace("-", " ").split()}]
    return max(
        near,
        key=lambda d: (
            len(words & {*d.name.lower().replace("-", " ").split(), *d.id.split("-")}),
            -abs(d.capacity_bytes - memory),
        ),
        default=None,
    )


def cores() -> Mapping[str, Row]:
    """The processor cores of the table of CPUs, by name: vector width, arithmetic units, loads, highest clock."""
    return _header("cpu")["core"]


def figures_of_core(core: str, count: int, ghz: float) -> Iterator[Peak]:
    """Figures of so many cores of a kind at a clock, in GHz: products by element type, and loads from the first cache.

    float32: cores x clock x FMA units x vector bits / 32 x 2.
    """
    row = cores()[core]
    documents = _header("cpu")["document"]
    document = documents[row["source"]]
    lanes = row["fma_units"] * row["vector_bits"] // 32
    factors = {"float32": 1, "float64": 0.5, **row.get("factors", {})}
    cycles = count * ghz * 1e9
    how = f"{count} cores x {ghz:g} GHz"

    def peak(what: str, dtype: str | None, per_cycle: float, unit: Unit, text: str, document: Row = document) -> Peak:
        source = f"{how} x {text}: {document['title']}"
        value, one = cycles * per_cycle, ghz * 1e9 * per_cycle
        return Peak(what, dtype, value, unit, "derived", source, document["url"], core=one)

    for dtype, factor in factors.items():
        yield peak("vector", dtype, 2 * lanes * factor, "FLOP/s", f"{2 * lanes * factor:g} FLOP a cycle ({core})")
    for dtype, flop in row.get("matrix", {}).items():
        yield peak("matrix", dtype, flop, "FLOP/s", f"{flop} FLOP a cycle (AMX)", documents[row["matrix_source"]])
    yield peak("l1", None, row["load_bytes"], "B/s", f"{row['load_bytes']} bytes a cycle ({core})")


def most_bandwidth(core: str) -> Peak | None:
    """The fastest memory of any listed CPU with a kind of core, for machines that do not tell theirs."""
    peaks = []
    for block, header in _blocks("cpu"):
        if f'core = "{core}"' in block:
            peaks += [(p, d.name) for d in [_device(block, header)] for p in d.peaks if p.what == "dram"]
    if not peaks:
        return None
    peak, name = max(peaks, key=lambda pair: pair[0].value)
    source = f"no machine with {core} cores has faster memory than {name}: {peak.source}"
    return Peak("dram", None, peak.value, "B/s", "derived", source, peak.url)


def _key(name: str) -> str:
    """Letters, digits and plus signs of a name, without its brand in front: one key for all ways to write it.

    >>> _key("NVIDIA GeForce RTX 4090"), _key("rtx_4090"), _key("H100_SXM")
    ('rtx4090', 'rtx4090', 'h100sxm')
    """
    return _BRANDS.sub("", re.sub(r"[^a-z0-9+]", "", name.lower()))


def _begins(name: str, key: str) -> bool:
    """True if a key is the beginning of a name's, up to a whole number."""
    rest = name[len(key) :]
    return bool(key) and name.startswith(key) and not (key[-1].isdigit() and rest[:1].isdigit())


@functools.cache
def _text(table: str) -> str:
    return files("flopwise.analyses.timing").joinpath(f"data/{table}.toml").read_text("utf-8")


def _blocks(table: str) -> Iterator[tuple[str, str]]:
    """The text of each device, and the table that it is in."""
    for block in _text(table).split(_DEVICE)[1:]:
        yield block, table


@functools.cache
def _keys(block: str) -> frozenset[str]:
    """The keys of a device's names."""
    return frozenset(map(_key, _names(block)))


def _names(block: str) -> list[str]:
    """Identifier, aliases and name of a device."""
    lines = {k: v for k, _, v in (line.partition(" = ") for line in block.split("\n", 4)[:4])}
    return re.findall(r'"([^"]+)"', " ".join((lines["id"], lines.get("aliases", ""), lines["name"])))


@functools.cache
def _header(table: str) -> Mapping[str, Mapping[str, Row]]:
    return parse_toml(_text(table).split(_DEVICE, 1)[0])


@functools.lru_cache(maxsize=512)
def _device(block: str, table: str) -> Device:
    row = parse_toml(block)
    documents = _header(table)["document"]
    common = {name: row[name] for name in ("id", "name", "kind", "vendor", "memory_bytes")}
    common |= {"aliases": tuple(row.get("aliases", ())), "note": row.get("note", "")}
    common |= {"reported": _reported(row["memory_reported"], documents) if "memory_reported" in row else None}
    counts = (figure["multiprocessors"] for figure in row.get("figures", ()) if "multiprocessors" in figure)
    common |= {"multiprocessors": next(counts, None)}
    if table == "mcu":
        document, own = documents[row["source"]], ("flash_bytes", "bank_bytes")
        common |= {name: row.get(name, 0) for name in own} | {"source": document["title"], "url": document["url"]}
        return Device(**common, peaks=())
    if table == "cpu":
        return _cpu(row, documents, common)
    caches = tuple(Cache(c["level"], c["bytes"]) for c in row.get("caches", ()))
    printed = [(_figure(f, documents), f.get("mhz")) for f in row["figures"]]
    peaks = tuple(peak for peak, _ in printed)
    if "clock" not in row:
        return Device(**common, caches=caches, peaks=peaks)
    document = documents[row["clock"]["source"]]
    clock = Clock(row["clock"]["rated"], row["clock"]["highest"], document["title"], document["url"])
    faster = tuple(
        _at_highest_clock(peak, mhz or clock.rated, clock.highest)
        for peak, mhz in printed
        if peak.what in ("matrix", "vector", "l1") and peak.dense and (mhz or clock.rated) < clock.highest
    )
    return Device(**common, caches=caches, peaks=(*peaks, *faster), clock=clock)


def _reported(row: Row, documents: Mapping[str, Row]) -> ReportedMemory:
    """The memory that a driver reports, in a document or as one of another device shows."""
    document = documents[row["source"]]
    source = f"{row['how']}: {document['title']}" if "how" in row else document["title"]
    return ReportedMemory(row["mib"] << 20, row["kind"], source, document["url"])


def _at_highest_clock(peak: Peak, mhz: int, highest: int) -> Peak:
    """A figure at the highest clock of the part, in place of the one that it was printed for."""
    source = f"{highest:,} MHz in place of {mhz:,}: {peak.source}"
    return replace(peak, value=peak.value * highest / mhz, kind="derived", source=source, above_rated_mhz=highest)


def _figure(row: Row, documents: Mapping[str, Row]) -> Peak:
    document = documents[row["source"]]
    unit: Unit
    if "multiprocessors" in row:  # each loads so many bytes in a cycle
        unit, value = "B/s", float(row["multiprocessors"] * _LOADED * row["mhz"] * 10**6)
    else:
        unit, factor = _UNITS[row["unit"]]
        value = float(Decimal(str(row["value"])) * factor)  # 66.9 x 10^12 is no multiple of ten in binary arithmetic
    return Peak(
        what=row["what"],
        dtype=row.get("dtype"),
        value=value,
        unit=unit,
        kind=row.get("kind", "datasheet"),
        source=document["title"],
        url=document["url"],
        dense=row.get("dense", True),
        via=row.get("via", ""),
        devices=row.get("devices"),
    )


def _cpu(row: Row, documents: Mapping[str, Row], common: Row) -> Device:
    """A CPU: the figures of all its kinds of cores added up, one core's being the best of them."""
    document, kinds = documents[row["source"]], cores()
    total: dict[tuple[str, str | None], Peak] = {}
    for part in row["cores"]:
        for peak in figures_of_core(part["core"], part["count"], part["ghz"]):
            before = total.get((peak.what, peak.dtype))
            total[peak.what, peak.dtype] = peak if before is None else _added(before, peak)
    memory = row["memory"]
    rate = memory["channels"] * memory["bytes"] * memory["mega_transfers"] * 1e6
    how = f"{memory['channels']} channels x {memory['bytes']} bytes x {memory['mega_transfers']} MT/s"
    dram = Peak("dram", None, rate, "B/s", "derived", f"{how}: {document['title']}", document["url"])
    caches = (
        Cache("l1", sum(p["count"] * kinds[p["core"]]["l1_bytes"] for p in row["cores"])),
        Cache("l2", sum(p["count"] * kinds[p["core"]]["l2_bytes"] for p in row["cores"])),
        Cache("llc", row["llc_bytes"]),
    )
    count = sum(part["count"] for part in row["cores"])
    return Device(**common, cores=count, caches=caches, peaks=(*total.values(), dram))


def _added(one: Peak, other: Peak) -> Peak:
    return replace(
        one,
        value=one.value + other.value,
        source=f"{one.source}; {other.source}",
        core=max(one.core or 0, other.core or 0),
    )
