"""Products with one-hot vectors."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare, chain
from flopwise.graph import Node, Tensor


def find(subject: Subject) -> Iterator[Change]:
    """OneHot, perhaps a Cast, then a product with a matrix: row i of the matrix."""
    for position, node in subject.live("OneHot"):
        if not _is_zero_one(subject, node):
            continue
        casts, last = chain(subject, node.output(), lambda taker, _: taker.op == "Cast")
        vectors = subject.nodes[casts[-1] if casts else position].output()
        if last is None or bare(last[1].op) != "MatMul" or last[1].input(0).name != vectors.name:
            continue
        matrix, end = last[1].input(1), last[1].output()
        if len(matrix.dims) != 2 or any(last[1].attrs.get(k) for k in ("transA", "transB")):
            continue
        indices, depth = node.input(0), matrix.dims[0]
        rows = Tensor(f"{end.name}.rows", end.shape, end.dtype)
        after = Node("Gather", f"{end.name}.gather", (matrix, indices), (end,), {"axis": 0})
        text = f"{indices.numel:,} of {depth:,} rows are picked by {rows.numel * depth:,} multiply-adds"
        yield Change((position, *casts, last[0]), text, (after,))


def _is_zero_one(subject: Subject, node: Node) -> bool:
    """True where the last axis is new and holds 0 and 1."""
    if node.origin.startswith("aten."):
        return True
    axis = node.attrs.get("axis", -1)
    values = subject.setting(node.input(2)) if node.has_input(2) else None
    return values == [0.0, 1.0] and axis in (-1, len(node.output().dims) - 1)


RULE = Rule(
    name="one-hot",
    about="Pick rows of a matrix by their number (Gather), in place of multiplying it by one-hot vectors.",
    exactness="same",
    source="arithmetic: equal for indices within the range (a Gather refuses others, a OneHot gives zeros)",
    find=find,
)
