"""``flopwise.llm``: what a request to a language model costs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from flopwise._arguments import checked
from flopwise.analyses.llm.inference import Inference, Logits, inference
from flopwise.analyses.llm.on_device import floors_of, on_device
from flopwise.analyses.llm.serving.communication import assumptions_of_links
from flopwise.analyses.llm.serving.serving import Engine, served
from flopwise.analyses.llm.serving.solver import fewest, placement, placements
from flopwise.analyses.llm.serving.ways import Split
from flopwise.analyses.llm.sharding import Sharding
from flopwise.analyses.llm.speculation import Speculation, check_settings, speculation, with_draft
from flopwise.analyses.llm.training import Checkpointing, TrainingStep, room_of, run_of, training_step
from flopwise.analyses.needed.latents import REWRITES
from flopwise.api.language_program import KV_DTYPES, LanguageProgram, language_module, usual_prompt
from flopwise.api.profile import profile
from flopwise.conventions import Convention
from flopwise.conventions import get as get_convention
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.llm.serving.split import Divisible
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile
    from flopwise.readers.torch.language.widths import Widths

#: More than the largest clusters have.
MOST_DEVICES = 1_000_000


@overload
def llm(
    model: object,
    *,
    train: Literal[False] = False,
    prompt: int | None = None,
    generate: int = 256,
    batch: int = 1,
    dtype: str | None = None,
    weights: str | None = None,
    kv_dtype: str | None = None,
    device: str | None = None,
    curve: bool = False,
    rewrites: str | Sequence[str] = (),
    conventions: str | Convention | Sequence[str | Convention] = (),
    logits: Logits = "last",
    max_batched_tokens: int = 8192,
    memory_fraction: float = 0.9,
    block_size: int = 16,
    shared_prefix: int = 0,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    cp: int | None = None,
    dp: int | None = None,
    draft: object = None,
    accept: float = 0.7,
    draft_tokens: int = 4,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Inference: ...


@overload
def llm(
    model: object,
    *,
    train: Literal[True],
    prompt: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    device: str | None = None,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    optimizer: str = "adamw",
    checkpointing: Checkpointing = "none",
    dp: int = 1,
    fsdp: int = 1,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    lora: str | None = None,
    weights: str | None = None,
    tokens_per_second: float | None = None,
    measured: float | None = None,
) -> TrainingStep: ...


@checked
def llm(
    model: object,
    *,
    train: bool = False,
    prompt: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    device: str | None = None,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    **settings: Any,
) -> Inference | TrainingStep:
    """The cost of a request to a language model: the prompt, each token after it, the cache, and what must fit.

    With ``train=True``, what a training step costs, on one device and on one rank of many. transformers builds the
    model and its cache on tensors without memory; no weights are read.

    Args:
        model: path of a ``config.json`` or of a folder that holds one, ``hf:org/name``, a GGUF file, or a model of
            transformers, which is afterwards as it was.
        train: whether a training step is counted in place of a request.
        prompt: tokens of the prompt of each sequence; of a training step, tokens of each sequence. None: 4,096, for an
            encoder no more than it was made for.
        batch: sequences; of a training step, those of all devices together.
        dtype: element type of the weights ("bf16", "fp16", "fp32"); None: as the configuration says. Gradients and the
            optimizer's state have it too.
        device: the name of a device (see ``flopwise devices``), whose figures bound the times and say what fits;
            "8xh100" for eight. Of a training step, also against whose peak a run is held.
        trust_code: whether code that belongs to the model may run, where transformers does not know its type.
        progress: called with the name of each step.
        generate: request: tokens that are generated after the prompt, by a step each; 256. 0: none, and no cache.
        weights: how the weights are stored, of a request or of the frozen base of ``lora``: by the name of a
            quantisation whose tools do so ("int8", "fp8", "int4", "awq", "gptq", "nf4", "mxfp4", "q4_k_m" ...); None:
            as the files or the configuration say.
        kv_dtype: request: element type of keys and values in the cache ("bf16", "fp8", "int8" ...); None: as the model
            makes it.
        curve: request: whether cost and memory are also run at other lengths of the context, for a plot.
        rewrites: request: rewrites of the program by serving engines of which a figure is asked for: "absorb-mla".
            Their figures stand beside those of the program, never in their place.
        conventions: request: conventions by which each part is counted too ("palm", "fvcore" ...).
        logits: request: the positions of each sequence that an engine scores the vocabulary for: the "last", as engines
            do, or "all", as the program does.
        max_batched_tokens: request: tokens of a step of the engine at most; longer prompts go through in chunks.
        memory_fraction: request: the part of the device's memory that the engine may use.
        block_size: request: tokens of a block of the cache.
        shared_prefix: request: tokens at the start of the prompt that all sequences share in the cache; times and MACs
            are those of sequences without one.
        optimizer: training: "sgd", "momentum", "adam" or "adamw".
        checkpointing: training: what the backward pass computes once more: nothing ("none"), attention ("selective"),
            or every layer ("full", as transformers does it).
        gpus: request: how many devices; ``device="2xh100"`` says the same. What of ``tp`` to ``dp`` is not given is
            looked for, but for ``cp``, which is 1: every split that divides the model is in ``splits`` of the result,
            the fastest steps first.
        dp: replicas that share the batch.
        fsdp: training: ranks that share weights and batch (ZeRO-3).
        tp: devices that share each layer's products.
        pp: stages that share the layers.
        ep: devices that share the experts.
        cp: request: devices that share the tokens of each sequence.
        lora: training: low-rank adapters, which alone are trained, such as "r=16,targets=q_proj,v_proj"; without
            targets beside every linear layer but the scores of the vocabulary.
        draft: request: a draft model, as ``model``, for speculative decoding on one device; in the type of the weights
            that its own configuration names.
        accept: request: with ``draft``: the share of its guesses that are accepted.
        draft_tokens: request: with ``draft``: tokens that it guesses before the model checks them.
        tokens_per_second: training: tokens that a run trains on each second, on all its devices together, for its MFU.
        measured: training: seconds that a step of a run takes, in place of ``tokens_per_second``.

    Raises:
        ModelError: the model cannot be read or built, or fails.
        InputError: a number is less than 1, an element type, a rewrite or another name is unknown, the model has
            nothing for a rewrite, or something does not divide.
        TypeError: an argument of a request is given for a training step, or the other way round.
    """
    run: Callable[..., Inference | TrainingStep] = _training_step if train else _request
    if foreign := settings.keys() - inspect.signature(run).parameters.keys():
        what = "a training step" if train else "a request"
        raise TypeError(f"llm() got an unexpected keyword argument {min(foreign)!r} for {what}")
    return run(
        model,
        prompt=None if prompt is None else operator.index(prompt),
        batch=operator.index(batch),
        dtype=dtype,
        device=device,
        trust_code=trust_code,
        progress=progress,
        **settings,
    )


@functools.partial(checked, name="llm")
def _request(
    model: object,
    *,
    prompt: int | None,
    batch: int,
    dtype: str | None,
    device: str | None,
    trust_code: bool,
    progress: Callable[[str], None],
    generate: int = 256,
    weights: str | None = None,
    kv_dtype: str | None = None,
    curve: bool = False,
    rewrites: str | Sequence[str] = (),
    conventions: str | Convention | Sequence[str | Convention] = (),
    logits: Logits = "last",
    max_batched_tokens: int = 8192,
    memory_fraction: float = 0.9,
    block_size: int = 16,
    shared_prefix: int = 0,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    cp: int | None = None,
    dp: int | None = None,
    draft: object = None,
    accept: float = 0.7,
    draft_tokens: int = 4,
) -> Inference:
    """The cost of a request; see ``llm``."""
    chosen = [
        get_convention(name) for name in ([conventions] if isinstance(conventions, str | Convention) else conventions)
    ]
    rewrites = [rewrites] if isinstance(rewrites, str) else rewrites
    for name in rewrites:
        if name not in REWRITES:
            raise InputError(f"unknown rewrite {name!r}; known: {', '.join(REWRITES)}")
    if kv_dtype is not None and kv_dtype.lower() not in KV_DTYPES:
        raise InputError(f"unknown element type {kv_dtype!r} of the cache; known: {', '.join(KV_DTYPES)}")
    shares = _shares({"tp": tp, "pp": pp, "ep": ep, "cp": cp, "dp": dp})
    count, where = _devices(device, gpus)
    if where is None and shares:
        raise InputError(f"{', '.join(shares)}: give the device as well")
    ways = Split(**shares) if shares else None
    if ways is not None:
        ways.check()
    counts = map(operator.index, (block_size, shared_prefix))
    engine = Engine(operator.index(max_batched_tokens), memory_fraction, *counts)
    engine.check()
    if where is None and memory_fraction != Engine().memory_fraction:
        raise InputError(f"memory_fraction {memory_fraction:g}: give the device as well")
    if draft is not None:
        check_settings(accept, operator.index(draft_tokens))
        if ways is not None or count not in (None, 1):
            raise InputError("draft: speculative decoding is counted on one device")
    progress("building the model")
    cache = kv_dtype.lower() if kv_dtype else None
    module, generate = language_module(model, dtype, trust_code), operator.index(generate)
    prompt = usual_prompt(module) if prompt is None else prompt
    program = LanguageProgram(module, model, cache, weights, prompt, batch, generate)
    result = inference(
        program,
        prompt=prompt,
        generate=generate,
        batch=batch,
        kv_dtype=kv_dtype,
        curve=curve,
        rewrites=rewrites,
        conventions=chosen,
        logits=logits,
        engine=engine,
        progress=progress,
    )
    if draft is not None:
        progress("the draft model")
        small = language_module(draft, None, trust_code)
        guessing = LanguageProgram(small, draft, cache, None, prompt, batch, generate)
        guess = inference(
            guessing, prompt=prompt, generate=generate, batch=batch, logits=logits, engine=engine, progress=progress
        )
        rounds = speculation(result, guess, accept, operator.index(draft_tokens), where)
        notes = (*result.notes, *_notes_on_draft(module, small, rounds))
        result = replace(result, speculation=rounds, memory=with_draft(result.memory, guess.memory), notes=notes)
    serving = served(result, engine, where)
    plain = replace(result, serving=serving, renderer=_as_text, divisible=None)
    if where is None:
        return plain
    bounds = on_device(result, where, serving)
    plain = replace(plain, device=bounds, notes=(*result.notes, *bounds.notes))
    if serving is None:
        if ways is not None or count not in (None, 1):
            raise InputError(f"{device}: what {result.name} takes of its memory is not known")
        return plain
    floors = floors_of(bounds)
    if result.speculation is not None:
        return replace(plain, serving=replace(serving, floors=result.speculation.floors(floors)))
    serving = replace(serving, floors=floors)
    assert result.divisible is not None
    if count in (None, 1) and ways is None and (serving.fits or not where.capacity_bytes):
        return replace(plain, serving=serving)
    progress(f"splits among {where.name}")
    request = result.divisible, engine, result.cached_tokens
    if count is None and ways is None:
        splits = tuple(fewest(*request, where))
        serving = replace(serving, fewest=splits[0].split.devices if splits else None)
    elif ways is not None and count in (None, ways.devices):
        splits = (placement(*request, ways, where),)
    else:
        splits = tuple(placements(*request, count or 1, where, shares))
    best = serving if count is None and ways is None else splits[0]
    notes = (
        (
            *plain.notes,
            *assumptions_of_links(where),
            *_assumed(best.split, batch),
            *_repeated(result.divisible, best.split.tp),
        )
        if splits
        else plain.notes
    )
    return replace(plain, serving=best, splits=splits, notes=notes)


def _assumed(split: Split, batch: int) -> Iterator[str]:
    """Notes on what the figures of a split assume."""
    if batch % split.dp:
        most = -(-batch // split.dp)
        yield f"dp {split.dp}: {batch} sequences do not divide by it; memory and times are of a replica with {most}"
    if split.pp > 1:
        yield (
            f"pp {split.pp}: the prompt passes the stages in pieces, of which the slowest stage is never without one; "
            "in a step each stage works on another part of the sequences"
        )


def _notes_on_draft(module: Any, draft: Any, rounds: Speculation) -> Iterator[str]:
    """Notes on what speculative decoding assumes."""
    yield (
        f"{rounds.guesses} guesses of {rounds.source}, each accepted with the probability {rounds.acceptance:g}, "
        f"independently: {rounds.tokens_per_round:.2f} tokens for each round (Leviathan et al. 2023, equation 1); the "
        "columns are those of the model alone"
    )
    own, other = (one.config.get_text_config(decoder=True).vocab_size for one in (module, draft))
    if own != other:
        yield f"the draft's vocabulary has {other:,} entries, the model's {own:,}: guesses need the same tokens"


def _repeated(request: Divisible, tp: int) -> Iterator[str]:
    """A note where much of a model is not divided by tensor parallelism."""
    share = round(100 * request.repeated(tp)) if tp > 1 else 0
    if share >= 5:
        yield f"tp {tp}: each device has {share} % of the weights whole, in layers that the division does not name"


def _shares(ways: Mapping[str, int | None]) -> dict[str, int]:
    """The ways of dividing that were given."""
    return {way: operator.index(ranks) for way, ranks in ways.items() if ranks is not None}


def _devices(device: str | None, gpus: int | None) -> tuple[int | None, Device | None]:
    """How many devices were asked for, and what they are: ``2xh100``, or a name with the number beside it.

    Raises:
        InputError: no device goes by that name, or numbers are less than 1, differ or lack a device.
    """
    from flopwise.analyses.timing.machine import named

    if device is None:
        if gpus is not None:
            raise InputError(f"gpus {gpus}: give the device as well")
        return None, None
    several = re.fullmatch(r"(\d{1,9})\s*[x×]\s*(\S.*)", device.strip())
    where = named(several[2] if several else device)
    count = int(several[1]) if several else gpus
    if several and gpus not in (None, count):
        raise InputError(f"{device}: these are {count} devices, not {gpus}")
    if count is not None and not 1 <= count <= MOST_DEVICES:
        raise InputError(f"{count} devices: must be at least 1 and at most {MOST_DEVICES}")
    return count, where


@functools.partial(checked, name="llm")
def _training_step(
    model: object,
    *,
    prompt: int | None,
    batch: int,
    dtype: str | None,
    device: str | None,
    trust_code: bool,
    progress: Callable[[str], None],
    optimizer: str = "adamw",
    checkpointing: Checkpointing = "none",
    dp: int | None = None,
    fsdp: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    lora: str | None = None,
    weights: str | None = None,
    tokens_per_second: float | None = None,
    measured: float | None = None,
) -> TrainingStep:
    """The cost of a training step; see ``llm``."""
    for name, number in (("batch", batch), ("prompt", 1 if prompt is None else prompt)):
        if number < 1:
            raise InputError(f"{name} {number}: must be at least 1")
    shares = _shares({"dp": dp, "fsdp": fsdp, "tp": tp, "pp": pp, "ep": ep})
    sharding = Sharding(**shares) if shares else None
    if sharding is not None:
        sharding.check(batch)
    if measured is not None and tokens_per_second is not None:
        raise InputError("tokens per second and seconds of a step say the same of a run; give one")
    if measured is not None and not 0 < measured < math.inf:
        raise InputError(f"measured {measured:g} seconds: must be a number above 0")
    asked, where = _devices(device, None)
    if (tokens_per_second, measured) != (None, None) and where is None:
        raise InputError("the MFU of a run needs a device as well")
    count = 1 if sharding is None else sharding.devices
    if asked not in (None, count):
        how = "nothing says how they share the step: --fsdp, --dp, --tp, --pp" if sharding is None else f"not {count}"
        raise InputError(f"{device}: these are {asked} devices, {how}")
    from flopwise.readers.torch.language.adapters import adapted, lora_of
    from flopwise.readers.torch.language.plan import engines_plan
    from flopwise.readers.torch.language.widths import Widths

    if weights is not None and lora is None:
        raise InputError(f"weights {weights}: what is trained is not quantised; give lora for a frozen base")
    progress("building the model")
    module = language_module(model, dtype, trust_code)
    sequence = usual_prompt(module) if prompt is None else prompt
    rate = tokens_per_second if measured is None else batch * sequence / measured

    chosen = None if lora is None else lora_of(lora)
    widths = _widths_of_base(module, model, weights) if chosen is not None else Widths()

    def trained(sequences: int, again: bool) -> Profile:
        progress(f"a step of {sequences} × {sequence} tokens")
        return _trained(module, sequences, sequence, optimizer, again)

    full = checkpointing == "full"
    text = isinstance(model, (str, os.PathLike))
    with contextlib.nullcontext(0) if chosen is None else adapted(module, chosen) as layers:
        step = trained(batch, full)
        result = training_step(
            step,
            name=type(module).__name__,
            source=os.fsdecode(model) if text else type(module).__name__,  # type: ignore[arg-type]
            dtype=str(next(module.parameters()).dtype).removeprefix("torch."),
            batch=batch,
            sequence=sequence,
            optimizer=optimizer,
            checkpointing=checkpointing,
            plain=trained(batch, False) if full else None,
            sharding=sharding,
            shard=trained(batch // sharding.batches, full) if sharding and sharding.batches > 1 else step,
            plan=engines_plan(module),
            adapters="" if chosen is None else f"{chosen}{(weights and f', base in {weights}') or ''}",
            widths=widths.elements,
        )
    if chosen is not None:
        told = f"adapters as peft adds them, beside {layers} layers; the base is frozen"
        result = replace(result, notes=(told, *widths.notes, *result.notes))
    if where is not None:
        result = replace(result, room=room_of(result, where, count))
        if rate is not None:
            run = run_of(result, where, rate, count)
            above = "the run is faster than the devices' peak: another type computes, or the rate is wrong"
            result = replace(result, run=run, notes=((above,) if run.utilisation > 1 else ()) + result.notes)
    return replace(result, renderer=_training_as_text)


def _widths_of_base(module: Any, model: object, weights: str | None) -> Widths:
    """How the weights of a frozen base are stored: by the name of a quantisation, else as the model says."""
    from flopwise.readers.torch.language.named import named_widths
    from flopwise.readers.torch.language.widths import stored_widths

    return stored_widths(module, model) if weights is None else named_widths(module, weights)


def _trained(module: Any, batch: int, sequence: int, optimizer: str, again: bool) -> Profile:
    """A training step with the loss of the next token; transformers' own checkpoints around its layers where asked."""
    from flopwise.readers.torch.language.state import training_inputs

    inputs = training_inputs(module, batch, sequence)
    with _checkpoints(module) if again else contextlib.nullcontext():
        return profile(module, inputs, train=True, optimizer=optimizer)


@contextlib.contextmanager
def _checkpoints(module: Any) -> Iterator[None]:
    """transformers' checkpoints around the layers are on; afterwards the module is as it was.

    Raises:
        InputError: the model has none.
    """
    if not getattr(module, "supports_gradient_checkpointing", False):
        raise InputError(f"{type(module).__name__} has no checkpoints around its layers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the methods have newer names, which older versions lack
        was = bool(getattr(module, "is_gradient_checkpointing", False))
        module.gradient_checkpointing_enable()
        try:
            yield
        finally:
            if not was:
                module.gradient_checkpointing_disable()


def _training_as_text(result: TrainingStep) -> str:
    from flopwise.report.commands.llm.report import training_report
    from flopwise.report.report import as_text

    return as_text(training_report(result))


def _as_text(result: Inference) -> str:
    from flopwise.report.commands.llm.report import llm_report
    from flopwise.report.report import as_text

    return as_text(llm_report(result))
