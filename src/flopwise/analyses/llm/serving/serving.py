"""A request on a serving engine: what must fit each device, how much of it does, and the verdict in a line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

from flopwise._results import Json, fields
from flopwise.analyses.llm.division import WAYS, Split
from flopwise.analyses.llm.serving.memory import Memory
from flopwise.analyses.llm.serving.pool import Pool, pool_of
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device


class Engine(NamedTuple):
    """The settings of a serving engine, by the names and with the defaults of vLLM."""

    #: Tokens of a step at most: longer prompts go through in chunks.
    max_batched_tokens: int = 8192
    #: The part of a device's memory that the engine may use.
    memory_fraction: float = 0.9
    #: Tokens of a block of the cache.
    block_size: int = 16
    #: Tokens of a prefix that all sequences share.
    shared_prefix: int = 0

    def check(self) -> None:
        """Refuse settings out of range.

        Raises:
            InputError: a number is less than 1, the prefix less than 0, or the fraction not above 0 and at most 1.
        """
        for name, least in (("max_batched_tokens", 1), ("block_size", 1), ("shared_prefix", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} {getattr(self, name)}: must be at least {least}")
        if not 0 < self.memory_fraction <= 1:
            raise InputError(f"memory_fraction {self.memory_fraction:g}: must be above 0 and at most 1")


@dataclass(frozen=True)
class Floors:
    """Least times on the devices, and the greatest speed."""

    prefill_seconds: float
    #: None for an encoder alone, which has no steps.
    decode_seconds: float | None
    #: Tokens of all sequences for each second, at most.
    tokens_per_second: float | None
    #: A token on average over all steps; None where only the first step is known.
    token_seconds: float | None = None

    def to_dict(self) -> dict[str, int | None]:
        """Whole nanoseconds and tokens, rounded up."""
        decode, rate = self.decode_seconds, self.tokens_per_second
        return {
            "prefill_ns": math.ceil(self.prefill_seconds * 1e9),
            "decode_ns": None if decode is None else math.ceil(decode * 1e9),
            "tokens_per_s": None if rate is None else math.ceil(rate),
        }


@dataclass(frozen=True)
class Serving:
    """A request on an engine's devices, of which the fullest is described."""

    memory: Memory
    engine: Engine
    #: Sequences at once on the device, and tokens of each at the end.
    sequences: int
    tokens: int
    #: The device, and all of its memory; None where none was named, or its memory is not known.
    device: str | None = None
    device_bytes: int | None = None
    #: Whether the driver reports as much memory; else the vendor prints it.
    reported: bool = True
    #: The most sequences of as many tokens, and the longest context of as many sequences; None: no device, or no limit
    #: by memory.
    max_sequences: int | None = None
    max_context: int | None = None
    floors: Floors | None = None
    split: Split = field(default_factory=Split)
    #: Bytes that the busiest device sends for each token in a step, the floors where devices do not compute while they
    #: send, and the most tokens per second of as many sequences as fit; None for one device.
    communication_bytes_per_token: int = 0
    floors_apart: Floors | None = None
    most_tokens_per_second: float | None = None
    #: The fewest devices that it fits; None where that is not known.
    fewest: int | None = None

    @property
    def where(self) -> str:
        """The device, or each of several; "" where none was named."""
        devices = self.split.devices
        return self.device or "" if devices == 1 else f"each of {devices} × {self.device}"

    @property
    def must_fit_bytes(self) -> int:
        """Bytes of the weights, the caches and the workspace on one device."""
        return self.memory.must_fit_bytes(self.sequences, self.tokens)

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of a device that the engine may use."""
        return None if self.device_bytes is None else usable(self.device_bytes, self.engine.memory_fraction)

    @property
    def fits(self) -> bool | None:
        """True if it fits; None where the device's memory is not known."""
        return None if self.memory_bytes is None else self.must_fit_bytes <= self.memory_bytes

    @property
    def left_over_bytes(self) -> int | None:
        """Bytes that are left of those that the engine may use; negative where it does not fit."""
        return None if self.memory_bytes is None else self.memory_bytes - self.must_fit_bytes

    @property
    def pool(self) -> Pool | None:
        """The room for the cache; None where the device's memory is not known, nothing grows or nothing is left."""
        if self.device_bytes is None or self.memory_bytes is None:
            return None
        return pool_of(self.memory, self.sequences, self.memory_bytes, self.device or "", self.device_bytes)

    def to_dict(self) -> Json:
        """The key "serving" of ``flopwise.llm/1``."""
        memory = self.memory
        return {
            "devices": self.split.devices,
            **{way: getattr(self.split, way) for way in WAYS},
            **self.engine._asdict(),
            "per_device": {
                "weight_bytes": memory.weight_bytes,
                "cache_bytes": memory.cache_bytes(self.sequences, self.tokens),
                "cache_bytes_per_token": memory.cache.bytes_per_token(self.tokens),
                "workspace_bytes": memory.workspace_bytes(self.sequences),
                "workspace_tokens": memory.workspace.tokens,
                **fields(self, "must_fit_bytes memory_bytes"),
                "reported": None if self.memory_bytes is None else self.reported,
                **fields(self, "left_over_bytes fits"),
            },
            **({} if self.pool is None else {"pool": self.pool.to_dict()}),
            **fields(self, "max_sequences max_context communication_bytes_per_token"),
            "floors": None if self.floors is None else self.floors.to_dict(),
            **({} if self.floors_apart is None else self._of_split(self.floors_apart)),
        }

    def _of_split(self, apart: Floors) -> Json:
        """Floors where devices do not compute while they send, and the speed with the most sequences."""
        most = self.most_tokens_per_second
        return {
            "floors_without_overlap": apart.to_dict(),
            "most_tokens_per_s": None if most is None else math.ceil(most),
        }


