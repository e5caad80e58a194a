"""The memory that a model needs: the tensors alive at the peak, weights by type, and what training adds."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.errors import InputError
from flopwise.graph.names import layer_names
from flopwise.memory.liveness import Buffer, Liveness, liveness
from flopwise.memory.micro import MicroArena, micro_arena
from flopwise.memory.plan import ALIGNMENT, Place, Plan, plan_arena
from flopwise.operators.folding import weight_bytes_by_dtype
from flopwise.report.formats.json import parts_of, render_content
from flopwise.report.report import Report
from flopwise.report.sheet.columns import COLUMNS, cell, shapes_of
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import Field, Head, Look, Sheet, Value, bounded, figure

if TYPE_CHECKING:
    from flopwise.analyses.llm.training import Room
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile

#: Who makes a tensor that is there from the start, and who uses one that is there at the end.
CALLER = "(caller)"


@dataclass(frozen=True, eq=False)
class Memory:
    """Everything about the memory of one model."""

    profile: Profile
    lives: Liveness
    #: None when a size is missing.
    plan: Plan | None
    #: What is not known, and why.
    notes: tuple[str, ...] = ()
    #: Of a TensorFlow Lite model: the arena of the micro interpreter.
    micro: MicroArena | None = None
    #: The memory of the device that it is held against; None without one.
    room: Room | None = None

    @functools.cached_property
    def layers(self) -> list[str]:
        """A name for each operator, by its position in the graph."""
        return layer_names(self.profile.graph.nodes)

    def maker(self, buffer: Buffer) -> str:
        """The layer that makes a tensor."""
        return CALLER if buffer.maker is None else self.layers[buffer.maker]

    def user(self, buffer: Buffer) -> str:
        """The layer that uses a tensor last; "" when none does."""
        if buffer.kept:
            return CALLER
        return "" if buffer.user is None else self.layers[buffer.user]

    def step(self, step: int) -> str:
        """The layer that runs at a step; "start" before the first."""
        position = self.lives.steps[step]
        return "start" if position is None else self.layers[position]

    @property
    def at_peak(self) -> tuple[Buffer, ...]:
        """The tensors that are alive at the peak and take bytes, the largest first."""
        step = self.lives.peak_step
        return () if step is None else tuple(b for b in self.lives.alive_at(step) if b.nbytes)


def memory_of(
    profile: Profile, inplace: bool = False, alignment: int = ALIGNMENT, device: Device | None = None
) -> Memory:
    """The memory of a profiled model; for a profile with ``train``, that of a training step as well.

    Args:
        profile: the model.
        inplace: as in ``flopwise.memory.liveness``.
        alignment: as in ``flopwise.memory.plan_arena``.
        device: the device on which it is to fit.

    Raises:
        InputError: the alignment makes no sense, or nothing can be said about the device.
    """
    lives = liveness(profile.graph, inplace)
    plan = plan_arena(lives, alignment)
    notes = []
    if lives.missing:
        more = f" and {len(lives.missing) - 1} more" if len(lives.missing) > 1 else ""
        notes.append(f"unknown: live bytes, because of the unknown size of {lives.missing[0]!r}{more}")
    micro = micro_arena(profile.graph)
    if micro is not None:
        placed = f"; the file places {micro.offline} tensors itself" if micro.offline else ""
        notes.append(
            f"arena of the micro interpreter: by its greedy planner, without its records and scratch of kernels{placed}"
        )
    room = None
    if device is not None:
        from flopwise.report.room import WITHOUT, WITHOUT_PROGRAM, room_for

        room = room_for(profile, device)
        notes.append(WITHOUT_PROGRAM if device.kind == "mcu" else WITHOUT)
    return Memory(profile, lives, plan, tuple(notes), micro, room)


def memory_report(memory: Memory) -> Report:
    """The tensors alive at the peak and the figures of the whole model."""
    return Report(lambda format, look: [sheet(memory, look)], lambda: content(memory))


def sheet(memory: Memory, look: Look) -> Sheet:
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
        Field(Head("made_by", "produced by", "text", 3), memory.maker),
        Field(Head("last_used_by", "last used by", "text", 3), memory.user),
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


def content(memory: Memory) -> Json:
    """The JSON schema ``flopwise.memory/1``: every number an integer or null."""
    profile, lives, plan, training = memory.profile, memory.lives, memory.plan, memory.profile.training
    peak_step = lives.peak_step
    return {
        "schema": "flopwise.memory/1",
        **parts_of(profile, "model inputs"),
        "totals": {
            "weight_bytes": profile.sum.weight_bytes,
            "weight_bytes_by_dtype": weight_bytes_by_dtype(profile.graph),
            "output_bytes": profile.sum.output_bytes,
            "peak_activation_bytes": lives.peak,
            "arena_bytes": plan.size if plan else None,
            **({} if memory.micro is None else {"micro_arena_bytes": memory.micro.size}),
            "training": None
            if training is None
            else {
                "optimizer": training.optimizer.name if training.optimizer else None,
                **fields(training, "weight_bytes gradient_bytes state_bytes saved_bytes memory_bytes exact"),
            },
        },
        "peak_layer": None if peak_step is None else memory.step(peak_step),
        "alive": [_entry(memory, buffer) for buffer in memory.at_peak],
        "steps": [{"layer": memory.step(step), "bytes": alive} for step, alive in enumerate(lives.alive)],
        "coverage": {"unresolved": list(lives.missing)},
        "notes": list(memory.notes),
        **({} if memory.room is None else {"device": memory.room.to_dict()}),
    }


def _entry(memory: Memory, buffer: Buffer) -> Json:
    first = buffer.tensors[0]
    return {
        **fields(first, "name dtype"),
        "shape": None if first.shape is None else list(first.shape),
        "bytes": buffer.nbytes,
        "made_by": None if buffer.maker is None else memory.maker(buffer),
        "last_used_by": None if buffer.kept or buffer.user is None else memory.user(buffer),
        "shared_by": [t.name for t in buffer.tensors[1:]],
    }


def render_plan(memory: Memory) -> str:
    """The JSON schema ``flopwise.plan/1``: an offset for each activation in one block of ``arena_bytes``.

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
            **parts_of(memory.profile, "model inputs"),
            "arena_bytes": plan.size,
            "peak_activation_bytes": plan.bound,
            **fields(plan, "alignment order"),
            "steps": [memory.step(step) for step in range(len(memory.lives.steps))],
            "tensors": [_placed(place, memory) for place in plan.places],
        }
    )


def _placed(place: Place, memory: Memory) -> Json:
    buffer = place.buffer
    return {
        "name": buffer.name,
        "offset": place.offset,
        "bytes": buffer.nbytes,
        **fields(buffer, "first last"),
        "made_by": None if buffer.maker is None else memory.maker(buffer),
        "shared_by": [t.name for t in buffer.tensors[1:]],
    }
