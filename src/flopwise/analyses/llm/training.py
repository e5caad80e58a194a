"""One training step of a language model: exact operations and memory, and what one rank of many does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import cycle
from operator import mul
from typing import TYPE_CHECKING, Literal, TypeAlias

from flopwise._results import Json, Printed, fields
from flopwise.analyses.llm.division import (
    TRAINING_WAYS,
    Division,
    Split,
    by_layer,
    order_of,
    part_of,
    refuse_experts,
    stages,
)
from flopwise.analyses.llm.step import bytes_of, stored_bytes
from flopwise.conventions.language import training_flops
from flopwise.errors import InputError
from flopwise.graph import Tensor
from flopwise.operators.counts import FLOPS
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.storage.attention import is_fused, unfused_attention

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: What is thrown away in the forward pass and computed once more going back.
Checkpointing: TypeAlias = Literal["none", "selective", "full"]

#: What selective checkpointing is worth here.
_SELECTIVE = (
    "checkpointing selective keeps no less than none here: it is for attention that keeps its scores, and the fused "
    "attention that is counted keeps its inputs and result alone"
)


@dataclass(frozen=True)
class Run:
    """A run that somebody measured, held against the peak of its devices."""

    device: str
    devices: int
    tokens_per_second: float
    #: Multiply-adds and additions for each second that the devices reach at most, all together.
    peak_flops: float
    #: The share of it that the model's operations take (MFU).
    utilisation: float


@dataclass(frozen=True)
class Room:
    """The memory of the devices that a step is to run on, and what the one with the most in it needs."""

    device: str
    devices: int
    memory_bytes: int
    must_fit_bytes: int
    #: Whether the driver reports as much memory; else the vendor prints it.
    reported: bool = True

    @property
    def left_over_bytes(self) -> int:
        """Bytes that are left; negative where the step does not fit."""
        return self.memory_bytes - self.must_fit_bytes

    @property
    def fits(self) -> bool:
        """True if the step fits."""
        return self.left_over_bytes >= 0

    def to_dict(self) -> Json:
        """The key "device" of the JSON schema."""
        return {**vars(self), "left_over_bytes": self.left_over_bytes, "fits": self.fits}


@dataclass(frozen=True)
class Rank:
    """The share of the rank with the most memory in one step."""

    split: Split
    stage: int
    params: int
    trained_params: int
    forward_flops: int
    backward_flops: int
    optimizer_flops: int
    weight_bytes: int
    gradient_bytes: int
    state_bytes: int
    saved_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Weights, gradients, the optimizer's state and kept activations."""
        return self.weight_bytes + self.gradient_bytes + self.state_bytes + self.saved_bytes


@dataclass(frozen=True)
class TrainingStep(Printed):
    """The cost of a training step, on one device and on one of many."""

    name: str
    source: str
    dtype: str
    batch: int
    sequence: int
    optimizer: str
    checkpointing: Checkpointing
    params: int
    trained_params: int
    forward_flops: int
    #: The backward pass, with what is computed once more.
    backward_flops: int
    recomputed_flops: int
    optimizer_flops: int
    weight_bytes: int
    gradient_bytes: int
    state_bytes: int
    saved_bytes: int
    #: FLOPs of a step as the formulas in use have them, by name.
    rules_of_thumb: Mapping[str, int]
    rank: Rank | None = None
    run: Run | None = None
    #: None where no device was named, or its memory is not known.
    room: Room | None = None
    #: What is trained beside a frozen base, and how that is stored, in words; "" where all weights are trained.
    adapters: str = ""
    exact: bool = True
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.batch * self.sequence

    @property
    def flops(self) -> int:
        """All that a step executes."""
        return self.forward_flops + self.backward_flops + self.optimizer_flops

    @property
    def model_flops(self) -> int:
        """Forward and backward pass without what is computed twice: what MFU counts."""
        return self.forward_flops + self.backward_flops - self.recomputed_flops

    @property
    def memory_bytes(self) -> int:
        """Weights, gradients, the optimizer's state and kept activations."""
        return self.weight_bytes + self.gradient_bytes + self.state_bytes + self.saved_bytes

    def to_dict(self) -> Json:
        """The step in the JSON schema ``flopwise.llm-train/1``: every number an integer or None."""
        figures = ("params", "trained_params", "forward_flops", "backward_flops", "optimizer_flops")
        memory = ("weight_bytes", "gradient_bytes", "state_bytes", "saved_bytes", "memory_bytes")
        rank = self.rank
        return {
            "schema": "flopwise.llm-train/1",
            "model": {"name": self.name, "source": self.source, "dtype": self.dtype},
            **fields(self, "batch sequence optimizer checkpointing"),
            **({"adapters": self.adapters} if self.adapters else {}),
            **{key: getattr(self, key) for key in (*figures, "recomputed_flops", "model_flops", "flops", *memory)},
            "rank": None
            if rank is None
            else {
                "devices": rank.split.devices,
                **{key: getattr(rank.split, key) for key in TRAINING_WAYS},
                "stage": rank.stage,
                **{key: getattr(rank, key) for key in (*figures, *memory)},
            },
            "rules_of_thumb": dict(self.rules_of_thumb),
            **({} if self.run is None else {"run": vars(self.run)}),
            **({} if self.room is None else {"device": self.room.to_dict()}),
            "exact": self.exact,
            "notes": list(self.notes),
        }


