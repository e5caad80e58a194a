"""What fits a device: the parts of the memory add up, and the verdict follows from the device's own figure."""

from __future__ import annotations

from pathlib import Path

import pytest

import flopwise
from flopwise.report.commands.memory import memory_of
from flopwise.report.room import parts_of_memory, room_for

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
    left = memory_of(profile, device=device).room
    assert left is not None
    assert left.left_over_bytes == device.capacity_bytes - room.must_fit_bytes
