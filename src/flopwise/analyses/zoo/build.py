"""A build: which models are to be profiled, who profiles them, and what is in the data set at the end.

A model's content is known by a hash of its file, or by the versions of the packages that make it.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache

from flopwise._arguments import Arguments
from flopwise.analyses.zoo import engines, profiling
from flopwise.analyses.zoo.dataset import Dataset, Recorded
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.place import Place, alone
from flopwise.analyses.zoo.sources import entries, with_own_names
from flopwise.errors import ModelError
from flopwise.formats.sources.location import is_callable, shown


@dataclass(frozen=True)
class Built:
    """The result of a build."""

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
    trust_code: bool = False,
) -> Built:
    """Profile the models of all sources into a data set; arguments and errors as of ``flopwise.zoo.build``."""
    start = time.monotonic()
    place = Place(folder)
    data = Dataset(place)
    place.check_free()
    progress("listing the models")
    sizes: Arguments = {"dims": dict(dims or {}), "batch_size": batch_size, "assume": dict(assume or {})}
    listed = entries(sources, trust_code)
    chosen = [replace(e, **sizes, trust_code=trust_code and profiling.may_hold_code(e)) for e in listed]
    with alone(place):
        data.settle()
        records = data.records()
        progress("hashing the models")
        jobs = {job["key"]: job for job in _jobs(chosen, records, place.address)}
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


def _jobs(entries: Sequence[Entry], records: Mapping[str, Recorded], folder: str) -> Iterator[profiling.Job]:
    """The jobs of the workers. A model has the same name as before, and no name that another has."""
    contents = hashes(entry.model for entry in entries)
    owners = {row.name: row for row in records.values()}

    def is_taken(name: str, position: int) -> bool:
        owner = owners.get(name)
        same = owner is None or owner.hash == contents[position] or owner.source == shown(entries[position].model)
        return not same

    for entry, content in zip(with_own_names(entries, is_taken), contents, strict=True):
        yield profiling.job(entry, content, folder)


def _state(done: int, number: int, failures: int, seconds: float, name: str) -> str:
    """The progress of a build, with its rate and the time that is left."""
    rate = done / seconds if seconds else 0.0
    left = datetime.timedelta(seconds=round((number - done) / rate)) if rate else "?"
    failed = f", {failures:,} failed" if failures else ""
    return f"{done:,} of {number:,} models{failed}, {rate:.1f}/s, {left} left: {name}"


#: Files of more bytes are known by their length and time, and by their first and last bytes.
WHOLE = 64 << 20
_ENDS = 1 << 20

#: Packages whose version decides what a program does, beside its own.
_BENEATH = ("torch",)


def hashes(models: Iterable[str]) -> list[str]:
    """The hash of each model, read in parallel; of its name where a file cannot be read."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(_content_or_name, models))


def _content_or_name(model: str) -> str:
    try:
        return content_hash(model)
    except ModelError:
        return _hash(model.encode("utf-8", "surrogatepass"))


def content_hash(model: str) -> str:
    """A hash: of a file's content, of the versions of the packages behind a callable, or of a URL's text.

    Raises:
        ModelError: the file cannot be read.
    """
    if os.path.isdir(model):
        model = os.path.join(model, "config.json")
    if os.path.isfile(model):
        return _file_hash(model)
    return _hash(_callable_hash(model).encode() if is_callable(model) else model.encode("utf-8", "surrogatepass"))


def _file_hash(path: str) -> str:
    """The hash of a file's content; of a large file its size, its time and both ends."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            if size <= WHOLE:
                digest.update(file.read())
            else:
                digest.update(f"{size} {os.stat(path).st_mtime_ns}".encode())
                digest.update(file.read(_ENDS))
                file.seek(-_ENDS, os.SEEK_END)
                digest.update(file.read())
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from error
    return digest.hexdigest()


def _callable_hash(model: str) -> str:
    """A callable's name, and the version of its package or the hash of its files, with PyTorch's version."""
    where, _, name = model.rpartition(":")
    own = name if where.endswith(".py") else model
    return " ".join([own, *map(_version, (where, *_BENEATH))])


@lru_cache(maxsize=1024)
def _version(where: str) -> str:
    """The version of the package that a module is in, or a hash of the files where it is not installed."""
    from importlib import metadata

    if where.endswith(".py"):
        return _file_hash(where) if os.path.isfile(where) else ""
    package = where.partition(".")[0]
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return _hash("".join(map(_file_hash, _files_of(package))).encode())


def _files_of(package: str) -> list[str]:
    """The Python files of a package or module on the path, or in the current folder."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else [package]
    files = [os.path.join(at, f) for folder in folders for at, _, names in os.walk(folder) for f in sorted(names)]
    single = spec.origin if spec is not None else f"{package}.py"
    return [f for f in (*files, single or "") if f.endswith(".py") and os.path.isfile(f)]


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
