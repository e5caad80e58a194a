"""A training step of a language model."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise.analyses.llm.division import Split
from flopwise.analyses.llm.training import (
    Checkpointing,
    TrainingStep,
    packed,
    packed_step,
    room_of,
    run_of,
    training_step,
)
from flopwise.api.language.program import (
    configured,
    devices_of,
    language_module,
    shares_of,
    usual_prompt,
    usual_prompt_of,
)
from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import InputError, counted
from flopwise.formats.language.graph import decoder_graph
from flopwise.formats.language.lora import Lora, beside, layers_of, lora_of
from flopwise.formats.language.operators import Learning
from flopwise.formats.language.read import Language, can_learn, linear_layers, weights_of
from flopwise.formats.language.stored import Widths, named_widths

if TYPE_CHECKING:
    from torch import nn

    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile


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
    split = Split(**shares) if shares else None
    if split is not None:
        split.check_batch(batch)
    documents = None if lengths is None else _documents(lengths)
    if documents is not None and split is not None and split.pp > 1:
        raise InputError("lengths: packed sequences are counted without stages (pp)")
    _check_run(tokens_per_second, measured)
    count, where = _device(device, split)
    if (tokens_per_second, measured) != (None, None) and where is None:
        raise InputError("the MFU of a run needs a device as well")
    if weights is not None and lora is None:
        raise InputError(f"weights {weights}: what is trained is not quantised; give lora for a frozen base")
    progress("building the model")
    adapters = None if lora is None else lora_of(lora)
    subject: _Module | _Configured
    table = configured(model, trust_code, dtype)
    if table is not None and can_learn(table.decoder):
        subject = _Configured(table, weights, adapters, checkpointing == "full")
    else:
        subject = _Module(language_module(model, dtype, trust_code), model, weights, adapters)
    base = _Base(subject, model, weights, optimizer, checkpointing, split, progress)
    sequence = subject.usual_prompt if prompt is None else prompt
    result = base.packed(documents, batch, sequence) if documents is not None else base.step(batch, sequence)
    if where is not None:
        rate = tokens_per_second if measured is None else batch * sequence / measured
        result = _on_devices(result, where, count, rate)
    return result


def _device(device: str | None, split: Split | None) -> tuple[int, Device | None]:
    """The number of devices that share a step, and the device.

    Raises:
        InputError: it is unknown, or so many of them are named as do not share the step.
    """
    asked, where = devices_of(device, None)
    count = 1 if split is None else split.devices
    if asked not in (None, count):
        how = "nothing says how they share the step: --fsdp, --dp, --tp, --pp" if split is None else f"not {count}"
        raise InputError(f"{device}: these are {asked} devices, {how}")
    return count, where


def _check_run(tokens_per_second: float | None, measured: float | None) -> None:
    """Refuse figures of a run that say the same, or are none.

    Raises:
        InputError: they are.
    """
    if measured is not None and tokens_per_second is not None:
        raise InputError("tokens per second and seconds of a step say the same of a run; give one")
    if measured is not None and not 0 < measured < math.inf:
        raise InputError(f"measured {measured:g} seconds: must be a number above 0")


def _on_devices(result: TrainingStep, device: Device, count: int, rate: float | None) -> TrainingStep:
    """A step held against the memory of its devices, and against their peak where a run's tokens per second are known.

    Raises:
        InputError: the device has no figure for the weights' type.
    """
    result = replace(result, room=room_of(result, device, count))
    if rate is None:
        return result
    run = run_of(result, device, rate, count)
    above = "the run is faster than the devices' peak: another type computes, or the rate is wrong"
    return replace(result, run=run, notes=((above,) if run.utilisation > 1 else ()) + result.notes)


class _Configured:
    """A model of the table of architectures that is trained, perhaps with adapters beside it."""

    def __init__(self, model: Language, weights: str | None, adapters: Lora | None, full: bool) -> None:
        self.decoder, self.adapters, self.full = model.decoder, adapters, full
        self.name, self.dtype = self.decoder.name, self.decoder.dtype
        self.usual_prompt, self.notes = usual_prompt_of(self.decoder), list(model.notes)
        self.widths, self.paths = Widths(), list[str]()
        if adapters is not None:
            seen = weights_of(self.decoder)
            self.widths = named_widths(seen, weights) if weights else model.widths
            self.paths = layers_of(adapters, self.name, linear_layers(seen), ["lm_head"])
            self.notes += [beside(self.paths), *self.widths.notes]

    def step(self, batch: int, sequence: int, again: bool, optimizer: str) -> Profile:
        """The profile of a step; with checkpoints around the layers where asked."""
        rank = 0 if self.adapters is None else self.adapters.rank
        learning = Learning(checkpoints=again, inputs=self.full, rank=rank, adapted=frozenset(self.paths))
        return profile(decoder_graph(self.decoder, batch, sequence, learning=learning), train=True, optimizer=optimizer)

    def adapted(self) -> contextlib.AbstractContextManager[list[str]]:
        """The notes on it and its adapters."""
        return contextlib.nullcontext(self.notes)


class _Module:
    """A module of transformers that is trained, perhaps with adapters beside it."""

    def __init__(self, module: nn.Module, model: object, weights: str | None, adapters: Lora | None) -> None:
        self.module, self.model, self.weights, self.adapters = module, model, weights, adapters
        self.name, self.dtype = type(module).__name__, str(next(module.parameters()).dtype).removeprefix("torch.")
        self.usual_prompt = usual_prompt(module)

    @functools.cached_property
    def widths(self) -> Widths:
        """Storage of a frozen base's weights: by the name of a quantisation, else as the model says."""
        from flopwise.formats.torch.language.model import module_widths

        return Widths() if self.adapters is None else module_widths(self.module, self.model, self.weights)

    def step(self, batch: int, sequence: int, again: bool, optimizer: str) -> Profile:
        """The profile of a step with the loss of the next token; transformers' own checkpoints where asked."""
        from flopwise.formats.torch.language.state import training_inputs
        from flopwise.formats.torch.language.ways import shared

        inputs = training_inputs(self.module, batch, sequence)
        with _checkpoints(self.module) if again else contextlib.nullcontext():
            graph = read(self.module, inputs, mode="train", grad=True)
        return profile(shared(graph, self.module), train=True, optimizer=optimizer)

    @contextlib.contextmanager
    def adapted(self) -> Iterator[list[str]]:
        """The module with its adapters meanwhile, and the notes on them."""
        if self.adapters is None:
            yield []
            return
        from flopwise.formats.torch.adapters import adapted

        notes = self.widths.notes  # of the module without them
        with adapted(self.module, self.adapters) as note:
            yield [note, *notes]


