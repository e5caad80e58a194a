"""Rows of a model whose work an executed node does, without running an engine: by names, by sizes, by order."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flopwise.conventions.convention import guarded
from flopwise.graph import Dim, Node, Shape
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count
from flopwise.operators.tables import row as operator
from flopwise.rows import Row

#: Of long sequences only pairs so near to the diagonal are looked at.
BAND = 500


def aligned(gain: Callable[[int, int], int], many: int, others: int) -> list[int | None]:
    """For each position of one sequence that of its partner in the other; None where it has none.

    This is an edit distance: what has no partner was added or left out, which costs nothing.

    >>> same = lambda text, other: aligned(lambda i, j: int(text[i] == other[j]), len(text), len(other))
    >>> same("abxd", "abcd")
    [0, 1, None, 3]

    Args:
        gain: of two positions what it is worth to pair them; 0 or less: they are no pair.
        many: length of the one sequence.
        others: length of the other.
    """
    best = [0] * (others + 1)
    steps: list[tuple[int, bytearray]] = []
    for i in range(many):
        centre = i * others // many
        first, last = max(0, centre - BAND), min(others, centre + BAND + 1)
        row, step = best[:], bytearray(last - first)
        for j in range(first, last):
            worth = gain(i, j)
            paired = best[j] + worth if worth > 0 else -1
            if paired >= max(row[j], best[j + 1]):
                row[j + 1], step[j - first] = paired, 2
            elif row[j] > best[j + 1]:
                row[j + 1], step[j - first] = row[j], 1
        row[last + 1 :] = [row[last]] * (others - last)
        best = row
        steps.append((first, step))
    partners: list[int | None] = [None] * many
    j = others
    for i in reversed(range(many)):
        first, step = steps[i]
        j = min(j, first + len(step))
        while j > first and step[j - 1 - first] == 1:
            j -= 1
        if j > first and step[j - 1 - first] == 2:
            j -= 1
            partners[i] = j
    return partners


def in_order(places: Sequence[int]) -> list[int]:
    """Positions of the longest rising part of a sequence.

    >>> in_order([3, 0, 1, 9, 2])
    [1, 2, 4]
    """
    ends: list[int] = []
    tails: list[int] = []
    before: list[int | None] = []
    for position, place in enumerate(places):
        length = bisect_left(tails, place)
        before.append(ends[length - 1] if length else None)
        ends[length:] = [position, *ends[length + 1 :]]
        tails[length:] = [place, *tails[length + 1 :]]
    chain: list[int] = []
    position_or_none = ends[-1] if ends else None
    while position_or_none is not None:
        chain.append(position_or_none)
        position_or_none = before[position_or_none]
    return chain[::-1]


# Rows of a model whose work an executed node does: by names, by sizes, by order, and by what lies between.
#
# An engine fuses nodes, renames them and adds some of its own; no engine is run to see through that. What a node is
# called says the most (``names``), and the size of its result confirms it. The rest is found by an edit distance
# between what has no partner yet: equal multiply-adds, or the same operator with a result of the same size. Then a node
# that was found owns the rows between its result and the results of others.


# The row of a model that the name of an executed node speaks of, and the agreement of their sizes.
#
# Engines make names of names: ``relu_2_nchwc`` is a convolution in blocks of channels, called after the last tensor
# that it makes; ``fc/MatMulAddFusion`` a product that took a sum in. Exporters number the nodes of every model alike,
# so that a name alone proves nothing: the result has as many elements as the row's, or the name is of another model.


#: Channels of a block, where onnxruntime keeps them in blocks on x86: 8, with AVX-512 16.
BLOCKS = (8, 16)

#: What onnxruntime makes of a name, each cut once in this order: a number against equal names, a copy, a layout, a
#: fusion.
_CUTS: tuple[Callable[[str], str], ...] = (
    lambda name: re.sub(r"_token_\d+$", "", name),
    lambda name: name.removesuffix("/duplicated"),
    lambda name: name.removesuffix("_nchwc"),
    lambda name: name.removesuffix("_bn"),
    lambda name: name.removesuffix("_quant"),
    lambda name: re.split(r"/\w+Fusion\b", name)[0],
)


class Names:
    """The rows of a model by the names of their nodes and of the tensors that they make."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._nodes: dict[str, int] = {}
        self._makers: dict[str, int] = {}
        for place, row in enumerate(rows):
            if row.node.name:
                self._nodes.setdefault(row.node.name, place)
            for tensor in row.node.known_outputs:
                self._makers.setdefault(tensor.name, place)

    @property
    def makers(self) -> Mapping[str, int]:
        """Name of a tensor -> position of the row that makes it."""
        return self._makers

    def find(self, name: str) -> int | None:
        """Position of the row that a name speaks of, by its node or by a tensor that it makes; None without one."""
        for form in forms(name):
            place = self._nodes.get(form, self._makers.get(form))
            if place is not None:
                return place
        return None


