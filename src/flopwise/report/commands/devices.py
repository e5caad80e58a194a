"""Devices and their figures, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Head, Look, Sheet, Value, human

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device, Peak

#: Element types of the overview, and the titles of their columns: dense TFLOP/s.
_TYPES = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16", "float8e4m3fn": "FP8", "int8": "INT8"}


def devices_report(devices: Sequence[Device]) -> Report:
    """One line for each device: dense TFLOP/s by element type, memory and its bandwidth."""
    columns: list[Field[Device]] = [
        Field(Head("name", "name", "text", 0), lambda d: d.id),
        Field(Head("device", "device", "text", 2), lambda d: d.name),
        *(_rate(dtype, title, 3 + i) for i, (dtype, title) in enumerate(_TYPES.items())),
        Field(Head("memory_gb", "GB", "ratio", 5), lambda d: d.memory_bytes / 1e9 if d.memory_bytes else ""),
        Field(Head("bandwidth", "GB/s", "ratio", 1), _bandwidth),
    ]
    sheet = Sheet.of(
        columns,
        devices,
        about=(f"{len(devices)} devices", "dense TFLOP/s at the rated clock, a multiply-add is two"),
        notes=("flopwise devices NAME shows every figure with its source",),
    )
    return Report(lambda format, look: [sheet], lambda: _schema(devices))


def _rate(dtype: str, title: str, rank: int) -> Field[Device]:
    def value(device: Device) -> Value:
        peak = device.rated(dtype)
        return peak.value / 1e12 if peak is not None and peak.dtype == dtype else ""

    return Field(Head(dtype, title, "ratio", rank), value)


def _bandwidth(device: Device) -> Value:
    memory = device.bandwidth()
    return memory.value / 1e9 if memory is not None and memory.what == "dram" else ""


def device_report(device: Device) -> Report:
    """Every figure of one device with its kind and its source."""
    return Report(lambda format, look: [_sheet(device, format.data, look)], lambda: _schema([device]))


def _schema(devices: Sequence[Device]) -> Json:
    return {"schema": "flopwise.devices/1", "devices": [_content(device) for device in devices]}


def _sheet(device: Device, data: bool, look: Look) -> Sheet:
    documents = _documents(device)
    memory = [human(device.memory_bytes, "B") + " memory"] if device.memory_bytes else []
    if device.reported is not None and device.reported.nbytes != device.memory_bytes:
        reported = human(device.reported.nbytes, "B")
        memory.append(_cited(f"its driver reports {reported}: {device.reported.source}", documents))
    memory += [human(device.flash_bytes, "B") + " flash"] if device.flash_bytes else []
    memory += [human(device.bank_bytes, "B") + " in the largest bank"] if device.bank_bytes else []
    caches = [f"{c.level.upper()} {human(c.nbytes, 'B')}" for c in device.caches]
    names = [f"also {', '.join(device.aliases)}"] if device.aliases else []

    def rate(peak: Peak) -> Value:
        if data:
            return peak.value if peak.unit == "s" else round(peak.value)
        return f"{peak.value * 1e6:.3g} us" if peak.unit == "s" else human(round(peak.value), peak.unit)

    def density(peak: Peak) -> str:
        return "" if peak.dtype is None else "dense" if peak.dense else "sparse"

    def source(peak: Peak) -> str:
        if data:
            return f"{peak.source} <{peak.url}>" if peak.url else peak.source
        return _cited(peak.source, documents)

    columns: tuple[Field[Peak], ...] = (
        Field(Head("what", "figure", "text", 0), lambda p: p.what),
        Field(Head("dtype", "type", "text", 1), lambda p: p.dtype or p.via),
        Field(Head("value", "", "number" if data else "text", 1), rate),
        Field(Head("unit", "unit", "text", 2 if data else 1), lambda p: p.unit if data else ""),
        Field(Head("dense", "density", "text", 1), density),
        Field(Head("kind", "kind", "text", 4), lambda p: p.kind),
        Field(Head("source", "source", "text", 2, prose=True), source),
    )
    return Sheet.of(
        columns,
        device.peaks,
        about=(look.text(device.name), device.id, *map(look.text, names), *memory, *caches),
        notes=look.texts(filter(None, [device.note, *_clock(device, documents), *_links(documents)])),
    )


def _clock(device: Device, documents: dict[str, str]) -> list[str]:
    """The highest clock of a device, with its source."""
    clock = device.clock
    if clock is None:
        return []
    return [_cited(f"runs at up to {clock.highest:,} MHz, rated {clock.rated:,}: {clock.source}", documents)]


def _documents(device: Device) -> dict[str, str]:
    """Title of each document that is a source of figures, and its link."""
    sources = [(peak.source, peak.url) for peak in device.peaks]
    sources += [(device.source, device.url)]
    sources += [(source.source, source.url) for source in (device.reported, device.clock) if source is not None]
    return {source.rpartition(": ")[2]: url for source, url in sources if url}


def _cited(source: str, documents: dict[str, str]) -> str:
    """A source with its document's number in place of the title."""
    how, _, title = source.rpartition(": ")
    return f"{how} [{[*documents].index(title) + 1}]".strip() if title in documents else source


def _links(documents: dict[str, str]) -> list[str]:
    """The documents with their numbers and links."""
    return [f"[{number}] {title}: {url}" for number, (title, url) in enumerate(documents.items(), 1)]


def _content(device: Device) -> Json:
    keys = "what dtype via devices value unit dense kind above_rated_mhz source"
    return {
        **fields(device, "id name"),
        "aliases": list(device.aliases),
        **fields(device, "kind vendor cores"),
        "memory_bytes": device.memory_bytes or None,
        "memory_reported": None
        if device.reported is None
        else {
            "bytes": device.reported.nbytes,
            **fields(device.reported, "kind source"),
            "url": device.reported.url or None,
        },
        **({} if device.kind != "mcu" else fields(device, "flash_bytes bank_bytes source url")),
        "clock": None if device.clock is None else fields(device.clock, "rated highest source url"),
        "caches": {cache.level: cache.nbytes for cache in device.caches},
        "figures": [{**fields(peak, keys), "url": peak.url or None} for peak in device.peaks],
        "note": device.note or None,
    }