@dataclass(frozen=True)
class _Base:
    """A step of a model that is trained."""

    subject: _Module | _Configured
    model: object
    weights: str | None
    optimizer: str
    checkpointing: Checkpointing
    split: Split | None
    progress: Callable[[str], None]

    @property
    def ranks(self) -> int:
        """Ranks that divide the batch."""
        return 1 if self.split is None else self.split.batches

    def step(self, batch: int, sequence: int) -> TrainingStep:
        """A step of so many sequences."""
        with self.subject.adapted() as notes:
            return self._noted(self._step(batch, sequence, batch // self.ranks), notes)

    def packed(self, documents: Sequence[int], batch: int, sequence: int) -> TrainingStep:
        """A step of so many sequences into which documents are packed."""
        rows = packed(documents, batch, sequence)
        pieces = sum(row.total() for row in rows)
        text = (
            f"packed: {counted(pieces, 'document')} or parts of them in {counted(batch, 'sequence')}, "
            f"{batch * sequence / pieces:,.0f} tokens each on average, each with an attention of its own; "
            "the other notes are of the longest"
        )
        with self.subject.adapted() as notes:
            result = packed_step(functools.cache(lambda tokens: self._step(1, tokens, 1)), rows, self.ranks)
            return self._noted(result, [*notes, text])

    def _noted(self, result: TrainingStep, notes: Sequence[str]) -> TrainingStep:
        return replace(result, notes=(*notes, *result.notes))

    def _step(self, sequences: int, tokens: int, own: int) -> TrainingStep:
        """A step of so many sequences, of which a rank has its own."""
        full, subject = self.checkpointing == "full", self.subject
        step = self._trained(sequences, tokens, full)
        stored = f", base in {self.weights}" if self.weights else ""
        return training_step(
            step,
            name=subject.name,
            source=os.fsdecode(self.model) if isinstance(self.model, (str, os.PathLike)) else subject.name,
            dtype=subject.dtype,
            batch=sequences,
            sequence=tokens,
            optimizer=self.optimizer,
            checkpointing=self.checkpointing,
            plain=self._trained(sequences, tokens, False) if full else None,
            split=self.split,
            shard=self._trained(own, tokens, full) if own != sequences else step,
            adapters="" if subject.adapters is None else f"{subject.adapters}{stored}",
            widths=subject.widths.elements,
        )

    def _trained(self, batch: int, sequence: int, again: bool) -> Profile:
        self.progress(f"a step of {batch} × {sequence} tokens")
        return self.subject.step(batch, sequence, again, self.optimizer)


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
