"""Conversions of element types that are taken back."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, chain, moved_in_type, moves_alone
from flopwise.graph.dtypes import is_float


def find(subject: Subject) -> Iterator[Change]:
    """Two Casts with nothing but moves between them, the second to the type before the first."""
    for position, node in subject.live("Cast"):
        source, result = node.input(0), node.output()
        if source.dtype is None or not is_float(source.dtype) or not is_float(result.dtype):  # integers may be cut off
            continue
        moved, last = chain(subject, result, moves_alone)
        if last is None or last[1].op != "Cast" or last[1].output().dtype != source.dtype:
            continue
        end = last[1].output()
        if end.name in subject.outputs and not moved:
            continue
        after = moved_in_type(subject, moved, source, end)
        same = {} if moved else {end.name: source.name}
        text = f"{source.dtype} → {result.dtype} → {source.dtype}, and nothing computes in {result.dtype}"
        yield Change((position, *moved, last[0]), text, after, same)


def _code(change: Change) -> str:
    """The moves alone, if any, in PyTorch."""
    return (
        "moved(x) in place of moved(x.to(other)).to(x.dtype)"
        if change.after
        else "x in place of x.to(other).to(x.dtype)"
    )


RULE = Rule(
    name="cast-pairs",
    about="Leave out conversions of element types that are taken back.",
    exactness="same",
    source="arithmetic: equal up to the rounding of the type between, exact where that is the wider one",
    find=find,
    code=_code,
)
