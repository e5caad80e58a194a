"""Reductions, scans, searches and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, tensors


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
    if ord in (2, None, "fro"):
        return Lowered("ReduceL2", (input,))
    if ord == 1:
        return Lowered("ReduceL1", (input,))
    if ord in (float("inf"), float("-inf")):
        return Lowered("aten::norm_inf", (input,))
    if ord == 0:
        return Lowered("aten::count_nonzero", (input,))
    return Lowered("aten::norm_p", (input,))


def matrix_norm(
    input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Lowered:
    """The greatest or least sum of a column or a row; from singular values, which nobody can count, for 2 and nuc."""
    if ord in (1, -1, float("inf"), float("-inf")):
        return Lowered("aten::linalg_matrix_norm", (input,), {"summed": dim[0] if abs(ord) == 1 else dim[1]})
    return norm(input) if ord in ("fro", None) else Lowered("aten::linalg_svdvals", (input,))


def any_norm(input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Lowered:
    """The norm of a matrix where two axes are named, or one was given and asked for; else of vectors."""
    if ord is not None and len(input.dims if dim is None else [dim] if isinstance(dim, int) else dim) == 2:
        return matrix_norm(input, ord, dim or (-2, -1))
    return norm(input, ord, dim)


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Lowered:
    """The differences of an order; there are none beyond the length of a line."""
    if n == 1:
        return Lowered("Sub", (input,))
    lengths = [t.dims[dim] for t in tensors(input, prepend, append)]
    order = min(n, sum(lengths)) if all(isinstance(d, int) for d in lengths) else n
    return Lowered("aten::diff", (input,), {"n": order, "dim": dim})


def _scan(op: str) -> Callable[..., Lowered]:
    def lowered(input: Tensor, dim: Any = None, *rest: Any, **more: Any) -> Lowered:
        return Lowered(op, (input,))

    return lowered


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Lowered:
    return Lowered("TopK", (input,), {"axis": dim})


def sort(input: Tensor, dim: Any = -1, *rest: Any, **more: Any) -> Lowered:
    return Lowered("TopK", (input,), {"axis": dim if isinstance(dim, int) else -1})


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Lowered:
    return Lowered("aten::unique", (input,), {"counts": int(return_counts)})


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Lowered:
    attrs = {"inverse": int(return_inverse), "counts": int(return_counts)}
    return Lowered("aten::unique_consecutive", (input,), attrs)


def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Lowered:
    return Lowered("aten::histc", (input,), {"bounded": int(min != max)})


def embedding_bag(
    weight: Tensor,
    input: Tensor,
    offsets: Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Lowered:
    attrs = {"mode": ("sum", "mean", "max")[mode]}
    return Lowered("aten::embedding_bag", (weight, input, per_sample_weights), attrs)


LOWERINGS: dict[str, Callable[..., Lowered]] = {
    "sum": _over("ReduceSum"),
    "nansum": _over("aten::nansum"),
    "mean": _over("ReduceMean"),
    "nanmean": _over("aten::nanmean"),
    "prod": _over("ReduceProd"),
    "max": _extreme("ReduceMax", "Max"),
    "min": _extreme("ReduceMin", "Min"),
    "amax": _over("ReduceMax"),
    "amin": _over("ReduceMin"),
    "aminmax": _over("aten::aminmax"),
    "argmax": _over("ArgMax"),
    "argmin": _over("ArgMin"),
    "all": _over("aten::all"),
    "_is_all_true": _over("aten::all"),
    "any": _over("aten::any"),
    "var": _over("aten::var"),
    "var_mean": _over("aten::var_mean"),
    "std": _over("aten::std"),
    "std_mean": _over("aten::std_mean"),
    "norm": norm,
    "linalg_vector_norm": norm,
    "linalg_norm": any_norm,
    "linalg_matrix_norm": matrix_norm,
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
    "mode": lambda input, *rest, **more: Lowered("aten::median", (input,), {"runs": 1}),
    "quantile": lambda input, q, *rest, **more: Lowered("aten::quantile", tensors(input, q)),
    "nanquantile": lambda input, q, *rest, **more: Lowered("aten::quantile", tensors(input, q)),
    "topk": topk,
    "sort": sort,
    "argsort": sort,
    "msort": lambda input: sort(input, 0),
    "unique": unique,
    "_unique2": unique,
    "unique_dim": lambda input, dim, *rest, **more: unique(input, *rest, **more),
    "unique_consecutive": unique_consecutive,
    "nonzero": _over("NonZero"),
    "argwhere": _over("NonZero"),
    "searchsorted": lambda sorted_sequence, values, *rest, **more: Lowered(
        "aten::searchsorted", tensors(values, sorted_sequence)
    ),
    "bucketize": lambda input, boundaries, *rest, **more: Lowered("aten::searchsorted", tensors(input, boundaries)),
    "bincount": lambda input, weights=None, minlength=0: Lowered("aten::bincount", tensors(input, weights)),
    "histc": histc,
    "diff": diff,
    "embedding_bag": embedding_bag,
    "sum_to_size": _over("ReduceSum"),
    "native_norm": norm,
    "norm_except_dim": _over("ReduceL2"),
    "nonzero_static": _over("NonZero"),
    "_embedding_bag": embedding_bag,
    "multinomial": lambda input, num_samples, replacement=False, **more: Lowered(
        "aten::multinomial", (input,), {"replacement": int(replacement)}
    ),
}
