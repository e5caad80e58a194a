"""What fits a device: the parts of the memory add up, and the verdict follows from the device's own figure."""

from __future__ import annotations

from pathlib import Path

import pytest

import flopwise
from flopwise.errors import InputError
from flopwise.report.room import FlashRoom, parts_of_memory, room_for, verdict_on
from flopwise.storage.micro import micro_arena

TINY = Path(__file__).parents[2] / "examples" / "tiny_resnet.onnx"


@pytest.mark.parametrize("train", [False, True])
def test_the_parts_are_what_must_fit(train: bool) -> None:
    profile = flopwise.profile(TINY, train=train, optimizer="adam" if train else None)
    (device,) = flopwise.devices("rtx4090")
    room = room_for(profile, device)
    assert (room.memory_bytes, room.reported) == (device.capacity_bytes, device.reported is not None)
    if profile.training is None:
        assert profile.peak_activation_bytes is not None
        assert room.must_fit_bytes == profile.sum.weight_bytes + profile.peak_activation_bytes
    else:
        assert room.must_fit_bytes == profile.training.memory_bytes
    assert len(parts_of_memory(profile)) == (4 if train else 2)
    left = flopwise.memory(profile, device=device).room
    assert left is not None
    assert left.left_over_bytes == device.capacity_bytes - room.must_fit_bytes


def test_an_arena_lies_in_the_largest_bank_of_a_microcontroller_and_weights_in_its_flash() -> None:
    from tests.tflite_models import convolution

    profile = flopwise.profile(convolution("int8").bytes())
    arena = micro_arena(profile.graph)
    assert arena is not None
    (device,) = flopwise.devices("stm32h743")
    room = room_for(profile, device)
    assert isinstance(room, FlashRoom)
    assert (room.memory_bytes, room.must_fit_bytes) == (512 << 10, arena.size)
    assert (room.flash_bytes, room.stored_bytes) == (2 << 20, profile.sum.weight_bytes)
    assert room.fits
    said = verdict_on(room, parts_of_memory(profile))
    assert said == (
        "fits: STMicroelectronics STM32H743 (Cortex-M7), 256 B of activations in 524 kB of SRAM, "
        "800 B of weights in 2.10 MB of flash"
    )
    assert set(room.to_dict()) >= {"flash_bytes", "stored_bytes", "fits"}


def test_weights_may_not_fit_the_flash_although_activations_fit() -> None:
    profile = flopwise.profile(TINY)
    (chip,) = flopwise.devices("stm32f207")
    room = room_for(profile, chip)
    assert room.fits
    small = FlashRoom(chip.name, 1, chip.memory_bytes, room.must_fit_bytes, False, 100_000, profile.sum.weight_bytes)
    assert not small.fits
    assert verdict_on(small, []).startswith("does not fit: STMicroelectronics STM32F207")
    large = room_for(flopwise.profile(TINY, batch_size=4), chip)
    assert not large.fits
    with pytest.raises(InputError, match="nothing says what training takes on a microcontroller"):
        room_for(flopwise.profile(TINY, train=True), chip)


def test_microcontrollers_have_memory_with_a_source_and_no_rates() -> None:
    chips = [device for device in flopwise.devices() if device.kind == "mcu"]
    assert len(chips) == 10
    for chip in chips:
        assert chip.memory_bytes >= chip.bank_bytes
        assert chip.url.startswith("https://")
        assert not chip.peaks
        with pytest.raises(InputError, match=f"has no rates, so no time follows; flopwise memory --device {chip.id} "):
            flopwise.bound(TINY, device=chip)
