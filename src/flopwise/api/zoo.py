"""``flopwise.zoo``: many models as one data set of Parquet files, and queries over it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flopwise._version import __version__
from flopwise.analyses.zoo.sources import Entry, entries
from flopwise.errors import InputError

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Built:
    """What a build did."""

    folder: str
    #: Models in the data set, those that were there already, and those that failed.
    models: int
    kept: int
    failures: tuple[tuple[str, str], ...]
    layers: int
    seconds: float


def build(
    *sources: str,
    output: str | os.PathLike[str],
    jobs: int = 1,
    seconds: float = 600.0,
    memory: int = 2 << 30,
    retry: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Built:
    """Profile the models of all sources into a data set.

    Each model runs in a worker process; one that hangs, grows or dies costs one row with its error. What is in the data
    set already, with the same content, inputs and version of flopwise, is kept. When the build is interrupted, what was
    finished stays.

    Args:
        sources: directories, globs, files that list models, catalogues (``torchvision:*``, ``timm:resnet*``,
            ``transformers:*``), or models.
        output: the folder of the data set.
        jobs: worker processes.
        seconds: how long a model may take.
        memory: bytes that a worker may take.
        retry: whether models that failed before are tried again.
        progress: called with what is being done.

    Raises:
        InputError: a source stands for nothing, or pyarrow is missing.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs: at least 1")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError("a data set needs pyarrow: pip install 'flopwise[zoo]'") from None
    from flopwise.analyses.zoo.dataset import Dataset
    from flopwise.analyses.zoo.records import model_row
    from flopwise.analyses.zoo.supervise import run

    start = time.monotonic()
    progress("listing the models")
    chosen = {entry.key(__version__): entry for entry in entries(sources)}
    data = Dataset(output)
    known = data.done()
    there = {key for key in chosen if key in known and not (retry and known[key] != "ok")}
    waiting = [(key, entry) for key, entry in chosen.items() if key not in there]
    failures: list[tuple[str, str]] = []
    finished = set(there)
    try:
        for number, outcome in enumerate(run(_profiled, waiting, jobs, seconds, memory), 1):
            key, entry = outcome.job
            if outcome.error:
                failures.append((entry.name, outcome.error))
                row = model_row(entry, key, __version__, status="failed", error=outcome.error, seconds=outcome.seconds)
                data.put(row, [])
            else:
                data.put(*outcome.value)
            finished.add(key)
            progress(_report(number, len(waiting), time.monotonic() - start, entry.name))
    finally:
        if finished or not waiting:
            progress("gathering")
            data.gather(finished | (known.keys() - chosen.keys()))
    return Built(
        os.fsdecode(output), len(chosen), len(there), tuple(failures), _layers(output), time.monotonic() - start
    )


def _report(done: int, whole: int, seconds: float, name: str) -> str:
    """How far a build is, with the rate and what is left."""
    rate = done / seconds if seconds else 0.0
    left = (whole - done) / rate if rate else 0.0
    return f"{done:,} of {whole:,} models, {rate:.1f}/s, {left:,.0f} s left: {name}"


def _layers(folder: str | os.PathLike[str]) -> int:
    import pyarrow.parquet as pq

    from flopwise.analyses.zoo.dataset import check

    return sum(pq.read_metadata(path).num_rows for path in (check(folder) / "layers").glob("*.parquet"))


def _profiled(job: tuple[str, Entry]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rows of one model, in a worker."""
    import logging
    import warnings

    from flopwise.analyses.zoo.records import figures_of, layer_rows, model_row
    from flopwise.api.profile import profile

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    key, entry = job
    start = time.monotonic()
    result = profile(entry.model, list(entry.inputs) or None, arguments=dict(entry.arguments) or None)
    figures = figures_of(result)
    taken = time.monotonic() - start
    row = model_row(entry, key, __version__, **figures, seconds=taken, peak_memory=_peak())
    return row, layer_rows(entry, result)


def _peak() -> int | None:
    """Bytes that this process had in use at most."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    import sys

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def open(folder: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the views ``models``, ``layers``, ``unique_layers``, ``chains``, ``census`` and more.

    ``open(DIR).sql("SELECT ...")`` is a relation with ``arrow()``, ``df()`` and ``pl()``.

    Raises:
        InputError: there is no data set, or DuckDB is missing.
    """
    from flopwise.analyses.zoo.views import connect

    return connect(folder)


def query(folder: str | os.PathLike[str], sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a query over the views; see :func:`open`.

    Raises:
        InputError: there is no data set, DuckDB is missing, or the query fails.
    """
    from flopwise.analyses.zoo import views

    return views.query(folder, sql)


def summary(built: Built) -> Sequence[str]:
    """What a build did, in lines."""
    failed = f", {len(built.failures):,} failed" if built.failures else ""
    return [
        f"{built.models:,} models, {built.layers:,} layers in {built.folder} "
        f"({built.kept:,} were there{failed}; {built.seconds:,.1f} s)",
        *(f"failed: {name}: {error}" for name, error in built.failures),
    ]
