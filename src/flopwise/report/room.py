"""The verdict on a device's memory: whether what a model keeps fits, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.llm.serving.verdict import capacity, gigabytes
from flopwise.analyses.llm.training import Room
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile


#: What the verdict leaves out.
WITHOUT = "what fits is without workspaces of kernels and what an allocator keeps"


def parts_of_memory(profile: Profile) -> list[tuple[int, str]]:
    """Bytes and name of each part of what a model keeps: while it runs, or from a training step's forward pass on.

    Raises:
        InputError: a part is not known.
    """
    training = profile.training
    if training is None:
        peak = profile.peak_activation_bytes
        if peak is None:
            raise InputError("--device: the peak of the activations is not known, as shapes are missing")
        return [(profile.sum.weight_bytes, "weights"), (peak, "activations at their peak")]
    if not training.exact:
        raise InputError("--device: what the backward pass keeps is a lower bound, so nothing says that it fits")
    state = [] if training.optimizer is None else [(training.state_bytes or 0, f"state of {training.optimizer.name}")]
    parts = [(training.weight_bytes, "weights"), (training.gradient_bytes, "gradients"), *state]
    return [*parts, (training.saved_bytes, "activations kept for the backward pass")]


def room_for(profile: Profile, device: Device) -> Room:
    """The memory of a device beside what a model keeps.

    Raises:
        InputError: one of the two is not known.
    """
    if not device.capacity_bytes:
        raise InputError(f"{device.name}: no figure of its memory is known")
    need = sum(nbytes for nbytes, _ in parts_of_memory(profile))
    return Room(device.name, 1, device.capacity_bytes, need, device.reported is not None)


def verdict_on(room: Room, parts: Sequence[tuple[int, str]]) -> str:
    """A line that begins with "fits" or "does not fit"."""
    device = f"{room.devices} x {room.device}, on each" if room.devices > 1 else f"{room.device},"
    *most, last = [f"{gigabytes(nbytes)} of {name}" for nbytes, name in parts]
    said = f"{', '.join(most)} and {last}" if most else last
    have = capacity(room.memory_bytes, room.reported)
    if room.fits:
        return f"fits: {device} {said} in {have}; {gigabytes(room.left_over_bytes)} left over"
    return f"does not fit: {device} {gigabytes(room.must_fit_bytes)} of {have}, {said}"
