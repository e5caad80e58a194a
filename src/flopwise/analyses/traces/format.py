"""The formats of traces: which profiler wrote a file is found by what is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flopwise.analyses.traces import onnxruntime, tensorrt
from flopwise.analyses.traces.kineto import read as kineto
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import Recording
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile


class Format(NamedTuple):
    """A profiler's format."""

    name: str
    #: What wrote it, for people.
    about: str
    #: True where a file is of this format, by its first event (``Scan.first``), the key of its array and its head.
    matches: Callable[[Scan], bool]
    #: Reads the events and puts their time on the rows of a profile; without one, on what the trace alone names.
    read: Callable[[Scan, Profile | None], Recording]
    #: The same with files beside the trace that say more about what is in it; None where there are no such files.
    read_beside: Callable[[Scan, Profile | None, Sequence[Scan]], Recording] | None = None


#: The formats, in the order in which they are asked.
FORMATS: tuple[Format, ...] = (
    Format("onnxruntime", "onnxruntime's profile", onnxruntime.matches, onnxruntime.read),
    Format("kineto", "PyTorch's profiler (Kineto)", kineto.matches, kineto.read, kineto.read),
    Format("tensorrt", "TensorRT's profile", tensorrt.matches, tensorrt.read, tensorrt.read),
)


def format_of(scan: Scan) -> Format:
    """The format of a file.

    Raises:
        ModelError: it is of no known format.
    """
    for format in FORMATS:
        if format.matches(scan):
            return format
    known = ", ".join(format.about for format in FORMATS)
    raise ModelError(f"{scan.name}: no trace of a known profiler; known: {known}")


def is_trace(path: str) -> bool:
    """True where a file is a trace, and not a model."""
    if not path.endswith((".json", ".json.gz", ".gz")):
        return False
    try:
        with Scan(path) as scan:
            format_of(scan)
    except ModelError:
        return False
    return True
