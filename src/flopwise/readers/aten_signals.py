"""Spectra and linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.aten_node import Lowered, tensors


def _fourier(several: bool) -> Callable[..., Lowered]:
    """A transform of one axis (input, n, dim, norm) or of several (input, s, dim, norm)."""

    def lowered(input: Tensor, n: Any = None, dim: Any = None, norm: Any = None) -> Lowered:
        if dim is None:
            dim = list(range(-len(n), 0)) if isinstance(n, (list, tuple)) else list(range(-len(input.dims), 0))
            dim = dim if several else -1
        return Lowered("aten::fft", (input,), {"axes": [dim] if isinstance(dim, int) else list(dim)})

    return lowered


def _plane(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: Any = None) -> Lowered:
    return Lowered("aten::fft", (input,), {"axes": list(dim)})


def _kernel(input: Tensor, dim: Any, *rest: Any, **more: Any) -> Lowered:
    return Lowered("aten::fft", (input,), {"axes": list(dim)})


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    *rest: Any,
    **more: Any,
) -> Lowered:
    return Lowered("aten::stft", tensors(input, window), {"n_fft": n_fft, "windowed": int(isinstance(window, Tensor))})


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    *rest: Any,
    **more: Any,
) -> Lowered:
    return Lowered("aten::istft", tensors(input, window), {"n_fft": n_fft})


def _on(op: str) -> Callable[..., Lowered]:
    """An operator on all tensors that it is given, in their order."""

    def lowered(*args: Any, **kwargs: Any) -> Lowered:
        return Lowered(op, tensors(*args, *kwargs.values()))

    return lowered


def _turned(op: str) -> Callable[..., Lowered]:
    """An operator whose matrix is its second argument."""

    def lowered(input: Tensor, matrix: Tensor, *rest: Any, **more: Any) -> Lowered:
        return Lowered(op, (matrix, input))

    return lowered


def matrix_power(input: Tensor, n: int) -> Lowered:
    return Lowered("aten::matrix_power", (input,), {"n": n})


def cov(input: Tensor, *rest: Any, **more: Any) -> Lowered:
    return Lowered("aten::cov", (input,))


_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{f"fft_{name}": _fourier(False) for name in _TRANSFORMS},
    **{f"fft_{name}n": _fourier(True) for name in _TRANSFORMS},
    **{f"fft_{name}2": _plane for name in _TRANSFORMS},
    **{f"_fft_{name}": _kernel for name in ("r2c", "c2r", "c2c")},
    "stft": stft,
    "istft": istft,
    **{name: _on("aten::linalg_cholesky") for name in ("cholesky", "linalg_cholesky", "linalg_cholesky_ex")},
    **{name: _on("aten::linalg_inv") for name in ("inverse", "linalg_inv", "linalg_inv_ex")},
    **{name: _on("aten::linalg_solve") for name in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")},
    **{name: _on("Det") for name in ("det", "linalg_det", "_linalg_det")},
    **{name: _on("aten::slogdet") for name in ("slogdet", "logdet", "linalg_slogdet", "_linalg_slogdet")},
    **{name: _on("aten::linalg_lu") for name in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")},
    "linalg_solve_triangular": _on("aten::linalg_solve_triangular"),
    "triangular_solve": _turned("aten::linalg_solve_triangular"),
    "cholesky_solve": _turned("aten::cholesky_solve"),
    "matrix_power": matrix_power,
    "linalg_matrix_power": matrix_power,
    "cov": cov,
    "corrcoef": lambda input: Lowered("aten::corrcoef", (input,)),
    "cross": lambda input, other, dim=None: Lowered("aten::cross", (input, other)),
    "linalg_cross": lambda input, other, *, dim=-1: Lowered("aten::cross", (input, other)),
    "cosine_similarity": lambda x1, x2, dim=1, eps=1e-8: Lowered("aten::cosine_similarity", (x1, x2)),
    "pairwise_distance": lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: Lowered(
        "aten::pairwise_distance", (x1, x2), {"p": float(p)}
    ),
    "trapezoid": lambda y, x=None, *, dx=None, dim=-1: Lowered("aten::trapezoid", tensors(y, x)),
    "trapz": lambda y, x=None, *, dx=None, dim=-1: Lowered("aten::trapezoid", tensors(y, x)),
    "cumulative_trapezoid": lambda y, x=None, *, dx=None, dim=-1: Lowered("aten::trapezoid", tensors(y, x)),
    "ctc_loss": lambda log_probs, targets, *rest, **more: Lowered("aten::ctc_loss", (log_probs, targets)),
    "_ctc_loss": lambda log_probs, targets, *rest, **more: Lowered("aten::ctc_loss", (log_probs, targets)),
}
