"""A request to a language model as one HTML page: its figures, and cost and memory against the context."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.llm.on_device import floors_of
from flopwise.report.html.page import Layout, page
from flopwise.report.sheet.sheet import duration, human

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.llm.on_device import OnDevice
    from flopwise.analyses.llm.serving.serving import Serving
    from flopwise.report.sheet.sheet import Look, Sheet, Value

LAYOUT = Layout(
    folder="llm",
    sections={"summary": "Summary", "costs": "Request", "cost": "Cost", "memory": "Memory", "batches": "Throughput"},
    scripts="summary curves device",
    styles=("bound/page.css", "llm/page.css"),
)

#: What a device holds of weights, cache and workspace.
HELD = ("weight_bytes", "held_cache_bytes", "workspace_bytes")


def render_llm(result: Inference, sheet: Sheet, look: Look) -> str:
    """The page of a request with a curve and the sheet that a table shows of it; the page has a look of its own."""
    return page(LAYOUT, f"{result.source} – language model – flopwise", page_data(result, sheet))


def page_data(result: Inference, sheet: Sheet) -> Json:
    """The data of the page: figures as text, and the curve as numbers."""
    serving = result.serving
    return {
        "model": result.source,
        "verdict": sheet.verdict,
        "cards": list(_cards(result)),
        "about": " · ".join(sheet.about),
        "summary": sheet.summary,
        "notes": list(sheet.notes),
        "heads": [head.title for head in sheet.heads],
        "lines": [[line.values[0], *(_cell(value) for value in line.values[1:])] for line in sheet.lines],
        "device": "" if serving is None else serving.where,
        "limit": None if serving is None or serving.memory_bytes is None else float(serving.memory_bytes),
        "fill": [] if serving is None else list(_fill(serving)),
        "batches": [
            {"sequences": one.sequences, "ns": one.decode_seconds * 1e9, "rate": one.tokens_per_second}
            for one in result.batches
        ],
        "asked": result.batch,
        "curve": [
            {
                "context": point.context,
                "prefill_flops": float(point.prefill.flops),
                "rule": float(2 * result.active_params * point.prefill.tokens),
                "decode_flops": None if point.decode is None else float(point.decode.flops),
                "decode_bytes": None if point.decode is None else float(point.decode.bytes),
                "cache_bytes": float(point.cache_bytes),
                **dict(zip(HELD, map(float, result.held_bytes(point)), strict=True)),
            }
            for point in result.curve
        ],
    }


def _cards(result: Inference) -> Iterator[tuple[str, str, str]]:
    """Name, figure and what stands below it, of what a reader looks for first."""
    serving, device = result.serving, result.device
    if serving is not None:
        have = serving.memory_bytes
        yield "memory needed", human(serving.must_fit_bytes, "B"), "" if have is None else f"of {human(have, 'B')}"
        if serving.max_sequences is not None:
            length = f"of {result.prompt + result.generate:,} tokens each"
            yield "max sequences", f"{serving.max_sequences:,}", length
        if serving.max_context is not None:
            yield "max context", f"{serving.max_context:,}", f"tokens, batch {result.batch:,}"
    if device is not None:
        yield from _times(device, serving)


def _times(device: OnDevice, serving: Serving | None) -> Iterator[tuple[str, str, str]]:
    """The same of the least times."""
    floors = floors_of(device) if serving is None or serving.floors is None else serving.floors
    first, then = f"limited by {device.prefill.roof}", ""
    if device.decode is not None:
        then = f"limited by {device.decode.roof}"
    if serving is not None and serving.split.devices > 1 and serving.floors is not None:
        first = then = str(serving.split)
    yield "minimum time to first token", duration(floors.prefill_seconds), first
    if floors.decode_seconds is not None:
        yield "each further token at least", duration(floors.decode_seconds), then
    if floors.tokens_per_second:
        yield "max tokens per second", human(math.ceil(floors.tokens_per_second)), "of all sequences together"


def _fill(serving: Serving) -> Iterator[tuple[str, float]]:
    """The bytes in the fullest device's memory, by name; where all fits, also what is free."""
    memory, have = serving.memory, serving.memory_bytes
    yield "weights", float(memory.weight_bytes)
    yield "cache", float(memory.cache_bytes(serving.sequences, serving.tokens))
    yield "workspace", float(memory.workspace_bytes(serving.sequences))
    if have is not None and serving.device_bytes is not None and serving.left_over_bytes is not None and serving.fits:
        yield "free", float(serving.left_over_bytes)
        yield "not the engine's", float(serving.device_bytes - have)


def _cell(value: Value) -> tuple[str, str]:
    """A value in short, and with every digit."""
    if isinstance(value, int):
        return human(value), f"{value:,}"
    text = "?" if value is None else str(value)
    return text, text
