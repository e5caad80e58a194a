"""Reductions, scans, searches and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.aten_node import Lowered, tensors


def _over(op: str) -> Callable[..., Lowered]:
    def lowered(input: Tensor, *rest: Any, **more: Any) -> Lowered:
        return Lowered(op, (input,))

    return lowered


def _extreme(op: str, both: str) -> Callable[..., Lowered]:
    """A maximum or minimum: over all elements or an axis, or of two tensors."""

    def lowered(input: Tensor, dim: Any = None, keepdim: bool = False, **more: Any) -> Lowered:
        other = dim if isinstance(dim, Tensor) else more.get("other")
        return Lowered(both, (input, other)) if isinstance(other, Tensor) else Lowered(op, (input,))

    return lowered


def norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, **more: Any
) -> Lowered:
    ord = more.get("p", ord)
    if ord in (2, 2.0, None, "fro"):
        return Lowered("ReduceL2", (input,))
    if ord in (1, 1.0):
        return Lowered("ReduceL1", (input,))
    if ord in (float("inf"), float("-inf")):
        return Lowered("aten::norm_inf", (input,))
    return Lowered("aten::norm_p", (input,))


def _scan(op: str) -> Callable[..., Lowered]:
    def lowered(input: Tensor, dim: Any = None, *rest: Any, **more: Any) -> Lowered:
        return Lowered(op, (input,))

    return lowered


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Lowered:
    return Lowered("TopK", (input,), {"axis": dim})


def sort(input: Tensor, dim: Any = -1, *rest: Any, **more: Any) -> Lowered:
    return Lowered("TopK", (input,), {"axis": dim if isinstance(dim, int) else -1})


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    "sum": _over("ReduceSum"),
    "nansum": _over("ReduceSum"),
    "mean": _over("ReduceMean"),
    "nanmean": _over("ReduceMean"),
    "prod": _over("ReduceProd"),
    "max": _extreme("ReduceMax", "Max"),
    "min": _extreme("ReduceMin", "Min"),
    "amax": _over("ReduceMax"),
    "amin": _over("ReduceMin"),
    "aminmax": _over("aten::aminmax"),
    "argmax": _over("ArgMax"),
    "argmin": _over("ArgMin"),
    "all": _over("aten::all"),
    "any": _over("aten::any"),
    "var": _over("aten::var"),
    "var_mean": _over("aten::var_mean"),
    "std": _over("aten::std"),
    "std_mean": _over("aten::std_mean"),
    "norm": norm,
    "linalg_vector_norm": norm,
    "linalg_norm": norm,
    "linalg_matrix_norm": norm,
    "frobenius_norm": norm,
    "dist": lambda input, other, p=2: Lowered("aten::dist", (input, other), {"p": float(p)}),
    "logsumexp": _over("aten::logsumexp"),
    "special_logsumexp": _over("aten::logsumexp"),
    "logcumsumexp": _scan("aten::logcumsumexp"),
    "cumsum": _scan("CumSum"),
    "cumprod": _scan("CumProd"),
    "cummax": _scan("aten::cummax"),
    "cummin": _scan("aten::cummax"),
    "count_nonzero": _over("aten::count_nonzero"),
    "trace": _over("aten::trace"),
    "median": _over("aten::median"),
    "nanmedian": _over("aten::median"),
    "kthvalue": _over("aten::median"),
    "mode": _over("aten::median"),
    "quantile": lambda input, q, *rest, **more: Lowered("aten::quantile", tensors(input, q)),
    "nanquantile": lambda input, q, *rest, **more: Lowered("aten::quantile", tensors(input, q)),
    "topk": topk,
    "sort": sort,
    "argsort": sort,
    "msort": lambda input: sort(input, 0),
    "unique": _over("aten::unique"),
    "_unique2": _over("aten::unique"),
    "unique_dim": _over("aten::unique"),
    "unique_consecutive": _over("aten::unique_consecutive"),
    "nonzero": _over("NonZero"),
    "argwhere": _over("NonZero"),
    "searchsorted": lambda sorted_sequence, values, *rest, **more: Lowered(
        "aten::searchsorted", tensors(values, sorted_sequence)
    ),
    "bucketize": lambda input, boundaries, *rest, **more: Lowered("aten::searchsorted", tensors(input, boundaries)),
    "bincount": lambda input, weights=None, minlength=0: Lowered("aten::bincount", tensors(input, weights)),
    "histc": _over("aten::histc"),
    "diff": lambda input, *rest, **more: Lowered("Sub", (input,)),
    "embedding_bag": lambda weight, input, *rest, **more: Lowered("aten::embedding_bag", (weight, input)),
    "sum_to_size": _over("ReduceSum"),
    "native_norm": norm,
    "norm_except_dim": _over("ReduceL2"),
    "nonzero_static": _over("NonZero"),
    "_embedding_bag": lambda weight, input, *rest, **more: Lowered("aten::embedding_bag", (weight, input)),
    "multinomial": _over("aten::multinomial"),
}
