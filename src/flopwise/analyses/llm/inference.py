"""The cost of a request to a language model: the prompt, each further token, the cache, and the memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from flopwise._results import Json, Printed, fields
from flopwise.analyses.llm.on_device import OnDevice
from flopwise.analyses.llm.runs import Point, Program, Run, Runs, lengths, step
from flopwise.analyses.llm.runs import prefill as prefill_of
from flopwise.analyses.llm.serving.memory import Cache, EngineStep, Memory
from flopwise.analyses.llm.serving.serving import Engine, Serving, verdict
from flopwise.analyses.llm.serving.split import Divisible, divisible
from flopwise.analyses.llm.speculation import Speculation
from flopwise.analyses.llm.stages.stage import Stage
from flopwise.analyses.llm.step import Step
from flopwise.analyses.needed import ABSORB_MLA
from flopwise.conventions.convention import Convention
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.llm.serving.solver import Batch

Logits = Literal["last", "all"]

#: What a shared prefix leaves as it is.
_SHARED = (
    "the shared prefix is stored once; MACs, bytes that are read and least times are those of sequences that share "
    "nothing, and engines that go through the prefix once may take less"
)


@dataclass(frozen=True)
class Inference(Printed):
    """The costs of a request."""

    name: str
    source: str
    dtype: str
    kv_dtype: str | None
    batch: int
    prompt: int
    generate: int
    #: The positions of each sequence that an engine scores the vocabulary for.
    logits: Logits
    params: int
    active_params: int
    weight_bytes: int
    prefill: Step
    #: The first step after the prompt; None for an encoder alone, which has no steps.
    decode: Step | None
    #: All steps after the prompt, one for each generated token; ``bytes`` are read, of weights and of the state.
    generated_macs: int
    generated_flops: int
    generated_bytes: int
    #: The multiply-accumulates and bytes of them that no engine can do without; the first by the types that they may be
    #: computed in.
    generated_products: Mapping[tuple[str, ...], int]
    least_generated_bytes: int
    #: The element types that most of the weights, and the cache, are stored in.
    weight_type: str
    cache_type: str
    #: Bytes of the state after the prompt, after the last token, and of one token more after the prompt.
    cache_bytes: int
    final_cache_bytes: int
    cache_bytes_per_token: int
    #: Multiply-accumulates of the first step after the prompt, and of all steps, as a rewrite by this name has them.
    rewrites: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: The unit of a convention, and what it counts for the prompt, the first step after it and all steps, by its name.
    conventions: Mapping[str, tuple[str, int, int, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: Encoders of images and sound that run before the prompt, and the tokens of each sequence that they stand for.
    media: tuple[Stage, ...] = ()
    media_tokens: int = 0
    #: Cost and memory against the length of the context, where they were asked for.
    curve: tuple[Point, ...] = ()
    #: Tokens with which the cache grows, at the end; and what must fit an engine's memory: None where it is not known.
    cached_tokens: int = 0
    memory: Memory | None = None
    #: The calls that were run, for whoever divides them among devices; None afterwards.
    divisible: Divisible | None = field(default=None, repr=False, compare=False)
    #: The same request by every split among several devices, the best first.
    splits: tuple[Serving, ...] = ()
    serving: Serving | None = None
    #: Steps of more and more sequences on the devices, where a curve was asked for.
    batches: tuple[Batch, ...] = ()
    #: Rounds with a draft model; None without one.
    speculation: Speculation | None = None
    #: The same on a device; None when none was named.
    device: OnDevice | None = None

    @property
    def request_macs(self) -> int:
        """Multiply-accumulates of the whole request: images and sound, the prompt, and all steps after it."""
        return sum(stage.macs for stage in self.media) + self.prefill.macs + self.generated_macs

    @property
    def request_flops(self) -> int:
        """Operations of the whole request: images and sound, the prompt, and all steps after it."""
        return sum(stage.flops for stage in self.media) + self.prefill.flops + self.generated_flops

    @property
    def request_bytes(self) -> int:
        """Bytes that the whole request must read: of weights and of the state, anew in each step."""
        return sum(stage.bytes for stage in self.media) + self.prefill.bytes + self.generated_bytes

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of the weights, of the state after the last token, and of the activations of the larger step."""
        alive = [step.activation_bytes for step in (self.prefill, self.decode) if step is not None]
        if None in alive:
            return None
        return self.weight_bytes + self.final_cache_bytes + max(n for n in alive if n is not None)

    @property
    def token_seconds(self) -> float | None:
        """The least time of a token on average over all steps; None where it is not known."""
        if not self.generate or self.speculation is not None or self.device is None or self.serving is None:
            return None
        if self.serving.split.devices > 1:
            return None if self.serving.floors is None else self.serving.floors.token_seconds
        return self.device.generate.seconds / self.generate or None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of all sequences for each second over all steps, at most."""
        if self.token_seconds is None or self.serving is None or self.serving.floors is None:
            return None
        return min(self.batch / self.token_seconds, self.serving.floors.tokens_per_second or math.inf)

    @property
    def verdict(self) -> str:
        """The verdict: if the request fits, how often, how fast it can be at most; "" where that is not known."""
        if self.serving is None:
            return ""
        return verdict(self.serving, self.weight_type, self.cache_type, self.token_seconds)

    @property
    def rules_of_thumb(self) -> tuple[int, int, int]:
        """2 N for each token: of the prompt, of the first step after it and of all steps, N the weights that a token is
        multiplied with. Those of an encoder are the ones that a step leaves out."""
        own, step = 2 * self.active_params, self.batch
        if self.decode is None:
            return own * self.prefill.tokens, 0, 0
        if self.decode.past == self.prefill.new:
            return own * self.prefill.tokens, own * step, own * step * self.generate
        encoder = 2 * max(self.prefill.weights.active - self.active_params, 0)
        return encoder * self.prefill.tokens + own * step, own * step, own * step * self.generate

    def held_bytes(self, point: Point) -> tuple[int, int, int]:
        """Bytes of weights, cache and workspace on the fullest device at a length; the last is 0 if it is not known."""
        if self.serving is None:
            return point.weight_bytes, point.cache_bytes, 0
        memory, sequences = self.serving.memory, self.serving.sequences
        return memory.weight_bytes, memory.cache_bytes(sequences, point.context), memory.workspace_bytes(sequences)

    def _counted(self) -> dict[str, dict[str, int | str]]:
        """Each convention's counts of the parts of the request."""
        parts = ("unit", "prefill", "decode", "generate", "request")
        counts = self.conventions.items()
        return {name: dict(zip(parts, (*own, own[1] + own[3]), strict=True)) for name, own in counts}

    def _media(self) -> Json:
        """The key "media"."""
        return {"tokens": self.media_tokens, "stages": [stage.to_dict(None) for stage in self.media]}

    def to_dict(self) -> Json:
        """The request in the JSON schema ``flopwise.llm/1``: every number an integer or None."""
        prefill, decode = self.prefill, self.decode
        return {
            "schema": "flopwise.llm/1",
            "model": {"name": self.name, "source": self.source, "dtype": self.dtype, "kv_dtype": self.kv_dtype},
            **fields(self, "batch logits params active_params weight_bytes"),
            **({"media": self._media()} if self.media else {}),
            "prefill": {
                "tokens": self.prompt,
                **fields(prefill, "macs needed_macs flops bytes attention_macs activation_bytes"),
            },
            "decode": None
            if decode is None
            else {
                **fields(decode, "past macs needed_macs flops bytes attention_macs activation_bytes"),
                "weight_bytes": decode.weights.most,
                "expected_weight_bytes": decode.weights.expected,
            },
            "generate": {
                "tokens": self.generate,
                "macs": self.generated_macs,
                "flops": self.generated_flops,
                "bytes": self.generated_bytes,
            },
            "request": {
                "tokens": self.prompt + self.generate,
                "macs": self.request_macs,
                "flops": self.request_flops,
                "bytes": self.request_bytes,
            },
            "cache": {
                "tokens": self.prompt,
                "bytes": self.cache_bytes,
                "bytes_per_token": self.cache_bytes_per_token,
                "final_bytes": self.final_cache_bytes,
            },
            "memory_bytes": self.memory_bytes,
            "rule_of_thumb": {"forward_flops": self.rules_of_thumb[0]},
            "rewrites": {name: {"macs": macs, "generate_macs": every} for name, (macs, every) in self.rewrites.items()},
            **({"conventions": self._counted()} if self.conventions else {}),
            **({} if self.speculation is None else {"speculation": self.speculation.to_dict()}),
            "kv_cache_bytes_per_token": self.cache_bytes_per_token,
            "tokens_per_s": None if self.tokens_per_second is None else math.ceil(self.tokens_per_second),
            **({} if self.serving is None else {"serving": self.serving.to_dict(), "verdict": self.verdict}),
            **({"splits": [one.to_dict() for one in self.splits]} if self.splits else {}),
            **({} if self.device is None else {"device": self.device.to_dict()}),
            **({"curve": [point.to_dict() for point in self.curve]} if self.curve else {}),
            **({"batches": [batch.to_dict() for batch in self.batches]} if self.batches else {}),
            "exact": all(one.exact for one in (prefill, *(stage.cost for stage in self.media), decode or prefill)),
            "notes": list(self.notes),
        }


