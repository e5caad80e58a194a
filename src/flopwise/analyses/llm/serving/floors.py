"""The least times of a request that is divided among devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.llm.serving.communication import seconds
from flopwise.analyses.llm.serving.serving import Floors
from flopwise.analyses.llm.serving.split import Divisible, Load, Stage
from flopwise.analyses.llm.serving.ways import Split
from flopwise.analyses.timing.roofline import roofline

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device


def floors(request: Divisible, split: Split, stages: Sequence[Stage], device: Device, overlap: bool = True) -> Floors:
    """The least times of a request.

    The prompt passes the stages in pieces, so that the slowest one bounds it, and the weights of all of them are read
    one after another. In a step each stage works on its part of the sequences: a token passes all stages, and as many
    tokens as are in a part leave the slowest one.

    Args:
        request: the request.
        split: how it is divided.
        stages: its stages.
        device: one of the devices.
        overlap: whether devices compute while they send.
    """

    def times(load: Load) -> tuple[float, float]:
        bound = roofline(device, {types: float(macs) for types, macs in load.products.items()}, load.read_bytes)
        sending = seconds(split, load.sent_bytes, device) or 0.0
        return max(bound.seconds, sending) if overlap else bound.seconds + sending, bound.memory_seconds or 0.0

    prompts = [times(stage.prefill) for stage in stages]
    prefill = max(*(whole for whole, _ in prompts), sum(memory for _, memory in prompts))
    steps = [times(stage.round)[0] for stage in stages if stage.round is not None]
    if not sum(steps):
        return Floors(prefill, None, None)
    parts = request.rounds(split)
    mean = sum(times(stage.mean)[0] for stage in stages if stage.mean is not None)
    return Floors(prefill, sum(steps), request.batch * min(1 / sum(steps), 1 / (parts * max(steps))), mean)
