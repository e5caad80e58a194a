"""A request on a device: its least time, its greatest speed, and how much of it fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flopwise._results import Json, fields
from flopwise.analyses.llm.serving.serving import Floors, Serving
from flopwise.analyses.llm.stages.stage import Stage
from flopwise.analyses.llm.step import Step
from flopwise.analyses.timing.device import Roofline, assumptions, roofline

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device


class Request(Protocol):
    """The properties of a request that decide its time and memory on a device."""

    @property
    def media(self) -> Sequence[Stage]: ...
    @property
    def prefill(self) -> Step: ...
    @property
    def decode(self) -> Step | None: ...
    @property
    def generated_products(self) -> Mapping[tuple[str, ...], int]: ...
    @property
    def least_generated_bytes(self) -> int: ...


@dataclass(frozen=True)
class OnDevice:
    """A request on one device: bounds from the device's figures, nothing that was run."""

    device: str
    memory_bytes: int | None
    prefill: Roofline
    #: The first step after the prompt; None for an encoder alone.
    decode: Roofline | None
    #: All steps after the prompt together.
    generate: Roofline
    #: Tokens of all sequences for each second, at most.
    prefill_tokens_per_second: float | None
    decode_tokens_per_second: float | None
    #: Whether weights, cache and workspace of the request fit; None where the device's memory is not known.
    fits: bool | None
    #: Sequences of the same length that fit; and tokens of context that fit with the same batch, as many generated ones
    #: among them. None: not known, or no limit by memory.
    largest_batch: int | None
    largest_context: int | None
    #: What the times assume.
    notes: tuple[str, ...] = ()
    #: Encoders of images and sound.
    media: tuple[Roofline, ...] = ()

    @property
    def first_token_seconds(self) -> float:
        """The least time until the prompt is read: of images and sound, and of the prompt."""
        return sum(floor.seconds for floor in self.media) + self.prefill.seconds

    @property
    def request_seconds(self) -> float:
        """The least time of the whole request: images and sound, the prompt, and all steps after it."""
        return self.first_token_seconds + self.generate.seconds

    def to_dict(self) -> Json:
        """The key "device" of the JSON schema; times in whole nanoseconds, rounded up."""
        return {
            "name": self.device,
            **fields(self, "memory_bytes fits largest_batch largest_context"),
            **{
                name: None
                if bound is None
                else {
                    "least_ns": _nanoseconds(bound.seconds),
                    "roof": bound.roof,
                    "tokens_per_second": None if rate is None else math.ceil(rate),
                }
                for name, bound, rate in (
                    ("prefill", self.prefill, self.prefill_tokens_per_second),
                    ("decode", self.decode, self.decode_tokens_per_second),
                )
            },
            **(
                {"media": [{"least_ns": _nanoseconds(one.seconds), "roof": one.roof} for one in self.media]}
                if self.media
                else {}
            ),
            "generate": {"least_ns": _nanoseconds(self.generate.seconds), "roof": self.generate.roof},
            "request": {"least_ns": _nanoseconds(self.request_seconds)},
        }


def _nanoseconds(seconds: float) -> int:
    """Whole nanoseconds, rounded up."""
    return math.ceil(seconds * 1e9)


def on_device(result: Request, device: Device, serving: Serving | None = None) -> OnDevice:
    """The bounds of a request on a device.

    A step takes at least the time of the multiply-adds that its result needs, in the fastest arithmetic that the types
    of weights and state allow, and at least the time in which the weights that it touches and its state come from
    memory.

    Args:
        result: the request.
        device: the device.
        serving: what fits it; None where that is not known.
    """
    prefill, decode = _floor(result.prefill, device), None if result.decode is None else _floor(result.decode, device)
    return OnDevice(
        device=device.name,
        memory_bytes=device.capacity_bytes or None,
        prefill=prefill,
        decode=decode,
        generate=roofline(device, result.generated_products, result.least_generated_bytes),
        prefill_tokens_per_second=_rate(result.prefill, prefill),
        decode_tokens_per_second=None if result.decode is None or decode is None else _rate(result.decode, decode),
        fits=None if serving is None else serving.fits,
        largest_batch=None if serving is None else serving.max_sequences,
        largest_context=None if serving is None else serving.max_context,
        notes=tuple(_assumptions(result, device)),
        media=tuple(stage.floor(device) for stage in result.media),
    )


def _floor(step: Step, device: Device) -> Roofline:
    return roofline(device, step.products, step.least_bytes)


def _assumptions(result: Request, device: Device) -> list[str]:
    """In a line, what the floors assume."""
    prefill, decode = result.prefill, result.decode
    calls = [prefill, *(stage.cost for stage in result.media)]
    calls = calls if decode is None else [decode, *calls]
    products = {types: macs for call in calls for types, macs in call.products.items()}
    same = any(call.weights.least < call.weights.most for call in calls)
    experts = ["all tokens take the same experts"] if same else []
    assumed = [rewrite for call in reversed(calls) for rewrite in (*call.rewrites, *call.floors)]
    rewrites = dict.fromkeys((*assumed, *experts))
    return assumptions(products, device, rewrites=tuple(rewrites))


def _rate(step: Step, bound: Roofline) -> float | None:
    return step.tokens / bound.seconds if bound.seconds else None


def floors_of(bounds: OnDevice) -> Floors:
    """The floors of a request on one device."""
    decode = None if bounds.decode is None else bounds.decode.seconds
    return Floors(bounds.first_token_seconds, decode, bounds.decode_tokens_per_second)
