"""The formats of traces: which profiler wrote a file is found by what is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from flopwise.analyses.traces import onnxruntime, tensorrt
from flopwise.analyses.traces.scan import Scan
from flopwise.analyses.traces.trace import Recording
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile


def _kineto(name: str) -> Callable[..., Any]:
    """A function of Kineto's reader, which knows PyTorch's operators and is imported when it is called."""
    return lambda *arguments: getattr(import_module("flopwise.analyses.traces.kineto.read"), name)(*arguments)


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
    Format("kineto", "PyTorch's profiler (Kineto)", _kineto("matches"), _kineto("read"), _kineto("read")),
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
