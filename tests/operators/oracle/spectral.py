"""Fourier transforms as sums over all terms, windows angle by angle, and mel filters slope by slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import zeros
from tests.operators.oracle.number import Number, floor, function, log, mac, plain

cos = function("trig", math.cos)


def transformed(signal: list[Any], bins: int, sign: int) -> list[tuple[Any, Any]]:
    """Sums over all terms of real (one number) or complex (two) elements times exp(sign j 2 pi k n / N)."""
    length = len(signal)
    sums = []
    for k in range(bins):
        real: Any = 0.0
        imaginary: Any = 0.0
        for n, element in enumerate(signal):
            angle = sign * 2.0 * math.pi * (k * n % length) / length
            c, s = math.cos(angle), math.sin(angle)
            real, imaginary = mac(real, element[0], c), mac(imaginary, element[0], s)
            if len(element) == 2:
                real, imaginary = mac(real, element[1], -s), mac(imaginary, element[1], c)
        sums.append((real, imaginary))
    return sums


def mirrored(half: Any, length: int) -> list[Any]:
    """The real signal of a half spectrum: the other half are the conjugates, their sign a matter of the factor."""
    signal = []
    for n in range(length):
        total: Any = 0.0
        for k in range(length):
            angle = 2.0 * math.pi * (k * n % length) / length
            element, side = (half[k], -1.0) if k < len(half) else (half[length - k], 1.0)
            total = mac(mac(total, element[0], math.cos(angle)), element[1], side * math.sin(angle))
        signal.append(total / float(length))
    return signal


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
