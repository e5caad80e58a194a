"""A request on several devices: the splits of it, and which are best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flopwise.errors import counted
from flopwise.report.sheet.sheet import Field, Figure, Head, Sheet, figure
from flopwise.report.sheet.values import Look, human

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.llm.serving.serving import Floors, Serving

_NOTE = (
    "bytes are per device, on the fullest one; bytes sent per token are those of the busiest; times are lower bounds"
)


def splits_sheet(result: Inference, look: Look) -> Sheet:
    """One line for each split that fits, or for the best of those that do not: what the fullest device has and sends,
    and the least times."""
    first = result.splits[0]
    shown = [one for one in result.splits if one.fits] or [first]
    others = [one for one in result.splits if not one.fits and one is not first]

    def milliseconds(floors: Floors | None, of: str) -> float | str:
        seconds = getattr(floors, f"{of}_seconds", None)
        return "" if seconds is None else seconds * 1e3

    fields: list[Field[Serving]] = [
        Field(Head("split", "split", "text", 0), lambda one: str(one.split)),
        Field(Head("fits", "", "text", 0), lambda one: "fits" if one.fits else "does not fit"),
        Field(Head("weight_bytes", "weights, bytes", "number", 1), lambda one: one.memory.weight_bytes),
        Field(
            Head("cache_bytes", "cache, bytes", "number", 1),
            lambda one: one.memory.cache_bytes(one.sequences, one.tokens),
        ),
        Field(
            Head("workspace_bytes", "workspace, bytes", "number", 5),
            lambda one: one.memory.workspace_bytes(one.sequences),
        ),
        Field(Head("max_sequences", "max sequences", "number", 2), lambda one: _limit(one.max_sequences)),
        Field(Head("max_context", "max context", "number", 3), lambda one: _limit(one.max_context)),
        Field(Head("sent_bytes", "sent per token, bytes", "number", 4), lambda one: one.communication_bytes_per_token),
        Field(Head("prefill_ms", "prefill, ms", "ratio", 2), lambda one: milliseconds(one.floors, "prefill")),
        Field(Head("decode_ms", "token, ms", "ratio", 1), lambda one: milliseconds(one.floors, "decode")),
        Field(Head("apart_ms", "communication, ms", "ratio", 4), lambda one: milliseconds(one.floors_apart, "decode")),
        Field(
            Head("most_tokens_per_s", "tokens/s at max sequences", "number", 1),
            lambda one: "" if one.most_tokens_per_second is None else math.ceil(one.most_tokens_per_second),
        ),
    ]
    batch = f"{result.batch} sequence{'s' if result.batch > 1 else ''} of {first.tokens:,} tokens"
    share = f"{human(first.memory_bytes or 0, 'B')} ({first.engine.memory_fraction:g} of the memory) of each"
    return Sheet.of(
        fields,
        shown,
        about=(look.text(f"{first.split.devices} × {first.device} · {batch} · {share}"),),
        summary=tuple(_best(result, look)),
        notes=(_NOTE, *_others(others, look)),
    )


def _others(splits: Sequence[Serving], look: Look) -> Iterator[str]:
    """A note on the splits that do not fit and have no line."""
    if splits:
        least = min(splits, key=lambda one: one.must_fit_bytes)
        needs = f"{least.split} needs the least, {human(least.must_fit_bytes, 'B')} on each"
        yield look.text(
            f"{counted(len(splits), 'other split')} {'does' if len(splits) == 1 else 'do'} not fit: {needs}"
        )


def _limit(most: int | None) -> int | str:
    return "no limit" if most is None else most


def _best(result: Inference, look: Look) -> Iterator[Figure]:
    """The best splits, where there was a choice."""
    best = result.splits[0]
    if result.serving is not None and result.serving.fewest is not None:
        yield figure("fewest devices that fit it", result.serving.fewest, "", look)
    if len(result.splits) > 1 and best.fits and result.decode is not None:
        fastest = max(result.splits, key=lambda one: (bool(one.fits), one.most_tokens_per_second or 0.0))
        yield Figure("lowest latency per token", str(best.split), "")
        yield Figure("highest throughput", f"{fastest.split}, {fastest.max_sequences or 0:,} sequences", "")
