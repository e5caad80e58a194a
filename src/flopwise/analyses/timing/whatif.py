"""Times that a model would take otherwise: floors, estimates and measured times, which are never mixed.

A floor is the time of the same nodes with some times removed: nothing of this engine can be faster at this level. An
estimate stands with the range in which measured times were when the change was really made. Measured is what ran here.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from flopwise.analyses.timing.bound import Bound, BoundRow, WhatIf, bound_row
from flopwise.analyses.timing.device import Device, Peak
from flopwise.analyses.timing.engine import with_workers
from flopwise.analyses.timing.engines import LEVELS, QUANTIZED
from flopwise.analyses.timing.quantities import as_stored, works
from flopwise.errors import InputError, did_you_mean
from flopwise.graph.dtypes import canonical
from flopwise.operators.tables import row as operator

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


class Trials(NamedTuple):
    """Measured times over estimated ones, when a change was really made."""

    ratios: tuple[float, ...]
    #: What was tried, and where.
    about: str

    @property
    def low(self) -> float:
        """The least of them, rounded down to hundredths."""
        return math.floor(100 * min(self.ratios)) / 100

    @property
    def high(self) -> float:
        """The largest of them, rounded up to hundredths."""
        return math.ceil(100 * max(self.ratios)) / 100


@functools.cache
def trials() -> Mapping[str, Trials]:
    """Kind of change -> how far its estimates were off: what benchmarks/what_if.py measured and wrote down."""
    table = files("flopwise.analyses.timing").joinpath("data/trials.json").read_text("utf-8")
    found = {}
    for change, kind in json.loads(table).items():
        models = {each["model"] for each in kind["trials"]}
        ratios = tuple(each["measured"] / each["estimated"] for each in kind["trials"])
        found[change] = Trials(ratios, f"{len(ratios)} trials of {len(models)} models {kind['where']}")
    return found


def estimate(change: str, what: str, ns: float, base_ns: float) -> WhatIf:
    """An estimate with the range that the trials of its kind of change imply."""
    off = trials()[change]
    return WhatIf(what, ns, "estimate", base_ns, off.low * ns, off.high * ns)


def notes_on(changes: Sequence[str]) -> tuple[str, ...]:
    """A note on each kind of estimate: how far it was off."""
    off = {change: trials()[change] for change in changes if change in trials()}
    return tuple(
        f"{change}: measured times were {each.low:g} to {each.high:g} times the estimates, in {each.about}"
        for change, each in off.items()
    )


#: Layouts that are tried: no blocks of channels, and images that are given with their channels last.
LAYOUTS = ("nchw", "nhwc")


class Try(NamedTuple):
    """A change that the user asks about, such as level=off."""

    change: str
    value: str

    @property
    def number(self) -> int:
        """The value of threads= and batch=."""
        return int(self.value)


def tries_of(texts: Sequence[str], changes: Sequence[str]) -> list[Try]:
    """The changes of ``--try``.

    Args:
        texts: each of the form NAME=VALUE.
        changes: names that are possible here.

    Raises:
        InputError: another name, or a value that it does not take.
    """
    tries = []
    for text in texts:
        change, _, value = text.partition("=")
        if change not in changes:
            near = did_you_mean(change, changes) or ";"
            raise InputError(f"try {text!r}: nothing here is called {change!r}{near} it takes {', '.join(changes)}")
        if change == "level" and value not in LEVELS:
            raise InputError(f"try {text!r}: unknown level; choose {', '.join(LEVELS)}")
        if change == "layout" and value not in LAYOUTS:
            raise InputError(f"try {text!r}: unknown layout; choose {', '.join(LAYOUTS)}")
        if change == "dtype" and canonical(value) != QUANTIZED:
            raise InputError(
                f"try {text!r}: beside the model's own type onnxruntime multiplies in {QUANTIZED} alone; "
                f"a floor is bound --dtype {value}"
            )
        if change in ("threads", "batch") and not (value.isdecimal() and 0 < int(value) < 1 << 30):
            raise InputError(f"try {text!r}: give a whole number of at least 1")
        tries.append(Try(change, canonical(value) if change == "dtype" else value))
    return tries


def roofline_ns(profile: Profile, device: Device, threads: int | None) -> float:
    """The rooflines of all rows added up, products computed in the type that they are stored in.

    Args:
        profile: the model.
        device: the device.
        threads: cores in use; None means all.
    """
    rows = (bound_row("", "", as_stored(work), device, threads) for work in works(profile))
    return sum(row.roofline_ns or 0.0 for row in rows)


def what_ifs(bound: Bound, workers: int = 2) -> list[WhatIf]:
    """Other ways for a model: floors of one that was measured, then what was tried and what is in the store.

    Args:
        bound: of the model.
        workers: how many nodes may run at once on a device that they share.
    """
    engine = bound.engine
    if engine is None:
        return list(bound.tried)
    rows, hot = bound.rows, engine.hot_ns
    changes = [WhatIf("as it is", hot, "floor", hot)]

    def without(what: str, chosen: Callable[[BoundRow], bool]) -> Iterator[WhatIf]:
        saved = sum(row.floor_ns or 0.0 for row in rows if chosen(row))
        if saved:
            yield WhatIf(what, hot - saved, "floor", hot)

    changes += without("element-wise nodes fused into others", lambda row: operator(row.op).in_place)
    changes += without("no node that only moves elements", lambda row: operator(row.op).moves)
    times = [row.floor_ns or 0.0 for row in rows]
    if engine.critical_ns < 0.999 * hot:
        shared = with_workers(times, engine.needs, workers)
        changes.append(WhatIf(f"{workers} workers that share the cores", shared, "floor", hot))
        changes.append(WhatIf("independent nodes at once", engine.critical_ns, "floor", hot))
    changes.append(WhatIf("every product at the device's peak", bound.physical.ns, "floor", hot))
    if engine.measured_ns is not None:
        now = engine.measured_ns
        changes.append(WhatIf("the whole as it is", now, "measured", now))
        changes += [WhatIf(other.label, other.ns, "measured", now) for other in engine.others]
    return [*changes, *bound.tried]


# A measured time of a model held against what its device can do: MFU, and the share of the floors.


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
