"""A request to a language model: prompt, steps, cache, and what its devices hold and take."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise.analyses.llm.inference import Inference, Logits, inference
from flopwise.analyses.llm.on_device import floors_of, on_device
from flopwise.analyses.llm.serving.batches import batches
from flopwise.analyses.llm.serving.communication import assumptions_of_links
from flopwise.analyses.llm.serving.serving import Engine, served
from flopwise.analyses.llm.serving.solver import fewest, placement, placements
from flopwise.analyses.llm.serving.ways import Split
from flopwise.analyses.llm.speculation import Speculation, check_settings, speculation, with_draft
from flopwise.analyses.needed.latents import REWRITES
from flopwise.api import printable
from flopwise.api.language.devices import devices_of, shares_of
from flopwise.api.language.media import media_of
from flopwise.api.language.program import LanguageProgram, cache_type, language_module, usual_prompt
from flopwise.conventions import Convention
from flopwise.conventions import get as get_convention
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.llm.serving.split import Divisible
    from flopwise.analyses.timing.device import Device


#: What stands for the model's own head in place of a draft model.
OWN_HEAD = "mtp"

#: Guesses of a round with a draft model, where nobody says.
USUAL_GUESSES = 4


@functools.partial(checked, name="llm")
def request(
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
    draft_tokens: int | None = None,
    image: str | None = None,
    images: int = 1,
    seconds: float | None = None,
) -> Inference:
    """The cost of a request; see ``llm``."""
    chosen = [
        get_convention(name) for name in ([conventions] if isinstance(conventions, str | Convention) else conventions)
    ]
    rewrites = [rewrites] if isinstance(rewrites, str) else rewrites
    for name in rewrites:
        if name not in REWRITES:
            raise InputError(f"unknown rewrite {name!r}; known: {', '.join(REWRITES)}")
    cache = cache_type(kv_dtype)
    shares = shares_of({"tp": tp, "pp": pp, "ep": ep, "cp": cp, "dp": dp})
    count, where = devices_of(device, gpus)
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
        check_settings(accept, 1 if draft_tokens is None else operator.index(draft_tokens))
        if ways is not None or count not in (None, 1):
            raise InputError("draft: speculative decoding is counted on one device")
    from flopwise.readers.torch.language.heads import predicting_head

    progress("building the model")
    module, generate = language_module(model, dtype, trust_code), operator.index(generate)
    media = media_of(module, model, image=image, images=images, seconds=seconds, batch=batch, progress=progress)
    prompt = media.prompt or (usual_prompt(module) if prompt is None else prompt) + media.tokens
    batch *= media.windows
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
    result = media.staged(result, program.widths, program.types)
    if draft is not None:
        progress("the draft model")
        own = isinstance(draft, str) and draft == OWN_HEAD
        small, usual = predicting_head(module) if own else (language_module(draft, None, trust_code), USUAL_GUESSES)
        guessing = LanguageProgram(
            small, model if own else draft, cache, weights if own else None, prompt, batch, generate
        )
        guess = inference(
            guessing, prompt=prompt, generate=generate, batch=batch, logits=logits, engine=engine, progress=progress
        )
        guess = _beside_its_model(guess, guessing, small) if own else guess
        guesses = usual if draft_tokens is None else operator.index(draft_tokens)
        rounds = speculation(result, guess, accept, guesses, where)
        notes = (*result.notes, *_notes_on_draft(module, small, rounds))
        result = replace(result, speculation=rounds, memory=with_draft(result.memory, guess.memory), notes=notes)
    placed = _placed(result, engine, where, count, shares, progress)
    if where is not None and placed.serving is None and (shares or count not in (None, 1)):
        raise InputError(f"{device}: what {result.name} takes of its memory is not known")
    if curve and where is not None and placed.serving is not None and result.divisible is not None and draft is None:
        placed = replace(placed, batches=batches(result.divisible, placed.serving, where))
    return placed


def _beside_its_model(guess: Inference, program: LanguageProgram, head: Any) -> Inference:
    """A request to a model's own head, without the bytes of what it shares with the model."""
    from flopwise.readers.torch.language.heads import shared_tensors

    tensors = {name: head.get_parameter(name) for name in shared_tensors(head)}
    shared = sum(tensor.numel() * program.widths.get(name, tensor.element_size()) for name, tensor in tensors.items())
    own, memory = guess.weight_bytes - round(shared), guess.memory
    kept = None if memory is None else replace(memory, weight_bytes=own)
    return replace(guess, name=f"a head of {guess.name} (MTP)", weight_bytes=own, memory=kept)


def _placed(
    result: Inference,
    engine: Engine,
    device: Device | None,
    count: int | None,
    shares: Mapping[str, int],
    progress: Callable[[str], None],
) -> Inference:
    """A request on a device or several of them, as many as are asked for, else as few as it fits.

    Args:
        result: the request.
        engine: the settings of the engine.
        device: one of the devices; None for none.
        count: how many there are; None where nobody says.
        shares: how they share it, as far as somebody says.
        progress: called with the name of each step.
    """
    serving, ways = served(result, engine, device), Split(**shares) if shares else None
    plain = printable(replace(result, serving=serving, divisible=None))
    if device is None:
        return plain
    bounds = on_device(result, device, serving)
    plain = replace(plain, device=bounds, notes=(*result.notes, *bounds.notes))
    if serving is None:
        return plain
    floors = floors_of(bounds)
    if result.speculation is not None:
        return replace(plain, serving=replace(serving, floors=result.speculation.floors(floors)))
    serving = replace(serving, floors=floors)
    assert result.divisible is not None
    if count in (None, 1) and ways is None and (serving.fits or not device.capacity_bytes):
        return replace(plain, serving=serving)
    progress(f"splits among {device.name}")
    asked = result.divisible, engine, result.cached_tokens
    if count is None and ways is None:
        splits = tuple(fewest(*asked, device))
        best = replace(serving, fewest=splits[0].split.devices if splits else None)
    elif ways is not None and count in (None, ways.devices):
        splits = (placement(*asked, ways, device),)
        best = splits[0]
    else:
        splits = tuple(placements(*asked, count or 1, device, shares))
        best = splits[0]
    notes = plain.notes
    if splits:
        assumed = _assumed(best.split, result.batch), _repeated(result.divisible, best.split.tp)
        apart = ["times of splits are those without the encoders of images and sound"] if result.media else []
        notes = (*notes, *assumptions_of_links(device), *itertools.chain(*assumed), *apart)
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
    guesser = rounds.draft if rounds.draft.endswith("(MTP)") else rounds.source
    yield (
        f"{rounds.said} of {guesser}, each accepted with the probability {rounds.acceptance:g}, "
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
