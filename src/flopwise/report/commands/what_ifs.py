"""What-ifs in every format: floors, estimates with their ranges, and measured times."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise._results import Json
from flopwise.analyses.timing.bound import WhatIf
from flopwise.report.sheet.sheet import Head, Line, Sheet
from flopwise.report.sheet.values import Look, Value, ratio


def what_if_sheet(ways: Sequence[WhatIf], look: Look, notes: Sequence[str] = ()) -> Sheet:
    """A line for each way; a time is held against one of its own kind."""
    return Sheet(
        heads=(
            Head("what", "what if", "text", 0, prose=True),
            Head("ms", "ms", "ratio", 1),
            Head("range", "range, ms", "text", 3),
            Head("ratio", "× now", "ratio", 2),
            Head("kind", "kind", "text", 1),
        ),
        lines=tuple(
            Line((look.text(way.what), way.ns / 1e6, look.text(_range(way)), _ratio(way), way.kind)) for way in ways
        ),
        notes=look.texts(notes),
        skip_empty=True,
    )


def _range(way: WhatIf) -> str:
    if way.low_ns is None or way.high_ns is None:
        return ""
    return f"{ratio(way.low_ns / 1e6)} to {ratio(way.high_ns / 1e6)}"


def _ratio(way: WhatIf) -> Value:
    return "" if way.ratio is None else way.ratio


def plain_ways(ways: Sequence[WhatIf]) -> list[Json]:
    """The ways in JSON: nanoseconds are integers."""
    times = ("ns", "base_ns", "low_ns", "high_ns")
    return [
        {"what": way.what, "kind": way.kind}
        | {name: None if getattr(way, name) is None else round(getattr(way, name)) for name in times}
        for way in ways
    ]
