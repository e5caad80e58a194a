"""Splits of a request among devices: what each needs of a device, how fast it can be, and which is best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.llm.division import Split, refuse_experts
from flopwise.analyses.llm.serving.memory import Memory
from flopwise.analyses.llm.serving.serving import Engine, Floors, Serving, longest_context, usable
from flopwise.analyses.llm.serving.split import Divisible, Load, Stage, seconds
from flopwise.analyses.llm.speculation import with_draft
from flopwise.analyses.timing.device import roofline
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: Numbers of devices that are tried, in this order, for a model that does not fit one: within a board, then boards.
COUNTS = (*range(2, 9), 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)


def floors(request: Divisible, split: Split, stages: Sequence[Stage], device: Device, overlap: bool = True) -> Floors:
    """The least times of a request.

    The prompt passes the stages in pieces, so that the slowest one bounds it, and the weights of all of them are read
    one after another. In a step each stage works on its part of the sequences: a token passes all stages, and as many
    tokens as are in a part leave the slowest one. With a draft the last stage guesses, too, and times are of a token of
    a round on average.

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
    parts, mean = request.rounds(split), sum(times(stage.mean)[0] for stage in stages if stage.mean is not None)
    if request.draft is None:
        return Floors(prefill, sum(steps), request.batch * min(1 / sum(steps), 1 / (parts * max(steps))), mean)
    guess, tokens = request.draft.stage(request, split).decode, request.draft.tokens
    assert guess is not None
    steps[-1] += request.draft.guesses * times(guess)[0]
    rate = request.batch * tokens * min(1 / sum(steps), 1 / (parts * max(steps)))
    return Floors(prefill, sum(steps) / tokens, rate)


def placement(request: Divisible, engine: Engine, tokens: int, split: Split, device: Device) -> Serving:
    """Memory, batch, context and roofline times of a request on the devices of a split.

    Args:
        request: the request.
        engine: the settings of the engine.
        tokens: tokens of each sequence at the end.
        split: how it is divided.
        device: one of the devices.

    Raises:
        InputError: something does not divide, or memory is not known.
    """
    stages, workspace = request.stages(split), request.workspace(split)
    if workspace is None or not device.capacity_bytes:
        raise InputError(f"{device.name}: what {request.prefill.profile.graph.name} takes of its memory is not known")
    have, own = usable(device.capacity_bytes, engine.memory_fraction), request.sequences(split)
    memories = [Memory(one.weight_bytes, one.cache, workspace, *engine[2:]) for one in unlike(stages)]
    sent: float = max(_sent_bytes(stage, own, request.prompt) for stage in unlike(stages))
    if request.draft is not None:
        guessing, space = request.draft.stage(request, split), request.draft.request.workspace(Split(tp=split.tp))
        beside = Memory(guessing.weight_bytes, guessing.cache, space or workspace, *engine[2:])
        memories[-1] = with_draft(memories[-1], beside) or memories[-1]
        guess = request.draft.guesses * _sent_bytes(guessing, own, request.prompt)
        sent = math.ceil((sent + guess) / request.draft.tokens)
    batches = [n for memory in memories if (n := memory.most_sequences(tokens, have)) is not None]
    lengths = [n for memory in memories if (n := memory.most_tokens(own, have)) is not None]
    most = min(batches) * split.dp if batches else None
    full = request.with_batch(most) if most else None
    return Serving(
        max(memories, key=lambda memory: memory.must_fit_bytes(own, tokens)),
        engine,
        own,
        tokens,
        device.name,
        device.capacity_bytes,
        device.reported is not None,
        max_sequences=most,
        max_context=longest_context(request, tokens, min(lengths, default=None)),
        floors=floors(request, split, stages, device),
        split=split,
        communication_bytes_per_token=int(sent),
        floors_apart=floors(request, split, stages, device, overlap=False),
        most_tokens_per_second=floors(full, split, full.stages(split), device).tokens_per_second if full else None,
    )


