"""Rows of a model for the operators of a trace: by operators and shapes, in the order of execution.

Nothing is run. What a profiler saw and what a profile counts are two sequences of operators; the cheapest way to turn
one into the other pairs those that are the same. A pair is of the same operator, and of the same shapes where both have
any; a product only pairs with one of exactly its shapes, or, under another name, of exactly its multiply-adds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from flopwise.analyses.traces.alignment import aligned
from flopwise.analyses.traces.kineto.records import Extents
from flopwise.profiles.profile import Profile

#: What a program calls -> other names under which a profiler may see it.
_SYNONYMS: dict[str, frozenset[str]] = {
    "getitem": frozenset(("slice", "select", "index", "unsqueeze")),
    "contiguous": frozenset(("clone",)),
    "float": frozenset(("to", "_to_copy")),
    "half": frozenset(("to", "_to_copy")),
    "bfloat16": frozenset(("to", "_to_copy")),
    "type_as": frozenset(("to", "_to_copy")),
    "unflatten": frozenset(("view",)),
    "flatten": frozenset(("reshape", "view")),
    "reshape": frozenset(("view", "_unsafe_view")),
    "concat": frozenset(("cat",)),
    "swapaxes": frozenset(("transpose",)),
    "true_divide": frozenset(("div",)),
    "divide": frozenset(("div",)),
    "multiply": frozenset(("mul",)),
    "subtract": frozenset(("sub",)),
    "matmul": frozenset(("mm", "bmm", "linear")),
    "linear": frozenset(("addmm", "mm", "matmul")),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), frozenset(("convolution",))),
    "scaled_dot_product_attention": frozenset(
        f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn")
    )
    | {"_scaled_dot_product_flash_attention_for_cpu"},
    "setitem": frozenset(("copy", "fill", "index_put")),
}

#: What ends the names of the inputs that hold a cache of keys and values, whatever the argument is called.
CACHE = (".keys", ".values")

#: Operators of ONNX that compute products: a file may write as two what a program writes as one.
_PRODUCTS = {"MatMul": "Gemm"}


#: A pair of products is worth so many pairs of others: no view keeps a product from its row.
_PRODUCT = 4


class Token(NamedTuple):
    """An operator, as far as two of them are compared."""

    #: As a program of PyTorch calls it ("conv2d"); "" where it is of no program.
    name: str
    #: In ONNX's vocabulary.
    op: str
    #: Shapes of its tensors: axes of one element in front left out, and what has no axes.
    shapes: tuple[Extents, ...]
    #: Multiply-adds of convolutions, matrix products, attention; 0 of what computes none, -1 for an unknown number.
    macs: int
    #: Dotted path of the module that it ran in; None where that is not known.
    module: str | None = None
    #: Whether it appends to a cache of keys and values.
    cache: bool = False
    #: Whether it is several rows that multiply one operand, which a program may compute at once.
    several: bool = False
    #: Whether it is one of these.
    sibling: bool = False

    @property
    def product(self) -> bool:
        """True for what computes products."""
        return self.macs != 0


def token(name: str, op: str, shapes: Sequence[Extents], macs: int, module: str | None) -> Token:
    """A token with shapes that can be compared."""
    bare = (_without_leading_ones(shape) for shape in shapes if shape)
    return Token(name, _PRODUCTS.get(op, op), tuple(filter(None, bare)), macs, module)


def tokens_of(profile: Profile) -> list[Token]:
    """The rows of a profile as tokens."""
    tokens = []
    for row in profile.rows:
        origin = row.node.origin.split(".")
        name = origin[1].rstrip("_") if len(origin) > 1 and origin[0] == "aten" else ""
        shapes = [
            tuple(int(size) for size in each.dims)
            for t in row.node.known_inputs
            for each in (t.items or (t,))
            if each.shape is not None
        ]
        cache = any(t.kind == "state" and t.name.endswith(CACHE) for t in row.node.known_inputs)
        tokens.append(token(name, row.node.op, shapes, row.macs or 0, row.node.module)._replace(cache=cache))
    return tokens


def siblings(profile: Profile) -> list[tuple[int, ...]]:
    """Rows that multiply one operand by weights of their own, as those of queries, keys and values: their positions."""
    together: dict[str, list[int]] = {}
    for place, row in enumerate(profile.rows):
        if row.node.op in ("Gemm", "MatMul") and row.macs and row.node.known_inputs[0].name:
            together.setdefault(row.node.known_inputs[0].name, []).append(place)
    return [tuple(places) for places in together.values() if len(places) > 1]


def align(seen: Sequence[Token], rows: Sequence[Token], shapes: bool = True) -> list[int | None]:
    """For each operator that was seen the position of its row, in increasing order; None for one without.

    Args:
        seen: the operators of a trace.
        rows: those of a model.
        shapes: whether shapes must agree; without, operators pair by their names alone.
    """
    gains: dict[tuple[Token, Token], int] = {}

    def gain(one: int, other: int) -> int:
        pair = seen[one], rows[other]
        if pair not in gains:
            gains[pair] = _gain(*pair, shapes)
        return gains[pair]

    return aligned(gain, len(seen), len(rows))


def _gain(seen: Token, row: Token, shapes: bool) -> int:
    """The worth of a pair; 0 for one that is none."""
    if not _is_same_operator(seen, row) or (seen.module is not None and seen.module != row.module):
        return 0
    if not shapes or not seen.shapes or not (row.shapes or row.several):
        return _PRODUCT * 2 + 4 * row.several - 2 * row.sibling if seen.product and row.product else 2
    if seen.product != row.product:
        return 0
    return _gain_of_products(seen, row) if seen.product else _gain_of_shapes(seen, row)


def pairs_by_name(name: str, row: Token) -> bool:
    """True for a product that a kernel of a name may compute."""
    return row.product and (name == row.name or name in _SYNONYMS.get(row.name, ()))


def _is_same_operator(seen: Token, row: Token) -> bool:
    """True for one operator; a row that is of no program has only its name in ONNX's vocabulary."""
    if not row.name:
        return seen.op == row.op
    return seen.name == row.name or seen.name in _SYNONYMS.get(row.name, ())