def room_of(step: TrainingStep, device: Device, devices: int) -> Room | None:
    """The memory of a device beside what the rank with the most needs; None where it is not known."""
    need = step.memory_bytes if step.rank is None else step.rank.memory_bytes
    have, reported = device.capacity_bytes, device.reported is not None
    return Room(device.name, devices, have, need, reported) if have else None


def run_of(step: TrainingStep, device: Device, tokens_per_second: float, devices: int) -> Run:
    """The utilisation of a run: the step's operations, none counted twice, for each second, over the devices' peak.

    Raises:
        InputError: the device has no figure for the weights' type, or the rate is not positive.
    """
    peak = device.rated(step.dtype)
    if peak is None:
        raise InputError(f"{device.name}: there is no figure for {step.dtype}")
    if not 0 < tokens_per_second < math.inf:
        raise InputError(f"{tokens_per_second:g} tokens per second: must be a number above 0")
    peak_flops = peak.value * devices
    share = step.model_flops / step.tokens * tokens_per_second / peak_flops
    return Run(device.name, devices, tokens_per_second, peak_flops, share)


def training_step(
    profile: Profile,
    *,
    name: str,
    source: str,
    dtype: str,
    batch: int,
    sequence: int,
    optimizer: str,
    checkpointing: Checkpointing = "none",
    plain: Profile | None = None,
    split: Split | None = None,
    shard: Profile | None = None,
    adapters: str = "",
    widths: Mapping[str, Fraction] | None = None,
) -> TrainingStep:
    """The figures of a step from its profile.

    Args:
        profile: the step, counted with ``train`` and an optimizer.
        name: what the model is called.
        source: where it comes from.
        dtype: element type of its weights.
        batch: sequences of a step.
        sequence: tokens of each.
        optimizer: its name.
        checkpointing: what is computed once more.
        plain: with full checkpointing, the same step without it.
        split: how the step is spread over devices.
        shard: the profile of one rank's part of the batch.
        adapters: what is trained beside a frozen base, in words.
        widths: bytes of each element of stored tensors, by name, where they are not stored in the program's type.

    Raises:
        InputError: checkpointing is selective, and the program has no fused attention.
    """
    training = profile.training
    assert training is not None
    backward, saved, again = profile.sum.backward_flops, training.saved_bytes, 0
    if plain is not None:
        again = backward - plain.sum.backward_flops
    elif checkpointing == "selective":
        if unfused_attention(profile.graph):
            raise InputError(
                f"checkpointing selective: {name} computes its attention operator by operator, and which of them are "
                "computed once more is not its program's to say; take none or full"
            )
        again = sum(row.flops or 0 for row in profile.rows if is_fused(row.node))
        backward += again
    update = training.to_dict(profile.rows, profile.sum)["optimizer_flops"] or 0
    return TrainingStep(
        name=name,
        source=source,
        dtype=dtype,
        batch=batch,
        sequence=sequence,
        optimizer=optimizer,
        checkpointing=checkpointing,
        params=profile.total("params"),
        trained_params=sum(t.numel for t in training.weights),
        forward_flops=profile.total("flops"),
        backward_flops=backward,
        recomputed_flops=again,
        optimizer_flops=update,
        weight_bytes=stored_bytes(profile, widths or {}),
        gradient_bytes=training.gradient_bytes,
        state_bytes=training.state_bytes or 0,
        saved_bytes=saved,
        rules_of_thumb={} if adapters else training_flops(profile.graph),
        rank=None if split is None else rank_of(shard or profile, split, widths),
        adapters=adapters,
        exact=profile.exact and training.exact,
        notes=(*([_SELECTIVE] if checkpointing == "selective" else []), *profile.notes),
    )


