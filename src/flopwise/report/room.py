"""The verdict on a device's memory: whether what a model keeps fits, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise.analyses.llm.serving.serving import capacity, gigabytes
from flopwise.analyses.llm.training import Room
from flopwise.errors import InputError
from flopwise.report.sheet.sheet import human
from flopwise.storage.micro import micro_arena

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile


@dataclass(frozen=True)
class FlashRoom(Room):
    """The memory of a microcontroller: activations lie in its SRAM, weights in its flash."""

    flash_bytes: int = 0
    stored_bytes: int = 0

    @property
    def fits(self) -> bool:
        """True if the activations fit the SRAM, and the weights the flash, where it has some of its own."""
        return self.left_over_bytes >= 0 and (not self.flash_bytes or self.stored_bytes <= self.flash_bytes)


#: What the verdict on a microcontroller leaves out.
WITHOUT_PROGRAM = "not included: the program, its stack, and what the interpreter allocates outside its arena"

#: What the verdict leaves out.
WITHOUT = "not included: kernel workspaces and memory that the allocator reserves"


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
        return [(profile.sum.weight_bytes, "weights"), (peak, "peak activations")]
    if not training.exact:
        raise InputError("--device: what the backward pass keeps is a lower bound, so nothing says that it fits")
    state = [] if training.optimizer is None else [(training.state_bytes or 0, f"{training.optimizer.name} state")]
    parts = [(training.weight_bytes, "weights"), (training.gradient_bytes, "gradients"), *state]
    return [*parts, (training.saved_bytes, "saved activations")]


def room_for(profile: Profile, device: Device) -> Room:
    """The memory of a device beside what a model keeps.

    Raises:
        InputError: one of the two is not known.
    """
    if not device.capacity_bytes:
        raise InputError(f"{device.name}: no figure of its memory is known")
    if device.kind == "mcu":
        return _flash_room(profile, device)
    need = sum(nbytes for nbytes, _ in parts_of_memory(profile))
    return Room(device.name, 1, device.capacity_bytes, need, device.reported is not None)


def _flash_room(profile: Profile, device: Device) -> FlashRoom:
    """The SRAM and flash of a microcontroller beside the arena of the micro interpreter, or the peak without one.

    Raises:
        InputError: no size is known, or the model is to be trained.
    """
    if profile.training is not None:
        raise InputError(f"{device.name}: nothing says what training takes on a microcontroller")
    arena = micro_arena(profile.graph)
    need = profile.peak_activation_bytes if arena is None else arena.size
    if need is None:
        raise InputError("--device: the peak of the activations is not known, as shapes are missing")
    have = device.bank_bytes or device.memory_bytes
    return FlashRoom(device.name, 1, have, need, False, device.flash_bytes, profile.sum.weight_bytes)


def _flash_verdict(room: FlashRoom) -> str:
    """The same of a microcontroller."""
    begins = "fits" if room.fits else "does not fit"
    kept = f"{human(room.must_fit_bytes, 'B')} of activations in {human(room.memory_bytes, 'B')} of SRAM"
    flash = f"{human(room.flash_bytes, 'B')} of flash" if room.flash_bytes else "flash beside the chip"
    return f"{begins}: {room.device}, {kept}, {human(room.stored_bytes, 'B')} of weights in {flash}"


def verdict_on(room: Room, parts: Sequence[tuple[int, str]]) -> str:
    """A line that begins with "fits" or "does not fit"."""
    if isinstance(room, FlashRoom):
        return _flash_verdict(room)
    device = f"{room.devices} x {room.device}, on each" if room.devices > 1 else f"{room.device},"
    *most, last = [f"{gigabytes(nbytes)} of {name}" for nbytes, name in parts]
    said = f"{', '.join(most)} and {last}" if most else last
    have = capacity(room.memory_bytes, room.reported)
    if room.fits:
        return f"fits: {device} {said} in {have}; {gigabytes(room.left_over_bytes)} free"
    return f"does not fit: {device} {gigabytes(room.must_fit_bytes)} of {have}, {said}"