def usable(device_bytes: int, fraction: float) -> int:
    """Whole bytes of a device's memory that an engine may use."""
    return math.floor(device_bytes * Fraction(str(fraction)))


class Lengths(Protocol):
    """The lengths of a request's sequences."""

    @property
    def prompt(self) -> int: ...
    @property
    def generate(self) -> int: ...


class Request(Lengths, Protocol):
    """The properties of a request that decide what fits."""

    @property
    def batch(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def memory(self) -> Memory | None: ...


def longest_context(request: Lengths, cached_tokens: int, most: int | None) -> int | None:
    """The longest context, a prompt and as many generated tokens as the request has; 0 where no prompt fits.

    Args:
        request: the request.
        cached_tokens: tokens with which its cache grows, at the end.
        most: as many of them as fit; None: no limit.
    """
    if most is None:
        return None
    prompt = most - (cached_tokens - request.prompt)
    return prompt + request.generate if prompt > 0 else 0


def served(request: Request, engine: Engine, device: Device | None) -> Serving | None:
    """A request on one device, or without one; None where its memory is not known."""
    memory = request.memory
    if memory is None:
        return None
    serving = Serving(memory, engine, request.batch, request.cached_tokens)
    if device is None or not device.capacity_bytes:
        return serving
    have = usable(device.capacity_bytes, engine.memory_fraction)
    return replace(
        serving,
        device=device.name,
        device_bytes=device.capacity_bytes,
        reported=device.reported is not None,
        max_sequences=memory.most_sequences(request.cached_tokens, have),
        max_context=longest_context(request, request.cached_tokens, memory.most_tokens(request.batch, have)),
        fewest=1 if serving.must_fit_bytes <= have else None,
    )


# The verdict on a request in a line: whether it fits, how much of it does, and how fast it can be at most.


#: Element types -> what engines call them.
_CALLED = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8e4m3fn": "fp8",
    "float8e5m2": "fp8",
    "float4e2m1": "fp4",
}


