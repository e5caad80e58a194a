"""The events of a Kineto file, one after the other, as records: every version of the format names them its own way."""

from __future__ import annotations

import sys
from typing import Any

from flopwise._results import Json
from flopwise.analyses.traces.kineto.records import (
    LABEL,
    Arguments,
    Calls,
    Kernel,
    Kind,
    Launch,
    Records,
)
from flopwise.analyses.traces.kineto.selection import MARK
from flopwise.analyses.traces.scan import Scan, nanoseconds
from flopwise.errors import ModelError

#: Category of an event -> what it is. Those of 2021 have capital letters.
_KINDS = {
    **dict.fromkeys(("cpu_op", "Operator"), "operator"),
    "user_annotation": "annotation",
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "mtia_runtime"), "launch"),
    **dict.fromkeys(("kernel", "Kernel"), "kernel"),
    **dict.fromkeys(("gpu_memcpy", "Memcpy", "gpu_memset", "Memset"), "copy"),
}

#: Beginnings of the names of events that are no operators but stand around some; old files call them operators.
_ANNOTATIONS = (LABEL, MARK, "Optimizer.", "enumerate(DataLoader)", "DistributedDataParallel.", "[", "##")


def records_of(scan: Scan) -> Records:
    """The events of a file.

    Raises:
        ModelError: the file is damaged, or an event has no time.
    """
    recorder = Recorder(scan.name)
    for number, event in enumerate(scan.events(), 1):
        try:
            recorder.add(event)
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise ModelError(f"{scan.name}: damaged: event {number:,} ({event.get('name')!r}): {error}") from error
    return recorder.records_on(scan.head.get("deviceProperties"))


class Recorder:
    """Records that grow by one event at a time."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: of the file.
        """
        self._records = Records(name)
        #: Name and arguments of an operator as they are written -> its position among the kinds.
        self._kinds: dict[tuple[str, str], int] = {}
        #: The processors of kernels.
        self._processors: set[str] = set()

    def add(self, event: Json) -> None:
        """Record an event, if it says where time went.

        Raises:
            AttributeError, OverflowError, TypeError, ValueError: the event is damaged.
        """
        kind = _KINDS.get(event.get("cat", "")) if event.get("ph") == "X" else None
        if kind is None:
            return
        name, details = sys.intern(str(event.get("name", ""))), event.get("args") or {}
        start = nanoseconds(event.get("ts"))
        end = start + max(0, nanoseconds(event.get("dur", 0)))
        if kind in ("kernel", "copy"):
            self._add_kernel(event, details, name, start, end, kind == "copy")
        else:
            thread = sys.intern(f"{event.get('pid')}/{event.get('tid')}")
            if kind == "launch":
                self._add_launch(details, name, thread, start)
            elif kind == "annotation" or name.startswith(_ANNOTATIONS):
                self._add_annotation(details, name, thread, start, end)
            else:
                self._add_operator(details, name, thread, start, end)
        self._records.bound()

    def _add_operator(self, details: Json, name: str, thread: str, start: int, end: int) -> None:
        if self._records.steps.dropped(start, end) >= 0:
            return
        shapes = details.get("Input Dims") or details.get("Input dims") or ()
        values = details.get("Concrete Inputs") or ()
        types = details.get("Input type") or ()
        key = name, f"{shapes}{values}{types}"
        kind = self._kinds.get(key)
        if kind is None:
            arguments = Arguments(tuple(map(_shape, shapes)), tuple(map(str, values)), tuple(map(str, types)))
            kind = self._add_kind(key, Kind(name, arguments, annotation=False))
            self._records.shaped = self._records.shaped or bool(arguments.tensors)
        self._add_call(kind, details, thread, start, end)

    def _add_annotation(self, details: Json, name: str, thread: str, start: int, end: int) -> None:
        key = name, "annotation"
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._add_kind(key, Kind(name, Arguments(), annotation=True))
        self._add_call(kind, details, thread, start, end)
        if name.startswith(MARK):
            self._records.steps.add(name, start, end)

    def _add_kind(self, key: tuple[str, str], kind: Kind) -> int:
        position = self._kinds[key] = len(self._records.kinds)
        self._records.kinds.append(kind)
        return position

    def _add_call(self, kind: int, details: Json, thread: str, start: int, end: int) -> None:
        calls = self._records.calls.get(thread)
        if calls is None:
            calls = self._records.calls[thread] = Calls()
        sequence = details.get("Sequence number")
        calls.add(start, end, kind, sequence if isinstance(sequence, int) else -1)
        self._records.held += 1

    def _add_launch(self, details: Json, name: str, thread: str, start: int) -> None:
        correlation = _number(details.get("correlation"))
        if correlation is not None:
            kernel = sys.intern(str(details.get("kernel", "")))
            self._records.launches[correlation] = Launch(name, thread, start, kernel)
            self._records.held += 1

    def _add_kernel(self, event: Json, details: Json, name: str, start: int, end: int, copy: bool) -> None:
        device, stream = details.get("device", event.get("pid")), details.get("stream", event.get("tid"))
        self._processors.add(str(device))
        lane = sys.intern(f"device {device}, stream {stream}")
        self._records.add_kernel(Kernel(name, lane, start, end, _number(details.get("correlation")), copy))

    def records_on(self, properties: object) -> Records:
        """All that was recorded, with the processors that the file describes.

        Args:
            properties: of the devices, as the file has them.
        """
        records = self._records
        records.close()
        devices = _devices(properties, self._processors)
        records.devices, records.memory_bytes = tuple(devices), next(iter(devices.values()), 0)
        return records


def _shape(value: Any) -> object:
    """A shape, or those of a list of tensors."""
    return tuple(map(_extents, value)) if value and isinstance(value[0], list) else _extents(value or ())


def _extents(value: Any) -> tuple[int, ...]:
    """The extents of a tensor.

    Raises:
        ValueError: one of them is no whole number.
    """
    if not all(isinstance(extent, int) for extent in value):
        raise ValueError(f"no shape: {value!r}")
    return tuple(value)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _devices(properties: object, used: set[str]) -> dict[str, int]:
    """Names of the processors that the kernels ran on, each once, and their memory; of any, where those have none."""
    listed = [p for p in properties if isinstance(p, dict) and p.get("name")] if isinstance(properties, list) else []
    own = [p for p in listed if str(p.get("id")) in used] or (listed[:1] if used else [])
    return {str(p["name"]): _number(p.get("totalGlobalMem")) or 0 for p in own}
