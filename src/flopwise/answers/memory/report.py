"""The memory of a model as a table: the tensors alive at the peak, and the figures of the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise._results import fields
from flopwise.answers.memory.memory import Memory
from flopwise.errors import InputError
from flopwise.operators.folding import weight_bytes_by_dtype
from flopwise.report.commands.batches import figures_in_batches
from flopwise.report.formats.json import render_content
from flopwise.report.report import Report
from flopwise.report.sheet.columns import COLUMNS, cell, shapes_of
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import Field, Head, Look, Sheet, Value, bounded, figure
from flopwise.storage.liveness import Buffer

if TYPE_CHECKING:
    from flopwise.analyses.llm.training import Room
    from flopwise.profiles.profile import Profile

#: Who makes a tensor that is there from the start, and who uses one that is there at the end.
CALLER = "(caller)"


def memory_report(memory: Memory) -> Report:
    """The tensors alive at the peak and the figures of the whole model."""
    return Report(lambda format, look: [_sheet(memory, look)], memory.to_dict)


def _sheet(memory: Memory, look: Look) -> Sheet:
    """One line for each tensor that is alive at the peak; the total is the peak."""
    peak, profile, step = memory.lives.peak, memory.profile, memory.lives.peak_step
    when = () if step is None else (look.text(f"alive at the peak, at {memory.step(step)}:"),)
    columns: tuple[Field[Buffer], ...] = (
        Field(Head("name", "tensor", "text", 0), lambda b: b.tensors[0].name, total="" if peak is None else "Total"),
        Field(Head("shape", "shape", "shapes", 2), lambda b: shapes_of(b.tensors[0])),
        Field(Head("dtype", "dtype", "text", 6), lambda b: b.tensors[0].dtype or "?"),
        Field(Head("bytes", "bytes", "bytes", 1), lambda b: b.nbytes, total="" if peak is None else peak),
        Field(
            Head("share", "% of peak", "percent", 4),
            lambda b: 100 * b.nbytes / (peak or 1),
            total="" if peak is None else 100.0 if peak else 0.0,
        ),
        Field(Head("made_by", "produced by", "text", 3), lambda b: memory.layer(b.maker) or CALLER),
        Field(Head("last_used_by", "last used by", "text", 3), lambda b: CALLER if b.kept else memory.user(b) or ""),
        Field(Head("shared_by", "shared by", "text", 7), lambda b: ", ".join(t.name for t in b.tensors[1:])),
    )
    return Sheet.of(
        columns,
        memory.at_peak,
        verdict=look.text(verdict(profile, memory.room)),
        about=(*about(profile, look, counted=False), *when),
        summary=tuple(figure(title, value, "B", look) for _, title, value in totals(memory)),
        notes=look.texts([*memory.notes, *profile.notes]),
        skip_empty=True,
    )


def verdict(profile: Profile, room: Room | None) -> str:
    """The line that says whether a model fits a device; "" without one."""
    if room is None:
        return ""
    from flopwise.report.room import parts_of_memory, verdict_on

    return verdict_on(room, parts_of_memory(profile))


def totals(memory: Memory) -> list[tuple[str, str, Value]]:
    """Weights by type, activations, their peak, the arena and what training keeps: key, title, bytes."""
    profile, plan, training = memory.profile, memory.plan, memory.profile.training
    by_dtype = weight_bytes_by_dtype(profile.graph)
    rows: list[tuple[str, str, Value]] = [
        ("weight_bytes", "weight bytes", cell(COLUMNS["weight_bytes"], profile.sum, profile))
    ]
    rows += [(f"weight_bytes.{dtype}", f"  {dtype}", value) for dtype, value in by_dtype.items() if len(by_dtype) > 1]
    rows += [
        ("output_bytes", "all activation bytes", cell(COLUMNS["output_bytes"], profile.sum, profile)),
        ("peak_activation_bytes", "peak activation bytes", memory.lives.peak),
        ("arena_bytes", "arena bytes", plan.size if plan else None),
    ]
    if memory.micro is not None:
        rows.append(("micro_arena_bytes", "arena bytes (micro interpreter)", memory.micro.size))
    if training is not None:
        name = training.optimizer.name if training.optimizer else "no optimizer"
        rows += [
            ("gradient_bytes", "gradient bytes", training.gradient_bytes),
            ("state_bytes", f"optimizer state bytes ({name})", training.state_bytes if training.optimizer else 0),
            ("saved_bytes", "saved for the backward pass", bounded(training.saved_bytes, training.exact)),
            ("memory_bytes", "training memory bytes", bounded(training.memory_bytes, training.exact)),
        ]
    if memory.room is not None:
        rows.append(("left_over_bytes", f"free on {memory.room.device}", memory.room.left_over_bytes))
    return rows


def memory_batches_report(memories: Sequence[Memory], sizes: Sequence[int]) -> Report:
    """A line for each figure of a model's memory and a column for each batch size; as JSON a list of reports."""
    figures = [
        (same[0][0], same[0][1], [value for _, _, value in same]) for same in zip(*map(totals, memories), strict=True)
    ]
    notes = [note for memory in memories for note in (*memory.notes, *memory.profile.notes)]
    profiles = [memory.profile for memory in memories]
    return figures_in_batches(profiles, sizes, figures, notes, "bytes", lambda: [m.to_dict() for m in memories])


def plan_text(memory: Memory) -> str:
    """The JSON document ``flopwise.plan/1``: an offset for each activation in one block of ``arena_bytes``.

    A tensor lies there from step ``first`` to step ``last``, both included; "steps" names the layer of each. What
    shares its storage is listed with it. Stored tensors are not part of the plan.

    Raises:
        InputError: there is no plan.
    """
    plan = memory.plan
    if plan is None:
        raise InputError(f"there is no plan of the activations; {memory.notes[0]}")
    return render_content(
        {
            "schema": "flopwise.plan/1",
            **memory.about(),
            "arena_bytes": plan.size,
            "peak_activation_bytes": plan.bound,
            **fields(plan, "alignment order"),
            "steps": [memory.step(step) for step in range(len(memory.lives.steps))],
            "tensors": [
                {
                    "name": place.buffer.name,
                    "offset": place.offset,
                    "bytes": place.buffer.nbytes,
                    **fields(place.buffer, "first last"),
                    "made_by": memory.layer(place.buffer.maker),
                    "shared_by": [t.name for t in place.buffer.tensors[1:]],
                }
                for place in plan.places
            ],
        }
    )
