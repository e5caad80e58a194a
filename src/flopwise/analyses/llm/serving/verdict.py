"""The verdict on a request in a line: whether it fits, how much of it does, and how fast it can be at most."""

from __future__ import annotations

from flopwise.analyses.llm.serving.serving import Serving

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
