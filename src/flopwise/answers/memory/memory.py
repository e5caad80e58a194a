"""The memory that a model needs: the tensors alive at the peak, weights by type, and what training adds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise._results import Json, Printed, fields
from flopwise.graph.names import layer_names
from flopwise.operators.folding import weight_bytes_by_dtype
from flopwise.storage.liveness import Buffer, Liveness, liveness
from flopwise.storage.micro import MicroArena, micro_arena
from flopwise.storage.plan import ALIGNMENT, Plan, plan_arena

if TYPE_CHECKING:
    from flopwise.analyses.llm.training import Room
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile


@dataclass(frozen=True, eq=False)
class Memory(Printed):
    """The memory of one model: what is alive when, a plan of the activations, and whether it fits a device."""

    profile: Profile
    #: When each activation is alive, and how many bytes are alive at each step.
    lives: Liveness
    #: Offsets of all activations in one block; None when a size is missing.
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

    def layer(self, position: int | None) -> str | None:
        """The name of the operator at a position; None for none."""
        return None if position is None else self.layers[position]

    def user(self, buffer: Buffer) -> str | None:
        """The layer that uses a tensor last; None where none does, or the caller has it afterwards."""
        return None if buffer.kept else self.layer(buffer.user)

    def step(self, step: int) -> str:
        """The layer that runs at a step; "start" before the first."""
        return self.layer(self.lives.steps[step]) or "start"

    @property
    def at_peak(self) -> tuple[Buffer, ...]:
        """The tensors that are alive at the peak and take bytes, the largest first."""
        step = self.lives.peak_step
        return () if step is None else tuple(b for b in self.lives.alive_at(step) if b.nbytes)

    def to_dict(self) -> Json:
        """The JSON document ``flopwise.memory/1``: every number an integer or null."""
        profile, lives, training = self.profile, self.lives, self.profile.training
        return {
            "schema": "flopwise.memory/1",
            **self.about(),
            "totals": {
                "weight_bytes": profile.sum.weight_bytes,
                "weight_bytes_by_dtype": weight_bytes_by_dtype(profile.graph),
                "output_bytes": profile.sum.output_bytes,
                "peak_activation_bytes": lives.peak,
                "arena_bytes": self.plan.size if self.plan else None,
                **({} if self.micro is None else {"micro_arena_bytes": self.micro.size}),
                "training": None
                if training is None
                else {
                    "optimizer": training.optimizer.name if training.optimizer else None,
                    **fields(training, "weight_bytes gradient_bytes state_bytes saved_bytes memory_bytes exact"),
                },
            },
            "peak_layer": None if lives.peak_step is None else self.step(lives.peak_step),
            "alive": [
                {
                    **fields(buffer.tensors[0], "name dtype"),
                    "shape": None if (shape := buffer.tensors[0].shape) is None else list(shape),
                    "bytes": buffer.nbytes,
                    "made_by": self.layer(buffer.maker),
                    "last_used_by": self.user(buffer),
                    "shared_by": [t.name for t in buffer.tensors[1:]],
                }
                for buffer in self.at_peak
            ],
            "steps": [{"layer": self.step(step), "bytes": alive} for step, alive in enumerate(lives.alive)],
            "coverage": {"unresolved": list(lives.missing)},
            "notes": list(self.notes),
            **({} if self.room is None else {"device": self.room.to_dict()}),
        }

    def about(self) -> Json:
        """The model and its inputs for a JSON document."""
        plain = self.profile.to_dict()
        return {key: plain[key] for key in ("model", "inputs")}


@checked
def memory(
    model: object,
    inputs: object = None,
    *,
    inplace: bool = False,
    align: int = ALIGNMENT,
    device: str | Device | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **keywords: Any,
) -> Memory:
    """Memory of a model: weights by type, activations, the most bytes alive at once, and the tensors alive then.

    Beside the peak stands the size of one block of memory (an arena) that holds all activations, planned so that
    tensors alive at the same time do not overlap. For a training step: gradients, the optimizer's state and what is
    saved for the backward pass.

    Args:
        model: as in ``flopwise.profile``, or a Profile.
        inputs: as in ``flopwise.profile``.
        inplace: let element-wise operators overwrite inputs that are not needed any more.
        align: alignment of the offsets in bytes.
        device: the device, or its name, whose memory the model is held against.
        progress: called with the name of each step.
        keywords: further arguments of ``flopwise.profile`` (``dims``, ``train`` ...).

    Raises:
        ModelError: the model cannot be read.
        InputError: the alignment makes no sense, or nothing can be said about the device.
    """
    from flopwise.api.profile import given_profile, profile
    from flopwise.profiles.profile import Profile

    if isinstance(model, Profile):
        counted = given_profile(model, {"inputs": inputs, **keywords})
    else:
        counted = profile(model, inputs, progress=progress, **keywords)
    lives = liveness(counted.graph, inplace)
    plan, micro, room, notes = plan_arena(lives, align), micro_arena(counted.graph), None, []
    if lives.missing:
        more = f" and {len(lives.missing) - 1} more" if len(lives.missing) > 1 else ""
        notes.append(f"unknown: live bytes, because of the unknown size of {lives.missing[0]!r}{more}")
    if micro is not None:
        placed = f"; the file places {micro.offline} tensors itself" if micro.offline else ""
        notes.append(
            f"arena of the micro interpreter: by its greedy planner, without its records and scratch of kernels{placed}"
        )
    if device is not None:
        from flopwise.analyses.timing import machine
        from flopwise.report.room import WITHOUT, WITHOUT_PROGRAM, room_for

        named = machine.named(device) if isinstance(device, str) else device
        room = room_for(counted, named)
        notes.append(WITHOUT_PROGRAM if named.kind == "mcu" else WITHOUT)
    return Memory(counted, lives, plan, tuple(notes), micro, room)
