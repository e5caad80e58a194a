"""What a worker does with one model: profile it, and write its rows into the data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from flopwise import conventions
from flopwise._limits import current, limits
from flopwise._version import __version__
from flopwise.analyses.zoo import worker
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.records import figures_of, layer_rows, model_row
from flopwise.errors import InputError, UnknownDimensionError
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph
from flopwise.readers.formats import format_of
from flopwise.readers.options import OnnxOptions, TorchOptions, options_of

#: The function below, by its name.
WORK = f"{__name__}:record"

#: The steps of readers in which a model is made or its file is read; all that follow count as profiling.
_BUILDING = ("importing the model", "building the model", "reading the graph", "reading the net", "reading the header")


def job(entry: Entry, content: str, folder: str) -> dict[str, Any]:
    """What ``record`` takes, as JSON can say it.

    Args:
        entry: the model.
        content: the hash of its content.
        folder: where the data set lies, as every worker can reach it.
    """
    key = entry.key(content, __version__)
    return {"entry": asdict(entry), "hash": content, "key": key, "folder": folder, "limits": current()._asdict()}


def entry_of(job: Mapping[str, Any]) -> Entry:
    """The model of a job."""
    fields = job["entry"]
    return Entry(**{**fields, "inputs": tuple(fields["inputs"]), "tags": tuple(fields["tags"])})


def record(job: Mapping[str, Any]) -> dict[str, Any]:
    """Profile a model and write its rows; seconds of building, profiling and writing, and how many layers there are."""
    import logging
    import warnings

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    entry, start = entry_of(job), time.monotonic()
    if entry.problem:
        raise InputError(entry.problem)
    built: list[float] = []

    def step(name: str) -> None:
        worker.step(name)
        if not name.startswith(_BUILDING) and not built:
            built.append(time.monotonic() - start)

    with limits(**job["limits"]):
        graph = _read(entry, step)
        step("counting")
        profile = profile_graph(graph, conventions.get("flops"))
    figures, layers = figures_of(profile), layer_rows(entry, profile)
    whole = time.monotonic() - start
    building = min(*built, whole) if built else 0.0
    figures |= {"hash": job["hash"], "seconds": whole, "build_seconds": building}
    figures |= {"profile_seconds": whole - building, "peak_memory": worker.peak_memory()}
    step("writing its rows")
    _dataset(job["folder"]).put(model_row(entry, job["key"], __version__, **figures), layers)
    writing = time.monotonic() - start - whole
    return {"layers": len(layers), "building": building, "profiling": whole - building, "writing": writing}


def _read(entry: Entry, step: Callable[[str], None]) -> Graph:
    """The graph of a model at the sizes of those dimensions that it has."""
    format, dims = format_of(entry.model), dict(entry.dims)
    if entry.arguments:
        options: Any = options_of(TorchOptions, None, {"arguments": dict(entry.arguments)})
    elif format.options is OnnxOptions:
        options = options_of(OnnxOptions, None, {"assume": dict(entry.assume)})
    else:
        options = options_of(format.options, None, {})
    while True:
        try:
            return format.read(entry.model, list(entry.inputs) or None, dims or None, entry.batch_size, step, options)
        except UnknownDimensionError as error:
            dims.pop(error.name)


def failed(job: Mapping[str, Any], error: str, seconds: float) -> None:
    """Write the row of a model that could not be profiled."""
    what = {"hash": job["hash"], "status": "failed", "error": error, "seconds": seconds}
    row = model_row(entry_of(job), job["key"], __version__, **what)
    _dataset(job["folder"]).put(row, [])


@lru_cache(maxsize=4)
def _dataset(folder: str) -> Dataset:
    return Dataset(folder)
