"""The time of a serving engine, minute by minute, beside the least time that its devices need for the same work."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from flopwise._results import Json, Printed, fields
from flopwise.analyses.llm.serving.log import NO_YEAR, Log, Work
from flopwise.analyses.timing.device import Roof, roofline
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.timing.device import Device

_MINUTE = datetime.timedelta(minutes=1)


@dataclass(frozen=True)
class Stretch:
    """A minute of an engine, or all of its time."""

    #: The time at which it begins; "all" of the whole.
    name: str
    seconds: float
    prompt_tokens: int
    generated_tokens: int
    #: Sequences at work, on average over the generated tokens; None where there are none.
    sequences: float | None
    #: Multiply-accumulates that the work needs, and bytes that it must read.
    macs: int
    nbytes: int
    #: The least time of both on the devices, and which of them takes it.
    floor_seconds: float
    roof: Roof

    @property
    def share(self) -> float:
        """Roofline time / time that the engine took; 0 where it took none."""
        return self.floor_seconds / self.seconds if self.seconds else 0.0

    def to_dict(self) -> Json:
        """The stretch as an entry of ``flopwise.llm-log/1``; times in whole nanoseconds."""
        return {
            "name": self.name,
            "ns": round(self.seconds * 1e9),
            **fields(self, "prompt_tokens generated_tokens"),
            "sequences": None if self.sequences is None else round(self.sequences, 2),
            "needed_macs": self.macs,
            "bytes": self.nbytes,
            "least_ns": math.ceil(self.floor_seconds * 1e9),
            "roof": self.roof,
            "of_floor": round(self.share, 6),
        }


@dataclass(frozen=True)
class Achieved(Printed):
    """The time of a serving engine beside the roofline time (floor) of its work, for each minute and in all."""

    name: str
    source: str
    dtype: str
    engine: str
    device: str
    devices: int
    prompt: int
    generate: int
    minutes: tuple[Stretch, ...]
    whole: Stretch
    notes: tuple[str, ...] = ()

    def to_dict(self) -> Json:
        """The result in the JSON schema ``flopwise.llm-log/1``."""
        return {
            "schema": "flopwise.llm-log/1",
            "model": {"name": self.name, "source": self.source, "dtype": self.dtype},
            **fields(self, "engine device devices prompt generate"),
            "minutes": [minute.to_dict() for minute in self.minutes],
            "whole": self.whole.to_dict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Costs:
    """Multiply-accumulates and bytes of a request of one sequence, for a token on average over its length."""

    #: Multiply-accumulates of a token by the element types that they multiply.
    prompt: Mapping[tuple[str, ...], Fraction]
    generated: Mapping[tuple[str, ...], Fraction]
    #: Bytes of weights that a step reads, whatever its sequences, and of the state of one of them.
    weights: int
    state: Fraction
    #: Tokens of a step at most.
    batched: int


def _costs(request: Inference, batched: int) -> _Costs:
    """The costs of one token of the prompt and of one that is generated, from a request of one sequence.

    Raises:
        InputError: the model generates nothing.
    """
    step = request.decode
    if step is None or not request.generate:
        raise InputError(f"{request.name} generates no tokens, of which a serving engine's log speaks")
    per_step = Fraction(request.least_generated_bytes, request.generate)
    return _Costs(
        {types: Fraction(macs, request.prompt) for types, macs in request.prefill.products.items()},
        {types: Fraction(macs, request.generate) for types, macs in request.generated_products.items()},
        step.weights.least,
        max(per_step - step.weights.least, Fraction(0)),
        batched,
    )


def compare_with_floor(log: Log, request: Inference, device: Device, devices: int, batched: int) -> Achieved:
    """The work of a serving engine in each minute of its log, beside the roofline time of that work on its devices.

    Args:
        log: prompt and generated tokens that the engine states for each interval.
        request: a request of one sequence, with the average lengths of the log's prompts and answers.
        device: one of the devices.
        devices: how many serve the model together, in whatever split: the roofline time has no communication.
        batched: tokens that a step takes at most (``max_num_batched_tokens``).

    Raises:
        InputError: the model generates nothing.
    """
    costs = _costs(request, batched)
    by_minute: dict[datetime.datetime, list[Work]] = {}
    for work in log.works:
        minute = work.begin.replace(second=0, microsecond=0)
        while minute < work.end or minute <= work.begin:
            by_minute.setdefault(minute, []).append(work.part(minute, minute + _MINUTE))
            minute += _MINUTE
    end = max(work.end for work in log.works)
    minutes = []
    for minute, works in sorted(by_minute.items()):
        first, last = max(minute, log.begin), min(minute + _MINUTE, end)
        seconds = (last - first).total_seconds() or 1.0
        minutes.append(_stretch(_name(minute, log), seconds, works, costs, device, devices))
    seconds = sum(minute.seconds for minute in minutes)
    whole = _stretch("all", seconds, log.works, costs, device, devices)
    return Achieved(
        name=request.name,
        source=request.source,
        dtype=request.dtype,
        engine=log.engine,
        device=device.name,
        devices=devices,
        prompt=request.prompt,
        generate=request.generate,
        minutes=tuple(minutes),
        whole=whole,
        notes=(*log.notes, *_notes(log, request, batched), *_doubts(whole)),
    )


def _name(minute: datetime.datetime, log: Log) -> str:
    """A minute as text: with the date where the log has dates, with the year where it has years."""
    return minute.strftime("%H:%M" if not log.dated else "%m-%d %H:%M" if minute.year == NO_YEAR else "%Y-%m-%d %H:%M")


def _stretch(name: str, seconds: float, works: Sequence[Work], costs: _Costs, device: Device, devices: int) -> Stretch:
    """Some work of the engine and its roofline time: multiplying, or reading weights and states if that is longer.

    Args:
        name: of the stretch, for a line of the report.
        seconds: how long the engine took.
        works: the work in that time.
        costs: of one token.
        device: one of the devices.
        devices: how many share the work.
    """
    prompt, generated = sum(work.prompt for work in works), sum(work.generated for work in works)
    passes = sum(work.generated / work.accepted for work in works)
    steps = sum(work.generated / work.accepted / max(work.running, 1) for work in works)
    products: dict[tuple[str, ...], float] = {}
    for tokens, each in ((prompt, costs.prompt), (generated, costs.generated)):
        for types, macs in each.items():
            products[types] = products.get(types, 0.0) + tokens * float(macs)
    nbytes = max(steps, prompt / costs.batched) * costs.weights + passes * float(costs.state)
    bound = roofline(device, products, nbytes)
    return Stretch(
        name,
        seconds,
        round(prompt),
        round(generated),
        generated / steps if steps else None,
        round(sum(products.values())),
        round(nbytes),
        bound.seconds / devices,
        bound.roof,
    )


def _notes(log: Log, request: Inference, batched: int) -> Iterator[str]:
    """Notes on what the floor assumes."""
    yield (
        f"each sequence counts as {request.prompt:,} tokens of prompt and {request.generate:,} after it "
        "(--prompt, --generate)"
    )
    if log.prompt_length is not None and not 0.8 < log.prompt_length / request.prompt < 1.25:
        length = round(log.prompt_length)
        yield f"the log's prompts have {length:,} tokens on average: give --prompt {length}"
    yield (
        f"a step takes a token of each sequence and at most {batched:,} tokens; weights are read once in each, "
        "by all devices together, without communication; prompt tokens are those that the engine states"
    )


def _doubts(whole: Stretch) -> Iterator[str]:
    """A warning if the work takes longer than its time even at the roofline."""
    if whole.share > 1.001:
        yield "the work needs more time than there was: model, types, lengths or devices are not those that ran"
