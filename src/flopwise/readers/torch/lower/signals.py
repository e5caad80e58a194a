"""Spectra and linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, all_tensors, tensors


def _fourier(several: bool, inverse: bool) -> Callable[..., Lowered]:
    """A transform of one axis (input, n, dim, norm) or of several (input, s, dim, norm)."""

    def lowered(input: Tensor, n: object = None, dim: Any = None, norm: str | None = None, s: object = None) -> Lowered:
        n = s if n is None else n
        if dim is None:
            dim = list(range(-len(n), 0)) if isinstance(n, (list, tuple)) else list(range(-len(input.dims), 0))
            dim = dim if several else -1
        return _transform(input, [dim] if isinstance(dim, int) else list(dim), _scales(norm, inverse))

    return lowered


def _plane(inverse: bool) -> Callable[..., Lowered]:
    """A transform of two axes."""

    def lowered(input: Tensor, s: object = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Lowered:
        return _transform(input, list(dim), _scales(norm, inverse))

    return lowered


def _scales(norm: str | None, inverse: bool) -> bool:
    """True if a transform divides its result: an inverse does, unless its other half is to do so."""
    return norm == "ortho" or (norm != "forward" if inverse else norm == "forward")


def _transform(input: Tensor, axes: list[int], scaled: bool) -> Lowered:
    return Lowered("aten::fft", (input,), {"axes": axes, "scaled": int(scaled)})


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: object = None,
    win_length: object = None,
    window: object = None,
    *settings: object,
    normalized: bool = False,
    **options: object,
) -> Lowered:
    """The signal comes padded; what follows the window is ``normalized``, by place or by name."""
    normalized = next((flag for flag in settings if isinstance(flag, bool)), normalized)
    attrs = {"n_fft": n_fft, "windowed": int(isinstance(window, Tensor)), "normalized": int(normalized)}
    return Lowered("aten::stft", tensors(input, window), attrs)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: object = None,
    win_length: object = None,
    window: object = None,
    center: bool = True,
    normalized: bool = False,
    *settings: object,
    **options: object,
) -> Lowered:
    return Lowered("aten::istft", tensors(input, window), {"n_fft": n_fft, "normalized": int(normalized)})


def solve_triangular(
    input: Tensor,
    B: Tensor,  # noqa: N803 - as in PyTorch
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    **options: object,
) -> Lowered:
    return Lowered("aten::linalg_solve_triangular", (input, B), {"unit": int(unitriangular)})


def triangular_solve(
    input: Tensor,
    A: Tensor,  # noqa: N803 - as in PyTorch
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Lowered:
    return Lowered("aten::linalg_solve_triangular", (A, input), {"unit": int(unitriangular)})


_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{f"fft_{name}": _fourier(False, name.startswith("i")) for name in _TRANSFORMS},
    **{f"fft_{name}n": _fourier(True, name.startswith("i")) for name in _TRANSFORMS},
    **{f"fft_{name}2": _plane(name.startswith("i")) for name in _TRANSFORMS},
    **{
        f"_fft_{name}": lambda input, dim, normalization=0, *settings, **options: _transform(
            input, list(dim), normalization != 0
        )
        for name in ("r2c", "c2r", "c2c")
    },
    "stft": stft,
    "istft": istft,
    **{name: all_tensors("aten::linalg_cholesky") for name in ("cholesky", "linalg_cholesky", "linalg_cholesky_ex")},
    **{name: all_tensors("aten::linalg_inv") for name in ("inverse", "linalg_inv", "linalg_inv_ex")},
    **{name: all_tensors("aten::linalg_solve") for name in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")},
    **{name: all_tensors("Det") for name in ("det", "linalg_det", "_linalg_det")},
    **{name: all_tensors("aten::slogdet") for name in ("slogdet", "logdet", "linalg_slogdet", "_linalg_slogdet")},
    **{name: all_tensors("aten::linalg_lu") for name in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")},
    "linalg_solve_triangular": solve_triangular,
    "triangular_solve": triangular_solve,
    "cholesky_solve": lambda input, input2, upper=False: Lowered("aten::cholesky_solve", (input2, input)),
    **{
        name: lambda input, n: Lowered("aten::matrix_power", (input,), {"n": n})
        for name in ("matrix_power", "linalg_matrix_power")
    },
    "cov": lambda input, *, correction=1, fweights=None, aweights=None: Lowered(
        "aten::cov", tensors(input, fweights, aweights)
    ),
    "corrcoef": lambda input: Lowered("aten::corrcoef", (input,)),
    "cross": lambda input, other, dim=None: Lowered("aten::cross", (input, other)),
    "linalg_cross": lambda input, other, *, dim=-1: Lowered("aten::cross", (input, other)),
    "cosine_similarity": lambda x1, x2, dim=1, eps=1e-8: Lowered("aten::cosine_similarity", (x1, x2)),
    "pairwise_distance": lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: Lowered(
        "aten::pairwise_distance", (x1, x2), {"p": float(p)}
    ),
    **{
        name: lambda y, x=None, *, dx=None, dim=-1: Lowered("aten::trapezoid", (y, x), {"dim": dim})
        for name in ("trapezoid", "trapz", "cumulative_trapezoid")
    },
}
