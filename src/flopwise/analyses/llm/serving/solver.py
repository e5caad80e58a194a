"""Splits of a request among devices: what each needs of a device, how fast it can be, and which is best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from flopwise.analyses.llm.serving.floors import floors
from flopwise.analyses.llm.serving.memory import Memory
from flopwise.analyses.llm.serving.serving import Engine, Serving, longest_context, usable
from flopwise.analyses.llm.serving.split import Divisible, Stage
from flopwise.analyses.llm.serving.ways import Split
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: Numbers of devices that are tried, in this order, for a model that does not fit one: within a board, then boards.
COUNTS = (*range(2, 9), 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)


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
    memories = [Memory(stage.weight_bytes, stage.cache, workspace, *engine[2:]) for stage in stages]
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
        communication_bytes_per_token=max(_sent_bytes(stage, own, request.prompt) for stage in stages),
        floors_apart=floors(request, split, stages, device, overlap=False),
        most_tokens_per_second=floors(full, split, full.stages(split), device).tokens_per_second if full else None,
    )


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
    for split in splits(devices, request.experts, ways):
        try:
            each.append(placement(request, engine, tokens, split, device))
        except InputError as error:
            why = str(error)
    if not each:
        asked = ", ".join(f"{way} {n}" for way, n in (ways or {}).items())
        raise InputError(why or f"{devices} devices: no split of them has {asked}")
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
