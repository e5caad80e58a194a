"""What a request takes on a device at least, how fast it can be at most, and how much of it fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flopwise.analyses.llm.step import Step
from flopwise.analyses.timing.roofline import Roofline, roofline

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device


class Request(Protocol):
    """What a request is, as far as its time and memory on a device hang on it."""

    @property
    def dtype(self) -> str: ...
    @property
    def prefill(self) -> Step: ...
    @property
    def decode(self) -> Step: ...
    @property
    def memory_bytes(self) -> int | None: ...
    @property
    def generated_macs(self) -> int: ...
    @property
    def generated_bytes(self) -> int: ...


@dataclass(frozen=True)
class OnDevice:
    """A request on one device: bounds from the device's figures, nothing that was run."""

    device: str
    memory_bytes: int | None
    prefill: Roofline
    decode: Roofline
    #: All steps after the prompt together.
    generate: Roofline
    #: Tokens of all sequences for each second, at most.
    prefill_tokens_per_second: float | None
    decode_tokens_per_second: float | None
    #: Whether weights, cache and activations of the request fit; None where the device's memory is not known.
    fits: bool | None
    #: Sequences of the same length that fit; and tokens of context that fit with the same batch, as many generated ones
    #: among them. None: not known, or no limit by memory.
    largest_batch: int | None
    largest_context: int | None

    @property
    def request_seconds(self) -> float:
        """The least time of the whole request: the prompt, and all steps after it."""
        return self.prefill.seconds + self.generate.seconds

    def to_dict(self) -> dict[str, Any]:
        """The key "device" of the JSON schema; times in whole nanoseconds, rounded up."""
        return {
            "name": self.device,
            "memory_bytes": self.memory_bytes,
            "fits": self.fits,
            "largest_batch": self.largest_batch,
            "largest_context": self.largest_context,
            **{
                name: {
                    "least_ns": _nanoseconds(bound.seconds),
                    "roof": bound.roof,
                    "tokens_per_second": None if rate is None else int(rate),
                }
                for name, bound, rate in (
                    ("prefill", self.prefill, self.prefill_tokens_per_second),
                    ("decode", self.decode, self.decode_tokens_per_second),
                )
            },
            "generate": {"least_ns": _nanoseconds(self.generate.seconds), "roof": self.generate.roof},
            "request": {"least_ns": _nanoseconds(self.request_seconds)},
        }


def _nanoseconds(seconds: float) -> int:
    """Whole nanoseconds, rounded up."""
    return math.ceil(seconds * 1e9)


def on_device(result: Request, device: Device, largest: tuple[int | None, int | None] = (None, None)) -> OnDevice:
    """The bounds of a request on a device.

    A step takes at least the time of its multiply-adds at the peak of the weights' type, and at least the time in which
    the weights that it touches and its state come from memory.

    Args:
        result: the request.
        device: the device.
        largest: the most sequences, and the longest context, that fit.
    """
    prefill, decode = (_bound(step, device, result.dtype) for step in (result.prefill, result.decode))
    need, have = result.memory_bytes, device.memory_bytes or None
    return OnDevice(
        device=device.name,
        memory_bytes=have,
        prefill=prefill,
        decode=decode,
        generate=roofline(device, macs=result.generated_macs, nbytes=result.generated_bytes, dtype=result.dtype),
        prefill_tokens_per_second=_rate(result.prefill, prefill),
        decode_tokens_per_second=_rate(result.decode, decode),
        fits=None if have is None or need is None else need <= have,
        largest_batch=largest[0],
        largest_context=largest[1],
    )


def _bound(step: Step, device: Device, dtype: str) -> Roofline:
    return roofline(device, macs=step.macs, nbytes=step.bytes, dtype=dtype)


def _rate(step: Step, bound: Roofline) -> float | None:
    return step.tokens / bound.seconds if bound.seconds else None
