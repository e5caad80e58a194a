"""Fourier transforms of PyTorch's, and sums over pairs of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tests.operators.arrays import Input, real
from tests.operators.calls import Call, call, complex_of
from tests.operators.oracle.number import Number, numbers
from tests.operators.oracle.reduction import add_up, cumulative
from tests.operators.oracle.spectral import mirrored, transformed


def parts(z: Any) -> Any:
    """The real and the imaginary part of a number, or a real number alone."""
    if isinstance(z.value, complex):
        return Number(z.value.real, z.tally), Number(z.value.imag, z.tally)
    return (z,)


def transform(x: Any, bins: int, inverse: bool = False, scale: float = 1.0) -> Any:
    """The transform of a vector; what is left of each sum is divided by the scale."""
    sums = transformed([parts(v) for v in x], bins, 1 if inverse else -1)
    sums = [(a / scale, b / scale) for a, b in sums] if scale != 1.0 else sums
    return np.array([complex_of(a, b) for a, b in sums], object)


def along(axis: int, of: Callable[[Any], Any], x: Any) -> Any:
    """A function of vectors along an axis."""
    rows = np.moveaxis(x, axis, -1)
    found = [of(rows[at]) for at in np.ndindex(rows.shape[:-1])]
    return np.moveaxis(np.array(found, object).reshape(*rows.shape[:-1], -1), -1, axis)


def real_again(half: Any, length: int) -> Any:
    """The real signal whose spectrum's first half is given."""
    return np.array(mirrored([parts(v) for v in half], length), object)


def complex_input(*shape: int) -> Input:
    return Input(real(*shape).array + 1j * real(*shape).array)


def half_spectrum(*shape: int) -> Input:
    """The spectra of real signals: what stands for itself is real."""
    return Input(np.fft.rfft(real(*shape).array))


def fitted(x: Any, length: int) -> Any:
    """The vector cut, or padded by zeros, to a length."""
    zeros = numbers(np.zeros(length), x[0].tally)
    return np.concatenate([x, zeros])[:length]


def transforms() -> Iterator[Call]:
    z, x, root = complex_input(2, 5), real(2, 6), 5.0**0.5
    yield call("fft", torch.fft.fft, lambda z: along(1, lambda v: transform(v, 5), z), z)
    yield call("fft", lambda x: torch.fft.fft(x, dim=0), lambda x: along(0, lambda v: transform(v, 2), x), x)
    yield call("fft", lambda z: torch.fft.fft(z, 7), lambda z: along(1, lambda v: transform(fitted(v, 7), 7), z), z)
    yield call(
        "fft", lambda z: torch.fft.fft(z, norm="ortho"), lambda z: along(1, lambda v: transform(v, 5, scale=root), z), z
    )
    yield call("fft", torch.fft.ifft, lambda z: along(1, lambda v: transform(v, 5, True, 5.0), z), z)
    yield call(
        "fft", lambda z: torch.fft.ifft(z, norm="forward"), lambda z: along(1, lambda v: transform(v, 5, True), z), z
    )
    yield call("fft", torch.fft.rfft, lambda x: along(1, lambda v: transform(v, 4), x), x)
    yield call("fft", torch.fft.ihfft, lambda x: along(1, lambda v: transform(v, 4, True, 6.0), x), x)
    for length in (6, 7):
        yield call(
            "fft",
            lambda h, n=length: torch.fft.irfft(h, n),
            lambda h, n=length: along(1, lambda v: real_again(v, n), h),
            half_spectrum(2, length),
        )  # fmt: skip
    yield call(
        "fft",
        torch.fft.fft2,
        lambda z: along(0, lambda v: transform(v, 3), along(1, lambda v: transform(v, 4), z)),
        complex_input(3, 4),
    )
    yield call(
        "fft",
        torch.fft.rfftn,
        lambda x: along(0, lambda v: transform(v, 3), along(1, lambda v: transform(v, 3), x)),
        real(3, 4),
    )
    yield call(
        "fft",
        torch.fft.ifftn,
        lambda z: along(0, lambda v: transform(v, 3, True, 12.0), along(1, lambda v: transform(v, 4, True), z)),
        complex_input(3, 4),
    )


