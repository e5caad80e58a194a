"""A rule of advice on a recorded run, and what it finds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from flopwise.analyses.traces.land import union
from flopwise.analyses.traces.trace import BACKWARD, Moment, TimedRow

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.analyses.traces.trace import Trace


class Run(NamedTuple):
    """A recorded step, and the device that it ran on."""

    trace: Trace
    #: None for a processor that is not in the table of devices.
    device: Device | None

    @property
    def on_gpu(self) -> bool:
        """True where kernels of a GPU were recorded."""
        return self.trace.device not in ("", "CPU")

    @property
    def trains(self) -> bool:
        """True where backward passes were recorded."""
        return any(row.phase == BACKWARD for row in self.trace.rows)


class Finding(NamedTuple):
    """Time that a run would not need."""

    #: Layers, or the name of a remainder such as "gaps".
    place: tuple[str, ...]
    #: Nanoseconds of the step, at most.
    ns: float
    #: Why, with its figure.
    text: str


@dataclass(frozen=True)
class RunRule:
    """A kind of time that is lost in a run, and the threshold from which it is advice."""

    name: str
    #: What is changed, in a line.
    about: str
    #: Who set the threshold: a tool with its version.
    source: str
    #: From what share on it is advice, mostly of the step.
    threshold: float
    find: Callable[[Run, float], Iterator[Finding]]
    exactness: Literal["run"] = "run"


# Searches of the rules of a run in a recorded step.
#
# Each takes the threshold of its rule as a fraction, and says what it is a fraction of; the time at work is that of all
# threads or streams together. Findings are in nanoseconds of a step.


#: A kernel is short below so many nanoseconds, and short ones are many from so many on.
SHORT_NS, MANY = 5_000, 20

#: Steps from which a spread says something.
STEPS = 10

#: A layer far from its roof could come as close to it as this.
REACHABLE = 0.75

#: Names of kernels that multiply with ordinary arithmetic units.
_WITHOUT_TENSOR_CORES = re.compile(r"sgemm|scudnn|simt|ffma|(dgrad|wgrad|convolve)\w*<float")
_TURNS = re.compile(r"nchwToNhwc|nhwcToNchw|transpose", re.IGNORECASE)


def idle(run: Run, threshold: float) -> Iterator[Finding]:
    """The gaps in which nothing runs on the device, if they take more than ``threshold`` of the step."""
    yield from _remainder(run, "gaps", threshold, "of the step nothing runs on the device")


def loading(run: Run, threshold: float) -> Iterator[Finding]:
    """The time that the step waits for data, if it is more than ``threshold`` of the step."""
    yield from _remainder(run, "data loading", threshold, "of the step waits for data: more workers, or prefetch")


def copies(run: Run, threshold: float) -> Iterator[Finding]:
    """Copies between host and device and conversions of types, if they take more than ``threshold`` of the step."""
    yield from _remainder(run, "copies", threshold, "of the step copies between memories or types")


def _remainder(run: Run, name: str, threshold: float, words: str) -> Iterator[Finding]:
    """The time of a trace that no layer has, under this name, if it is more than ``threshold`` of the step."""
    ns, window = run.trace.remainder.get(name, 0), run.trace.window_ns
    if window and ns > threshold * window:
        yield Finding((name,), ns, f"{ns / window:.1%} {words}")


def launch_bound(run: Run, threshold: float) -> Iterator[Finding]:
    """``MANY`` or more kernels under ``SHORT_NS``, if they take at least ``threshold`` of a GPU's time at work."""
    short = [m for m in run.trace.timeline if m.end_ns - m.start_ns < SHORT_NS]
    time, busy = sum(m.end_ns - m.start_ns for m in short), run.trace.busy_ns
    if not run.on_gpu or len(short) < MANY or time < threshold * busy:
        return
    places = tuple(name for name, _ in Counter(m.where for m in short).most_common())
    text = f"{len(short)} kernels under {SHORT_NS // 1000} µs take {time / busy:.1%} of the kernels' time"
    yield Finding(places, time, text)


def communication(run: Run, threshold: float) -> Iterator[Finding]:
    """Exposed communication: that beside which nothing else runs, if it takes more than ``threshold`` of the step."""
    spans = [_span(m) for m in run.trace.timeline if m.where == "communication"]
    others = [_span(m) for m in run.trace.timeline if m.where != "communication"]
    both, window = union([*spans, *others]), run.trace.window_ns
    exposed = both - union(others)
    if spans and exposed > threshold * window:
        yield Finding(("communication",), exposed, f"{exposed / window:.1%} of the step waits for communication alone")


def _span(moment: Moment) -> tuple[int, int]:
    return moment.start_ns, moment.end_ns


def transposes(run: Run, threshold: float) -> Iterator[Finding]:
    """Transposes and changes of layout, if they take more than ``threshold`` of the time of the convolutions."""
    kernels = run.trace.kernels
    turned = {place: 0 for place, _, _ in kernels}
    for (place, _, kernel), time in kernels.items():
        if _TURNS.search(kernel):
            turned[place] += time
    for row in run.trace.rows:
        if row.op == "Transpose" and row.time_ns:
            turned[row.name] = row.time_ns
    total = sum(turned.values()) + run.trace.remainder.get("layout", 0)
    each = {row.name: row.time_ns or 0 for row in run.trace.rows if row.op in ("Conv", "ConvTranspose", "conv2d")}
    fused = sum(segment.time_ns for segment in run.trace.segments if not each.keys().isdisjoint(segment.layers))
    convolutions = sum(each.values()) + fused
    if convolutions and total > threshold * convolutions:
        places = tuple(sorted((p for p, time in turned.items() if time), key=lambda p: -turned[p])) or ("layout",)
        yield Finding(places, total, f"turning tensors takes {total / convolutions:.1%} of the convolutions' time")