def rank_of(profile: Profile, split: Split, widths: Mapping[str, Fraction] | None = None) -> Rank:
    """The rank with the most memory.

    Every figure is an exact tensor or count of the step. With experts shared (``ep``) each rank multiplies the tokens
    of all of them with its own experts: with balanced routing as much work as its own tokens with all experts. With
    stages (``pp``) the batch runs as P micro-batches, one forward and one backward in turns (1F1B): stage s of P keeps
    the activations of P - s + 1 of them at most, the first those of its layers for the whole batch, which more than P
    micro-batches would make less (PipeDream-Flush in https://arxiv.org/abs/2104.04473, section 2.2).

    Args:
        profile: a training step of one rank's part of the batch.
        split: how it is spread.
        widths: bytes of each element of stored tensors, by name, where they are not stored in the program's type.

    Raises:
        InputError: something does not divide: heads, experts or layers.
    """
    division, layers = Division(profile, split.tp), by_layer(profile.rows)
    refuse_experts(division.experts, split.ep)
    each = [[row for path in paths for row in layers[path]] for paths in stages(order_of(layers), split.pp)]
    ranks = [_stage(division, split, rows, number, widths or {}) for number, rows in enumerate(each)]
    return max(ranks, key=lambda rank: rank.memory_bytes)


