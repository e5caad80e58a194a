"""Numbers that are dequantised, moved, and quantised again with the same scale."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, chain, moved_in_type, moves_alone
from flopwise.graph import Node


def find(subject: Subject) -> Iterator[Change]:
    """A DequantizeLinear and a QuantizeLinear of equal scale and zero point, with nothing but moves between them."""
    for position, node in subject.live("DequantizeLinear"):
        moved, last = chain(subject, node.output(), moves_alone)
        if last is None or last[1].op != "QuantizeLinear" or not _as_before(subject, node, last[1]):
            continue
        source, end = node.input(0), last[1].output()
        if end.dtype != source.dtype or (end.name in subject.outputs and not moved):
            continue
        after = moved_in_type(subject, moved, source, end)
        same = {} if moved else {end.name: source.name}
        text = f"{source.numel:,} numbers are widened to {node.output().dtype}, moved, and quantised as they were"
        yield Change((position, *moved, last[0]), text, after, same)


def _as_before(subject: Subject, one: Node, other: Node) -> bool:
    """True where one scale and one zero point, for the whole tensor, are equal in both."""
    for place in (1, 2):
        mine, theirs = (n.input(place) if n.has_input(place) else None for n in (one, other))
        values = [subject.setting(t) if t is not None else [0.0] for t in (mine, theirs)]
        if values[0] is None or values[0] != values[1] or len(values[0]) != 1:
            return False
    return True


RULE = Rule(
    name="quantized-moves",
    about="Move quantised numbers as they are, in place of dequantising and quantising them around the move.",
    exactness="same",
    source="arithmetic: the same scale and zero point give the same numbers back",
    find=find,
)
