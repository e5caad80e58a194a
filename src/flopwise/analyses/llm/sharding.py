"""The share of one rank when a training step is spread over many devices: what it holds and computes.

Every figure is an exact tensor or count of the whole step, divided by the named ways of sharding:

- ``dp`` and ``fsdp`` divide the batch; ``fsdp`` also divides each weight, its gradient and its state (ZeRO-3).
- ``tp`` divides the weights that the model's own plan names (transformers' ``tp_plan``): by columns, so that what
  follows works on a part, up to the product that is divided by rows. What lies between them, attention included, is
  divided; all else is done by every rank.
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

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flopwise.errors import InputError, counted
from flopwise.graph import Tensor
from flopwise.memory.experts import experts_of
from flopwise.operators.counts import FLOPS
from flopwise.operators.folding import fold
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Layers of a model are numbered: the first number in a module's path.
_NUMBER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


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


def rank_of(profile: Profile, sharding: Sharding, plan: Mapping[str, str]) -> Rank:
    """The rank with the most memory.

    Args:
        profile: a training step of one rank's part of the batch.
        sharding: how it is spread.
        plan: module path with ``*`` for numbers -> how its weight is divided ("colwise", "rowwise" ...).

    Raises:
        InputError: something does not divide: heads, experts or layers.
    """
    assert profile.training is not None
    parts = _Parts(profile, sharding, plan)
    stages = _stages(profile.rows, sharding.pp)
    ranks = [_stage(parts, rows, number) for number, rows in enumerate(stages)]
    return max(ranks, key=lambda rank: rank.memory_bytes)


def _stage(parts: _Parts, rows: Sequence[Row], number: int) -> Rank:
    """The rank of one stage."""
    profile, sharding = parts.profile, parts.sharding
    training = profile.training
    assert training is not None
    optimizer, trained = training.optimizer, {t.name for t in training.weights}
    stored = {t.name: t for row in rows for t in parts.folding.stored(row.node)}
    nbytes = {name: _share(t.nbytes, parts.weight(t)) for name, t in stored.items()}
    gradients = [size for name, size in nbytes.items() if name in trained]
    params = sum(_share(t.numel, parts.weight(t)) for t in stored.values() if t.kind == "weight")
    update = 0 if training.update is None else training.update.dot(FLOPS)
    waiting = sharding.pp - number  # of as many micro-batches as there are stages
    return Rank(
        sharding=sharding,
        stage=number,
        params=params,
        forward_flops=sum(parts.share(row, row.flops) for row in rows),
        backward_flops=sum(parts.share(row, row.backward_flops) for row in rows),
        optimizer_flops=update * params // (sum(t.numel for t in training.weights) or 1),
        weight_bytes=sum(nbytes.values()),
        gradient_bytes=sum(gradients),
        state_bytes=0 if optimizer is None else sum(optimizer.copies * size + optimizer.extra for size in gradients),
        saved_bytes=_share(waiting * sum(parts.share(row, row.saved_bytes) for row in rows), sharding.pp),
    )


def _share(number: int, parts: int) -> int:
    """One of equal parts, rounded up."""
    return -(-number // parts)


class _Parts:
    """By what each weight and each row of a step is divided."""

    def __init__(self, profile: Profile, sharding: Sharding, plan: Mapping[str, str]) -> None:
        self.profile, self.sharding, self.folding = profile, sharding, fold(profile.graph)
        self._plan = {re.compile(re.escape(k).replace(r"\*", r"\d+") + r"$"): v for k, v in plan.items()}
        self._experts: set[str] = set()
        #: What tp divides: weights and results by name, rows by id.
        self._weights: set[str] = set()
        self._results: set[str] = set()
        self._rows: set[int] = set()
        #: Results of products whose weight is divided by columns.
        self._columns: set[str] = set()
        if sharding.tp > 1 and not plan:
            raise InputError("tp: transformers has no plan for dividing this model")
        self._divide()

    def weight(self, tensor: Tensor) -> int:
        """By what a stored tensor is divided."""
        ep, fsdp = self.sharding.ep, self.sharding.fsdp
        shared = ep * max(fsdp // ep, 1) if tensor.name in self._experts else fsdp
        return (self.sharding.tp if tensor.name in self._weights else 1) * shared

    def share(self, row: Row, figure: int | None) -> int:
        """One rank's part of a figure of a row."""
        return _share(figure or 0, self.sharding.tp if id(row) in self._rows else 1)

    def _divide(self) -> None:
        """Follow the divided tensors through the program."""
        tp, ep = self.sharding.tp, self.sharding.ep
        for row in self.profile.rows:
            stored = [t for t in self.folding.stored(row.node) if t.kind == "weight" and len(t.shape or ()) > 1]
            if ep > 1 and (stack := experts_of(row.name, row.node)) is not None:
                if stack.matrices % ep:
                    raise InputError(f"ep {ep}: {stack.matrices} experts of {row.name} do not divide by it")
                self._experts.update(t.name for t in stored)
            if tp > 1:
                self._divide_row(row, stored)
        if ep > 1 and not self._experts:
            raise InputError(f"ep {ep}: the model has no stacks of experts to divide")

    def _divide_row(self, row: Row, stored: Sequence[Tensor]) -> None:
        """Divide a row where the plan names one of its weights, or what it works on is divided."""
        names = {t.name for t in row.node.known_outputs}
        way = next((way for t in stored if (way := self._way(t))), "")
        inside = any(t.name in self._results for t in row.node.known_inputs)
        if way:
            self._fits(stored, way)
            self._weights.update(t.name for t in stored)
        elif inside:
            self._heads(row)
        if way or inside:
            self._rows.add(id(row))
        if way == "colwise":
            self._columns |= names
        if ("colwise" in way and "gather" not in way) or (inside and "rowwise" not in way):
            self._results |= names

    def _way(self, tensor: Tensor) -> str:
        paths = (tensor.name, tensor.name.rpartition(".")[0])
        return next((way for path in paths for pattern, way in self._plan.items() if pattern.match(path)), "")

    def _heads(self, row: Row) -> None:
        """Refuse to divide heads that are too few: those into which a row splits what a product made by columns."""
        node, tp = row.node, self.sharding.tp
        if node.op != "Reshape" or node.input(0).name not in self._columns:
            return
        extent, sizes = int(node.input(0).dims[-1]), [int(size) for size in node.output().dims]
        if len(sizes) <= len(node.input(0).dims):
            return
        for place in range(len(sizes) - 2, -1, -1):
            if math.prod(sizes[place:]) == extent and sizes[place] % tp:
                raise InputError(f"tp {tp}: {sizes[place]} heads of {row.node.module} do not divide by it")

    def _fits(self, stored: Sequence[Tensor], way: str) -> None:
        """Refuse weights that do not divide."""
        for tensor in stored:
            if not any(int(size) % self.sharding.tp == 0 for size in tensor.dims):
                shape = "×".join(map(str, tensor.dims))
                raise InputError(f"tp {self.sharding.tp}: {tensor.name} ({shape}, {way}) does not divide by it")


def _stages(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """Rows in stretches of equally many layers."""
    if count == 1:
        return [list(rows)]
    numbers = [_NUMBER.search(row.node.module) for row in rows]
    layers = 1 + max((int(match[1]) for match in numbers if match), default=-1)
    if layers < count:
        raise InputError(f"pp {count}: the model has {layers} layers")
    size, more = divmod(layers, count)
    ends = [size * (n + 1) + min(n + 1, more) for n in range(count)]
    stages: list[list[Row]] = [[] for _ in range(count)]
    past_blocks = False
    for row, match in zip(rows, numbers, strict=True):
        past_blocks = past_blocks or match is not None
        if match is None:
            stages[-1 if past_blocks else 0].append(row)
        else:
            stages[next(n for n, end in enumerate(ends) if int(match[1]) < end)].append(row)
    return stages
