"""Costs of a language model: a request (prompt, steps, cache, what must fit), and a step of its training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from flopwise._results import fields
from flopwise.analyses.llm.serving.pool import LOGS
from flopwise.errors import counted
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.room import verdict_on
from flopwise.report.sheet.sheet import Field, Figure, Head, Line, Look, Sheet, duration, figure, human

if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.llm.on_device import OnDevice
    from flopwise.analyses.llm.serving.serving import Serving
    from flopwise.analyses.llm.speculation import Speculation
    from flopwise.analyses.llm.stages.stage import Stage
    from flopwise.analyses.llm.step import Step
    from flopwise.analyses.llm.training import Room, TrainingStep
    from flopwise.report.sheet.sheet import Value
if TYPE_CHECKING:
    from flopwise.analyses.llm.inference import Inference
    from flopwise.analyses.llm.serving.serving import Floors, Serving

#: Figure of a step -> what it is called.
_TITLES = {
    "params": "parameters",
    "trained_params": "trained parameters",
    "forward_flops": "forward FLOPs",
    "backward_flops": "backward FLOPs",
    "optimizer_flops": "optimizer FLOPs",
    "weight_bytes": "weights, bytes",
    "gradient_bytes": "gradients, bytes",
    "state_bytes": "optimizer state, bytes",
    "saved_bytes": "saved activations, bytes",
    "memory_bytes": "memory, bytes",
}


def llm_report(result: Inference) -> Report:
    """The page of a request."""
    drawn = (result, _request_sheet(result, Look()))

    def sheets(format: Format, look: Look) -> list[Sheet]:
        return [_request_sheet(result, look), *([splits_sheet(result, look)] if result.splits else [])]

    return Report(sheets, result.to_dict, {"llm": drawn})


def _request_sheet(result: Inference, look: Look) -> Sheet:
    """One line for each quantity; columns for the prompt, a single step, all steps, and prompt and steps together."""
    step = result.decode
    after = f"decode step after {result.prompt:,}"
    after = "decode step of the decoder" if step is not None and step.past != result.prompt else after
    heads = (
        Head("quantity", "", "text", 0, prose=True),
        Head("prefill", f"prefill, {result.prompt:,} tokens", "number", 1),
        Head("decode", after, "number", 1),
        Head("generate", f"decode, {result.generate:,} tokens", "number", 2),
        Head("request", "whole request", "number", 3),
    )
    # without anything beside it the request is its prompt
    columns = len(heads) if step is not None or result.media else 2
    encoders = tuple(Head(f"media_{i}", stage.name, "number", 1) for i, stage in enumerate(result.media))
    quantities = [*_quantities(result), *(_times(result, result.device) if result.device is not None else ())]
    quantities += [_Quantity(f"MACs, {name}", "", macs, every) for name, (macs, every) in result.rewrites.items()]
    nothing = [""] * len(result.media)
    lines = tuple(Line((q.name, *(q.media or nothing), *q[1:columns])) for q in quantities)
    batch = f"{result.batch} sequence{'s' if result.batch > 1 else ''}"
    kv = f", cache {result.kv_dtype}" if result.kv_dtype else ""
    return Sheet(
        heads=(heads[0], *encoders, *heads[1:columns]),
        lines=lines,
        about=(look.text(f"{result.source} · {result.name} · {result.dtype}{kv} · {batch}"),),
        verdict=look.text(result.verdict),
        summary=tuple(_request_figures(result, look)),
        notes=look.texts(result.notes),
    )


class _Quantity(NamedTuple):
    """A line: a quantity of the prompt, a step, all steps, the request, and each encoder; "" where it means nothing."""

    name: str
    prefill: Value
    decode: Value = ""
    generate: Value = ""
    request: Value = ""
    #: Of the encoders of images and sound.
    media: Sequence[Value] = ()


def _quantities(result: Inference) -> Iterator[_Quantity]:
    """The lines of a request, without those on a device."""
    pre, step = result.prefill, result.decode

    def of(
        name: str,
        figure: Callable[[Step], Value],
        generate: Value = "",
        request: Value = "",
        media: Callable[[Stage], Value] = lambda stage: "",
    ) -> _Quantity:
        then = "" if step is None else figure(step)
        return _Quantity(name, figure(pre), then, generate, request, [*map(media, result.media)])

    yield of("MACs", lambda s: s.macs, result.generated_macs, result.request_macs, lambda m: m.macs)
    yield of("MACs an engine needs", lambda s: s.needed_macs, media=lambda m: m.needed_macs)
    attention = "attention MACs (QK and AV)"
    yield of(attention, lambda s: s.attention_macs, media=lambda m: m.calls * m.cost.attention_macs)
    yield of("attention, % of MACs", _attention_percent, media=lambda m: _attention_percent(m.cost))
    yield of("FLOPs", lambda s: s.flops, result.generated_flops, result.request_flops, lambda m: m.flops)
    rule = result.rules_of_thumb  # a third of 6 N, which stands for training
    yield _Quantity("FLOPs by the 2N-per-token rule", *rule, rule[0] + rule[2])
    for name, (unit, once, then, every) in result.conventions.items():
        yield _Quantity(f"{unit} by {name}", once, then, every, once + every)
    yield of("weights read, bytes", lambda s: s.weights.most, media=lambda m: m.cost.weights.most)
    if step is not None:
        yield of("cache read, bytes", lambda s: s.state_bytes)
        every_byte = result.generated_bytes, result.request_bytes
        yield of("weights + cache read, bytes", lambda s: s.bytes, *every_byte, lambda m: m.bytes)
    yield of("peak activations, bytes", lambda s: s.activation_bytes, media=lambda m: m.cost.activation_bytes)
    generated = _per_byte(result.generated_flops, result.generated_bytes)
    whole = _per_byte(result.request_flops, result.request_bytes)
    yield of("FLOPs per byte", lambda s: round(s.intensity), generated, whole, lambda m: _per_byte(m.flops, m.bytes))


def _attention_percent(step: Step) -> int:
    return round(100 * step.attention_macs / max(step.macs, 1))


def _per_byte(flops: int, nbytes: int) -> int:
    return round(Fraction(flops, max(nbytes, 1)))


def _times(result: Inference, device: OnDevice) -> Iterator[_Quantity]:
    """The lines of a request on a device."""
    first, then, every = device.prefill, device.decode, device.generate
    several = result.serving is not None and result.serving.split.devices > 1
    yield _Quantity(
        f"minimum time, one {device.device}" if several else f"minimum time, {device.device}",
        duration(first.seconds),
        "" if then is None else duration(then.seconds),
        duration(every.seconds),
        duration(device.request_seconds),
        [duration(floor.seconds) for floor in device.media],
    )
    prompt, step = device.prefill_tokens_per_second, device.decode_tokens_per_second
    rates = math.ceil(prompt) if prompt else None, math.ceil(step) if step else None
    yield _Quantity("max tokens per second", *rates)
    roofs = [floor.roof for floor in device.media]
    yield _Quantity("limited by", first.roof, "" if then is None else then.roof, every.roof, media=roofs)


def _request_figures(result: Inference, look: Look) -> Iterator[Figure]:
    """The figures of the whole model and of its memory, ready to be shown."""
    yield figure("parameters", result.params, "", look)
    yield figure("active parameters", result.active_params, "", look)
    yield figure("weights", result.weight_bytes, "B", look)
    if result.decode is not None:
        yield from _cache_figures(result, look)
    if result.speculation is not None:
        yield from _draft_figures(result.speculation, look)
    if result.serving is not None:
        yield from _serving_figures(result.serving, result, look)


def _draft_figures(rounds: Speculation, look: Look) -> Iterator[Figure]:
    """The figures of speculative decoding, ready to be shown."""
    yield figure("draft weights", rounds.draft_weight_bytes, "B", look)
    yield figure("draft cache after the last token", rounds.draft_cache_bytes, "B", look)
    yield figure(f"MACs per round: {rounds.said} and verification", rounds.macs_per_round, "", look)
    yield Figure(look.text("mean tokens per round"), f"{rounds.tokens_per_round:.2f}", "")
    if rounds.round_seconds is not None:
        yield Figure(look.text("minimum time per round"), duration(rounds.round_seconds), "")
        token = rounds.round_seconds / rounds.tokens_per_round
        yield Figure(look.text("minimum mean time per token with the draft"), duration(token), "")


def _cache_figures(result: Inference, look: Look) -> Iterator[Figure]:
    """The figures of the cache, ready to be shown."""
    yield figure("cache per token", result.cache_bytes_per_token, "B", look)
    yield figure("cache after the prompt", result.cache_bytes, "B", look)
    yield figure("cache after the last token", result.final_cache_bytes, "B", look)


def _serving_figures(serving: Serving, result: Inference, look: Look) -> Iterator[Figure]:
    """The figures of an engine's memory: what it must hold, and how much fits."""
    memory = serving.memory
    tokens = memory.workspace.tokens
    yield figure(f"workspace of a step of {tokens:,} tokens", memory.workspace_bytes(serving.sequences), "B", look)
    cache = ", cache" if result.decode is not None else ""
    yield figure(f"total: weights{cache}, workspace", serving.must_fit_bytes, "B", look)
    if serving.memory_bytes is None or serving.left_over_bytes is None:
        return
    yield figure(f"{serving.engine.memory_fraction:g} of {serving.where}", serving.memory_bytes, "B", look)
    yield figure("free", serving.left_over_bytes, "B", look)
    if (pool := serving.pool) is not None:
        band = f"{pool.low / 1e9:.1f}-{pool.high / 1e9:.1f} GB"
        yield Figure(look.text(f"cache room in vLLM, {LOGS} public logs"), band, "")
    if serving.max_sequences is not None:
        length = result.prompt + result.generate
        yield figure(f"largest batch at {length:,} tokens", serving.max_sequences, "", look)
    if serving.max_context is not None:
        yield figure(f"longest context, batch {result.batch:,}", serving.max_context, "", look)


