"""The cost of a request to a diffusion pipeline: a line for each stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Figure, Head, Look, Sheet, duration, figure

if TYPE_CHECKING:
    from flopwise.analyses.llm.stages.diffusion import Diffusion
    from flopwise.analyses.llm.stages.stage import Stage
    from flopwise.analyses.timing.device import Device


def diffusion_report(result: Diffusion) -> Report:
    """The page of a request."""
    return Report(lambda format, look: [_sheet(result, look)], result.to_dict)


def _sheet(result: Diffusion, look: Look) -> Sheet:
    """One line for each stage, with the sums of all its calls, and those of the request."""
    parts = result.components
    fields: list[Field[Stage]] = [
        Field(Head("stage", "stage", "text", 0, prose=True), lambda stage: stage.name, total="whole request"),
        Field(Head("calls", "calls", "number", 0), lambda stage: stage.calls),
        Field(Head("batch", "batch", "number", 4), lambda stage: stage.cost.batch),
        Field(Head("call_macs", "MACs of a call", "number", 2), lambda stage: stage.cost.macs),
        Field(Head("macs", "MACs", "number", 0), lambda stage: stage.macs, total=result.macs),
        Field(
            Head("needed_macs", "MACs needed", "number", 5), lambda stage: stage.needed_macs, total=result.needed_macs
        ),
        Field(Head("flops", "FLOPs", "number", 1), lambda stage: stage.flops, total=result.flops),
        Field(Head("params", "parameters", "number", 3), lambda stage: parts[stage.name].params, total=result.params),
        Field(
            Head("weight_bytes", "weights, bytes", "number", 2),
            lambda stage: parts[stage.name].weight_bytes,
            total=result.weight_bytes,
        ),
        Field(Head("workspace_bytes", "workspace, bytes", "number", 3), lambda stage: stage.workspace_bytes),
        Field(Head("flops_per_byte", "FLOPs per byte", "number", 6), lambda stage: round(stage.cost.intensity)),
    ]
    if result.device is not None:
        fields += _timed(result, result.device)
    about = f"{result.source} · {result.name} · {result.dtype} · {result.made} · {result.steps:,} steps"
    return Sheet.of(
        fields,
        result.stages,
        about=(look.text(about),),
        verdict=look.text(result.verdict),
        summary=tuple(_figures(result, look)),
        notes=look.texts(result.notes),
    )


def _timed(result: Diffusion, device: Device) -> list[Field[Stage]]:
    """The columns of least times on a device."""
    return [
        Field(
            Head("least_time", "minimum time", "text", 1, prose=True),
            lambda stage: duration(stage.floor(device).seconds),
            total=duration(result.seconds or 0.0),
        ),
        Field(Head("roof", "limited by", "text", 4), lambda stage: stage.floor(device).roof),
    ]


def _figures(result: Diffusion, look: Look) -> Iterator[Figure]:
    """The figures of the memory, ready to be shown."""
    yield figure("weights of all components", result.weight_bytes, "B", look)
    yield figure("workspace of the largest stage", result.workspace_bytes, "B", look)
    yield figure("total: weights, workspace", result.must_fit_bytes, "B", look)
    yield figure("total with one component at a time", result.offloaded_bytes, "B", look)
    if result.memory_bytes is not None and result.device is not None:
        yield figure(f"{result.memory_fraction:g} of {result.device.name}", result.memory_bytes, "B", look)
