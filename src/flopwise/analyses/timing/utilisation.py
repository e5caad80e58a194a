"""A measured time of a model held against what its device can do: MFU, and the share of the floors."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from flopwise.analyses.timing.bound import Bound
from flopwise.analyses.timing.device import Peak
from flopwise.errors import InputError

_FORM = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>ns|us|µs|μs|ms|s|)", re.IGNORECASE)
_NANOSECONDS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "": 1e9}


class Utilisation(NamedTuple):
    """A measured time as shares of what is possible."""

    measured_ns: float
    #: Model FLOPs utilisation: time of the executed products at the vendor's dense peaks over the measured time; None
    #: where the device has no figure for one of their types.
    mfu: float | None
    #: The figures that it is a share of, one for each type.
    peaks: tuple[Peak, ...]
    #: The physical floor over the measured time; above 1 where the time cannot be right.
    floor_share: float
    #: The same of the layers' rooflines added up, an estimate.
    roofline_share: float


def nanoseconds(text: str) -> float:
    """The nanoseconds that a text stands for; without a unit it is in seconds.

    Raises:
        InputError: the text is no time above 0.

    >>> nanoseconds("35ms"), nanoseconds("1.5 s"), nanoseconds("0.25")
    (35000000.0, 1500000000.0, 250000000.0)
    """
    match = _FORM.fullmatch(text.strip())
    value = float(match["number"]) * _NANOSECONDS[match["unit"].lower()] if match else 0.0
    if not 0 < value < math.inf:
        raise InputError(f"{text!r} is no time; write for example 35ms, 250us or 1.2s")
    return value


def utilisation(bound: Bound, measured_ns: float) -> Utilisation:
    """The shares of a measured time."""
    peaks: dict[str, Peak] = {}
    time = 0.0
    known = True
    for row in bound.rows:
        if not row.work.macs:
            continue
        rated = [peak for dtype in row.work.arithmetic if (peak := bound.device.rated(dtype)) is not None]
        if not rated:
            known = False
            continue
        best = max(rated, key=lambda peak: peak.scaled(bound.threads))
        peaks.setdefault(best.dtype or "", best)
        time += 2 * row.work.macs / best.scaled(bound.threads) * 1e9
    return Utilisation(
        measured_ns,
        time / measured_ns if known and peaks else None,
        tuple(peaks.values()),
        bound.physical.ns / measured_ns,
        bound.roofline_ns / measured_ns,
    )
