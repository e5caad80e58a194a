"""Which layers of a model an executed node does the work of: by the values of tensors, then by names, then by order.

An engine fuses nodes, renames them and changes layouts; what stays the same is what comes out. A tensor of the executed
graph and one of the model are the same when their elements are, in whatever order: least, greatest, sum of magnitudes
and of squares agree. Between two tensors that are known to be the same lies a segment: the nodes of the model that make
the one from the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: Relative difference up to which two figures are the same: fused kernels round in another order.
CLOSE = 2e-3


class OnnxNode(Protocol):
    """The fields of ``onnx.NodeProto`` that are looked at."""

    name: str
    op_type: str
    input: Sequence[str]
    output: Sequence[str]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The figures of a tensor that stay the same when an engine changes its layout."""

    #: Least, greatest, sum of magnitudes, sum of squares; () where there are none.
    values: tuple[float, ...]
    #: How many elements.
    count: int


def match(
    model: Sequence[OnnxNode],
    executed: Sequence[OnnxNode],
    own: Mapping[str, Fingerprint],
    prints: Mapping[str, Fingerprint],
) -> list[tuple[str, ...]]:
    """For each executed node the names of the model's nodes that it does the work of.

    Args:
        model: the model's nodes.
        executed: the executed nodes.
        own: fingerprints of the model's tensors.
        prints: fingerprints of the executed graph's tensors.
    """
    makers = {name: place for place, node in enumerate(model) for name in node.output if name}
    same = _same_tensors(model, executed, own, prints, makers)
    owners: dict[int, int] = {}
    for number, node in enumerate(executed):
        ends = [makers[same[name]] for name in node.output if same.get(name) in makers]
        starts = {same.get(name, name) for name in node.input if name}
        owners |= dict.fromkeys(_segment(model, makers, ends, starts, owners), number)
    _adopt(model, owners)
    labels = names_of(model)
    rows: list[list[str]] = [[] for _ in executed]
    for place, number in sorted(owners.items()):
        rows[number].append(labels[place])
    return list(map(tuple, rows))


def _segment(
    model: Sequence[OnnxNode],
    makers: Mapping[str, int],
    ends: Iterable[int],
    starts: Collection[str],
    taken: Collection[int],
) -> dict[int, None]:
    """The nodes, which nobody has taken, from what comes out back to what went in."""
    places: dict[int, None] = {}
    stack = list(ends)
    while stack:
        place = stack.pop()
        if place not in taken and place not in places:
            places[place] = None
            stack += [makers[name] for name in model[place].input if name in makers and name not in starts]
    return places


def _adopt(model: Sequence[OnnxNode], owners: dict[int, int]) -> None:
    """Give the nodes that no tensor tells of to whoever takes their results."""
    takers: dict[str, list[int]] = {}
    for place, node in enumerate(model):
        for name in node.input:
            takers.setdefault(name, []).append(place)
    for place in reversed(range(len(model))):
        users = [user for name in model[place].output if name for user in takers.get(name, ())]
        owner = next((owners[user] for user in users if user in owners), None)
        if owner is not None:
            owners.setdefault(place, owner)


def _same_tensors(
    model: Sequence[OnnxNode],
    executed: Sequence[OnnxNode],
    own: Mapping[str, Fingerprint],
    prints: Mapping[str, Fingerprint],
    makers: Mapping[str, int],
) -> dict[str, str]:
    """Tensor of the executed graph -> tensor of the model that is the same.

    Of several with the same values the one of the same name counts, else the next in order: both graphs run in an order
    that their inputs allow.
    """
    same: dict[str, str] = {}
    position = 0
    candidates = sorted(own, key=lambda name: makers.get(name, -1))
    for node in executed:
        for name in node.output:
            if not name:
                continue
            twin = prints.get(name)
            if name in makers and (twin is None or name not in own or close(twin, own[name])):
                same[name] = name
                position = max(position, makers[name])
                continue
            if twin is None or not twin.values:
                continue
            equal = [c for c in candidates if c not in same.values() and close(twin, own[c])]
            if equal:
                after = [c for c in equal if makers[c] >= position] or equal
                last = _furthest(after, model, makers)
                same[name] = last
                position = max(position, makers[last])
    return same


def _furthest(names: Sequence[str], model: Sequence[OnnxNode], makers: Mapping[str, int]) -> str:
    """The last of the first unbroken chain of equal tensors: a Reshape behind a product belongs to it."""
    chosen = names[0]
    for name in names[1:]:
        if chosen not in model[makers[name]].input:
            break
        chosen = name
    return chosen


def close(one: Fingerprint, other: Fingerprint) -> bool:
    """True if two tensors have the same elements, in any order; padding with zeros does not matter."""
    if not one.values or not other.values:
        return False
    scale = max(abs(one.values[0]), abs(one.values[1]), abs(other.values[0]), abs(other.values[1]))
    for place, (a, b) in enumerate(zip(one.values, other.values, strict=True)):
        size = scale if place < 2 else max(abs(a), abs(b))
        if one.count != other.count and place < 2:
            continue  # padded channels may add a zero that is the least or greatest
        if abs(a - b) > CLOSE * size + 1e-12:
            return False
    return True


def names_of(nodes: Sequence[OnnxNode]) -> list[str]:
    """A name for each node, as the rows of a profile have them: its own, or the operator and its running number."""
    seen: dict[str, int] = {}
    names = []
    for node in nodes:
        seen[node.op_type] = seen.get(node.op_type, 0) + 1
        names.append(node.name or f"{node.op_type.lower()}_{seen[node.op_type]}")
    return names