def training_report(result: TrainingStep) -> Report:
    """The page of a training step."""
    return Report(lambda format, look: [_training_sheet(result, look)], result.to_dict)


def _training_sheet(result: TrainingStep, look: Look) -> Sheet:
    """One line for each quantity; a column for one device, and one for a rank of many."""
    rank = result.rank
    heads = [Head("quantity", "", "text", 0, prose=True), Head("step", "whole step", "number", 1)]
    if rank is not None:
        shares = fields(rank.split, "dp fsdp tp pp ep")
        ways = " × ".join(f"{way} {ranks}" for way, ranks in shares.items() if ranks > 1) or "1"
        heads.append(Head("rank", f"one rank of {rank.split.devices:,} ({ways})", "number", 1))
    steps = (result,) if rank is None else (result, rank)
    titles = {key: title for key, title in _TITLES.items() if result.adapters or key != "trained_params"}
    lines = tuple(Line((title, *(getattr(step, key) for step in steps))) for key, title in titles.items())
    about = f"{result.source} · {result.name} · {result.dtype} · {result.batch} × {result.sequence:,} tokens"
    how = f"{result.optimizer}, checkpointing {result.checkpointing}{result.adapters and f', {result.adapters}'}"
    several = rank is not None and rank.split.pp > 1
    notes = [f"the rank with the most memory: stage {rank.stage + 1} of {rank.split.pp}"] if rank and several else []
    return Sheet(
        heads=tuple(heads),
        lines=lines,
        about=(look.text(about), look.text(how)),
        verdict="" if result.room is None else look.text(_verdict(result, result.room)),
        summary=tuple(_training_figures(result, look)),
        notes=look.texts([*notes, *result.notes]),
    )


def _verdict(result: TrainingStep, room: Room) -> str:
    """A line that says whether the step fits its devices."""
    share = result if result.rank is None else result.rank
    keys = {"weight_bytes": "weights", "gradient_bytes": "gradients", "state_bytes": "optimizer state"}
    parts = [(getattr(share, key), name) for key, name in keys.items()]
    return verdict_on(room, [*parts, (share.saved_bytes, "activations")])


def _training_figures(result: TrainingStep, look: Look) -> Iterator[Figure]:
    """The step's operations without what is computed twice, and what the rules of thumb make of them."""
    yield figure("model FLOPs (no recomputation)", result.model_flops, "FLOP", look)
    if result.recomputed_flops:
        yield figure("recomputed FLOPs", result.recomputed_flops, "FLOP", look)
    run = result.run
    if run is not None:
        rate = f"{run.tokens_per_second:,.10g} tokens/s on {run.devices} × {run.device}"
        yield Figure(look.text(f"MFU at {rate}"), f"{100 * run.utilisation:.1f} %", "")
    for name, flops in result.rules_of_thumb.items():
        yield figure(f"model FLOPs by {name}", flops, "FLOP", look)


# A request on several devices: the splits of it, and which are best.


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