def _gain_of_products(seen: Token, row: Token) -> int:
    """The worth of two products: of one's shapes, or, under another name or in another form, of one's multiply-adds.

    A compiler calls other operators on operands in another order, an engine calls them without axes of one element.
    """
    worth = 0
    if _without_vectors(seen.shapes) == _without_vectors(row.shapes):
        worth = 6
    elif seen.macs == row.macs and (
        row.several or seen.name != row.name or _squeezed(seen.shapes) == _squeezed(row.shapes)
    ):
        worth = 5
    return _PRODUCT * worth - (row.sibling if worth else 0)


def _gain_of_shapes(seen: Token, row: Token) -> int:
    """The worth of two operators that compute no products: of one's shapes, or of one's largest shape."""
    one, other = _without_vectors(seen.shapes), _without_vectors(row.shapes)
    if one == other:
        return 6
    largest, own = (max(each, key=lambda shape: (math.prod(shape), shape)) for each in (one, other))
    if largest == own:
        return _PRODUCT * 4 if row.name == "embedding" else 4  # its table is as telling as a product's weights
    return 3 if sorted(largest) == sorted(own) else 0


def _without_vectors(shapes: Sequence[Extents]) -> Counter[tuple[int, ...]]:
    """Shapes by how often they appear, without those of one axis where there are others: biases, scales."""
    counter = Counter(shape for shape in shapes if shape)
    wide = Counter({shape: number for shape, number in counter.items() if len(shape) > 1})
    return wide or counter


def _squeezed(shapes: Sequence[Extents]) -> list[tuple[int, ...]]:
    return [tuple(size for size in shape or () if size != 1) for shape in shapes]


def _without_leading_ones(shape: Extents) -> Extents:
    place = next((place for place, size in enumerate(shape or ()) if size != 1), len(shape or ()))
    return shape[place:] if shape else None
