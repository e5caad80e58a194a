"""``flopwise.trace``: the time that a profiler recorded, on the rows of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise._arguments import Arguments, checked
from flopwise.analyses.timing import machine
from flopwise.analyses.timing.device import Device
from flopwise.analyses.timing.whatif import tries_of
from flopwise.analyses.traces.assembly import trace_of
from flopwise.analyses.traces.floors import on_device
from flopwise.analyses.traces.format import Format, format_of
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import Recording, Trace
from flopwise.api.profile import given_profile, of_pytorch, profile
from flopwise.errors import InputError
from flopwise.formats.options import Options
from flopwise.profiles.profile import Profile

if TYPE_CHECKING:
    from flopwise.analyses.traces.comparison import TraceComparison


@checked
def trace(
    model: object,
    file: str | os.PathLike[str],
    inputs: object = None,
    *,
    step: str | int = "median",
    phase: str | None = None,
    device: str | Device | None = None,
    beside: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    split: str | None = None,
    tries: Sequence[str] = (),
    progress: Callable[[str], None] = lambda step: None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: Options | None = None,
    **keywords: object,
) -> Trace:
    """The time that a profiler recorded, on the rows of a model; nothing runs.

    rows + segments + remainder = the time that the trace covers, in whole nanoseconds.

    Args:
        model: as in ``flopwise.profile``, or a Profile; None for a trace alone, by operator and shape.
        file: a trace of PyTorch's profiler, a profile of onnxruntime, or one of TensorRT; packed by gzip or not.
        inputs: as in ``flopwise.read``: the sizes that the trace was recorded with.
        step: "median": the step that took the median time; "all": all of them; else the name of a step, or its
            position.
        phase: only "forward" or "backward"; of a Caffe net also its phase, "TEST" or "TRAIN".
        device: a device of ``flopwise devices``, for the least time of each row; None for the one that the trace names.
        beside: a file, or several, that say more of the trace: for TensorRT what ``--exportLayerInfo`` wrote; for
            PyTorch a trace of the capture of its CUDA graphs, and ``kernel_information.json`` of its compiled code.
        split: "macs": the time of layers that ran in one event is divided by their multiply-adds, which is an estimate;
            None: it is not divided.
        tries: other devices, such as "device=mi300x", on which the time of the step's kernels is estimated.
        progress: as in ``flopwise.read``.
        dims: as in ``flopwise.read``.
        batch_size: as in ``flopwise.read``.
        options: as in ``flopwise.read``.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model or the trace cannot be read, or the trace is of another model or other sizes.
        InputError: the step, the phase, the device or the way to divide is unknown.
    """
    swaps = tries_of(tries, ("device",))
    if split not in (None, "macs"):
        raise InputError(f"unknown split {split!r}; known: macs")
    sizes: Arguments = {"inputs": inputs, "dims": dims, "batch_size": batch_size, "options": options}
    reading = {**sizes, **keywords}
    if phase is not None and phase.upper() in ("TEST", "TRAIN"):
        reading["phase"], phase = phase, None
    if model is not None and not isinstance(model, Profile) and of_pytorch(model):
        reading["program"] = True  # what PyTorch recorded is a program's
    counted = _counted(model, reading, progress)
    progress("reading the trace")
    format, recording = _read(file, beside, counted)
    if counted is not None and counted is not model and recording.trained is not None:
        counted = profile(model, train=True, progress=progress, **reading)
        recording = recording.trained(counted)
    chosen = _device(device, recording)
    if chosen is not None:
        from flopwise.analyses.traces.floors import with_floors

        recording = with_floors(recording, chosen, counted)
    if split is not None:
        from flopwise.analyses.traces.assembly import split_by_macs

        recording = split_by_macs(recording)
    name = "" if counted is None else counted.graph.name or counted.graph.source
    result = trace_of(recording, name, format.name, step, phase, os.fsdecode(file))
    if swaps:
        if chosen is None:
            raise InputError("the trace names no device that is known: give it with --device")
        layers, dtype = recording.layers, recording.dtype or "float32"
        others = [machine.named(swap.value) for swap in swaps]
        result = replace(result, tried=tuple(on_device(result, layers, dtype, chosen, other) for other in others))
    return result


@checked
def compare_traces(before: Trace, after: Trace) -> TraceComparison:
    """Two traces of one model side by side, layer by layer: what became slower, what was added.

    Layers that one of the traces has in one event are compared together. A difference counts where the medians over the
    steps differ by more than the spread of the steps.

    Args:
        before: the first trace.
        after: the second.

    Raises:
        InputError: they are of different models, sum up different numbers of steps, or have nothing in common.
    """
    from flopwise.analyses.traces.comparison import compare_traces as compared

    return compared(before, after)


def _counted(model: object, reading: Mapping[str, Any], progress: Callable[[str], None]) -> Profile | None:
    """The profile of the model; None where there is none."""
    if model is None:
        for name, value in reading.items():
            if value is not None:
                raise InputError(f"{name}= says how to read a model, and there is none")
        return None
    return given_profile(model, reading) if isinstance(model, Profile) else profile(model, progress=progress, **reading)


def _read(
    file: str | os.PathLike[str],
    beside: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    counted: Profile | None,
) -> tuple[Format, Recording]:
    paths = [beside] if isinstance(beside, str | os.PathLike) else list(beside)
    with ExitStack() as files:
        scan = files.enter_context(Scan(file))
        format = format_of(scan)
        if not paths:
            return format, format.read(scan, counted)
        if format.read_beside is None:
            raise InputError(f"{os.fsdecode(paths[0])}: nothing is read beside {format.about}; leave it out")
        return format, format.read_beside(scan, counted, [files.enter_context(Scan(path)) for path in paths])


def _device(device: str | Device | None, recording: Recording) -> Device | None:
    """The device that is meant; None where the trace names none that is known."""
    from flopwise.analyses.timing import catalog

    if isinstance(device, Device):
        return device
    if device is not None:
        return machine.named(device)
    known = recording.device and recording.device != "CPU"
    return catalog.nearest_gpu(recording.device, recording.memory_bytes) if known else None
