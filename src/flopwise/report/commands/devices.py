"""Devices and their figures, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise.report.formats.json import fields
from flopwise.report.report import Report
from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Field, Head, Line, Look, Sheet
from flopwise.report.sheet.units import human

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device, Peak

#: Element types of the overview, and the titles of their columns: dense TFLOP/s.
_TYPES = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16", "float8e4m3fn": "FP8", "int8": "INT8"}


def devices_report(devices: Sequence[Device]) -> Report:
    """One line for each device: dense TFLOP/s by element type, memory and its bandwidth."""
    sheet = Sheet(
        heads=(
            Head("name", "name", "text", 0),
            Head("device", "device", "text", 2),
            *(Head(key, title, "ratio", 3 + i) for i, (key, title) in enumerate(_TYPES.items())),
            Head("memory_gb", "GB", "ratio", 5),
            Head("bandwidth", "GB/s", "ratio", 1),
            Head("unverified", "document", "text", 8),
        ),
        lines=tuple(Line(_overview(d)) for d in devices),
        about=(f"{len(devices)} devices", "dense TFLOP/s, a multiply-add is two"),
        notes=(
            "unverified: the document was not opened when the figures were written down",
            "flopwise devices NAME shows every figure with its source",
        ),
    )
    return Report(lambda format, look: [sheet], lambda: _schema(devices))


def device_report(device: Device) -> Report:
    """Every figure of one device with its kind and its source."""
    return Report(lambda format, look: [_sheet(device, format.data, look)], lambda: _schema([device]))


def _schema(devices: Sequence[Device]) -> dict[str, Any]:
    return {"schema": "flopwise.devices/1", "devices": [_content(device) for device in devices]}


def _sheet(device: Device, data: bool, look: Look) -> Sheet:
    memory = [human(device.memory_bytes, "B") + " memory"] if device.memory_bytes else []
    caches = [f"{c.level.upper()} {human(c.nbytes, 'B')}" for c in device.caches]
    names = [f"also {', '.join(device.aliases)}"] if device.aliases else []

    def rate(peak: Peak) -> Value:
        if data:
            return peak.value
        return f"{peak.value * 1e6:.3g} us" if peak.unit == "s" else human(round(peak.value), peak.unit)

    def density(peak: Peak) -> str:
        return "" if peak.dtype is None else "dense" if peak.dense else "with sparsity"

    columns: tuple[Field[Peak], ...] = (
        Field(Head("what", "figure", "text", 0), lambda p: p.what),
        Field(Head("dtype", "type", "text", 1), lambda p: p.dtype or ""),
        Field(Head("value", "", "number" if data else "text", 1), rate),
        Field(Head("unit", "unit", "text", 2 if data else 1), lambda p: p.unit if data else ""),
        Field(Head("dense", "density", "text", 1), density),
        Field(Head("kind", "kind", "text", 4), lambda p: p.kind),
        Field(Head("verified", "document", "text", 4), lambda p: "" if p.verified else "unverified"),
        Field(
            Head("source", "source", "text", 2, prose=True),
            lambda p: f"{p.source} <{p.url}>" if p.url and data else p.source,
        ),
    )
    return Sheet.of(
        columns,
        device.peaks,
        about=(look.text(device.name), device.id, *map(look.text, names), *memory, *caches),
        notes=tuple(look.text(note) for note in (device.note, *_documents(device)) if note),
    )


def _overview(device: Device) -> tuple[Value, ...]:
    rates: list[Value] = []
    for dtype in _TYPES:
        peak = device.flops(dtype)
        rates.append(peak.value / 1e12 if peak is not None and peak.dtype == dtype else "")
    memory = device.bandwidth()
    bandwidth: Value = memory.value / 1e9 if memory is not None and memory.what == "dram" else ""
    verified = all(peak.verified for peak in device.peaks)
    size: Value = device.memory_bytes / 1e9 if device.memory_bytes else ""
    return (device.id, device.name, *rates, size, bandwidth, "" if verified else "unverified")


def _documents(device: Device) -> list[str]:
    """Each document that is a source of figures, with its link."""
    links = {peak.source.rpartition(": ")[2]: (peak.url, peak.verified) for peak in device.peaks if peak.url}
    return [
        f"{title}: {url}" + ("" if verified else " (not opened, so that its figures are unverified)")
        for title, (url, verified) in links.items()
    ]


def _content(device: Device) -> dict[str, Any]:
    keys = "what dtype value unit dense kind verified source"
    return {
        **fields(device, "id name"),
        "aliases": list(device.aliases),
        **fields(device, "kind vendor cores"),
        "memory_bytes": device.memory_bytes or None,
        "caches": {cache.level: cache.nbytes for cache in device.caches},
        "figures": [{**fields(peak, keys), "url": peak.url or None} for peak in device.peaks],
        "note": device.note or None,
    }
