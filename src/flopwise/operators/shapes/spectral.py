"""Shapes of Fourier transforms."""

from __future__ import annotations

from flopwise.operators.shape import Call, Types


def spectrum(call: Call) -> Types:
    shape = call.ranked(0)
    bins = shape[-1] // 2 + 1 if call.attribute("onesided", 1) else shape[-1]
    return [call.tensor(call.dtype(0), (*shape[:-1], bins, 2))]


def signal(call: Call) -> Types:
    shape = call.ranked(0)
    length = 2 * (shape[-2] - 1) if call.attribute("onesided", 1) else shape[-2]
    return [call.tensor(call.dtype(0), (*shape[:-2], length))]
