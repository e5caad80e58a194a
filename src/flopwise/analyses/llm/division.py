"""The division of a language model over devices: the ways in which they share it, and the part that one of them has.

- ``dp``: replicas that share the sequences. In training, ``fsdp`` devices share the sequences and also each weight, its
  gradient and its state (ZeRO-3).
- ``tp``: devices that share each product, as its operator says (``graph.Way``): by columns, so that what follows works
  on a part, up to the product that is divided by rows, whose results are added up. Heads of keys and values, and groups
  of state-space layers, are repeated where there are fewer than devices, as vLLM, SGLang and Megatron-LM do; latents
  always are.
- ``pp``: stages of equally many layers; the first has what comes before them, the last what comes after.
- ``cp``: devices that share the tokens of each sequence.
- ``ep``: devices that share the experts: of a request among those of a stage, of a training step among those that share
  the sequences.

Sources: Megatron-LM, https://arxiv.org/abs/1909.08053; ZeRO, https://arxiv.org/abs/1910.02054; Ring Attention,
https://arxiv.org/abs/2310.01889; GShard, https://arxiv.org/abs/2006.16668.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flopwise.errors import InputError, counted
from flopwise.graph import Node, Share, Tensor
from flopwise.operators.folding import constant
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: The ways in which a request is divided, and a training step.
WAYS = ("tp", "pp", "ep", "cp", "dp")
TRAINING_WAYS = ("dp", "fsdp", "tp", "pp", "ep")

_WHOLE = Fraction(1)
_NUMBER = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


@dataclass(frozen=True)
class Split:
    """A division of a request, or of a training step, among devices."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1
    dp: int = 1
    fsdp: int = 1

    @property
    def stage(self) -> int:
        """Devices of a stage; of a request experts are divided among these."""
        return self.tp * self.cp * self.dp * self.fsdp

    @property
    def devices(self) -> int:
        """Devices all together."""
        return self.stage * self.pp

    @property
    def batches(self) -> int:
        """Into how many parts the batch of a training step is divided."""
        return self.dp * self.fsdp

    @property
    def sharers(self) -> int:
        """Devices that have one copy of the experts: ``ep``, or the least multiple of it that ``tp`` divides too."""
        return math.lcm(self.tp, self.ep)

    @property
    def exchanges(self) -> bool:
        """True where tokens go to experts on devices that do not have these tokens."""
        return self.sharers > self.tp

    def __str__(self) -> str:
        return " × ".join(f"{name} {n}" for name in WAYS if (n := getattr(self, name)) > 1) or "1"

    def check(self) -> None:
        """Refuse what no devices can be divided into.

        Raises:
            InputError: a number is less than 1.
        """
        for name, ranks in vars(self).items():
            if ranks < 1:
                raise InputError(f"{name} {ranks}: must be at least 1")

    def check_stage(self) -> None:
        """Refuse experts of a request on other devices than those of a stage.

        Raises:
            InputError: they are.
        """
        if self.stage % self.sharers:
            raise InputError(
                f"ep {self.ep}: experts are divided among the tp × cp × dp = {self.stage} devices of a stage; "
                f"give --tp or --dp so that they are a multiple of {self.sharers}"
            )

    def check_batch(self, batch: int) -> None:
        """Refuse a batch of a training step that cannot be divided.

        Raises:
            InputError: a number is less than 1, or the batch does not divide.
        """
        self.check()
        if batch % self.batches:
            raise InputError(f"a batch of {batch} does not divide by dp × fsdp = {self.batches}")
        if (batch // self.batches) % self.pp:
            own = counted(batch // self.batches, "sequence")
            raise InputError(f"pp {self.pp}: {own} of a rank cannot be {self.pp} equal micro-batches")
        if self.ep > 1 and self.batches % self.ep:
            raise InputError(f"ep {self.ep}: experts are divided among the dp × fsdp = {self.batches} ranks of a batch")


class Division:
    """The parts of a program that the fullest of the devices has which share each product."""

    def __init__(self, profile: Profile, tp: int = 1) -> None:
        """Divide a program.

        Args:
            profile: the program, whose operators say how they are shared.
            tp: devices that share each product.

        Raises:
            InputError: heads or features do not divide.
        """
        self.profile, self.tp, self.folding = profile, tp, constant(profile.graph)
        #: How many experts a stored tensor has, by its name.
        self.experts: dict[str, int] = {}
        #: Rows whose results are sums of all devices' parts.
        self.reduced: set[int] = set()
        self._weights: dict[str, Fraction] = {}
        self._results: dict[str, Fraction] = {}
        self._rows: dict[int, Fraction] = {}
        parts: dict[Share, Fraction] = {}
        stated = False
        for row in profile.rows:
            node, way = row.node, row.node.way
            inside = self.inside(row)
            if way is None or (tp == 1 and not way.experts):
                if inside != 1:
                    self._rows[id(row)] = inside
                    self._results.update((t.name, inside) for t in node.known_outputs)
                continue
            stored = [t for t in self.folding.stored(node) if t.kind == "weight"]
            if way.experts:
                self.experts.update((t.name, way.experts) for t in stored if way.experts in t.dims)
            stated = stated or way.kind != "whole"
            if tp == 1 or way.kind == "whole":
                continue
            for share in way.shares:
                if share not in parts:
                    parts[share] = self._part(share, node)
            total = sum(share.features for share in way.shares)
            part = sum((share.features * parts[share] for share in way.shares), Fraction(0)) / total
            along = way.kind == "columns"
            self._weights.update((t.name, part) for t in stored if way.kind != "rows" or len(t.dims) > 1)
            self._rows[id(row)] = part if along or inside == 1 else inside
            if along:
                self._results.update((t.name, part) for t in node.known_outputs)
            elif way.kind == "rows" or "picks" in row_of(node.op).effects:
                self.reduced.add(id(row))
        if tp > 1 and not stated:
            raise InputError("tp: nothing is known of how engines divide this model")

    def weight(self, name: str) -> Fraction:
        """The part of a stored tensor that tp leaves on a device."""
        return self._weights.get(name, _WHOLE)

    def row(self, row: Row) -> Fraction:
        """The part of a row's work that a device does."""
        return self._rows.get(id(row), _WHOLE)

    def result(self, tensor: Tensor) -> Fraction:
        """The part of a result that a device has."""
        return self._results.get(tensor.name, _WHOLE)

    def inside(self, row: Row) -> Fraction:
        """The part of what a row works on, stored tensors left out, that a device has."""
        results = self._results
        return min((results[t.name] for t in row.node.known_inputs if t.name in results), default=_WHOLE)

    def _part(self, share: Share, node: Node) -> Fraction:
        """The part of features that a device has.

        Raises:
            InputError: they do not divide.
        """
        if not share.units:
            return Fraction(1, self.tp)
        if not self._divides(self.tp, share):
            place, what = node.module.rpartition(".")[0] or node.module, "features"
            what = "heads" if share.units < share.features else what
            raise InputError(
                f"tp {self.tp}: {share.units:,} {what} of {place} do not divide by it; {self._that_divide()}"
            )
        return Fraction(max(share.units // self.tp, 1), share.units)

    @staticmethod
    def _divides(tp: int, share: Share) -> bool:
        return share.units % tp == 0 or (share.repeated and tp % share.units == 0)

    def _that_divide(self) -> str:
        """The numbers of devices that divide the program, in words."""
        ways = {row.node.way for row in self.profile.rows}
        shares = {share for way in ways if way is not None for share in way.shares if share.units}
        most = math.gcd(*(share.units for share in shares if not share.repeated))
        return those_that_do(n for n in range(2, most + 1) if all(self._divides(n, share) for share in shares))


def those_that_do(numbers: Iterable[int]) -> str:
    """The numbers that divide something, in words.

    >>> those_that_do([2, 4, 8]), those_that_do([3]), those_that_do([])
    ('2, 4 and 8 do', '3 does', 'no other number does')
    """
    *most, last = map(str, numbers) if (numbers := list(numbers)) else [""]
    if not last:
        return "no other number does"
    return f"{', '.join(most)} and {last} do" if most else f"{last} does"


def refuse_experts(experts: Mapping[str, int], ep: int) -> None:
    """Refuse to divide experts.

    Args:
        experts: how many there are, by the name of the stored tensor.
        ep: devices that share them.

    Raises:
        InputError: there are none, or they do not divide.
    """
    if ep > 1 and not experts:
        raise InputError(f"ep {ep}: the model has no experts to divide")
    for name, count in experts.items():
        if count % ep:
            common = math.gcd(*experts.values())
            other = those_that_do(n for n in range(2, common + 1) if common % n == 0)
            raise InputError(f"ep {ep}: {count} experts of {name.rpartition('.')[0]} do not divide by it; {other}")


def part_of(number: Fraction | int, part: Fraction) -> int:
    """A part of a number, rounded up.

    >>> part_of(10, Fraction(1, 3))
    4
    """
    return -(-number.numerator * part.numerator // (number.denominator * part.denominator))


def layer_of(node: Node) -> str:
    """The layer that an operator is in, by its path, such as "model.layers.3"; "" before and after the layers."""
    match = _NUMBER.search(node.module)
    return node.module[: match.end(1)] if match else ""


def by_layer(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by the path of their layer; those before the layers are under "", those behind the first under "after"."""
    layers: dict[str, list[Row]] = {"": [], "after": []}
    for row in rows:
        path = layer_of(row.node) or ("after" if len(layers) > 2 else "")
        layers.setdefault(path, []).append(row)
    return layers


def order_of(paths: Iterable[str]) -> list[list[str]]:
    """The paths of the layers of each number, such as of an encoder and a decoder."""
    numbers = [(int(path.rpartition(".")[2]), path) for path in paths if path not in ("", "after")]
    order: list[list[str]] = [[] for _ in range(1 + max((number for number, _ in numbers), default=-1))]
    for number, path in numbers:
        order[number].append(path)
    return order


def stages(order: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """The paths of what is in each of so many stages of equally many layers, the first ones longer where they do not
    divide.

    Raises:
        InputError: there are fewer layers than stages.
    """
    if count > max(len(order), 1):
        raise InputError(f"pp {count}: the model has {counted(len(order), 'layer')}; give at most as many")
    size, more = divmod(len(order), count)
    bounds = [size * n + min(n, more) for n in range(count + 1)]
    each = [[path for layer in order[a:b] for path in layer] for a, b in pairwise(bounds)]
    each[0].insert(0, "")
    each[-1].append("after")
    return each