def forms(name: str) -> Iterator[str]:
    """A name, and what is left of it after each thing that an engine adds.

    >>> list(forms("relu_2_nchwc")), list(forms("fc/MatMulAddFusion_token_7"))
    (['relu_2_nchwc', 'relu_2'], ['fc/MatMulAddFusion_token_7', 'fc/MatMulAddFusion', 'fc'])
    """
    yield name
    for cut in _CUTS:
        shorter = cut(name)
        if shorter != name:
            yield shorter
        name = shorter


def same_size(node: Node, other: Node) -> bool:
    """True where a result of one node has as many elements as one of the other."""
    return any(same_elements(one.shape, two.shape) for one in node.known_outputs for two in other.known_outputs)


def same_elements(executed: Shape | None, own: Shape | None) -> bool:
    """True where two shapes have as many elements, channels perhaps padded by the engine, or one is unknown."""
    if executed is None or own is None or math.prod(executed) == math.prod(own):
        return True
    apart = [(a, b) for a, b in zip(executed, own, strict=False) if a != b]
    return len(executed) == len(own) and len(apart) == 1 and executed[1] != own[1] and executed[1] in padded(own[1])


def padded(channels: int) -> tuple[int, ...]:
    """A number of channels rounded up to whole blocks, of each size that engines have.

    >>> padded(20), padded(32)
    ((24, 32), (32, 32))
    """
    return tuple(-(-channels // block) * block for block in BLOCKS)


#: What it is worth to take an executed node for a row whose result is of the same size: both are products with equal
#: multiply-adds, both have one operator, one's name holds the other's, or the node's operator is none of the model's.
PRODUCT, EQUAL, ALIKE, FUSED = 8, 4, 2, 1


class ExecutedNode(NamedTuple):
    """A node that an engine executes, as far as it is known: its name, operator, and shapes."""

    node: Node
    #: Operations of one run; None where they are unknown.
    counts: Counts | None
    #: Further names that the engine gives it, such as those of all the nodes that it does the work of.
    also: tuple[str, ...] = ()

    @classmethod
    def from_node(cls, node: Node, also: tuple[str, ...] = ()) -> ExecutedNode:
        """The node with its operations by the tables."""
        return cls(node, guarded(lambda: count(node), "")[0], also)

    @property
    def macs(self) -> int | None:
        """Multiply-adds."""
        return None if self.counts is None else self.counts.mac


def match(executed: Sequence[ExecutedNode], rows: Sequence[Row]) -> list[tuple[int, ...]]:
    """For each executed node the positions of the rows that it does the work of; () where none is known.

    Args:
        executed: in the order in which they ran, each node once.
        rows: of the model's profile.
    """
    return _Matching(executed, rows).matched()


def mismatch(executed: Sequence[ExecutedNode], rows: Sequence[Row]) -> str:
    """The difference of nodes' shapes from those of the rows that they are named after; "" where few have such a name.

    Args:
        executed: the nodes.
        rows: of the model's profile.
    """
    names = Names(rows)
    batches: Counter[tuple[Dim, Dim]] = Counter()
    shapes: list[str] = []
    products = [item for item in executed if item.macs]
    named = 0
    for item in products:
        places = [place for name in (item.node.name, *item.also) if (place := names.find(name)) is not None]
        pairs = [(item.node.output().shape, rows[place].node.output().shape) for place in places]
        ran, own = next(((a, b) for a, b in pairs if a and b and _same_channels(a, b)), ((), ()))
        if not ran or not own:
            continue
        named += 1
        if ran[0] != own[0] and ran[2:] == own[2:]:
            batches[ran[0], own[0]] += 1
        elif ran[2:] != own[2:]:
            sizes = "x".join(map(str, ran)), "x".join(map(str, own))
            shapes.append(f"{item.node.name} has output {sizes[0]} in the trace, {sizes[1]} in the model")
    if 2 * max(batches.total(), len(shapes)) < max(1, named, len(products)):
        return ""
    if len(shapes) > batches.total():
        return f"the trace is of other input shapes: {shapes[0]}; give them with -i"
    ran_batch, own_batch = batches.most_common(1)[0][0]
    return f"the trace's batch is {ran_batch}, the model's {own_batch}: -b {ran_batch}"


def _same_channels(ran: Shape, own: Shape) -> bool:
    """True where results of a product differ at most in batch and extent, as those of one layer at other inputs do."""
    if len(ran) != len(own) or len(ran) < 2:
        return False
    return ran[1] in (own[1], *padded(own[1])) if len(ran) > 3 else ran[-1] == own[-1]


class _Matching:
    """Executed nodes on their way to rows."""

    def __init__(self, executed: Sequence[ExecutedNode], rows: Sequence[Row]) -> None:
        self._executed, self._rows = executed, rows
        self._ops = {row.node.op for row in rows}
        self._ran = {item.node.op for item in executed}
        self._macs = [ExecutedNode.from_node(row.node).macs for row in rows]
        self._names = Names(rows)
        self._inputs = [
            [self._names.makers[t.name] for t in row.node.known_inputs if t.name in self._names.makers] for row in rows
        ]
        self._takers: list[list[int]] = [[] for _ in rows]
        for place, makers in enumerate(self._inputs):
            for maker in dict.fromkeys(makers):
                self._takers[maker].append(place)
        self._kinds = _numbered((item.node.op, item.macs, _shapes(item.node)) for item in executed)
        self._row_kinds = _numbered(
            (row.node.op, macs, _padded(macs or 0, row.node), _shapes(row.node))
            for row, macs in zip(rows, self._macs, strict=True)
        )
        #: What executed nodes and rows of these kinds are worth to each other.
        self._gains: dict[tuple[int, int], int] = {}
        #: Position of a row -> of the executed node that it belongs to.
        self._owners: dict[int, int] = {}
        #: For each executed node the positions of the rows that belong to it.
        self._owned: list[list[int]] = [[] for _ in executed]
        #: Position of an executed node -> of the rows that it certainly does.
        self._ends: dict[int, list[int]] = {}

    def matched(self) -> list[tuple[int, ...]]:
        """As ``match``."""
        self._by_name()
        self._by_order()
        self._by_size()
        self._close()
        self._adopt()
        return [
            tuple(sorted(places)) if not item.macs or self._same_macs(item, places) else ()
            for item, places in zip(self._executed, map(self._rows_of, range(len(self._executed))), strict=True)
        ]

    def _rows_of(self, number: int) -> list[int]:
        """The rows of a node; of one that does another's work once more, the row that it is named after.

        An operator that is a function of others may be several nodes, of which the last was found: all do its work.
        """
        item = self._executed[number]
        whole = self._expanded(number)
        if whole is not None:
            return [whole]
        place = None if self._owned[number] else self._names.find(item.node.name)
        if place is None or self._rows[place].node.op != item.node.op or not self._confirmed(item, place):
            return self._owned[number]
        return [place]

    def _expanded(self, number: int) -> int | None:
        """The row whose operator the engine does not have, and of which a node without rows does the first part."""
        following = self._owned[number + 1] if number + 1 < len(self._owned) else []
        if self._owned[number] or len(following) != 1 or self._only_moves(number):
            return None
        row = self._rows[following[0]].node
        return None if row.op in self._ran or not same_size(self._executed[number].node, row) else following[0]

    def _claim(self, number: int, place: int) -> None:
        if place not in self._owners:
            self._own(number, place)
            self._ends.setdefault(number, []).append(place)

    def _own(self, number: int, place: int) -> None:
        self._owners[place] = number
        self._owned[number].append(place)

    def _by_name(self) -> None:
        """Nodes whose name, or that of a result, is known."""
        for number, item in enumerate(self._executed):
            named = [self._names.find(name) for name in (item.node.name, *item.also)]
            made = [self._names.find(t.name) for t in item.node.known_outputs if t.name]
            if self._only_moves(number):  # an engine's own Reshape may hand on what a row makes
                made = [place for place in made if place is not None and not self._computes(place)]
            places = [place for place in (*named, *made) if place is not None]
            if any(self._confirmed(item, place) for place in places):
                for place in places:
                    self._claim(number, place)

    def _confirmed(self, item: ExecutedNode, place: int) -> bool:
        """True where sizes and multiply-adds do not speak against it."""
        equal = not item.macs or not self._macs[place] or self._same_macs(item, [place])
        return equal and same_size(item.node, self._rows[place].node)

    def _same_macs(self, item: ExecutedNode, places: Iterable[int]) -> bool:
        """True where multiply-adds are those of rows, as they are or with channels padded to whole blocks."""
        own = [(self._macs[place] or 0, *_padded(self._macs[place] or 0, self._rows[place].node)) for place in places]
        return (item.macs or 0) in map(sum, zip(*own, strict=True)) if own else not item.macs

    def _by_order(self) -> None:
        """Nodes without a name, between those whose rows are in order."""
        anchors = [(number, max(places)) for number, places in sorted(self._ends.items())]
        kept = [anchors[i] for i in in_order([place for _, place in anchors])]
        before, start = -1, -1
        for number, place in [*kept, (len(self._executed), len(self._rows))]:
            nodes = [n for n in range(before + 1, number) if n not in self._ends]
            places = [p for p in range(start + 1, place) if p not in self._owners]
            self._pair(nodes, places)
            before, start = number, place

    def _pair(self, nodes: Sequence[int], places: Sequence[int]) -> None:
        partners = aligned(lambda i, j: self._gain(nodes[i], places[j]), len(nodes), len(places))
        for node, partner in zip(nodes, partners, strict=True):
            if partner is not None:
                self._claim(node, places[partner])

    def _by_size(self) -> None:
        """Nodes that ran in another order than the rows stand in: the first row of the same operator and sizes."""
        left: dict[int, deque[int]] = {}
        for place, kind in enumerate(self._row_kinds):
            if place not in self._owners:
                left.setdefault(kind, deque()).append(place)
        for number in range(len(self._executed)):
            if number not in self._ends and not self._only_moves(number):
                alike = [places for places in left.values() if places and self._gain(number, places[0]) >= EQUAL]
                if alike:
                    self._claim(number, min(alike, key=lambda places: places[0]).popleft())

    def _gain(self, number: int, place: int) -> int:
        """The worth of taking an executed node for a row: 0 if it cannot be."""
        kinds = self._kinds[number], self._row_kinds[place]
        gain = self._gains.get(kinds)
        if gain is None:
            gain = self._gains[kinds] = self._worth(number, place)
        return gain

    def _worth(self, number: int, place: int) -> int:
        item, row = self._executed[number], self._rows[place]
        if not same_size(item.node, row.node):
            return 0
        if item.macs or (self._macs[place] and item.macs is not None):
            return PRODUCT if self._same_macs(item, [place]) else 0
        one, other = (op.rpartition("::")[2] for op in (item.node.op, row.node.op))
        if one == other:
            return EQUAL
        if other in one:  # Gelu and FastGelu
            return ALIKE
        moves = self._only_moves(number) or not self._computes(place)
        return 0 if moves or item.node.op in self._ops else FUSED  # into the last of several

    def _close(self) -> None:
        """Rows between the results of nodes: those that a result alone goes through, then those behind it."""
        for number, places in self._ends.items():
            while (following := self._next(max(places), number)) is not None:
                self._claim(number, following)
        for number, places in self._ends.items():
            stack = list(places)
            while stack:
                for maker in self._inputs[stack.pop()]:
                    if maker not in self._owners and self._takes(number, maker):
                        self._own(number, maker)
                        stack.append(maker)

    def _takes(self, number: int, place: int) -> bool:
        """True where a node may do the work of a row as well: nothing that computes, and no product, comes for free."""
        item = self._executed[number]
        if not self._macs[place] or item.macs is None:
            return not (self._only_moves(number) and self._computes(place))
        return not self._same_macs(item, self._owned[number])

    def _next(self, place: int, number: int) -> int | None:
        """The only row that takes the results of a row, where a node may do its work as well; None otherwise."""
        if len(self._takers[place]) != 1:
            return None
        (following,) = self._takers[place]
        node, ran = self._rows[following].node, self._executed[number].node
        if following in self._owners or self._macs[following] or not same_size(ran, node):
            return None
        if ran.op == self._rows[place].node.op and not self._macs[place]:  # an Add does one Add
            return None
        makers = self._names.makers
        others = [
            t for t in node.known_inputs if t.name in makers and self._owners.get(makers[t.name]) != number
        ]  # what it takes from elsewhere, an executed node takes as well
        added = ran.known_inputs[len(self._rows[self._ends[number][0]].node.known_inputs) :]
        return following if all(any(same_elements(a.shape, t.shape) for a in added) for t in others) else None

    def _adopt(self) -> None:
        """Rows that are still nobody's belong to whoever takes their results, and computes if they do."""
        heirs: dict[int, int] = {}
        for place in reversed(range(len(self._rows))):
            takers = self._takers[place]
            heir = next((heirs[taker] for taker in takers if taker in heirs), None)
            owner = self._owners.get(place)
            if owner is None:
                owners = [self._owners[taker] for taker in takers if taker in self._owners]
                owner = next((each for each in (*owners, heir) if each is not None and self._takes(each, place)), None)
                if owner is not None:
                    self._own(owner, place)
            if owner is not None and not self._only_moves(owner):
                heir = owner
            if heir is not None:
                heirs[place] = heir

    def _only_moves(self, number: int) -> bool:
        return operator(self._executed[number].node.op).moves

    def _computes(self, place: int) -> bool:
        return not operator(self._rows[place].node.op).moves


def _numbered(items: Iterable[Hashable]) -> list[int]:
    """A number for each item, the same for equal ones."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(item, len(numbers)) for item in items]


def _shapes(node: Node) -> tuple[Shape | None, ...]:
    return tuple(tensor.shape for tensor in node.known_outputs)


def _padded(macs: int, node: Node) -> tuple[int, ...]:
    """Multiply-adds of a convolution with its channels in blocks of each size; of another operator, its own.

    An input of fewer channels than a block, such as an image or a group of a depthwise convolution, is not padded.
    """
    kernel = operator(node.op).inputs.kernel
    shape = (node.input(kernel).shape if kernel is not None and node.has_input(kernel) else None) or ()
    if len(shape) < 2:
        return (macs,) * len(BLOCKS)
    out, into = shape[:2]
    sizes = zip(BLOCKS, padded(out), padded(into), strict=True)
    return tuple(macs * filled // out * (whole if into >= block else into) // into for block, filled, whole in sizes)
