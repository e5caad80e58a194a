"""A request to a language model: prompt, steps, cache, and what its devices hold and take."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise._arguments import checked
from flopwise.analyses.llm.division import Split
from flopwise.analyses.llm.inference import Inference, Logits, inference
from flopwise.analyses.llm.on_device import floors_of, on_device
from flopwise.analyses.llm.serving.serving import Engine, served
from flopwise.analyses.llm.serving.solver import batches, placement, placements, splits_on_fewest_devices
from flopwise.analyses.llm.serving.split import assumptions_of_links
from flopwise.analyses.llm.speculation import Speculation, check_settings, speculation, with_draft
from flopwise.analyses.needed import REWRITES
from flopwise.api.language.media import Asked, Media
from flopwise.api.language.program import (
    ConfiguredProgram,
    LanguageProgram,
    cache_type,
    configured,
    devices_of,
    language_module,
    shares_of,
    usual_prompt,
    usual_prompt_of,
)
from flopwise.conventions import Convention
from flopwise.conventions import get as get_convention
from flopwise.errors import InputError
from flopwise.formats.language.read import (
    SHARED,
    Language,
    head_of,
    in_table,
    language,
    transformers_installed,
    weights_of,
)
from flopwise.graph.dtypes import BITS

if TYPE_CHECKING:
    from torch import nn

    from flopwise.analyses.llm.runs import Program
    from flopwise.analyses.llm.serving.split import Divisible
    from flopwise.analyses.timing.device import Device


#: What stands for the model's own head in place of a draft model.
OWN_HEAD = "mtp"

#: The most tokens that are generated, each by a step of its own.
MOST_STEPS = 1 << 20

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
    strict: bool = False,
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
    several = bool(shares) or count not in (None, 1)
    counts = map(operator.index, (block_size, shared_prefix))
    engine = Engine(operator.index(max_batched_tokens), memory_fraction, *counts)
    engine.check()
    _check_devices(shares, where, memory_fraction)
    if draft is not None:
        check_settings(accept, 1 if draft_tokens is None else operator.index(draft_tokens))
    progress("building the model")
    generate = operator.index(generate)
    if generate > MOST_STEPS:
        raise InputError(f"generate {generate:,}: more than {MOST_STEPS:,} tokens are not counted")
    asked = {"kv_dtype": kv_dtype, "curve": curve, "rewrites": rewrites, "conventions": chosen}
    media_asked = Asked(image, images, seconds)
    head = isinstance(draft, str) and draft == OWN_HEAD
    drafts = draft is None or head or (isinstance(draft, (str, os.PathLike)) and in_table(draft, trust_code))
    programs = any(one.sees == "programs" for one in chosen) and transformers_installed()
    by_table = drafts and not programs
    table = configured(model, trust_code, dtype, weights) if by_table else None
    if table is not None:
        if strict and table.decoder.unread:
            raise InputError(
                f"{table.decoder.source}: nothing reads {', '.join(table.decoder.unread)}; leave strict out"
            )
        decoder, encoder = table.decoder, table.decoder.encoder
        if encoder is None:
            media = media_asked.of(table.content, model, decoder.name, decoder.hidden, decoder.dtype, batch)
        else:
            media = media_asked.read_as_prompt(model, encoder.longest if encoder.sound else None, False)
        prompt = (usual_prompt_of(decoder) if prompt is None else prompt) + media.tokens
        run = _Run(prompt, generate, batch * media.windows, cache, logits, engine, progress)
        program: Program = ConfiguredProgram(table, model, cache, generate, media.crossed)
        result = media.staged(run.cost(program, **asked), program.widths, program.types)
        guessing = None if draft is None else run.configured_guessing(table, model, draft)
        vocabulary = table.decoder.vocabulary
    else:
        module = language_module(model, dtype, trust_code)
        media = _media_of(module, media_asked, model, batch)
        prompt = media.prompt or (usual_prompt(module) if prompt is None else prompt) + media.tokens
        run = _Run(prompt, generate, batch * media.windows, cache, logits, engine, progress)
        program = run.program(module, model, weights)
        result = media.staged(run.cost(program, **asked), program.widths, program.types)
        guessing = None if draft is None else run.guessing(draft, trust_code)
        vocabulary = _vocabulary(module)
    if guessing is not None:
        guesses = guessing.usual if draft_tokens is None else operator.index(draft_tokens)
        rounds, check = speculation(result, guessing.cost, accept, guesses, where)
        small, own = guessing.cost.divisible, result.divisible
        if small is not None and own is not None:
            small.shared = SHARED if head else ()
            own = own.drafted(small, guesses, rounds.tokens_per_round, check)
        notes = (*result.notes, *_notes_on_draft(vocabulary, guessing.vocabulary, rounds))
        memory = with_draft(result.memory, guessing.cost.memory)
        result = replace(result, speculation=rounds, memory=memory, notes=notes, divisible=own)
    placed = _placed(result, engine, where, count, shares, progress)
    if where is not None and placed.serving is None and several:
        raise InputError(f"{device}: what {result.name} takes of its memory is not known")
    return _with_batches(placed, result.divisible, where) if curve and draft is None else placed


def _check_devices(shares: Mapping[str, int], device: Device | None, memory_fraction: float) -> None:
    """Refuse what is said of the devices of a request that has none, and ways to divide it that are none.

    Raises:
        InputError: it is so.
    """
    if device is None and shares:
        raise InputError(f"{', '.join(shares)}: give the device as well")
    Split(**shares).check()
    if device is None and memory_fraction != Engine().memory_fraction:
        raise InputError(f"memory_fraction {memory_fraction:g}: give the device as well")


def _with_batches(placed: Inference, request: Divisible | None, device: Device | None) -> Inference:
    """The same with steps of more and more sequences, where it is known how many fit the device."""
    if device is None or placed.serving is None or request is None:
        return placed
    return replace(placed, batches=batches(request, placed.serving, device))


def _media_of(module: Any, asked: Asked, model: object, batch: int) -> Media:
    """Tokens and stages of images and sound for a module of transformers, by the table of architectures.

    Raises:
        InputError: as ``Asked.of``.
    """
    config, name = module.config, type(module).__name__
    if getattr(config, "is_encoder_decoder", False):
        positions = getattr(config, "max_source_positions", None) if hasattr(config, "num_mel_bins") else None
        return asked.read_as_prompt(model, positions, getattr(module, "main_input_name", "") == "input_values")
    width = config.get_text_config(decoder=True).hidden_size
    return asked.of(config.to_dict(), model, name, width, str(module.dtype).removeprefix("torch."), batch)


class _Guessing(NamedTuple):
    """A draft model: entries of its vocabulary, its part of the request, the guesses of a round where nobody says."""

    vocabulary: int
    cost: Inference
    usual: int


@dataclass(frozen=True)
class _Run:
    """The settings of a request that a model and its draft have in common."""

    prompt: int
    generate: int
    batch: int
    cache: str | None
    logits: Logits
    engine: Engine
    progress: Callable[[str], None]

    def program(self, module: nn.Module, model: object, weights: str | None) -> LanguageProgram:
        """A module as a program that is run call by call."""
        return LanguageProgram(module, model, self.cache, weights, self.generate)

    def cost(self, program: Program, **settings: Any) -> Inference:
        """The cost of the request to a program; ``settings`` are further arguments of ``inference``."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "cache"}
        return inference(program, **own, **settings)

    def guessing(self, draft: object, trust_code: bool) -> _Guessing:
        """A draft model that transformers builds.

        Raises:
            InputError: it is the model's own head, which transformers leaves out.
        """
        self.progress("the draft model")
        if isinstance(draft, str) and draft == OWN_HEAD:
            raise InputError("draft mtp: heads are known of configurations in the table of architectures alone")
        small = language_module(draft, None, trust_code)
        return _Guessing(_vocabulary(small), self.cost(self.program(small, draft, None)), USUAL_GUESSES)

    def configured_guessing(self, model: Language, source: object, draft: object) -> _Guessing:
        """The same of a model of the table of architectures."""
        self.progress("the draft model")
        if not (isinstance(draft, str) and draft == OWN_HEAD):
            small = language(os.fspath(draft))  # type: ignore[call-overload] # a path or a name
            program = ConfiguredProgram(small, draft, self.cache, self.generate)
            return _Guessing(small.decoder.vocabulary, self.cost(program), USUAL_GUESSES)
        head = head_of(model)
        program = ConfiguredProgram(head, source, self.cache, self.generate)
        sizes = {name: math.prod(shape) for name, shape in weights_of(head.decoder).shapes.items() if name in SHARED}
        own = Fraction(BITS[head.decoder.dtype], 8)
        shared = sum(numel * program.widths.get(name, own) for name, numel in sizes.items())
        return _Guessing(head.decoder.vocabulary, _beside_its_model(self.cost(program), shared), model.decoder.heads)


