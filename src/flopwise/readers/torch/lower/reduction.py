"""Reductions, scans, searches and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, tensors


def _over(op: str) -> Callable[..., Lowered]:
    return lambda input, *settings, **options: Lowered(op, (input,))


def _along(op: str) -> Callable[..., Lowered]:
    return lambda input, dim=None, *settings, **options: Lowered(op, (input,))


def _extreme(op: str, both: str) -> Callable[..., Lowered]:
    """A maximum or minimum: over all elements or an axis, or of two tensors."""

    def lowered(input: Tensor, dim: object = None, keepdim: bool = False, **options: object) -> Lowered:
        other = dim if isinstance(dim, Tensor) else options.get("other")
        return Lowered(both, (input, other)) if isinstance(other, Tensor) else Lowered(op, (input,))

    return lowered


def norm(
    input: Tensor,
    ord: object = 2,
    dim: object = None,
    keepdim: bool = False,
    *,
    dtype: object = None,
    **options: object,
) -> Lowered:
    ord = options.get("p", ord)
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
    input: Tensor, ord: object = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: object = None
) -> Lowered:
    """The greatest or least sum of a column or a row; for 2 and nuc from singular values, which have no count."""
    if ord in (1, -1, float("inf"), float("-inf")):
        return Lowered("aten::linalg_matrix_norm", (input,), {"summed": dim[0] if abs(ord) == 1 else dim[1]})
    return norm(input) if ord in ("fro", None) else Lowered("aten::linalg_svdvals", (input,))


def any_norm(
    input: Tensor, ord: object = None, dim: Any = None, keepdim: bool = False, *, dtype: object = None
) -> Lowered:
    """The norm of a matrix where two axes are named, or one was given and is a matrix norm; else of vectors."""
    if ord is not None and len(input.dims if dim is None else [dim] if isinstance(dim, int) else dim) == 2:
        return matrix_norm(input, ord, dim or (-2, -1))
    return norm(input, ord, dim)


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: object = None, append: object = None) -> Lowered:
    """The differences of an order; there are none beyond the length of a line."""
    if n == 1:
        return Lowered("Sub", (input,))
    lengths = [t.dims[dim] for t in tensors(input, prepend, append)]
    order = min(n, sum(lengths)) if all(isinstance(d, int) for d in lengths) else n
    return Lowered("aten::diff", (input,), {"n": order, "dim": dim})


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


def _sort(input: Tensor, dim: object = -1, *settings: object, **options: object) -> Lowered:
    return Lowered("TopK", (input,), {"axis": dim if isinstance(dim, int) else -1})


def _unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: object = None
) -> Lowered:
    return Lowered("aten::unique", (input,), {"counts": int(return_counts)})


#: ATen -> ONNX, for what takes one tensor and whose settings change no count.
_NAMES = {
    "sum": "ReduceSum", "nansum": "aten::nansum", "mean": "ReduceMean", "nanmean": "aten::nanmean",
    "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin", "aminmax": "aten::aminmax", "argmax": "ArgMax",
    "argmin": "ArgMin", "all": "aten::all", "_is_all_true": "aten::all", "any": "aten::any", "var": "aten::var",
    "var_mean": "aten::var_mean", "std": "aten::std", "std_mean": "aten::std_mean", "logsumexp": "aten::logsumexp",
    "special_logsumexp": "aten::logsumexp", "count_nonzero": "aten::count_nonzero", "trace": "aten::trace",
    "median": "aten::median", "nanmedian": "aten::median", "kthvalue": "aten::median", "nonzero": "NonZero",
    "argwhere": "NonZero", "sum_to_size": "ReduceSum", "norm_except_dim": "ReduceL2", "nonzero_static": "NonZero",
}  # fmt: skip

#: Likewise along one axis.
_SCANS = {
    "logcumsumexp": "aten::logcumsumexp", "cumsum": "CumSum", "cumprod": "CumProd", "cummax": "aten::cummax",
    "cummin": "aten::cummax",
}  # fmt: skip

LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{name: _over(op) for name, op in _NAMES.items()},
    **{name: _along(op) for name, op in _SCANS.items()},
    "max": _extreme("ReduceMax", "Max"),
    "min": _extreme("ReduceMin", "Min"),
    **dict.fromkeys(("norm", "linalg_vector_norm", "frobenius_norm", "native_norm"), norm),
    "linalg_norm": any_norm,
    "linalg_matrix_norm": matrix_norm,
    "dist": lambda input, other, p=2: Lowered("aten::dist", (input, other), {"p": float(p)}),
    "mode": lambda input, *settings, **options: Lowered("aten::median", (input,), {"runs": 1}),
    **{
        name: lambda input, q, *settings, **options: Lowered("aten::quantile", tensors(input, q))
        for name in ("quantile", "nanquantile")
    },
    "topk": lambda input, k, dim=-1, largest=True, sorted=True: Lowered("TopK", (input,), {"axis": dim}),
    "sort": _sort,
    "argsort": _sort,
    "msort": lambda input: _sort(input, 0),
    "unique": _unique,
    "_unique2": _unique,
    "unique_dim": lambda input, dim, *settings, **options: _unique(input, *settings, **options),
    "unique_consecutive": lambda input, return_inverse=False, return_counts=False, dim=None: Lowered(
        "aten::unique_consecutive", (input,), {"inverse": int(return_inverse), "counts": int(return_counts)}
    ),
    "searchsorted": lambda sorted_sequence, values, *settings, **options: Lowered(
        "aten::searchsorted", tensors(values, sorted_sequence)
    ),
    "bucketize": lambda input, boundaries, *settings, **options: Lowered(
        "aten::searchsorted", tensors(input, boundaries)
    ),
    "bincount": lambda input, weights=None, minlength=0: Lowered("aten::bincount", tensors(input, weights)),
    "histc": lambda input, bins=100, min=0, max=0: Lowered("aten::histc", (input,), {"bounded": int(min != max)}),
    "diff": diff,
    "embedding_bag": embedding_bag,
    "_embedding_bag": embedding_bag,
    "multinomial": lambda input, num_samples, replacement=False, **options: Lowered(
        "aten::multinomial", (input,), {"replacement": int(replacement)}
    ),
}
