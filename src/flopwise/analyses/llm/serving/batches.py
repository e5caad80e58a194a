"""Latency and throughput of a request's steps by how many sequences are in a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.llm.serving.floors import floors
from flopwise.analyses.llm.serving.serving import Serving
from flopwise.analyses.llm.serving.split import Divisible

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: Sequences beyond which a curve shows nothing new.
MOST = 1 << 16


@dataclass(frozen=True)
class Batch:
    """The floors of a step of so many sequences, on all devices."""

    sequences: int
    decode_seconds: float
    #: Of all sequences together.
    tokens_per_second: float

    def to_dict(self) -> Json:
        """An entry of the key "batches" of ``flopwise.llm/1``."""
        return {
            "sequences": self.sequences,
            "decode_ns": math.ceil(self.decode_seconds * 1e9),
            "tokens_per_s": math.ceil(self.tokens_per_second),
        }


def batches(request: Divisible, serving: Serving, device: Device) -> tuple[Batch, ...]:
    """The floors of steps of more and more sequences, up to as many as fit; empty without steps.

    Args:
        request: the request, for any split.
        serving: where it runs.
        device: one of the devices.
    """
    most = min(serving.max_sequences or 0, MOST)
    counts = sorted({1 << n for n in range(most.bit_length())} | {most}) if most else []
    each = []
    for count in counts:
        one = request.with_batch(count)
        least = floors(one, serving.split, one.stages(serving.split), device)
        if least.decode_seconds and least.tokens_per_second:
            each.append(Batch(count, least.decode_seconds, least.tokens_per_second))
    return tuple(each)