def unlike(stages: Sequence[Stage]) -> list[Stage]:
    """The stages of which others are no copies."""
    return list({id(stage): stage for stage in stages}.values())


def _sent_bytes(stage: Stage, sequences: int, prompt: int) -> int:
    """Bytes that a device of a stage sends for each token, rounded up: of a decode step, or of an encoder's prompt."""
    load, tokens = (stage.decode, sequences) if stage.decode is not None else (stage.prefill, sequences * prompt)
    return -(-sum(load.sent_bytes.values()) // tokens)


def splits(devices: int, experts: int = 0, ways: Mapping[str, int] | None = None) -> Iterator[Split]:
    """Every split (tp, pp, ep, cp, dp) among a number of devices; experts are divided among those that share a product.

    Args:
        devices: how many.
        experts: experts of a layer; 0 for none.
        ways: the degrees that are fixed, by name ("tp", "pp", "ep", "cp", "dp").

    >>> [str(split) for split in splits(2, experts=8)]
    ['dp 2', 'ep 2 × dp 2', 'pp 2', 'tp 2', 'tp 2 × ep 2']
    """
    fixed = ways or {}
    cp = fixed.get("cp", 1)
    for tp in _divisors(devices):
        for pp in _divisors(devices // tp):
            rest = devices // tp // pp
            if rest % cp:
                continue
            for ep in _divisors(rest * tp):
                split = Split(tp, pp, ep, cp, rest // cp)
                shared = ep == 1 or (
                    experts % ep == 0 < experts
                    and split.stage % split.sharers == 0
                    and (split.exchanges or ep == tp or ep == fixed.get("ep"))
                )
                if shared and all(getattr(split, way) == n for way, n in fixed.items()):
                    yield split


def _divisors(number: int) -> list[int]:
    """All divisors in ascending order."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def placements(
    request: Divisible,
    engine: Engine,
    tokens: int,
    devices: int,
    device: Device,
    ways: Mapping[str, int] | None = None,
) -> list[Serving]:
    """A request on every split of a number of devices that divides the model: those that fit first, then the fastest.

    Args:
        request: the request.
        engine: the settings of the engine.
        tokens: tokens of each sequence at the end.
        devices: how many.
        device: one of them.
        ways: the degrees that are fixed, by name ("tp", "pp", "ep", "cp", "dp").

    Raises:
        InputError: no split divides it.
    """
    each, why = [], ""
    asked = ways or {}
    refuse_experts(request.whole.experts, asked.get("ep", 1))
    for split in splits(devices, request.experts, ways):
        try:
            each.append(placement(request, engine, tokens, split, device))
        except InputError as error:
            why = str(error)
    if not each:
        named = ", ".join(f"{way} {n}" for way, n in asked.items())
        together = math.prod(n for way, n in asked.items() if way != "ep")
        rest = f", as {together} does not divide {devices}" if devices % together else ""
        raise InputError(why or f"{devices} devices: no split of them has {named}{rest}")
    return sorted(each, key=lambda one: (not one.fits, *_times(one)))


def _times(one: Serving) -> tuple[float, float]:
    """A sort key: seconds of a decode step at the roofline, then of the prefill."""
    assert one.floors is not None
    return one.floors.decode_seconds or 0.0, one.floors.prefill_seconds


def splits_on_fewest_devices(request: Divisible, engine: Engine, tokens: int, device: Device) -> list[Serving]:
    """All splits of a request among the fewest devices that hold it, those that fit first, then the fastest.

    Only the numbers in ``COUNTS`` are tried; the result is empty if the request fits none of them.

    Args:
        request: the request.
        engine: the settings of the engine.
        tokens: tokens of each sequence at the end.
        device: one of the devices.
    """
    whole = sum(stage.weight_bytes for stage in request.stages(Split()))
    for devices in COUNTS:
        if devices * usable(device.capacity_bytes, engine.memory_fraction) < whole:
            continue
        try:
            each = placements(request, engine, tokens, devices, device)
        except InputError:
            continue
        if each[0].fits:
            return each
    return []


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
