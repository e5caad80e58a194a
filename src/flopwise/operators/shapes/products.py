"""Shapes of products with packed or stored factors, and of Fourier transforms."""

from __future__ import annotations

import math

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import Most, UnresolvedError, larger, smaller


def columns(call: Call) -> Types:
    """The product with packed weights of N columns, or of K when it is transposed; what was added before follows."""
    columns = call.positive("N" if call.attribute("transB", 1) else "K")
    return [call.tensor(call.dtype(0), (*call.ranked(0)[:-1], columns)), call.type(0)]


def block_columns(call: Call) -> Types:
    return [call.tensor(call.dtype(0), (*call.ranked(0)[:-1], call.ranked(1, 2)[0]))]


def given_columns(call: Call) -> Types:
    shape = call.wholes(2)
    if len(shape) != 2:
        raise UnresolvedError
    return [call.tensor(call.dtype(0), (*call.ranked(0)[:-1], shape[1]))]


def three_products(call: Call) -> Types:
    shape, dtype = call.ranked(0), call.dtype(0)
    columns = [call.positive(name) for name in ("Nq", "Nkv", "Nkv")]
    return [*(call.tensor(dtype, (*shape[:-1], n)) for n in columns), call.type(0)]


def router_and_expert(call: Call) -> Types:
    """The columns of the router, and half of those of the shared expert's gate and up."""
    shape, columns, router = call.ranked(0), call.ranked(1, 2)[1], call.positive("router_size")
    return [call.tensor(call.dtype(0), (*shape[:-1], n)) for n in (router, (columns - router) // 2)]


def group_router(call: Call) -> Types:
    """Scores of all experts, the tokens in one axis."""
    scores = (math.prod(call.ranked(0)[:-1]), call.ranked(1, 1)[0])
    full = call.tensor("float32", scores)
    return [call.tensor(call.dtype(0), scores), full, full]


def ordered_matmul(call: Call) -> Types:
    """The product of A and B in 8 bits; B's shape is that of the factor, however it is stored."""
    a, b = call.ranked(0, 2, 3), call.ranked(2, 2)
    return [call.tensor("int8", (*a[:-1], b[1]))]


def pairs(call: Call) -> Types:
    return [call.tensor(call.dtype(0), (call.ranked(0, 2)[0], call.ranked(1, 2)[0]))]


def warping_path(call: Call) -> Types:
    """The row and column of each cell on the way; the longest one goes along one axis in every step."""
    rows, columns = call.ranked(0, 2, 3)[-2:]
    longest = larger(rows + columns - 1, 0)
    return [call.tensor("int32", (2, Most(longest, smaller(longest, larger(rows, columns)))))]


def _turned(call: Call, index: int, side: str) -> tuple[int, ...]:
    """The shape of a factor as MatMul takes it: a transposition of batches first, then one of the last two axes."""
    shape = call.ranked(index)
    if len(shape) > 1 and call.attribute(f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    if len(shape) > 1 and call.attribute(f"trans{side}", 0):
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def fused_matmul(call: Call) -> Types:
    factors = [call.tensor("float32", _turned(call, place, side)) for place, side in enumerate("AB")]
    dtype = call.dtype(1 if call.op == "SparseToDenseMatMul" else 0)
    return [call.tensor(dtype, call.ask("MatMul", factors, only=()))]


def gemm(call: Call) -> Types:
    """Gemm of two matrices, quantised (QGemm) or of 8-bit floats (GemmFloat8)."""
    quantized = call.op == "QGemm"
    factors = [call.tensor("float32", call.ranked(i, 2)) for i in ((0, 3) if quantized else (0, 1))]
    shape = call.ask("Gemm", factors, only=("transA", "transB"))
    dtype = (call.dtype(8) if call.has(8) else "float32") if quantized else call.type_attribute("dtype", "float32")
    return [call.tensor(dtype, shape)]


def transposed(call: Call) -> Types:
    """ConvTranspose, whose paddings are an input."""
    factors = [call.tensor("float32", call.ranked(place)) for place in (0, 1)]
    more = {"pads": call.wholes(2)} if call.has(2) else {}
    return [call.tensor(call.dtype(0), call.ask("ConvTranspose", factors, more=more))]


def spectrum(call: Call) -> Types:
    shape = call.ranked(0)
    bins = shape[-1] // 2 + 1 if call.attribute("onesided", 1) else shape[-1]
    return [call.tensor(call.dtype(0), (*shape[:-1], bins, 2))]


def signal(call: Call) -> Types:
    shape = call.ranked(0)
    length = 2 * (shape[-2] - 1) if call.attribute("onesided", 1) else shape[-2]
    return [call.tensor(call.dtype(0), (*shape[:-2], length))]
