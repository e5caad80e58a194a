"""Rows that are picked, and then cut off."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, argument
from flopwise.graph import Node, Tensor


def find(subject: Subject) -> Iterator[Change]:
    """A Gather of rows and a Slice of what it picked, against a Slice of the indices and a Gather of these rows."""
    for position, node in subject.live("Gather"):
        if node.attrs.get("axis", 0) != 0 or not node.output().resolved:
            continue
        taker, indices = subject.only_taker(node.output()), node.input(1)
        if taker is None or taker[1].op != "Slice" or not taker[1].output().resolved:
            continue
        end, rank = taker[1].output(), len(indices.dims)
        if not _cuts_rows(subject, taker[1], rank):
            continue
        rest = taker[1].inputs[1:]
        cut = Tensor(f"{indices.name}.{end.name}", end.dims[:rank], indices.dtype)
        after = (
            Node("Slice", f"{end.name}.indices", (indices, *rest), (cut,), version=taker[1].version),
            Node("Gather", node.name, (node.input(0), cut), (end,), node.attrs, version=node.version),
        )
        text = f"{indices.numel:,} rows are picked and {cut.numel:,} are used"
        yield Change((position, taker[0]), text, after)


def _cuts_rows(subject: Subject, cut: Node, rank: int) -> bool:
    """True where a Slice cuts along axes of the indices alone, which come first."""
    parts = argument(cut, "arg1")
    if cut.origin == "aten.getitem" and isinstance(parts, tuple):
        return len(parts) <= rank and all(isinstance(part, slice) for part in parts)
    axes = subject.setting(cut.input(3)) if cut.has_input(3) else None
    return axes is not None and all(0 <= axis < rank for axis in axes)


RULE = Rule(
    name="oversized-gather",
    about="Cut off indices before rows are picked by them, not rows behind.",
    exactness="same",
    source="arithmetic",
    find=find,
    code=lambda change: "F.embedding(cut(indices), matrix) in place of cut(F.embedding(indices, matrix))",
)
