"""The part of each weight, result and row that one device has when tensor and expert parallelism divide a program.

Tensor parallelism divides the weights that a plan names: by columns, so that what follows works on a part, up to the
product that is divided by rows. What lies between them, attention included, is divided; all else is done by every
device. Expert parallelism divides the stacks of experts.

Sources: Megatron-LM, https://arxiv.org/abs/1909.08053; GShard, https://arxiv.org/abs/2006.16668.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from flopwise.errors import InputError
from flopwise.graph import Tensor
from flopwise.memory.experts import Experts, experts_of
from flopwise.operators.folding import constant
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Layers of a model are numbered: the first number in a module's path.
NUMBER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")

_WHOLE = Fraction(1)


@dataclass
class _Columns:
    """A product by columns: its row, the weights that it takes, and the elements of its pieces by their part."""

    row: Row
    stored: Sequence[Tensor]
    #: The parts of pieces that were cut into heads, by the elements of a piece.
    pieces: list[tuple[int, Fraction]] = field(default_factory=list)

    def part(self, whole: Fraction) -> Fraction:
        """The part of the product that a device has."""
        total = sum(extent for extent, _ in self.pieces)
        return sum((extent * part for extent, part in self.pieces), Fraction(0)) / total if total else whole


class Division:
    """The parts of a program that the fullest device has."""

    def __init__(
        self, profile: Profile, plan: Mapping[str, str], tp: int = 1, ep: int = 1, repeat_heads: bool = False
    ) -> None:
        """Divide a program.

        Args:
            profile: the program.
            plan: module path with ``*`` for numbers -> how its weight is divided ("colwise", "rowwise" ...).
            tp: devices that share each product.
            ep: devices that share the experts.
            repeat_heads: whether heads of keys and values are repeated where there are fewer than devices, as engines
                do, and a vocabulary that does not divide is padded.

        Raises:
            InputError: something does not divide: weights, heads or experts.
        """
        self.profile, self.tp, self.ep, self.folding = profile, tp, ep, constant(profile.graph)
        self._plan = [(re.compile(re.escape(k).replace(r"\*", r"\d+") + r"$"), v) for k, v in plan.items()]
        self._repeat_heads = repeat_heads
        #: The stacks of experts, by the names of the stored tensors.
        self.experts: dict[str, Experts] = {}
        #: Rows whose results are sums of all devices' parts: products by rows, and look-ups in a divided table.
        self.reduced: list[Row] = []
        self._weights: dict[str, Fraction] = {}
        self._results: dict[str, Fraction] = {}
        self._rows: dict[int, Fraction] = {}
        self._columns: dict[str, _Columns] = {}
        self._heads: dict[str, list[int]] = {}
        if tp > 1 and not plan:
            raise InputError("tp: nothing is known of how engines divide this model")
        self._divide()

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
        return min((self._results[t.name] for t in row.node.known_inputs if t.name in self._results), default=_WHOLE)

    def _divide(self) -> None:
        """Follow the divided tensors through the program."""
        rows = self.profile.rows
        stacks = {row.node.module: stack for row in rows if (stack := experts_of(row.name, row.node))}
        for row in rows:
            stored = [t for t in self.folding.stored(row.node) if t.kind == "weight"]
            if (stack := experts_of(row.name, row.node)) is not None:
                self.experts.update((t.name, stack) for t in stored if stack.hold(t))
            elif row.node.module in stacks:  # biases, of which each row picks those of its expert
                own = stacks[row.node.module]
                self.experts.update((t.name, own) for t in stored if t.dims[:1] == (own.matrices,))
            if self.tp > 1:
                self._divide_row(row, stored)
        refuse_experts(self.experts, self.ep)
        self._refuse_heads()

    def _divide_row(self, row: Row, stored: Sequence[Tensor]) -> None:
        """Divide a row where the plan names one of its weights, or what it works on is divided."""
        names = [t.name for t in row.node.known_outputs]
        ways = {t.name: way for t in stored if (way := self._way(t))}
        way = next(iter(ways.values()), "")
        inside = any(t.name in self._results for t in row.node.known_inputs)
        part = self.inside(row) if inside else Fraction(1, self.tp)
        if way:
            self._divide_weights(row, [t for t in stored if t.name in ways], way)
        if way or inside:
            self._rows[id(row)] = part
        if ("colwise" in way and "gather" not in way) or (inside and "rowwise" not in way):
            self._results.update(dict.fromkeys(names, part))
        if way == "colwise":
            self._columns.update(dict.fromkeys(names, _Columns(row, [t for t in stored if t.name in ways])))
        elif not way:
            self._cut(row)

    def _divide_weights(self, row: Row, stored: Sequence[Tensor], way: str) -> None:
        """Divide the weights of a row that the plan names."""
        matrices = [t for t in stored if "colwise" in way or len(t.dims) > 1]
        self._refuse_weights(matrices, way)
        self._weights.update((t.name, Fraction(1, self.tp)) for t in matrices)
        if "rowwise" in way:
            self.reduced.append(row)

    def _way(self, tensor: Tensor) -> str:
        """The plan's way of dividing a stored tensor; "" where it does not."""
        paths = (tensor.name, tensor.name.rpartition(".")[0])
        ways = (way for path in paths for pattern, way in self._plan if pattern.match(path))
        return next((way for way in ways if "colwise" in way or "rowwise" in way), "")

    def _cut(self, row: Row) -> None:
        """Follow the pieces of a product by columns to where they become heads, which are divided whole."""
        node = row.node
        product = next((self._columns[t.name] for t in node.known_inputs if t.name in self._columns), None)
        if product is None:
            return
        if node.op in ("Slice", "Split", "Add"):
            self._columns.update((t.name, product) for t in node.known_outputs)
        if node.op != "Reshape" or node.input(0).name not in self._columns:
            return
        extent, sizes = int(node.input(0).dims[-1]), [int(size) for size in node.output().dims]
        if len(sizes) <= len(node.input(0).dims):
            return
        if sizes[-1] == extent and node.module == product.row.node.module:  # the layer's own tokens, not heads
            self._columns.update((t.name, product) for t in node.known_outputs)
            return
        for place in range(len(sizes) - 2, -1, -1):
            if math.prod(sizes[place:]) == extent:
                kinds = sizes[place] == 3 and place + 2 < len(sizes)  # queries, keys and values before heads
                self._share_heads(row, product, extent, sizes[place + kinds])
                return

    def _share_heads(self, row: Row, product: _Columns, extent: int, heads: int) -> None:
        """Divide a piece of a product by its heads."""
        self._heads.setdefault(row.node.module, []).append(heads)
        part = Fraction(max(heads // self.tp, 1), heads)
        product.pieces.append((extent, part))
        self._rows[id(row)] = part
        self._results.update((t.name, part) for t in row.node.known_outputs)
        whole = product.part(Fraction(1, self.tp))
        self._rows[id(product.row)] = whole
        self._weights.update((t.name, whole) for t in product.stored)

    def _refuse_heads(self) -> None:
        """Refuse to divide heads that are too few; those of keys and values may be repeated."""
        for module, counts in self._heads.items():
            for heads in counts:
                repeated = self._repeat_heads and heads < max(counts) and self.tp % heads == 0
                if heads % self.tp and not repeated:
                    raise InputError(f"tp {self.tp}: {heads} heads of {module} do not divide by it")

    def _refuse_weights(self, stored: Sequence[Tensor], way: str) -> None:
        """Refuse weights that do not divide; engines pad a vocabulary."""
        if self._repeat_heads and ("embedding" in way or "gather" in way):
            return
        for tensor in stored:
            if not any(int(size) % self.tp == 0 for size in tensor.dims):
                shape = "×".join(map(str, tensor.dims))
                raise InputError(f"tp {self.tp}: {tensor.name} ({shape}, {way}) does not divide by it")


def refuse_experts(stacks: Mapping[str, Experts], ep: int) -> None:
    """Refuse to divide experts.

    Raises:
        InputError: there are none, or they do not divide.
    """
    if ep > 1 and not stacks:
        raise InputError(f"ep {ep}: the model has no stacks of experts to divide")
    for stack in stacks.values():
        if stack.matrices % ep:
            raise InputError(f"ep {ep}: {stack.matrices} experts of {stack.layer} do not divide by it")


def part_of(number: Fraction | int, part: Fraction) -> int:
    """A part of a number, rounded up.

    >>> part_of(10, Fraction(1, 3))
    4
    """
    return math.ceil(number * part)


def stages(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """Rows in stretches of equally many layers, the first ones longer where they do not divide.

    Raises:
        InputError: there are fewer layers than stretches.
    """
    if count == 1:
        return [list(rows)]
    layers = layers_of(rows)
    if layers < count:
        raise InputError(f"pp {count}: the model has {layers} layers")
    size, more = divmod(layers, count)
    ends = [size * (n + 1) + min(n + 1, more) for n in range(count)]
    stretches: list[list[Row]] = [[] for _ in range(count)]
    past_blocks = False
    for row in rows:
        number = layer_of(row)
        past_blocks = past_blocks or number is not None
        if number is None:
            stretches[-1 if past_blocks else 0].append(row)
        else:
            stretches[next(n for n, end in enumerate(ends) if number < end)].append(row)
    return stretches


def layer_of(row: Row) -> int | None:
    """The number of the layer that a row is in; None before and after the layers."""
    match = NUMBER.search(row.node.module)
    return int(match[1]) if match else None


def layers_of(rows: Sequence[Row]) -> int:
    """Number of layers that rows are in."""
    return 1 + max((number for row in rows if (number := layer_of(row)) is not None), default=-1)
