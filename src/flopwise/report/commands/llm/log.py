"""The time of a serving engine: a line for each minute, beside the least time of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Figure, Head, Look, Sheet, duration, figure

if TYPE_CHECKING:
    from flopwise.analyses.llm.serving.achieved import Achieved, Stretch


def log_report(result: Achieved) -> Report:
    """The page of an engine's log."""
    return Report(lambda format, look: [_sheet(result, look)], result.to_dict)


_COLUMNS: tuple[Field[Stretch], ...] = (
    Field(Head("minute", "minute", "text", 0, prose=True), lambda minute: minute.name),
    Field(Head("prompt_tokens", "prompt tokens", "number", 3), lambda minute: minute.prompt_tokens),
    Field(Head("generated_tokens", "generated tokens", "number", 2), lambda minute: minute.generated_tokens),
    Field(
        Head("sequences", "sequences", "number", 4),
        lambda minute: None if minute.sequences is None else round(minute.sequences),
    ),
    Field(
        Head("tflops_per_s", "TFLOP/s needed", "text", 5),
        lambda minute: f"{2 * minute.macs / minute.seconds / 1e12:.4g}",
    ),
    Field(Head("least", "minimum time", "text", 2), lambda minute: duration(minute.floor_seconds)),
    Field(Head("of_floor", "% of measured", "percent", 1), lambda minute: 100 * minute.share),
    Field(Head("roof", "limited by", "text", 6), lambda minute: minute.roof),
)


def _sheet(result: Achieved, look: Look) -> Sheet:
    devices = f"{result.devices} × {result.device}" if result.devices > 1 else result.device
    whole = result.whole
    return Sheet.of(
        _COLUMNS,
        result.minutes,
        about=(look.text(f"{result.source} · {result.name} · {result.dtype} · {result.engine} on {devices}"),),
        summary=(
            Figure(look.text("minimum time"), f"{100 * whole.share:.1f} % of the measured time", ""),
            figure("prompt tokens", whole.prompt_tokens, "", look),
            figure("generated tokens", whole.generated_tokens, "", look),
        ),
        notes=look.texts(result.notes),
    )