def _vocabulary(module: Any) -> int:
    """The entries of the vocabulary of a module of transformers."""
    return int(module.config.get_text_config(decoder=True).vocab_size)


def _beside_its_model(guess: Inference, shared: Fraction | int) -> Inference:
    """A request to a model's own head, without the bytes of what it shares with the model."""
    own, memory = guess.weight_bytes - round(shared), guess.memory
    memory = None if memory is None else replace(memory, weight_bytes=own)
    return replace(guess, name=f"a head of {guess.name} (MTP)", weight_bytes=own, memory=memory)


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
    plain = replace(result, serving=serving, divisible=None)
    if device is None:
        return plain
    bounds = on_device(result, device, serving)
    plain = replace(plain, device=bounds, notes=(*result.notes, *bounds.notes))
    if serving is None:
        return plain
    floors = floors_of(bounds)
    serving = replace(serving, floors=floors if result.speculation is None else result.speculation.floors(floors))
    assert result.divisible is not None
    if count in (None, 1) and ways is None and (serving.fits or not device.capacity_bytes):
        return replace(plain, serving=serving)
    progress(f"splits among {device.name}")
    asked = result.divisible, engine, result.cached_tokens
    if count is None and ways is None:
        splits = tuple(splits_on_fewest_devices(*asked, device))
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
        encoders = ["times of splits are those without the encoders of images and sound"] if result.media else []
        notes = (*notes, *assumptions_of_links(device), *itertools.chain(*assumed), *encoders)
    rounds = plain.speculation
    if rounds is not None and splits and best.floors is not None and best.floors.decode_seconds:
        rounds = replace(rounds, round_seconds=best.floors.decode_seconds * rounds.tokens_per_round)
    return replace(plain, serving=best, splits=splits, notes=notes, speculation=rounds)


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


def _notes_on_draft(own: int, other: int, rounds: Speculation) -> Iterator[str]:
    """Notes on what speculative decoding assumes."""
    guesser = rounds.draft if rounds.draft.endswith("(MTP)") else rounds.source
    yield (
        f"{rounds.said} of {guesser}, each accepted with the probability {rounds.acceptance:g}, "
        f"independently: {rounds.tokens_per_round:.2f} tokens for each round (Leviathan et al. 2023, equation 1); the "
        "columns are those of the model alone"
    )
    if own != other:
        yield f"the draft's vocabulary has {other:,} entries, the model's {own:,}: guesses need the same tokens"


def _repeated(request: Divisible, tp: int) -> Iterator[str]:
    """A note where much of a model is not divided by tensor parallelism."""
    share = round(100 * request.repeated(tp)) if tp > 1 else 0
    if share >= 5:
        yield f"tp {tp}: each device has {share} % of the weights whole, in layers that the division does not name"
