"""A worker's job: profile one model, and write its rows into the data set."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, TypeAlias

from flopwise import conventions
from flopwise._arguments import Arguments
from flopwise._limits import current, limits
from flopwise._version import __version__
from flopwise.analyses.zoo import worker
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.records import figures_of, layer_rows, model_row
from flopwise.errors import InputError, UnknownDimensionError
from flopwise.formats.options import OnnxOptions, TorchOptions, options_of
from flopwise.formats.sources.location import is_callable
from flopwise.formats.table import format_of
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph

#: What ``record`` takes, as JSON can say it.
Job: TypeAlias = Mapping[str, Any]

#: The function below, by its name.
WORK = f"{__name__}:record"

#: The steps of readers in which a model is made or its file is read; all that follow count as profiling.
_BUILDING = ("importing the model", "building the model", "reading the graph", "reading the net", "reading the header")


def job(entry: Entry, content: str, folder: str) -> Job:
    """The argument of ``record``, as plain values for JSON.

    Args:
        entry: the model.
        content: the hash of its content.
        folder: where the data set lies, as every worker can reach it.
    """
    key = entry.key(content, __version__)
    facts = {"entry": asdict(entry), "hash": content, "key": key, "folder": folder}
    return {**facts, "here": os.getcwd(), "limits": current()._asdict()}


def entry_of(job: Job) -> Entry:
    """The model of a job."""
    fields = job["entry"]
    return Entry(**{**fields, "inputs": tuple(fields["inputs"]), "tags": tuple(fields["tags"])})


def record(job: Job) -> dict[str, float]:
    """Profile a model and write its rows; seconds of building, profiling and writing, and how many layers there are."""
    import logging
    import warnings

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    entry, start = entry_of(job), time.monotonic()
    with contextlib.suppress(OSError):  # the worker of a cluster is elsewhere
        os.chdir(job["here"])
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
    seconds = time.monotonic() - start
    building = min(*built, seconds) if built else 0.0
    figures |= {"hash": job["hash"], "seconds": seconds, "build_seconds": building}
    figures |= {"profile_seconds": seconds - building, "peak_memory": worker.peak_memory()}
    step("writing its rows")
    _dataset(job["folder"]).put(model_row(entry, job["key"], __version__, **figures), layers)
    writing = time.monotonic() - start - seconds
    return {"layers": len(layers), "building": building, "profiling": seconds - building, "writing": writing}


def _read(entry: Entry, step: Callable[[str], None]) -> Graph:
    """The graph of a model at the sizes of those dimensions that it has."""
    format, dims = format_of(entry.model), dict(entry.dims)
    chosen: Arguments = {"arguments": dict(entry.arguments), "trust_code": entry.trust_code}
    if format.options is OnnxOptions:
        chosen["assume"] = dict(entry.assume)
    options: Any = options_of(format.options, None, chosen)
    while True:
        try:
            return format.graph(entry.model, list(entry.inputs) or None, dims or None, entry.batch_size, step, options)
        except UnknownDimensionError as error:
            dims.pop(error.name)


def may_hold_code(entry: Entry) -> bool:
    """True where the model is a file whose reader may be allowed to run what is in it."""
    return not entry.problem and not is_callable(entry.model) and format_of(entry.model).options is TorchOptions


def failed(job: Job, error: str, seconds: float) -> None:
    """Write the row of a model that could not be profiled."""
    what = {"hash": job["hash"], "status": "failed", "error": error, "seconds": seconds}
    row = model_row(entry_of(job), job["key"], __version__, **what)
    _dataset(job["folder"]).put(row, [])


@lru_cache(maxsize=4)
def _dataset(folder: str) -> Dataset:
    return Dataset(folder)
