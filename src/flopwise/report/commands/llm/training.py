"""What a training step of a language model costs: operations, memory, one rank of many, and the rules of thumb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, figure

if TYPE_CHECKING:
    from flopwise.analyses.llm.training import TrainingStep
    from flopwise.report.sheet.columns import Value

#: Figure of a step -> what it is called.
_TITLES = {
    "params": "parameters",
    "forward_flops": "forward FLOPs",
    "backward_flops": "backward FLOPs",
    "optimizer_flops": "optimizer FLOPs",
    "weight_bytes": "weights, bytes",
    "gradient_bytes": "gradients, bytes",
    "state_bytes": "optimizer's state, bytes",
    "saved_bytes": "activations kept, bytes",
    "memory_bytes": "memory, bytes",
}


def training_report(result: TrainingStep) -> Report:
    """The page of a training step."""
    return Report(lambda format, look: [sheet(result, look, format.data)], result.to_dict)


def sheet(result: TrainingStep, look: Look, named: bool = False) -> Sheet:
    """One line for each quantity; a column for one device, and one for a rank of many."""
    rank = result.rank
    heads = [Head("quantity", "", "text", 0, prose=True), Head("step", "the whole step", "number", 1)]
    if rank is not None:
        ways = " × ".join(f"{w} {getattr(rank.sharding, w)}" for w in _ways(result)) or "1"
        heads.append(Head("rank", f"one rank of {rank.sharding.devices:,} ({ways})", "number", 1))
    lines = []
    for key, title in _TITLES.items():
        values: tuple[Value, ...] = (title, getattr(result, key))
        lines.append(Line(values if rank is None else (*values, getattr(rank, key))))
    about = f"{result.source} · {result.name} · {result.dtype} · {result.batch} × {result.sequence:,} tokens"
    how = f"{result.optimizer}, checkpointing {result.checkpointing}"
    notes = [] if rank is None else [f"the rank with the most memory: stage {rank.stage + 1} of {rank.sharding.pp}"]
    return Sheet(
        heads=tuple(heads),
        lines=tuple(lines),
        about=() if named else (look.text(about), look.text(how)),
        summary=() if named else tuple(_figures(result, look)),
        notes=tuple(look.text(note) for note in (*notes, *result.notes)),
    )


def _ways(result: TrainingStep) -> list[str]:
    """The ways of sharding that are used."""
    assert result.rank is not None
    return [way for way in ("dp", "fsdp", "tp", "pp", "ep") if getattr(result.rank.sharding, way) > 1]


def _figures(result: TrainingStep, look: Look) -> list[Figure]:
    """The step's operations without what is computed twice, and what the rules of thumb make of them."""
    exact = "forward and backward, nothing twice"
    figures = [figure(exact, result.model_flops, "FLOP", look)]
    if result.recomputed_flops:
        figures.append(figure("computed once more", result.recomputed_flops, "FLOP", look))
    run = result.run
    if run is not None:
        rate = f"{run.tokens_per_second:,.10g} tokens/s on {run.devices} × {run.device}"
        figures.append(Figure(look.text(f"MFU at {rate}"), f"{100 * run.utilisation:.1f} %", ""))
    for name, flops in result.rules_of_thumb.items():
        figures.append(figure(f"the same by the rule {name}", flops, "FLOP", look))
    return figures
