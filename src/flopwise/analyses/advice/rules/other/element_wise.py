"""Element-wise operators that take passes of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.graph import Node

if TYPE_CHECKING:
    from flopwise.analyses.timing.roofline import Roof

#: The paper measures what goes with ReLU and shortcut: 20 % of a bottleneck. Below half of that it is no advice.
LEAST = 0.1

#: Operators that are named, those that move most.
NAMED = 3

#: What the paper leaves out to measure them: ReLU, and sums of tensors. Other activations are a network's own choice.
ACTIVATIONS, SUMS = frozenset({"Relu", "Clip"}), frozenset({"Add", "Sum"})


def find(subject: Subject) -> Iterator[Change]:
    """ReLUs and shortcuts, all together, where they move a tenth of a convolutional network's bytes."""
    products = {each.node.op: 0 for each in subject.profile.rows}
    for each in subject.profile.rows:
        products[each.node.op] += each.macs or 0
    if not products or bare(max(products, key=lambda op: products[op])) != "Conv":
        return
    rows = {id(each.node): (each.read_bytes or 0) + (each.written_bytes or 0) for each in subject.profile.rows}
    positions = tuple(p for p, node in subject.live(*ACTIVATIONS, *SUMS) if _is_measured(subject, node))
    moved, whole = sum(rows.get(id(subject.nodes[p]), 0) for p in positions), sum(rows.values())
    if whole and moved >= LEAST * whole:
        by_operator: Counter[str] = Counter()
        for p in positions:
            by_operator[bare(subject.nodes[p].op)] += rows.get(id(subject.nodes[p]), 0)
        names = ", ".join(op for op, _ in by_operator.most_common(NAMED))
        yield Change(positions, f"{len(positions)} element-wise passes ({names}) move {moved / whole:.0%} of all bytes")


def _is_measured(subject: Subject, node: Node) -> bool:
    """True for a ReLU, and for a sum of tensors that vary: a stored one is a bias."""
    return bare(node.op) in ACTIVATIONS or not any(subject.stored(tensor) for tensor in node.known_inputs)


def applies(roof: Roof) -> bool:
    """True where bytes bind, or nothing does."""
    return roof in ("memory", "none")


RULE = Rule(
    name="element-wise",
    about="Leave out ReLUs and shortcuts where they cost passes of their own (G4).",
    exactness="other",
    source="Ma et al., ShuffleNet V2, 2018, guideline G4 and table 4",
    find=find,
    applies=applies,
    executed=True,
)
