"""Fast Fourier transforms, windows angle by angle, and mel filters slope by slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle import fourier
from tests.operators.oracle.linear import zeros
from tests.operators.oracle.number import Number, floor, function, log, plain

cos = function("trig", math.cos)


def transformed(signal: list[Any], bins: int, sign: int) -> list[tuple[Any, Any]]:
    """The transform of real (one number) or complex (two) elements, as far as bins are asked for."""
    if any(len(one) == 2 for one in signal):
        pairs = [one if len(one) == 2 else (one[0], Number(0.0, one[0].tally)) for one in signal]
        whole = fourier.forward([fourier.Complex(a, b) for a, b in pairs], float(sign))
    else:
        whole = fourier.whole(fourier.of_real([a for (a,) in signal], float(sign)), len(signal))
    return [(one.real, part(one)) for one in whole[:bins]]


def part(one: fourier.Complex) -> Any:
    """The imaginary part: its sign is no operation but a matter of what it is added to."""
    if one.imaginary is None:
        return Number(0.0, one.real.tally)
    return one.imaginary if one.sign > 0 else Number(-one.imaginary.value, one.imaginary.tally)


def mirrored(half: Any, length: int) -> list[Any]:
    """The real signal of a half spectrum: the other half are the conjugates."""
    spectrum = [fourier.Complex(*one) for one in half]
    return [one / float(length) for one in fourier.to_real(spectrum, length, 1.0)]


def fitted(signal: Any, length: int) -> Any:
    """The signal cut, or padded by zeros, to a length."""
    return np.concatenate([signal, zeros((length, signal.shape[1]), signal)])[:length]


def dft(
    x: Any,
    dft_length: Any = None,
    axis_input: Any = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    version: int = 0,
) -> Any:
    if axis is None:
        axis = int(axis_input) if axis_input is not None else 1 if 0 < version < 20 else -2
    rows = np.moveaxis(x, axis, -2)
    length = rows.shape[-2]
    if inverse and onesided:
        length = 2 * (length - 1)
    length = length if dft_length is None else int(dft_length)
    results = []
    for at in np.ndindex(rows.shape[:-2]):
        if inverse and onesided:
            results.append(np.array(mirrored(rows[at], length), object)[:, np.newaxis])
            continue
        signal = fitted(rows[at], length)
        sums = np.array(
            transformed(list(signal), length // 2 + 1 if onesided else length, 1 if inverse else -1), object
        )
        results.append(sums / float(length) if inverse else sums)
    stacked = np.array(results, object).reshape(*rows.shape[:-2], *results[0].shape)
    return np.moveaxis(stacked, -2, axis)


def stft(signal: Any, step: Any, window: Any = None, frame_length: Any = None, *, onesided: int = 1) -> Any:
    length = signal.shape[1]
    if frame_length is not None or window is not None:
        length = len(window) if window is not None else int(frame_length)
    frames = (signal.shape[1] - length) // int(step) + 1
    bins = length // 2 + 1 if onesided else length
    y = np.empty((signal.shape[0], frames, bins, 2), object)
    for b, f in np.ndindex(y.shape[:2]):
        frame = signal[b, f * int(step) : f * int(step) + length]
        if window is not None:
            frame = frame * window[:, np.newaxis]
        y[b, f] = np.array(transformed(list(frame), bins, -1), object)
    return y


def window(a0: float, a1: float, a2: float) -> Callable[..., Any]:
    """A sum of cosines."""

    def definition(size: Any, *, periodic: int = 1, output_datatype: int = 1) -> Any:
        del output_datatype
        whole = size[()]
        period = whole * float(periodic) + (whole - 1.0) * (1.0 - periodic)
        step = 2.0 * math.pi / period
        y = np.empty(plain(whole), object)
        for i in range(len(y)):
            angle = step * float(i)
            y[i] = a0 - a1 * cos(angle) + a2 * cos(angle * 2.0)
        return y

    return definition


def mel_weight_matrix(bands: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """Triangles between three neighbouring edges, which are equally far apart on the mel scale."""
    count, bins = int(plain(bands[()])), int(plain(length[()])) // 2 + 1
    tally = rate[()].tally

    def mel(hertz: Number) -> Number:
        return 2595.0 / math.log(10.0) * log(1.0 + hertz / 700.0)

    first, last = mel(low[()]), mel(high[()])
    step = (last - first) / float(count + 2)
    longer = length[()] + 1.0
    edges = []
    for i in range(count + 2):
        place = step * float(i) + first
        exponent = place / 2595.0
        hertz = 700.0 * (exponent.does("pow", 10.0 ** plain(exponent)) - 1.0)
        edges.append(int(plain(floor(longer * hertz / rate[()]))))
    y = np.zeros((bins, count), object)
    for band in range(count):
        left, centre, right = edges[band : band + 3]
        up, down = Number(centre, tally) - left, Number(right, tally) - centre
        if up.equals(0).value:
            y[centre, band] = 1.0
        else:
            for j in range(left, centre + 1):
                y[j, band] = (Number(j, tally) - left) / up
        if (down > 0).value:
            for j in range(centre, right):
                y[j, band] = (Number(right, tally) - j) / down
    return y


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "HannWindow": window(0.5, 0.5, 0.0),
    "HammingWindow": window(25.0 / 46.0, 21.0 / 46.0, 0.0),
    "BlackmanWindow": window(0.42, 0.5, 0.08),
}

ALGORITHMS: dict[str, Callable[..., Any]] = {"DFT": dft, "STFT": stft, "MelWeightMatrix": mel_weight_matrix}
