"""A build: which models are to be profiled, who profiles them, and what is in the data set at the end."""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flopwise.analyses.zoo import engines, profiling
from flopwise.analyses.zoo.content import hashes
from flopwise.analyses.zoo.dataset import Dataset, Known
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.place import Place, alone
from flopwise.analyses.zoo.sources import entries, with_own_names
from flopwise.readers.source.location import shown


@dataclass(frozen=True)
class Built:
    """What a build did."""

    folder: str
    #: Models of the sources, and those that were in the data set already.
    models: int
    kept: int
    #: Name and error of each model of the sources that could not be profiled, now or before.
    failures: tuple[tuple[str, str], ...]
    #: Layers in the whole data set.
    layers: int
    seconds: float
    #: Seconds that the workers spent on ``building`` models, ``profiling`` and ``writing``, together.
    parts: Mapping[str, float] = field(default_factory=dict)


def build(
    sources: Sequence[str],
    folder: str | os.PathLike[str],
    engine: str,
    workers: int,
    limits: engines.Limits,
    address: str | None,
    retry: bool,
    progress: Callable[[str], None],
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    assume: Mapping[str, int] | None = None,
) -> Built:
    """Profile the models of all sources into a data set; arguments and errors as of ``flopwise.zoo.build``."""
    start = time.monotonic()
    place = Place(folder)
    data = Dataset(place)
    progress("listing the models")
    sizes: dict[str, Any] = {"dims": dict(dims or {}), "batch_size": batch_size, "assume": dict(assume or {})}
    wanted = [replace(entry, **sizes) for entry in entries(sources)]
    with alone(place):
        data.settle()
        records = data.known()
        progress("hashing the models")
        jobs = {job["key"]: job for job in _jobs(wanted, records, place.address)}
        there = {key for key in jobs if key in records and not (retry and records[key].status != "ok")}
        waiting = [job for key, job in jobs.items() if key not in there]
        failures = {key: records[key].error for key in there if records[key].status != "ok"}
        parts = {"building": 0.0, "profiling": 0.0, "writing": 0.0}
        begun = time.monotonic()
        try:
            with contextlib.closing(engines.run(engine, waiting, workers, limits, address)) as outcomes:
                for number, done in enumerate(outcomes, 1):
                    if done.error:
                        failures[done.key] = done.error
                    for part in parts:
                        parts[part] += done.parts.get(part, 0.0)
                    progress(_state(number, len(waiting), len(failures), time.monotonic() - begun, done.name))
        finally:
            progress("gathering")
            data.gather()
    failed = tuple((jobs[key]["entry"]["name"], error) for key, error in failures.items())
    took = time.monotonic() - start
    return Built(place.name, len(jobs), len(there), failed, data.count_layers(), took, parts)


def _jobs(wanted: Sequence[Entry], records: Mapping[str, Known], folder: str) -> Iterator[dict[str, Any]]:
    """What the workers are to do. A model has the same name as before, and no name that another has."""
    contents = hashes(entry.model for entry in wanted)
    owners = {row.name: row for row in records.values()}

    def taken(name: str, position: int) -> bool:
        owner = owners.get(name)
        same = owner is None or owner.hash == contents[position] or owner.source == shown(wanted[position].model)
        return not same

    for entry, content in zip(with_own_names(wanted, taken), contents, strict=True):
        yield profiling.job(entry, content, folder)


def _state(done: int, whole: int, failures: int, seconds: float, name: str) -> str:
    """How far a build is, with its rate and the time that is left."""
    rate = done / seconds if seconds else 0.0
    left = datetime.timedelta(seconds=round((whole - done) / rate)) if rate else "?"
    failed = f", {failures:,} failed" if failures else ""
    return f"{done:,} of {whole:,} models{failed}, {rate:.1f}/s, {left} left: {name}"