def inference(
    program: Program,
    *,
    prompt: int = 4096,
    generate: int = 256,
    batch: int = 1,
    kv_dtype: str | None = None,
    curve: bool = False,
    rewrites: Sequence[str] = (),
    conventions: Sequence[Convention] = (),
    logits: Logits = "last",
    engine: Engine = Engine(),  # noqa: B008 - it is a tuple
    progress: Callable[[str], None] = lambda step: None,
) -> Inference:
    """The cost of a request: a prompt, and the tokens generated after it.

    Args:
        program: the model.
        prompt: tokens of the prompt of each sequence.
        generate: tokens that are generated after it, each by a step of its own; 0: the prompt alone, without a cache.
        batch: sequences.
        kv_dtype: what the state's element type is called, where it is not that of the weights.
        curve: whether cost and memory are also run at other lengths of the context.
        rewrites: names of rewrites of which figures are asked for; where a model has something for one, its figure is
            there anyhow.
        conventions: what else counts each step.
        logits: the positions of each sequence that an engine scores the vocabulary for.
        engine: the settings of the engine that it runs on.
        progress: called with the name of each step.

    Raises:
        InputError: a number is out of range, the shared prefix longer than the prompt, an encoder has a type of the
            cache, or the model has nothing that a rewrite is for.
    """
    for name, number, least in (("batch", batch, 1), ("prompt", prompt, 1), ("generate", generate, 0)):
        if number < least:
            raise InputError(f"{name} {number}: must be at least {least}")
    _refuse_cache(program, kv_dtype, engine)
    prompt = program.encoder_length or prompt
    if engine.shared_prefix > prompt:
        raise InputError(f"shared_prefix {engine.shared_prefix}: the prompt has {prompt} tokens")
    logits = logits if program.predicts else "all"
    runs = Runs(program, batch, conventions, progress, logits == "last")
    first = runs.run(prefill_of(program, prompt))
    then = runs.run(step(program, prompt)) if program.keeps_state else None
    left_out = () if then is not None else (_why_no_step(program, generate),)
    generate = generate if then is not None else 0
    cache = runs.cache(prompt, generate)
    (macs, flops, read, least, absorbed, *counts), products = runs.generation(prompt, generate)
    absorbs = {} if then is None or then.absorbed is None else {ABSORB_MLA: (then.absorbed, absorbed)}
    if ABSORB_MLA in rewrites and not absorbs:
        raise InputError(f"{ABSORB_MLA}: {program.name} expands no latents that could be absorbed")
    weight_bytes = runs.weight_bytes(first.call.profile)
    after_prompt, one_more, end = runs.ends(prompt, generate, cache)
    if cache is not None:
        cache = replace(cache, further=(one_more - after_prompt) // batch)
    largest = runs.largest_step(prompt, engine.max_batched_tokens)
    decode = None if then is None else then.cost
    return Inference(
        name=program.name,
        source=program.source,
        dtype=program.dtype,
        kv_dtype=kv_dtype,
        batch=batch,
        prompt=prompt,
        generate=generate,
        logits=logits,
        params=first.call.profile.total("params"),
        active_params=(decode or first.cost).weights.active,
        weight_bytes=weight_bytes,
        prefill=first.cost,
        decode=decode,
        generated_macs=macs,
        generated_flops=flops,
        generated_bytes=read,
        generated_products=products,
        least_generated_bytes=least,
        weight_type=program.weight_type,
        cache_type=kv_dtype or program.state_type or program.dtype,
        cache_bytes=after_prompt,
        final_cache_bytes=end,
        cache_bytes_per_token=(one_more - after_prompt) // batch,
        rewrites=absorbs,
        conventions=_by_convention(conventions, first, then, counts),
        notes=(
            *left_out,
            *_notes(program, prompt, generate, first.cost, decode),
            *([] if decode is None or cache is None else _notes_on_windows(cache, prompt)),
            *([_SHARED] if engine.shared_prefix and batch > 1 else []),
            *first.call.profile.notes,
        ),
        curve=runs.curve(_contexts(program, prompt, generate), weight_bytes) if curve else (),
        cached_tokens=prompt if program.encodes else prompt + generate,
        memory=_memory(weight_bytes, cache, largest, engine),
        divisible=divisible(runs, prompt, generate, largest),
    )


def _refuse_cache(program: Program, kv_dtype: str | None, engine: Engine) -> None:
    """Refuse settings of a cache that the program does not keep.

    Raises:
        InputError: there is one.
    """
    if kv_dtype is not None and not program.predicts:
        raise InputError(f"kv_dtype {kv_dtype}: {program.name} predicts no next token, so there is no cache")
    if engine.shared_prefix and not program.keeps_state:
        why = "no token is generated" if program.predicts else f"{program.name} predicts no next token"
        raise InputError(f"shared_prefix {engine.shared_prefix}: {why}, so no cache is kept that sequences could share")


def _memory(weight_bytes: int, cache: Cache | None, largest: EngineStep, engine: Engine) -> Memory | None:
    """The memory of an engine: weights, cache and the workspace of its largest step; None where one is not known."""
    workspace = largest.workspace()
    if cache is None or workspace is None:
        return None
    return Memory(weight_bytes, cache, workspace, engine.block_size, engine.shared_prefix)


def _by_convention(
    conventions: Sequence[Convention], first: Run, then: Run | None, counts: Sequence[int]
) -> dict[str, tuple[str, int, int, int]]:
    """The unit of each convention, and what it counts for the prompt, the first step after it, and all steps."""
    single = then.counts if then is not None else (0,) * len(conventions)
    counted = zip(conventions, first.counts, single, counts, strict=True)
    return {own.name: (own.unit, prompts, steps, every) for own, prompts, steps, every in counted}


def _contexts(program: Program, prompt: int, generate: int) -> tuple[int, ...]:
    """The lengths of the prompt that a curve shows: one, where an encoder always reads the same."""
    if program.encoder_length is not None:
        return (prompt,)
    return lengths(prompt, prompt + generate, program.longest)


def _why_no_step(program: Program, generate: int) -> str:
    """A note on what a request without steps leaves out."""
    if not generate:
        return "no token is generated, so there is no step, and no cache is kept"
    return f"{program.name} predicts no next token, so there is no step and no cache: each call reads all of its input"


def _notes(program: Program, prompt: int, generate: int, prefill: Step, decode: Step | None) -> Iterator[str]:
    """Notes on the figures."""
    yield from program.notes
    end = prompt if decode is None else decode.past + generate
    if program.encodes and program.encoder_length is None:
        end = max(end, prompt)
    if program.longest is not None and end > program.longest:
        yield f"{end} tokens are more than the {program.longest} that the model was made for"
    calls = {"the prompt": prefill, **({} if decode is None else {"a step": decode})}
    inexact = [name for name, call in calls.items() if not call.exact]
    if inexact and all(call.macs_exact for call in calls.values()):
        yield f"MACs are exact; other operations of {' and '.join(inexact)} depend on the data and are bounds"
    elif inexact:
        yield f"the counts of {' and '.join(inexact)} are bounds, not exact; flopwise profile says where"
    if rewrites := dict.fromkeys(rewrite for call in calls.values() for rewrite in call.rewrites):
        yield f"an engine needs fewer MACs than the program executes: {'; '.join(rewrites)}"
    if prefill.unknown_masks:
        yield (
            f"masks: {prefill.unknown_masks} products of attention are operators of their own, of whose masks nothing "
            "is known: all of their MACs are among the needed ones"
        )
    if decode is not None:
        yield from _notes_on_step(decode)


def _notes_on_windows(cache: Cache, prompt: int) -> Iterator[str]:
    """A note on windows that a prompt fills, beyond which a token adds nothing to their caches."""
    lengths = sorted({kept.window + 1 for kept in cache.kept if kept.window is not None and prompt > kept.window})
    if lengths:
        reach = " and ".join(f"{length:,}" for length in lengths)
        yield (
            f"windows of {reach} tokens are full: a token beyond adds nothing to their caches, which keep the "
            f"{lengths[-1] - 1:,} before a step's own, and on an engine whole blocks"
        )


def _notes_on_step(decode: Step) -> Iterator[str]:
    """Notes on what one step does."""
    if share := round(100 * decode.scaling_flops / max(decode.flops, 1)):
        yield (
            f"{share} % of a step's FLOPs scale queries and keys, those of the whole context, as the definition of "
            "attention has it; fused kernels scale the scores"
        )
    if decode.weights.experts:
        layers = len(decode.weights.experts)
        stack = max(decode.weights.experts, key=lambda expert: expert.matrices)
        chosen = stack.rows // max(decode.tokens, 1)
        yield (
            f"mixture of experts: {chosen} of {stack.matrices} for each token, in {layers} products; a step of "
            f"{decode.tokens} token{'s' if decode.tokens > 1 else ''} touches at most {stack.touched} experts "
            f"of a layer, and {float(stack.expected(decode.tokens)):.1f} on average if routing is uniform"
        )
