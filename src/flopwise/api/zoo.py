"""``flopwise.zoo``: many models as one data set of Parquet files, and queries over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise._arguments import checked
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.zoo.build import Built
    from flopwise.analyses.zoo.views import Zoo
    from flopwise.report.report import Report


@checked
def build(
    *sources: str,
    output: str | os.PathLike[str],
    jobs: int = 1,
    engine: str = "processes",
    address: str | None = None,
    seconds: float = 600.0,
    memory: int = 1 << 30,
    retry: bool = False,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    assume: Mapping[str, int] | None = None,
    trust_code: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Built:
    """Profile the models of all sources into a data set.

    Each model is profiled in a worker process, which writes the rows itself; one that hangs, grows or dies costs one
    row with its error. What is in the data set already, with the same content, inputs and version of flopwise, is kept.
    When the build is interrupted, what was finished stays.

    Args:
        sources: directories, globs, files that list models, catalogues (``torchvision:*``, ``timm:resnet*``,
            ``transformers:*``), or models.
        output: the folder of the data set, or a URL of any file system that fsspec knows (``s3://bucket/zoo``), which
            every worker must reach.
        jobs: worker processes; of a cluster at an address, as many as it has.
        engine: "processes" of this machine, or "dask".
        address: of a cluster of Dask; None starts one on this machine.
        seconds: how long a model may take.
        memory: bytes that a worker may have in use.
        retry: whether models that failed before are tried again.
        dims: sizes of symbolic dimensions by name; a model takes those of the dimensions that it has.
        batch_size: first dimension of the inputs.
        assume: sizes of dimensions of ONNX models that nothing else says, by name; "*" stands for all others.
        trust_code: whether lists may name callables, and programs in files may run.
        progress: called with what is being done.

    Raises:
        InputError: a source stands for nothing, a package is missing, or the data set cannot be read or written.
    """
    if jobs < 1:
        raise InputError(f"{jobs} jobs: at least 1")
    if not seconds > 0 or memory < 1:
        raise InputError("a model needs more than 0 seconds and 0 bytes")
    _needs("pyarrow", "a data set")
    from flopwise.analyses.zoo.build import build
    from flopwise.analyses.zoo.engines import Limits

    limits = Limits(seconds, memory)
    return build(sources, output, engine, jobs, limits, address, retry, progress, dims, batch_size, assume, trust_code)


def _needs(package: str, what: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise InputError(f"{what} needs {package}: pip install 'flopwise[zoo]'")


@checked
def open(folder: str | os.PathLike[str]) -> Zoo:
    """A data set to ask: ``open(DIR).view("models").df()``, ``open(DIR).sql("SELECT ...").arrow()``.

    Raises:
        InputError: there is no data set, it is damaged, or a package is missing.
    """
    _needs("pyarrow", "a data set")
    _needs("duckdb", "a query")
    from flopwise.analyses.zoo.views import Zoo

    return Zoo(folder)


@checked
def report(folder: str | os.PathLike[str]) -> Report:
    """A data set to look at: ``as_text(report(DIR), "html")`` is a page of its costs, operators and unique layers.

    Raises:
        InputError: there is no data set, it is damaged, or a package is missing.
    """
    _needs("pyarrow", "a data set")
    _needs("duckdb", "a report")
    from flopwise.analyses.zoo.views import overview
    from flopwise.report.commands.zoo import overview_report

    return overview_report(overview(folder))


@checked
def query(folder: str | os.PathLike[str], sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows of a query over the views; see ``open``.

    Raises:
        InputError: there is no data set, it is damaged, a package is missing, or the query fails.
    """
    with open(folder) as zoo:
        return zoo.rows(sql)


@checked
def summary(built: Built) -> Sequence[str]:
    """A summary of a build, in lines."""
    fresh = built.models - built.kept
    rate = f" ({fresh / built.seconds:,.1f} models/s)" if fresh and built.seconds else ""
    return [
        f"{built.models:,} model{'' if built.models == 1 else 's'}: {fresh:,} profiled now, "
        f"{built.kept:,} there before, {len(built.failures):,} failed; "
        f"{built.layers:,} layers in {built.folder}; {built.seconds:,.1f} s{rate}",
        *(f"failed: {name}: {error}" for name, error in built.failures),
    ]
