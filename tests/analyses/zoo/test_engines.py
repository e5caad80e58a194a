"""Engines: the same rows whoever runs the workers, and a worker of a cluster that is killed loses nothing."""

from __future__ import annotations

import os
import re
import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
from onnx import TensorProto, helper, save
from tests.analyses.zoo.test_build import same

from flopwise import InputError, zoo
from flopwise.analyses.zoo import engines
from flopwise.analyses.zoo.engines import ENGINES

MODELS = 40


def needs_dask() -> None:
    pytest.importorskip("distributed", reason="pip install 'flopwise[zoo,dask]'")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of models, one of them damaged."""
    folder = tmp_path_factory.mktemp("models")
    for number in range(MODELS - 1):
        names = [f"t{i}" for i in range(number % 7 + 2)]
        nodes = [helper.make_node("Relu" if i % 2 else "Exp", [a], [b]) for i, (a, b) in enumerate(pairwise(names))]
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, number + 1]) for n in (names[0], names[-1])]
        save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:])), folder / f"{number}.onnx")
    (folder / "broken.onnx").write_bytes(b"\x08\x07nothing")
    return folder


@pytest.fixture(scope="module")
def reference(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "processes"
    built = zoo.build(str(models), output=folder, jobs=2)
    assert (built.models, len(built.failures)) == (MODELS, 1)
    return folder


@pytest.mark.upstream
def test_a_cluster_gives_the_same_rows(models: Path, reference: Path, tmp_path: Path) -> None:
    """Two processes of the cluster write into the data set by a URL, and one of them is killed on the way."""
    needs_dask()
    from distributed import LocalCluster

    folder = f"dir::file://{tmp_path}/zoo"
    killed: list[int] = []

    def kill_one(step: str) -> None:
        if " of " in step and not killed and int(step.split()[0]) >= 10 and (busy := _workers_of()):
            killed.append(busy[0])  # between two models, none may be at work for a moment
            os.kill(killed[0], signal.SIGKILL)

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        address = cluster.scheduler_address
        built = zoo.build(str(models), output=folder, jobs=2, engine="dask", address=address, progress=kill_one)
    assert killed
    assert (built.models, len(built.failures)) == (MODELS, 1)
    assert same(folder, reference)


def test_dask_by_itself_is_threads_of_this_process(models: Path, reference: Path, tmp_path: Path) -> None:
    """An interrupt ends them and what they supervise; nothing is left on the path or of the processes."""
    needs_dask()
    import psutil

    def interrupt(step: str) -> None:
        if " of " in step and int(step.split()[0]) >= 10:
            raise KeyboardInterrupt

    path = list(sys.path)
    with pytest.raises(KeyboardInterrupt):
        zoo.build(str(models), output=tmp_path / "zoo", jobs=2, engine="dask", progress=interrupt)
    assert not [p for p in psutil.Process().children(recursive=True) if "worker:serve" in " ".join(p.cmdline())]
    assert sys.path == path
    built = zoo.build(str(models), output=tmp_path / "zoo", jobs=2, engine="dask")
    assert (10 <= built.kept < MODELS, len(built.failures)) == (True, 1)
    assert same(tmp_path / "zoo", reference)


def _workers_of() -> list[int]:
    """The processes of the cluster below this one that have supervised a model."""
    import psutil

    below = psutil.Process().children(recursive=True)
    parents = [p.parent() for p in below if any("flopwise.analyses.zoo.worker" in word for word in p.cmdline())]
    return [parent.pid for parent in parents if parent is not None]


def test_a_cluster_at_an_address(models: Path, tmp_path: Path) -> None:
    needs_dask()
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        built = zoo.build(str(models / "1*.onnx"), output=tmp_path / "zoo", engine="dask", address=address)
    assert (built.models, built.failures) == (11, ())


def test_engines_that_are_not_there(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(models / "1.onnx")
    with pytest.raises(InputError, match="no engine 'spark'; engines: processes, dask"):
        zoo.build(source, output=tmp_path / "zoo", engine="spark")
    with pytest.raises(InputError, match="an address is for a cluster"):
        zoo.build(source, output=tmp_path / "zoo", address="tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"needs distributed: pip install 'flopwise\[zoo,dask\]'"):
        zoo.build(source, output=tmp_path / "zoo", engine="dask")
    assert set(ENGINES) == {"processes", "dask"}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "127.0.0.1:9", "[::1]:9", "127.0.0.1:99999"])
def test_nobody_at_an_address(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    needs_dask()
    monkeypatch.setattr(engines, "PATIENCE", 1.0)
    with pytest.raises(InputError, match=re.escape(f"dask at {address}: cannot be reached")):
        zoo.build(str(models / "1.onnx"), output=tmp_path / "zoo", engine="dask", address=address)
