"""The share of one rank when a training step is spread over many devices: what it holds and computes.

Every figure is an exact tensor or count of the whole step, divided by the named ways of sharding:

- ``dp`` and ``fsdp`` divide the batch; ``fsdp`` also divides each weight, its gradient and its state (ZeRO-3).
- ``tp`` divides the weights that a plan names (``readers.torch.language.plan``, as for serving): by columns, so that
  what follows works on a part, up to the product that is divided by rows. What lies between them, attention included,
  is divided; all else is done by every rank.
- ``ep`` divides the stacks of experts among ranks that also divide the batch. Each rank multiplies the tokens of all of
  them with its own experts: with balanced routing that is as much work as its own tokens with all experts.
- ``pp`` divides the layers into equal stretches; the first stage also has what comes before, the last what comes after.
  The rank described is that of the stage that needs the most memory. The batch runs as P micro-batches, one forward and
  one backward in turns (1F1B): stage s of P keeps the activations of P - s + 1 of them at most, the first those of its
  layers for the whole batch, which more than P micro-batches would make less.

Sources: Megatron-LM, https://arxiv.org/abs/1909.08053; ZeRO, https://arxiv.org/abs/1910.02054; PipeDream-Flush in
https://arxiv.org/abs/2104.04473, section 2.2; GShard, https://arxiv.org/abs/2006.16668.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flopwise.analyses.llm.division import Division, part_of, stages
from flopwise.analyses.llm.traffic import bytes_of
from flopwise.errors import InputError, counted
from flopwise.graph import Tensor
from flopwise.operators.counts import FLOPS
from flopwise.profiles.profile import Profile
from flopwise.rows import Row


@dataclass(frozen=True)
class Sharding:
    """The division of a training step over devices."""

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1

    @property
    def batches(self) -> int:
        """Into how many parts the batch is divided."""
        return self.dp * self.fsdp

    @property
    def devices(self) -> int:
        """Devices all together; experts are divided among those that also divide the batch."""
        return self.dp * self.fsdp * self.tp * self.pp

    def check(self, batch: int) -> None:
        """Refuse what cannot be divided.

        Raises:
            InputError: a number is less than 1, or the batch does not divide.
        """
        for name in ("dp", "fsdp", "tp", "pp", "ep"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}: must be at least 1")
        if batch % self.batches:
            raise InputError(f"a batch of {batch} does not divide by dp × fsdp = {self.batches}")
        if (batch // self.batches) % self.pp:
            own = counted(batch // self.batches, "sequence")
            raise InputError(f"pp {self.pp}: {own} of a rank cannot be {self.pp} equal micro-batches")
        if self.ep > 1 and self.batches % self.ep:
            raise InputError(f"ep {self.ep}: experts are divided among the dp × fsdp = {self.batches} ranks of a batch")


@dataclass(frozen=True)
class Rank:
    """The share of the rank with the most memory in one step."""

    sharding: Sharding
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


def rank_of(
    profile: Profile, sharding: Sharding, plan: Mapping[str, str], widths: Mapping[str, Fraction] | None = None
) -> Rank:
    """The rank with the most memory.

    Args:
        profile: a training step of one rank's part of the batch.
        sharding: how it is spread.
        plan: module path with ``*`` for numbers -> how its weight is divided ("colwise", "rowwise" ...).
        widths: bytes of each element of stored tensors, by name, where they are not stored in the program's type.

    Raises:
        InputError: something does not divide: heads, experts or layers.
    """
    assert profile.training is not None
    division = Division(profile, plan, sharding.tp, sharding.ep)
    stretches = enumerate(stages(profile.rows, sharding.pp))
    ranks = [_stage(division, sharding, rows, number, widths or {}) for number, rows in stretches]
    return max(ranks, key=lambda rank: rank.memory_bytes)


def _stage(
    division: Division, sharding: Sharding, rows: Sequence[Row], number: int, widths: Mapping[str, Fraction]
) -> Rank:
    """The rank of one stage."""
    training = division.profile.training
    assert training is not None
    optimizer, trained = training.optimizer, {t.name for t in training.weights}
    stored = {t.name: t for row in rows for t in division.folding.stored(row.node)}
    parts = {name: _part(division, sharding, t) for name, t in stored.items()}
    nbytes = {name: part_of(bytes_of(t, widths), parts[name]) for name, t in stored.items()}
    gradients = [size for name, size in nbytes.items() if name in trained]
    numbers = {name: part_of(t.numel, parts[name]) for name, t in stored.items() if t.kind == "weight"}
    trained_params = sum(size for name, size in numbers.items() if name in trained)
    update = 0 if training.update is None else training.update.dot(FLOPS)
    forward, backward, saved = (_shared(division, rows, key) for key in ("flops", "backward_flops", "saved_bytes"))
    waiting = sharding.pp - number  # of as many micro-batches as there are stages
    return Rank(
        sharding=sharding,
        stage=number,
        params=sum(numbers.values()),
        trained_params=trained_params,
        forward_flops=forward,
        backward_flops=backward,
        optimizer_flops=update * trained_params // (sum(t.numel for t in training.weights) or 1),
        weight_bytes=sum(nbytes.values()),
        gradient_bytes=sum(gradients),
        state_bytes=0 if optimizer is None else sum(optimizer.copies * size + optimizer.extra for size in gradients),
        saved_bytes=part_of(waiting * saved, Fraction(1, sharding.pp)),
    )


def _shared(division: Division, rows: Sequence[Row], figure: str) -> int:
    """A figure of rows added up, of each the part that a device has."""
    return sum(part_of(getattr(row, figure) or 0, division.row(row)) for row in rows)


def _part(division: Division, sharding: Sharding, tensor: Tensor) -> Fraction:
    """The part of a stored tensor that a rank has."""
    ep, fsdp = sharding.ep, sharding.fsdp
    shared = ep * max(fsdp // ep, 1) if tensor.name in division.experts else fsdp
    return division.weight(tensor.name) / shared