def verdict(serving: Serving, weights: str = "", cache: str = "", token_seconds: float | None = None) -> str:
    """A line that begins with "fits", "does not fit", or "needs" where no memory of a device is known.

    Args:
        serving: the request on its devices.
        weights: the element type that most weights are stored in.
        cache: that of the cache.
        token_seconds: the least time of a token on average over the whole request; None: only a first step is known.
    """
    memory = serving.memory
    kept = memory.cache_bytes(serving.sequences, serving.tokens)
    workspace = gigabytes(memory.workspace_bytes(serving.sequences))
    stored, cached = (f"{_CALLED.get(kind, kind)} " if kind else "" for kind in (weights, cache))
    caches = f", {gigabytes(kept)} of {cached}cache" if kept else ""
    parts = f"{gigabytes(memory.weight_bytes)} of {stored}weights{caches} and {workspace} of workspace"
    if serving.memory_bytes is None or serving.device_bytes is None:
        return f"needs {parts}"
    have = gigabytes(serving.memory_bytes)
    where = f"{have} ({serving.engine.memory_fraction:g} of {capacity(serving.device_bytes, serving.reported)})"
    split = serving.split
    device = f"{split.devices} x {serving.device} ({split}), on each" if split.devices > 1 else f"{serving.device},"
    if not serving.fits:
        said = [f"does not fit: {device} {gigabytes(serving.must_fit_bytes)} of {where}, {parts}"]
        if serving.max_sequences:
            said.append(f"at most {_sequences(serving.max_sequences)}")
        if serving.max_context:
            said.append(f"max context {serving.max_context:,} tokens")
        if serving.fewest is not None:
            said.append(f"fits on {serving.fewest} devices or more")
        return "; ".join(said)
    said = [f"fits: {device} {parts} in {where}"]
    if serving.pool is not None and kept > serving.pool.low:
        said.append(f"engines may keep {gigabytes(serving.pool.nbytes - serving.pool.low)} more for themselves")
    if serving.max_sequences is not None:
        said.append(f"at most {_sequences(serving.max_sequences)}")
    shared = serving.engine.shared_prefix and serving.sequences > 1  # times are those without a prefix
    if serving.floors is not None and serving.floors.decode_seconds and not shared:
        first = rate(1 / serving.floors.decode_seconds)
        every = first if token_seconds is None else rate(1 / token_seconds)
        said.append(f"at most {every} tokens/s each{'' if every == first else f' ({first} in the first step)'}")
    elif serving.floors is not None and serving.floors.prefill_seconds and not kept and split.pp == 1:
        batch = serving.sequences * split.dp
        batches = f" in batches of {batch:,}" if batch > 1 else ""
        said.append(f"at most {rate(batch / serving.floors.prefill_seconds)} sequences/s{batches}")
    return "; ".join(said)


def _sequences(count: int) -> str:
    return f"{count:,} sequence{'' if count == 1 else 's'}"


def rate(number: float) -> str:
    """A rate with two digits or more."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def capacity(nbytes: int, reported: bool) -> str:
    """The memory of a device, with whose figure it is where its driver's is not known.

    >>> capacity(85_520_809_984, True), capacity(48_000_000_000, False)
    ('86 GB', '48 GB by the vendor')
    """
    return gigabytes(nbytes) if reported else f"{gigabytes(nbytes)} by the vendor"


def gigabytes(nbytes: int) -> str:
    """Bytes with two digits or more, and a prefix.

    >>> gigabytes(141_107_412_992), gigabytes(9_600_000_000), gigabytes(47_529_984), gigabytes(996), gigabytes(999_999)
    ('141 GB', '9.6 GB', '48 MB', '996 B', '1.0 MB')
    >>> gigabytes(10**24)
    '1000000 EB'
    """
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    place, size = 0, float(nbytes)
    while round(size) >= 1000 and place + 1 < len(units):
        place, size = place + 1, size / 1000
    unit = units[place]
    return f"{size:.1f} {unit}" if round(size, 1) < 10 and unit != "B" else f"{size:.0f} {unit}"
