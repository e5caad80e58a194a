"""The time of a serving engine: a line for each minute, beside the least time of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Line, Sheet, figure
from flopwise.report.sheet.values import Look, duration

if TYPE_CHECKING:
    from flopwise.analyses.llm.serving.achieved import Achieved, Stretch
    from flopwise.report.sheet.values import Value


def log_report(result: Achieved) -> Report:
    """The page of an engine's log."""
    return Report(lambda format, look: [_sheet(result, look)], result.to_dict)


def _sheet(result: Achieved, look: Look) -> Sheet:
    heads = (
        Head("minute", "minute", "text", 0, prose=True),
        Head("prompt_tokens", "prompt tokens", "number", 3),
        Head("generated_tokens", "generated tokens", "number", 2),
        Head("sequences", "sequences", "number", 4),
        Head("tflops_per_s", "TFLOP/s needed", "text", 5),
        Head("least", "at least", "text", 2),
        Head("of_floor", "of the time", "percent", 1),
        Head("roof", "limited by", "text", 6),
    )
    devices = f"{result.devices} × {result.device}" if result.devices > 1 else result.device
    whole = result.whole
    return Sheet(
        heads=heads,
        lines=tuple(Line(_cells(minute)) for minute in result.minutes),
        about=(look.text(f"{result.source} · {result.name} · {result.dtype} · {result.engine} on {devices}"),),
        summary=(
            Figure(look.text("the work needs at least"), f"{100 * whole.share:.1f} % of the time", ""),
            figure("prompt tokens", whole.prompt_tokens, "", look),
            figure("generated tokens", whole.generated_tokens, "", look),
        ),
        notes=look.texts(result.notes),
    )


def _cells(minute: Stretch) -> tuple[Value, ...]:
    """The values of a minute's line."""
    return (
        minute.name,
        minute.prompt_tokens,
        minute.generated_tokens,
        None if minute.sequences is None else round(minute.sequences),
        f"{2 * minute.macs / minute.seconds / 1e12:.4g}",
        duration(minute.floor_seconds),
        100 * minute.share,
        minute.roof,
    )