def far_from_roof(run: Run, threshold: float) -> Iterator[Finding]:
    """Layers above ``threshold`` of the time at work that take over twice as long as they could.

    A layer could come as close to its roofline time as ``REACHABLE``: 0.75 makes it far from 2.67 times that time on.
    """
    memory = None if run.device is None else run.device.bandwidth("dram")
    for row in _large(run, threshold):
        moved = 1e9 * (row.bytes or 0) / memory.value if memory is not None else 0.0
        least = max(row.floor_ns or 0, moved)
        if row.floor_ns and row.time_ns and 2 * least < REACHABLE * row.time_ns:
            saved = row.time_ns - least / REACHABLE
            share = row.time_ns / run.trace.busy_ns
            text = f"{row.time_ns / least:.1f} times its time at the device's roof, {share:.1%} of the time at work"
            yield Finding((row.name,), saved, text)


def without_tensor_cores(run: Run, threshold: float) -> Iterator[Finding]:
    """Kernels that leave an NVIDIA GPU's tensor cores unused, if they take over ``threshold`` of the time at work."""
    device = run.device
    if device is None or not device.vendor.lower().startswith("nvidia"):
        return
    dense = [p for p in device.peaks if p.dense]
    matrix = max((p.value for p in dense if p.what == "matrix" and p.dtype in ("float16", "tfloat32")), default=0)
    vector = max((p.value for p in dense if p.what == "vector" and p.dtype == "float32"), default=0)
    times: Counter[str] = Counter()
    for (place, _, kernel), time in run.trace.kernels.items():
        if _WITHOUT_TENSOR_CORES.search(kernel):
            times[place] += time
    total = sum(times.values())
    if vector < matrix and total > threshold * run.trace.busy_ns:
        share = total / run.trace.busy_ns
        text = f"{share:.1%} of the kernels' time multiplies float32 without tensor cores: mixed precision"
        yield Finding(tuple(name for name, _ in times.most_common()), total * (1 - vector / matrix), text)


def variance(run: Run, threshold: float) -> Iterator[Finding]:
    """Layers above 5 % of the time at work whose time spreads by more than ``threshold``, from ``STEPS`` steps on."""
    for row in _large(run, 0.05):
        if len(row.times_ns) >= STEPS and (row.spread or 0.0) > threshold:
            saved = max(0, (row.time_ns or 0) - min(row.times_ns))
            yield Finding((row.name,), saved, f"±{row.spread:.0%} over {len(row.times_ns)} steps")


def _large(run: Run, share: float) -> Iterator[TimedRow]:
    """Layers that take more than a share (0 to 1) of the time at work."""
    return (row for row in run.trace.rows if (row.time_ns or 0) > share * run.trace.busy_ns)


# The rules of a run, with their thresholds: the table is read from top to bottom.


_TRACELENS = "TraceLens (171dd747), rules of its agent"
_KINETO = "PyTorch's TensorBoard profiler (041e7ce9), recommendations"
_TENSORRT = "NVIDIA, trt-perf-analysis (a892d222)"

RUN_RULES = (
    RunRule(
        "idle",
        "Keep the device busy: larger batches, asynchronous copies, fewer synchronisations, CUDA graphs.",
        f"{_TRACELENS}: idle for over 15 % of the step",
        0.15,
        idle,
    ),
    RunRule(
        "data-loading",
        "Load data beside the step: workers, pinned memory, prefetching.",
        f"{_KINETO}: over 5 % of the step",
        0.05,
        loading,
    ),
    RunRule(
        "copies",
        "Copy less between host and device, and convert types once.",
        f"{_TRACELENS}: copies over 5 % of the step",
        0.05,
        copies,
    ),
    RunRule(
        "launch-bound",
        "Fuse short kernels, batch them, or launch them together (torch.compile, CUDA graphs).",
        f"{_TENSORRT}: 20 or more under 5 µs that take 20 %",
        0.20,
        launch_bound,
    ),
    RunRule(
        "communication",
        "Overlap communication with arithmetic.",
        f"{_TRACELENS}: exposed for over 5 % of the step",
        0.05,
        communication,
    ),
    RunRule(
        "transposes",
        "Keep one layout: channels last, for convolutions.",
        f"{_TRACELENS}: over 10 % of the convolutions' time",
        0.10,
        transposes,
    ),
    RunRule(
        "far-from-roof",
        "Look at kernels that take most of the time far from what the device can do.",
        f"{_TENSORRT}: 10 % of the time is a hotspot; {_TRACELENS}: 75 % of the roof is within reach",
        0.10,
        far_from_roof,
    ),
    RunRule(
        "tensor-cores",
        "Compute products of float32 in tf32, bfloat16 or float16.",
        f"{_KINETO}: eligible products without tensor cores; {_TENSORRT}: from 5 % of the time on",
        0.05,
        without_tensor_cores,
    ),
    RunRule(
        "variance",
        "Find out why a layer takes longer in some steps: other programs, clocks, other shapes.",
        f"{_TRACELENS}: 10 steps and 5 % of the time; torch.utils.benchmark: a spread of over 10 %",
        0.10,
        variance,
    ),
)
