"""Which layers of a model an executed node does the work of: by the values of tensors, then by names, then by order.

An engine fuses nodes, renames them and changes layouts; what stays the same is what comes out. A tensor of the executed
graph and one of the model are the same when their elements are, in whatever order: least, greatest, sum of magnitudes
and of squares agree. Between two tensors that are known to be the same lies a segment: the nodes of the model that make
the one from the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Relative difference up to which two figures are the same: fused kernels round in another order.
CLOSE = 2e-3


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What stays the same of a tensor when an engine changes its layout."""

    #: Least, greatest, sum of magnitudes, sum of squares; () where there are none.
    values: tuple[float, ...]
    #: How many elements.
    count: int


def match(
    model: Sequence[Any],
    executed: Sequence[Any],
    own: Mapping[str, Fingerprint],
    prints: Mapping[str, Fingerprint],
) -> list[tuple[str, ...]]:
    """For each executed node the names of the model's nodes that it does the work of.

    Args:
        model: the model's nodes, with ``name``, ``op_type``, ``input`` and ``output``.
        executed: the executed nodes, likewise.
        own: fingerprints of the model's tensors.
        prints: fingerprints of the executed graph's tensors.
    """
    makers = {name: place for place, node in enumerate(model) for name in node.output if name}
    same = _same_tensors(model, executed, own, prints, makers)
    labels = names_of(model)
    takers: dict[str, list[int]] = {}
    for place, node in enumerate(model):
        for name in node.input:
            takers.setdefault(name, []).append(place)
    taken: set[int] = set()
    matches: list[tuple[int, ...]] = []
    for node in executed:
        ends = [same[name] for name in node.output if name in same]
        starts = {same.get(name, name) for name in node.input if name}
        places: list[int] = []
        stack = [makers[end] for end in ends if end in makers]
        while stack:  # from what comes out back to what went in
            place = stack.pop()
            if place in taken:
                continue
            taken.add(place)
            places.append(place)
            stack += [makers[n] for n in model[place].input if n in makers and n not in starts]
        matches.append(tuple(places))
    owners = {place: node for node, places in enumerate(matches) for place in places}
    for place in reversed(range(len(model))):  # what no tensor tells belongs to whoever takes its result
        if place not in owners:
            users = [p for name in model[place].output if name for p in takers.get(name, ())]
            owner = next((owners[p] for p in users if p in owners), None)
            if owner is not None:
                owners[place] = owner
    of_node: list[list[int]] = [[] for _ in executed]
    for place, node in sorted(owners.items()):
        of_node[node].append(place)
    return [tuple(labels[place] for place in places) for places in of_node]


def _same_tensors(
    model: Sequence[Any],
    executed: Sequence[Any],
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


def _furthest(names: Sequence[str], model: Sequence[Any], makers: Mapping[str, int]) -> str:
    """The last of the first unbroken chain of equal tensors: a Reshape behind a product belongs to it."""
    chosen = names[0]
    for name in names[1:]:
        if chosen not in model[makers[name]].input:
            break
        chosen = name
    return chosen


def close(one: Fingerprint, other: Fingerprint) -> bool:
    """Whether two tensors have the same elements, in any order; padding with zeros does not matter."""
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


def names_of(nodes: Sequence[Any]) -> list[str]:
    """A name for each node, as the rows of a profile have them: its own, or the operator and its running number."""
    seen: dict[str, int] = {}
    names = []
    for node in nodes:
        seen[node.op_type] = seen.get(node.op_type, 0) + 1
        names.append(node.name or f"{node.op_type.lower()}_{seen[node.op_type]}")
    return names
