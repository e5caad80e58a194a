"""What a request to a language model costs: the prompt, each further token, the cache, and what must be in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from flopwise.analyses.llm.curve import Point, curve_of, lengths
from flopwise.analyses.llm.generation import summed
from flopwise.analyses.llm.on_device import OnDevice
from flopwise.analyses.llm.rewrites import ABSORB_MLA, absorbed_mla
from flopwise.analyses.llm.step import Step, step_of
from flopwise.conventions.convention import Convention
from flopwise.errors import InputError
from flopwise.operators.folding import fold
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile


class Program(Protocol):
    """A language model that can be run on tensors without memory."""

    #: What it is called, and where it comes from.
    name: str
    source: str
    #: The longest context that it was made for; None where it says nothing.
    longest: int | None
    #: Element type of its weights, and bytes of each element by tensor name where they are stored in another width.
    dtype: str
    widths: Mapping[str, Fraction]
    #: What a reader should know about it.
    notes: tuple[str, ...]
    #: Whether an encoder reads the prompt, so that the tokens generated after it are those of the decoder alone.
    encodes: bool

    def profile(self, past: int, new: int, batch: int, encoded: int | None = None) -> Profile:
        """The profile of a call with so many tokens in the state; its encoder read as many, or as are named."""

    def state(self, tokens: int, batch: int, encoded: int | None = None) -> Mapping[str, int]:
        """Bytes of the state after so many tokens, by kind ("keys and values", "recurrent state")."""


@dataclass(frozen=True)
class Inference:
    """The costs of a request."""

    name: str
    source: str
    dtype: str
    kv_dtype: str | None
    batch: int
    prompt: int
    generate: int
    params: int
    active_params: int
    weight_bytes: int
    prefill: Step
    #: The first step after the prompt.
    decode: Step
    #: All steps after the prompt, one for each generated token; ``bytes`` are read, of weights and of the state.
    generated_macs: int
    generated_flops: int
    generated_bytes: int
    #: Bytes of the state after the prompt, after the last token, and of one token more after the prompt.
    cache_bytes: int
    final_cache_bytes: int
    cache_bytes_per_token: int
    #: Multiply-accumulates of the first step after the prompt, and of all steps, as a rewrite by this name has them.
    rewrites: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: The unit of a convention, and what it counts for the prompt, the first step after it and all steps, by its name.
    conventions: Mapping[str, tuple[str, int, int, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: Cost and memory against the length of the context, where they were asked for.
    curve: tuple[Point, ...] = ()
    #: The same on a device; None when none was named.
    device: OnDevice | None = None
    #: How ``print`` shows it; provided by whoever knows the reports.
    renderer: Callable[[Inference], str] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.renderer(self) if self.renderer else repr(self)

    @property
    def request_macs(self) -> int:
        """Multiply-accumulates of the whole request: the prompt, and all steps after it."""
        return self.prefill.macs + self.generated_macs

    @property
    def request_flops(self) -> int:
        """Operations of the whole request: the prompt, and all steps after it."""
        return self.prefill.flops + self.generated_flops

    @property
    def request_bytes(self) -> int:
        """Bytes that the whole request must read: of weights and of the state, anew in each step."""
        return self.prefill.bytes + self.generated_bytes

    @property
    def memory_bytes(self) -> int | None:
        """What must fit: the weights, the state after the last token, and the activations of the larger step."""
        alive = [step.activation_bytes for step in (self.prefill, self.decode)]
        if None in alive:
            return None
        return self.weight_bytes + self.final_cache_bytes + max(n for n in alive if n is not None)

    def _counted(self) -> dict[str, dict[str, int | str]]:
        """What conventions count for each part of the request."""
        parts = ("unit", "prefill", "decode", "generate", "request")
        counts = self.conventions.items()
        return {name: dict(zip(parts, (*own, own[1] + own[3]), strict=True)) for name, own in counts}

    def to_dict(self) -> dict[str, Any]:
        """The request in the JSON schema ``flopwise.llm/1``: every number an integer or None."""
        prefill, decode = self.prefill, self.decode
        return {
            "schema": "flopwise.llm/1",
            "model": {"name": self.name, "source": self.source, "dtype": self.dtype, "kv_dtype": self.kv_dtype},
            "batch": self.batch,
            "params": self.params,
            "active_params": self.active_params,
            "weight_bytes": self.weight_bytes,
            "prefill": {
                "tokens": self.prompt,
                "macs": prefill.macs,
                "needed_macs": prefill.needed_macs,
                "flops": prefill.flops,
                "bytes": prefill.bytes,
                "attention_macs": prefill.attention_macs,
                "activation_bytes": prefill.activation_bytes,
            },
            "decode": {
                "past": decode.past,
                "macs": decode.macs,
                "needed_macs": decode.needed_macs,
                "flops": decode.flops,
                "bytes": decode.bytes,
                "attention_macs": decode.attention_macs,
                "activation_bytes": decode.activation_bytes,
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
            "rule_of_thumb": {"forward_flops": 2 * self.active_params * self.prefill.tokens},
            "rewrites": {name: {"macs": macs, "generate_macs": every} for name, (macs, every) in self.rewrites.items()},
            **({"conventions": self._counted()} if self.conventions else {}),
            **({} if self.device is None else {"device": self.device.to_dict()}),
            **({"curve": [point.to_dict() for point in self.curve]} if self.curve else {}),
            "exact": prefill.exact and decode.exact,
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
    progress: Callable[[str], None] = lambda step: None,
) -> Inference:
    """What a request costs: a prompt, and so many tokens after it.

    Args:
        program: the model.
        prompt: tokens of the prompt of each sequence.
        generate: tokens that are generated after it, each by a step of its own.
        batch: sequences.
        kv_dtype: what the state's element type is called, where it is not that of the weights.
        curve: whether cost and memory are also run at other lengths of the context.
        rewrites: names of rewrites of which figures are asked for; where a model has something for one, its figure is
            there anyhow.
        conventions: what else counts each step.
        progress: called with the name of each step.

    Raises:
        InputError: a number is less than 1, or the model has nothing that a rewrite is for.
    """
    for name, number in (("batch", batch), ("prompt", prompt), ("generate", generate)):
        if number < 1:
            raise InputError(f"{name} {number}: must be at least 1")
    widths = dict(program.widths)

    read_once = prompt if program.encodes else None

    def state(tokens: int, encoded: int | None = None) -> int:
        return sum(program.state(tokens, batch, encoded).values())

    steps: dict[tuple[int, int, int | None], Step] = {}
    absorbed: dict[int, int | None] = {}
    profiles: dict[tuple[int, int], Profile] = {}
    counts: dict[tuple[int, int], list[int]] = {}

    def at(past: int, new: int, encoded: int | None = None) -> Step:
        key = past, new, encoded
        if key not in steps:
            progress(f"a step after {past} tokens" if past else f"prefill of {new} tokens")
            run = program.profile(past, new, batch, encoded)
            profiles.update({(past, new): run} if (past, new) == (0, prompt) else {})
            counts[past, new] = [profile_graph(run.graph, convention).total("count") for convention in conventions]
            if past:
                absorbed[past] = absorbed_mla(run)
            held = state(past, encoded) if past else 0
            steps[key] = step_of(run, batch=batch, past=past, new=new, state_bytes=held, widths=widths)
        return steps[key]

    def cost(past: int) -> tuple[int, ...]:
        step = at(past, 1, read_once)
        return step.macs, step.flops, step.bytes, absorbed[past] or 0, *counts[past, 1]

    prefill, decode = at(0, prompt), at(prompt, 1, read_once)
    macs, flops, read, rewritten, *generated = summed(cost, prompt, prompt + generate - 1)
    counted = zip(conventions, counts[0, prompt], counts[prompt, 1], generated, strict=True)
    profile = profiles[0, prompt]
    params, stored = profile.total("params"), profile.total("weight_bytes")
    weight_bytes = _stored(profile, widths) if widths else stored
    first = absorbed[prompt]
    if ABSORB_MLA in rewrites and first is None:
        raise InputError(f"{ABSORB_MLA}: {program.name} expands no latents that could be absorbed")
    cache = state(prompt)
    end = prompt + generate
    contexts = lengths(prompt, end, program.longest) if curve else ()
    return Inference(
        name=program.name,
        source=program.source,
        dtype=program.dtype,
        kv_dtype=kv_dtype,
        batch=batch,
        prompt=prompt,
        generate=generate,
        params=params,
        active_params=decode.weights.active,
        weight_bytes=weight_bytes,
        prefill=prefill,
        decode=decode,
        generated_macs=macs,
        generated_flops=flops,
        generated_bytes=read,
        cache_bytes=cache,
        final_cache_bytes=state(end, read_once),
        cache_bytes_per_token=(state(prompt + 1, read_once) - cache) // batch,
        rewrites={} if first is None else {ABSORB_MLA: (first, rewritten)},
        conventions={own.name: (own.unit, once, then, every) for own, once, then, every in counted},
        notes=(*_notes(program, end, prefill, decode), *profile.notes),
        curve=curve_of(at, contexts, state, weight_bytes),
    )


def _stored(profile: Profile, widths: Mapping[str, Fraction]) -> int:
    """Bytes of the stored tensors in the widths that they are stored in."""
    folding = fold(profile.graph)
    tensors = {t.name: t for row in profile.rows for t in folding.stored(row.node) if t.sized}
    kept = [t for t in tensors.values() if t.kind in ("weight", "buffer")]
    return round(sum(widths[t.name] * t.numel if t.name in widths else t.nbytes for t in kept))


def _notes(program: Program, end: int, prefill: Step, decode: Step) -> list[str]:
    """What a reader should know about the figures."""
    notes = list(program.notes)
    if program.longest is not None and end > program.longest:
        notes.append(f"{end} tokens are more than the {program.longest} that the model was made for")
    inexact = [name for name, step in (("the prompt", prefill), ("a step", decode)) if not step.exact]
    if inexact and prefill.macs_exact and decode.macs_exact:
        notes.append(f"MACs are exact; other operations of {' and '.join(inexact)} depend on the data and are bounds")
    elif inexact:
        notes.append(f"the counts of {' and '.join(inexact)} are bounds, not exact; flopwise profile says where")
    if prefill.attention_products:
        notes.append(
            f"masks: {prefill.attention_products} products of attention are operators of their own, whose masks are "
            f"not followed: MACs that the masks leave have all of theirs"
        )
    if decode.weights.experts:
        layers = len({expert.layer for expert in decode.weights.experts})
        stack = max(decode.weights.experts, key=lambda expert: expert.matrices)
        chosen = stack.rows // max(decode.tokens, 1)
        notes.append(
            f"mixture of experts: {chosen} of {stack.matrices} for each token, in {layers} products; a step of "
            f"{decode.tokens} token{'s' if decode.tokens > 1 else ''} touches at most {stack.touched} experts "
            f"of a layer, and {float(stack.expected(decode.tokens)):.1f} on average if routing is uniform"
        )
    return notes
