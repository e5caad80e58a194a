"""A training step of a language model."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise.analyses.llm.packing import packed, packed_step
from flopwise.analyses.llm.sharding import Sharding
from flopwise.analyses.llm.training import Checkpointing, TrainingStep, room_of, run_of, training_step
from flopwise.api import printable
from flopwise.api.language.devices import devices_of, shares_of
from flopwise.api.language.program import language_module, usual_prompt
from flopwise.api.profile import profile
from flopwise.errors import InputError, counted

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.readers.torch.language.widths import Widths


@functools.partial(checked, name="llm")
def step(
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
    lengths: int | str | os.PathLike[str] | Sequence[int] | None = None,
) -> TrainingStep:
    """The cost of a training step; see ``llm``."""
    for name, number in (("batch", batch), ("prompt", 1 if prompt is None else prompt)):
        if number < 1:
            raise InputError(f"{name} {number}: must be at least 1")
    shares = shares_of({"dp": dp, "fsdp": fsdp, "tp": tp, "pp": pp, "ep": ep})
    sharding = Sharding(**shares) if shares else None
    if sharding is not None:
        sharding.check(batch)
    documents = None if lengths is None else _documents(lengths)
    if documents is not None and sharding is not None and sharding.pp > 1:
        raise InputError("lengths: packed sequences are counted without stages (pp)")
    if measured is not None and tokens_per_second is not None:
        raise InputError("tokens per second and seconds of a step say the same of a run; give one")
    if measured is not None and not 0 < measured < math.inf:
        raise InputError(f"measured {measured:g} seconds: must be a number above 0")
    asked, where = devices_of(device, None)
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

    full = checkpointing == "full"
    text = isinstance(model, (str, os.PathLike))

    def trained(sequences: int, tokens: int, again: bool) -> Profile:
        progress(f"a step of {sequences} × {tokens} tokens")
        return _trained(module, sequences, tokens, optimizer, again)

    def of(sequences: int, tokens: int, own: int) -> TrainingStep:
        """A step of so many sequences, of which a rank has its own."""
        step = trained(sequences, tokens, full)
        return training_step(
            step,
            name=type(module).__name__,
            source=os.fsdecode(model) if text else type(module).__name__,  # type: ignore[arg-type]
            dtype=str(next(module.parameters()).dtype).removeprefix("torch."),
            batch=sequences,
            sequence=tokens,
            optimizer=optimizer,
            checkpointing=checkpointing,
            plain=trained(sequences, tokens, False) if full else None,
            sharding=sharding,
            shard=trained(own, tokens, full) if own != sequences else step,
            plan=engines_plan(module),
            adapters="" if chosen is None else f"{chosen}{(weights and f', base in {weights}') or ''}",
            widths=widths.elements,
        )

    ranks = 1 if sharding is None else sharding.batches
    with contextlib.nullcontext(0) if chosen is None else adapted(module, chosen) as layers:
        if documents is None:
            result = of(batch, sequence, batch // ranks)
        else:
            rows = packed(documents, batch, sequence)
            result = packed_step(functools.cache(lambda tokens: of(1, tokens, 1)), rows, ranks)
            pieces = sum(row.total() for row in rows)
            told = (
                f"packed: {counted(pieces, 'document')} or parts of them in {counted(batch, 'sequence')}, "
                f"{batch * sequence / pieces:,.0f} tokens each on average, each with an attention of its own; "
                "the other notes are of the longest"
            )
            result = replace(result, notes=(told, *result.notes))
    if chosen is not None:
        told = f"adapters as peft adds them, beside {layers} layers; the base is frozen"
        result = replace(result, notes=(told, *widths.notes, *result.notes))
    if where is not None:
        result = replace(result, room=room_of(result, where, count))
        if rate is not None:
            run = run_of(result, where, rate, count)
            above = "the run is faster than the devices' peak: another type computes, or the rate is wrong"
            result = replace(result, run=run, notes=((above,) if run.utilisation > 1 else ()) + result.notes)
    return printable(result)


def _documents(lengths: int | str | os.PathLike[str] | Sequence[int]) -> list[int]:
    """The lengths of documents: one for all, several, or those in a file of numbers.

    Raises:
        InputError: the file cannot be read, or something is no whole number of at least 1.
    """
    if isinstance(lengths, (str, os.PathLike)) and not (text := os.fspath(lengths)).isdigit():
        try:
            words = Path(text).read_text("utf-8").replace(",", " ").split()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InputError(f"lengths {text}: {why}; give a number of tokens, or a file of such numbers") from error
    else:
        words = [str(one) for one in ([lengths] if isinstance(lengths, (int, str, os.PathLike)) else lengths)]
    for word in words:
        if not (word.isascii() and word.isdigit()) or not int(word):
            raise InputError(f"lengths: {word[:20]!r} is no number of tokens")
    if not words:
        raise InputError("lengths: there are none")
    return [int(word) for word in words]


def _widths_of_base(module: Any, model: object, weights: str | None) -> Widths:
    """Storage of a frozen base's weights: by the name of a quantisation, else as the model says."""
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