def _stage(division: Division, split: Split, rows: Sequence[Row], number: int, widths: Mapping[str, Fraction]) -> Rank:
    """The rank of one stage."""
    training = division.profile.training
    assert training is not None
    optimizer, trained = training.optimizer, {t.name for t in training.weights}

    def part(tensor: Tensor) -> Fraction:
        """The part of a stored tensor that a rank has."""
        ep, fsdp = split.ep, split.fsdp
        return division.weight(tensor.name) / (ep * max(fsdp // ep, 1) if tensor.name in division.experts else fsdp)

    def shared(figure: str) -> int:
        """A figure of rows added up, of each the part that a device has."""
        return sum(part_of(getattr(row, figure) or 0, division.row(row)) for row in rows)

    stored = {t.name: t for row in rows for t in division.folding.stored(row.node)}
    nbytes = {name: part_of(bytes_of(t, widths), part(t)) for name, t in stored.items()}
    numbers = {name: part_of(t.numel, part(t)) for name, t in stored.items() if t.kind == "weight"}
    gradients = [size for name, size in nbytes.items() if name in trained]
    trained_params = sum(size for name, size in numbers.items() if name in trained)
    update = 0 if training.update is None else training.update.dot(FLOPS)
    waiting = split.pp - number  # of as many micro-batches as there are stages
    return Rank(
        split=split,
        stage=number,
        params=sum(numbers.values()),
        trained_params=trained_params,
        forward_flops=shared("flops"),
        backward_flops=shared("backward_flops"),
        optimizer_flops=update * trained_params // (sum(t.numel for t in training.weights) or 1),
        weight_bytes=sum(nbytes.values()),
        gradient_bytes=sum(gradients),
        state_bytes=0 if optimizer is None else sum(optimizer.copies * size + optimizer.extra for size in gradients),
        saved_bytes=part_of(waiting * shared("saved_bytes"), Fraction(1, split.pp)),
    )


# Documents that are packed into the sequences of a training step, each with an attention of its own.
#
# Documents stand end to end and are cut where a sequence is full, as in most pre-training; there is no padding. A token
# costs what it costs in its document: attention sees no other one (Krell et al. 2021,
# https://arxiv.org/abs/2107.02027).


#: Lengths that are run one by one where costs are no parabola of the length, as behind a window.
MOST_LENGTHS = 64

#: The figures of a step that add up over its documents.
_ADDED = ("forward_flops", "backward_flops", "recomputed_flops", "saved_bytes")

#: The same of a rank.
_ADDED_OF_RANK = ("forward_flops", "backward_flops", "saved_bytes")


def packed(lengths: Sequence[int], sequences: int, tokens: int) -> list[Counter[int]]:
    """The lengths of the documents in each sequence, or of the parts of them.

    Args:
        lengths: those of the documents, over and over.
        sequences: how many sequences there are.
        tokens: tokens of each.

    >>> packed([5, 3], 2, 10)
    [Counter({5: 1, 3: 1, 2: 1}), Counter({3: 2, 4: 1})]
    """
    rows, left, documents = [], 0, cycle(lengths)
    for _ in range(sequences):
        row: Counter[int] = Counter()
        room = tokens
        while room:
            left = left or next(documents)
            part = min(left, room)
            row[part] += 1
            room, left = room - part, left - part
        rows.append(row)
    return rows


def packed_step(one: Callable[[int], TrainingStep], rows: Sequence[Counter[int]], ranks: int) -> TrainingStep:
    """A training step on packed sequences.

    Args:
        one: number of tokens -> the step of a single document of so many, on all devices and on a rank.
        rows: the lengths of the documents in each sequence.
        ranks: how many ranks divide the sequences; the one described has the most to do.

    Raises:
        InputError: there are too many lengths for a model whose costs are no parabola of the length.
    """
    documents = sum(rows, Counter())
    longest = one(max(documents))
    rules = tuple(longest.rules_of_thumb)

    def cost(tokens: int) -> tuple[int, ...]:
        step = one(tokens)
        of_rank = () if step.rank is None else (getattr(step.rank, name) for name in _ADDED_OF_RANK)
        return (
            *(getattr(step, name) for name in _ADDED),
            *(step.rules_of_thumb[name] for name in rules),
            *of_rank,
        )

    share = len(rows) // ranks
    parts = [sum(rows[n : n + share], Counter()) for n in range(0, len(rows), share)]
    own = max(parts, key=lambda part: sum(count * tokens**2 for tokens, count in part.items()))
    whole, of_rank = (over_documents(cost, counts) for counts in (documents, own))
    first, rank = len(_ADDED) + len(rules), longest.rank
    if rank is not None:
        forward, backward, saved = of_rank[first:]
        rank = replace(rank, forward_flops=forward, backward_flops=backward, saved_bytes=saved)
    forward, backward, recomputed, saved = whole[: len(_ADDED)]
    return replace(
        longest,
        batch=len(rows),
        sequence=sum(tokens * count for tokens, count in rows[0].items()),
        forward_flops=forward,
        backward_flops=backward,
        recomputed_flops=recomputed,
        saved_bytes=saved,
        rules_of_thumb=dict(zip(rules, whole[len(_ADDED) : first], strict=True)),
        rank=rank,
    )


def over_documents(cost: Callable[[int], tuple[int, ...]], counts: Mapping[int, int]) -> tuple[int, ...]:
    """The sums of some figures over documents: of the parabolas through three lengths, where a fourth lies on them,
    else of each length.

    Args:
        cost: length -> the figures.
        counts: length -> documents.

    Raises:
        InputError: the figures are no parabolas, and there are too many lengths to run each.
    """
    lengths = sorted(counts)
    if len(lengths) > 4:
        chosen = [lengths[0], lengths[len(lengths) // 2], lengths[-1]]
        known = [cost(tokens) for tokens in chosen]

        def parabola(tokens: int) -> tuple[Fraction, ...]:
            weights = [
                reduce(mul, (Fraction(tokens - other, own - other) for other in chosen if other != own), Fraction(1))
                for own in chosen
            ]
            return tuple(
                sum((w * f for w, f in zip(weights, each, strict=True)), Fraction(0))
                for each in zip(*known, strict=True)
            )

        check = lengths[len(lengths) // 4]
        if parabola(check) == cost(check):
            each = [[count * figure for figure in parabola(tokens)] for tokens, count in counts.items()]
            return tuple(round(sum(figures)) for figures in zip(*each, strict=True))
        if len(lengths) > MOST_LENGTHS:
            raise InputError(
                f"lengths: {len(lengths)} different ones, and the model's costs are no parabola of the length, as "
                f"behind a window: at most {MOST_LENGTHS}"
            )
    alone = [[count * figure for figure in cost(tokens)] for tokens, count in counts.items()]
    return tuple(sum(figures) for figures in zip(*alone, strict=True))