def short_time(x: Any, n: int, hop: int, bins: int, window: Any = None, factor: float = 1.0) -> Any:
    """(bins, frames) of a signal that is not padded."""
    frames = [x[at : at + n] for at in range(0, len(x) - n + 1, hop)]
    if window is not None:
        frames = [weighted(frame, window) for frame in frames]
    spectra = [transform(frame, bins) for frame in frames]
    if factor != 1.0:
        spectra = [np.array([complex_of(*(p * factor for p in parts(v))) for v in s], object) for s in spectra]
    return np.stack(spectra, axis=1)


def weighted(frame: Any, window: Any) -> Any:
    """A frame times a window; of a complex number both parts."""
    found = [[p * w for p in parts(v)] for v, w in zip(frame, window, strict=True)]
    return np.array([complex_of(*v) if len(v) == 2 else v[0] for v in found], object)


def added_up(spectra: Any, n: int, hop: int, window: Any) -> Any:
    """The signal whose frames overlap; what the windows add up to is divided out."""
    frames = [real_again(column, n) for column in spectra.T]
    length = n + hop * (len(frames) - 1)
    signal = numbers(np.zeros(length), spectra.flat[0].tally)
    weights = numbers(np.zeros(length), spectra.flat[0].tally)
    for i, frame in enumerate(frames):
        for k in range(n):
            signal[i * hop + k] = signal[i * hop + k] + frame[k] * window[k]
            weights[i * hop + k] = weights[i * hop + k] + window[k] * window[k]
    return signal / weights


def frames() -> Iterator[Call]:
    x, window = real(11), Input(np.array([0.5, 1.0, 0.9, 0.4]))
    plain = {"n_fft": 4, "hop_length": 2, "center": False, "return_complex": True}
    ones = torch.ones(4, dtype=torch.float64)
    yield call("stft", lambda x: torch.stft(x, **plain, window=ones), lambda x: short_time(x, 4, 2, 3), x)
    yield call(
        "stft",
        lambda x, w: torch.stft(x, **plain, window=w),
        lambda x, w: short_time(x, 4, 2, 3, w),
        x, window,
    )  # fmt: skip
    yield call(
        "stft",
        lambda x, w: torch.stft(x, **plain, window=w, onesided=False, normalized=True),
        lambda x, w: short_time(x, 4, 2, 4, w, 0.5),
        x, window,
    )  # fmt: skip
    yield call(
        "stft",
        lambda x, w: torch.stft(x, **plain, window=w, onesided=False),
        lambda x, w: short_time(x, 4, 2, 4, w),
        complex_input(11), window,
    )  # fmt: skip
    yield call(
        "istft",
        lambda s, w: torch.istft(s, 4, 2, window=w, center=False),
        lambda s, w: added_up(s, 4, 2, w),
        Input(half_spectrum(5, 4).array.T), window,
    )  # fmt: skip


def areas(y: Any, x: Any = None, dx: float = 1.0) -> Any:
    """The areas between neighbours along the last axis."""
    sums = y[..., 1:] + y[..., :-1]
    return sums * (dx / 2.0) if x is None else sums * ((x[..., 1:] - x[..., :-1]) / 2.0)


def neighbours() -> Iterator[Call]:
    y = real(3, 4)
    yield call("trapezoid", torch.trapezoid, lambda y: add_up(areas(y), [1], 0), y)
    yield call(
        "trapezoid",
        lambda y: torch.trapezoid(y, dx=0.1, dim=0),
        lambda y: add_up(areas(y.T, dx=0.1), [1], 0),
        y,
    )
    yield call("trapezoid", torch.trapezoid, lambda y, x: add_up(areas(y, x), [1], 0), y, real(4))
    yield call("trapezoid", torch.trapezoid, lambda y, x: add_up(areas(y, x), [1], 0), y, real(3, 4))
    running = cumulative(lambda a, b: a + b, 0.0)
    yield call("trapezoid", torch.cumulative_trapezoid, lambda y, x: running(areas(y, x), 1), y, real(4))


def calls() -> Iterator[Call]:
    yield from transforms()
    yield from frames()
    yield from neighbours()
