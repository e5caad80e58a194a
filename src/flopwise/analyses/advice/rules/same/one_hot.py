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
        if last is None or bare(last[1].op) not in ("MatMul", "Gemm") or last[1].input(0).name != vectors.name:
            continue
        matrix, end = last[1].input(1), last[1].output()
        if len(matrix.dims) != 2 or not _is_plain(last[1]):
            continue
        indices, depth = node.input(0), matrix.dims[0]
        added = last[1].input(2) if last[1].has_input(2) else None
        activation = last[1].attrs.get("activation")
        rows, sums = (Tensor(f"{end.name}.{part}", end.shape, end.dtype) for part in ("rows", "sums"))
        sums = sums if activation else end
        rows = rows if added is not None or activation else end
        after = [Node("Gather", f"{end.name}.gather", (matrix, indices), (rows,), {"axis": 0})]
        if added is not None:
            after.append(Node("Add", f"{end.name}.add", (rows, added), (sums,)))
        if activation:  # that the engine took in
            after.append(
                Node(str(activation), f"{end.name}.activation", (sums if added is not None else rows,), (end,))
            )
        text = f"{indices.numel:,} of {depth:,} rows are picked by {rows.numel * depth:,} multiply-adds"
        yield Change((position, *casts, last[0]), text, tuple(after))


def _is_plain(product: Node) -> bool:
    """True where factors are multiplied as they are, and nothing is scaled."""
    ones = (product.attrs.get(name, 1.0) == 1.0 for name in ("alpha", "beta"))
    return all(ones) and not any(product.attrs.get(name) for name in ("transA", "transB"))


def _is_zero_one(subject: Subject, node: Node) -> bool:
    """True where the last axis is new and holds 0 and 1."""
    if subject.of_program:
        return True
    axis = node.attrs.get("axis", -1)
    values = subject.setting(node.input(2)) if node.has_input(2) else None
    return values == [0.0, 1.0] and axis in (-1, len(node.output().dims) - 1)


def _code(change: Change) -> str:
    """Rows by their number in PyTorch."""
    matrix = change.after[0].input(0)
    return f"F.embedding(indices, matrix) in place of F.one_hot(indices, {matrix.dims[0]}).to(matrix.dtype) @ matrix"


RULE = Rule(
    name="one-hot",
    about="Pick rows of a matrix by their number (Gather), in place of multiplying it by one-hot vectors.",
    exactness="same",
    source="arithmetic: equal for indices within the range (a Gather refuses others, a OneHot gives zeros)",
    find=find,
    code=_code,
)
