"""Pairs of layers of two models that belong together: by name, then by structure, then by order."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from flopwise.graph import STORED, Node
from flopwise.rows import Row

#: What two layers have in common: they are the same operator of the same graph, have the same name, the same operator
#: with the same result and weights, the same operator with the same weights, or the same operator at the same place.
Way: TypeAlias = Literal["same", "name", "structure", "weights", "order"]

#: Operators that do the same in other words.
_ALIKE = {"Gemm": "MatMul", "FusedMatMul": "MatMul", "com.microsoft::FusedConv": "Conv"}

#: A name that an exporter made of the operator and a running number, which changes when a layer is added before it.
_NUMBERED = re.compile(r"node_\w+|(?P<op>[A-Za-z]\w*?)(_\d+)*")

#: More pairs of layers than this are not looked through for a longest common subsequence.
MOST = 1 << 28

#: Names are doubted when so many times as many layers are alike in another order.
DOUBT = 1.1


class Match(NamedTuple):
    """A layer of the first model and one of the second, by position; and what they have in common."""

    first: int
    second: int
    way: Way


def match(first: Sequence[Row], second: Sequence[Row]) -> list[Match]:
    """The layers that belong together, in the order of the first model; each layer is in one pair at most.

    Layers with the same telling name and operator belong together, unless the names have shifted. Of the others, a
    longest common subsequence is taken between the neighbours that belong together already: of operators with the same
    results and weights, then with the same weights, then of operators.
    """
    if len(first) == len(second) and all(a.node is b.node for a, b in zip(first, second, strict=True)):
        return [Match(i, i, "same") for i in range(len(first))]
    if list(map(_spelling, first)) == list(map(_spelling, second)):  # one file, opened in two ways
        return [Match(i, i, "name") for i in range(len(first))]
    pairs: dict[int, tuple[int, Way]] = {a: (b, "name") for a, b in _by_name(first, second)}
    keys: dict[Way, Callable[[Node], Hashable]] = {"structure": _structure, "weights": _weights, "order": _alike}
    for way, key in keys.items():
        one, other = [key(r.node) for r in first], [key(r.node) for r in second]
        matched = {b for b, _ in pairs.values()}
        for left, right in _gaps(pairs, len(first), len(second)):
            a, b = _open(left, one, pairs), _open(right, other, matched)
            pairs.update((a[i], (b[j], way)) for i, j in common([one[i] for i in a], [other[j] for j in b]))
    return [Match(a, b, way) for a, (b, way) in sorted(pairs.items())]


def _open(places: range, keys: Sequence[Hashable], matched: Container[int]) -> list[int]:
    """Places of layers that have a key and no partner yet."""
    return [place for place in places if place not in matched and keys[place] is not None]


def _spelling(row: Row) -> tuple[str, str, tuple[str, ...]]:
    """The operator, its name and those of its results."""
    return row.name, row.node.op, tuple(t.name for t in row.node.known_outputs)


def telling(node: Node) -> str:
    """The name of a layer; "" where it says no more than the operator and a number.

    >>> [telling(Node("Conv", name, (), ())) for name in ("Conv_12", "node_conv2d_1", "/stem/Conv", "conv1", "")]
    ['', '', '/stem/Conv', 'conv1', '']
    """
    numbers = _NUMBERED.fullmatch(node.name)
    numbered = numbers is not None and numbers["op"] in (None, node.op.rpartition("::")[2])
    return "" if numbered else node.name


def _by_name(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[int, int]]:
    """Pairs with the same name and operator, where the name occurs once in each model.

    None where more layers are alike in another order than by their names: then the names are numbers that a layer
    more or less has shifted ("features.6").
    """
    here, there = _unique_names(first), _unique_names(second)
    pairs = [(position, there[name]) for name, position in here.items() if name in there]
    one = [_structure(first[i].node) for i in here.values()]
    other = [_structure(second[i].node) for i in there.values()]
    agreeing = sum(_structure(first[a].node) == _structure(second[b].node) for a, b in pairs)
    return [] if len(common(one, other)) > DOUBT * agreeing + 1 else pairs


def _unique_names(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    names = [(telling(r.node), _alike(r.node)) for r in rows]
    often = Counter(names)
    return {name: position for position, name in enumerate(names) if name[0] and often[name] == 1}


def _alike(node: Node) -> str:
    return _ALIKE.get(node.op, node.op)


def _structure(node: Node) -> Hashable:
    """Operator, shapes of the results, and shapes of the weights regardless of the order of their axes."""
    outputs = tuple(t.shape for t in node.known_outputs)
    return None if None in outputs else (_alike(node), outputs, _tables(node))


def _weights(node: Node) -> Hashable:
    tables = _tables(node)
    return (_alike(node), tables) if tables else None


def _tables(node: Node) -> tuple[object, ...]:
    """Shapes of the stored tensors of two axes or more; a bias may be there or not, and a matrix may be transposed."""
    stored = (t.shape for t in node.known_inputs if t.kind in STORED and t.shape is not None and len(t.shape) > 1)
    return tuple(sorted(tuple(sorted(shape, key=str)) for shape in stored))


def _gaps(matched: dict[int, tuple[int, Way]], first: int, second: int) -> Iterator[tuple[range, range]]:
    """The layers of both between neighbours that belong together and stand in the same order in both."""
    pairs = sorted((a, b) for a, (b, _) in matched.items())
    a = b = 0
    for i, j in (*_rising(pairs), (first, second)):
        yield range(a, i), range(b, j)
        a, b = i + 1, j + 1


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A longest part of the pairs in which the second position rises as well."""
    ends: list[int] = []  # of a rising part of each length, the least last position
    at: list[int] = []  # the pair that it ends with
    before: list[int] = []
    for index, (_, position) in enumerate(pairs):
        length = bisect_left(ends, position)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [position]
        at[length : length + 1] = [index]
    chain, index = [], at[-1] if at else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def common(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence.

    The rows of the table of lengths are kept as bits of one integer each, after Crochemore and others, "A fast and
    practical bit-vector algorithm for the longest common subsequence problem" (2001): a row of 5,000 columns takes 79
    machine words.

    >>> common("abcbdab", "bdcaba")
    [(1, 0), (4, 1), (5, 3), (6, 4)]
    """
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    middle = _common_positions(one[start : len(one) - end], other[start : len(other) - end])
    return [
        *((i, i) for i in range(start)),
        *((i + start, j + start) for i, j in middle),
        *((len(one) - i, len(other) - i) for i in range(end, 0, -1)),
    ]


def _common_positions(one: Sequence[Hashable], other: Sequence[Hashable]) -> Iterable[tuple[int, int]]:
    """Positions of a longest common subsequence by rows of bits; none where both sequences are very long."""
    if not one or not other or len(one) * len(other) > MOST:
        return []
    places: dict[Hashable, int] = {}
    for j, item in enumerate(other):
        places[item] = places.get(item, 0) | 1 << j
    full = (1 << len(other)) - 1
    row, rows = full, []  # bit j is 0 where the length rises at column j
    for item in one:
        both = row & places.get(item, 0)
        row = ((row + both) | (row - both)) & full
        rows.append(row)
    pairs = []
    i, j = len(one) - 1, len(other) - 1
    while i >= 0 and j >= 0:
        if rows[i] >> j & 1:  # the length does not rise here: the column adds nothing
            j -= 1
        elif i and not rows[i - 1] >> j & 1:  # it rose here without this item as well
            i -= 1
        else:
            pairs.append((i, j))
            i -= 1
            j -= 1
    return reversed(pairs)
