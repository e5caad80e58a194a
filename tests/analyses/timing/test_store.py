"""The store: append-only, one environment at a time, shareable, and clear about what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path

import pytest

from flopwise.analyses.timing.benchmark import Executed, Measurement, Session
from flopwise.analyses.timing.device import Peak
from flopwise.analyses.timing.machine import Environment, Facts, canonical, environment
from flopwise.analyses.timing.store import VARIABLE, Store, default_path, export, take
from flopwise.errors import InputError

ENGINE = {"name": "simulated", "version": "1", "level": "all", "threads": 1}
HERE = environment({**ENGINE, "build": "x"}, Facts(name="a CPU"))


def made(best: float = 100.0, status: str = "ok", whole: float = 250.0, started: str = "2026-01-01") -> Session:
    return Session(
        environment=HERE.facts,
        model="m",
        inputs="i",
        executed=(Executed("a", "Conv", "k", macs=50, dtypes=("float32",)), Executed("r", "Reshape", "z", alias=True)),
        measurements=(Measurement("k", "hot", status, best, best, 1.1, 10, 3.0, best),),  # type: ignore[arg-type]
        whole_ns=(whole, whole + 10),
        median_ns=whole,
        cpu_ns=whole,
        rounds=10,
        noise=0.01,
        cpu_share=1.0,
        verdict="quiet",
        seconds=1.5,
        started=started,
        notes=("a note",),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "times.sqlite"


def test_a_floor_is_the_least_over_all_sessions(path: Path) -> None:
    with Store(path) as store:
        for best in (100.0, 90.0, 95.0):
            store.put(made(best, whole=best * 3))
    with Store(path) as store:
        record = store.find("m", "i", HERE)
    assert record is not None
    assert record.best == {("k", "hot"): (90.0, 3)}
    assert [w.best_ns for w in record.wholes] == [300, 270, 285]
    assert [n.name for n in record.nodes] == ["a", "r"]
    assert record.nodes[0].dtypes == ("float32",)
    assert record.notes == ("a note",)


def test_environments_are_kept_apart(path: Path) -> None:
    other = environment({**ENGINE, "threads": 2}, Facts(name="a CPU"))
    with Store(path) as store:
        store.put(made())
        assert store.find("m", "i", other) is None
        assert store.find("m", "other inputs", HERE) is None
        assert store.find("another", "i", HERE) is None


def test_what_an_engine_tells_only_once_it_runs_does_not_matter(path: Path) -> None:
    with Store(path) as store:
        store.put(made())
        assert store.find("m", "i", environment(ENGINE, Facts(name="a CPU"))) is not None
        assert store.find("m", "i", environment(ENGINE, Facts(name="another CPU"))) is None


def test_an_older_sqlite_keeps_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.analyses.timing.store._STRICT", False)
    with Store(path) as store:
        store.put(made())
        assert store.find("m", "i", HERE) is not None


def test_failures_are_remembered(path: Path) -> None:
    with Store(path) as store:
        store.put(made(status="timeout"))
        assert store.failures(HERE.id) == {"k": "timeout"}
        record = store.find("m", "i", HERE)
    assert record is not None
    assert (record.best, record.failed) == ({}, {"k": "timeout"})


def test_export_and_import(path: Path, tmp_path: Path) -> None:
    with Store(path) as store:
        store.put(made(100.0, started="2026-01-01"))
        store.put(made(90.0, started="2026-01-02"))
        rows = json.loads(json.dumps(export(store)))
    with Store(tmp_path / "other.sqlite") as other:
        other.put(made(95.0, started="2026-01-03"))
        assert take(other, rows) == 2
        assert take(other, rows) == 0
        record = other.find("m", "i", HERE)
    assert record is not None
    assert record.best == {("k", "hot"): (90.0, 3)}


def test_an_environment_that_is_not_what_its_digest_says_is_refused(path: Path, tmp_path: Path) -> None:
    with Store(path) as store:
        store.put(made())
        rows = export(store)
    for row in rows:
        if row["table"] == "environment":
            row["facts"] = row["facts"].replace("a CPU", "a faster CPU")
    with Store(tmp_path / "other.sqlite") as other:
        with pytest.raises(InputError, match="does not match its digest"):
            take(other, rows)
        assert other.find("m", "i", HERE) is None


@pytest.mark.parametrize(
    "rows",
    [[{"table": "secrets"}], [{"table": "session", "environment": "x"}], [{"table": "benchmark", "id": "k"}], [{}]],
)
def test_a_damaged_import_is_refused(path: Path, rows: list[dict[str, object]]) -> None:
    with Store(path) as store, pytest.raises(InputError):
        take(store, rows)


def test_figures_of_the_machine(path: Path) -> None:
    def peak(value: float, how: str) -> Peak:
        return Peak("vector", "float32", value, "FLOP/s", "measured", how, core=value)

    with Store(path) as store:
        store.put_peaks("here", [peak(1e9, "one"), peak(3e9, "two")])
        store.put_peaks("here", [peak(2e9, "three")])
        store.put_peaks("there", [peak(9e9, "far")])
        (found,) = store.peaks("here")
        assert (found.value, found.source, found.kind) == (3e9, "two", "measured")
        store.put(made(best=50.0))
        assert store.rates([HERE.id]) == {"float32": (2e9, "Conv")}
        assert store.rates([]) == {}


def test_the_place_of_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "x"))
    assert default_path() == tmp_path / "x"
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "flopwise" / "times.sqlite"


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database at all, but long enough to be looked at" * 9)
    with pytest.raises(InputError, match=r"notes\.txt: is not a store of measurements"):
        Store(path)


def test_a_store_of_a_newer_version(path: Path) -> None:
    with Store(path):
        pass
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.commit()
    database.close()
    with pytest.raises(InputError, match="newer flopwise"):
        Store(path)


def test_a_store_that_another_process_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.analyses.timing.store.WAIT", 0.05)
    with Store(path) as store:
        holder = sqlite3.connect(path)
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="another process is writing"):
            store.put(made())
        holder.rollback()
        holder.close()
        assert store.put(made()) == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be opened"):
        Store(tmp_path / "file" / "times.sqlite")


def test_a_full_disk(path: Path) -> None:
    with Store(path) as store:
        store.database.execute("PRAGMA max_page_count = 1")
        big = dataclasses.replace(made(), notes=("x" * 10_000_000,))
        with pytest.raises(InputError, match="the disk is full"):
            store.put(big)


def test_the_identity_of_an_environment() -> None:
    base = Facts(name="a CPU", microcode="1", flags=("avx2",), cores=4)
    one = environment(ENGINE, base)
    assert one.id == environment(ENGINE, base).id
    changed = [
        environment(ENGINE, dataclasses.replace(base, microcode="2")),
        environment(ENGINE, dataclasses.replace(base, cores=2)),
        environment(ENGINE, dataclasses.replace(base, flags=())),
        environment({**ENGINE, "level": "off"}, base),
        environment({**ENGINE, "version": "2"}, base),
    ]
    assert len({e.id for e in (one, *changed)}) == 6
    assert not any(one.matches(e) for e in changed)
    assert Environment(json.loads(canonical(one.facts))).id == one.id


#: What nobody of flopwise has written into a column of JSON.
POISON = ["{", "", "null", "1", '"x"', "[null]", "[[", "NaN", "[" * 100_000, '[{"name": 1}]', '[{"strange": 1}]']
POISON += ['{"machine": 1, "engine": 2}', '{"machine": {}}', '{"x": 1}', "[1]"]
POISON += [
    '[{"name": "a", "op": "b", "key": "c", "macs": "many"}]',
    '[{"name": "a", "op": "b", "key": "c", "needs": 5}]',
]


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("column", ["environment.facts", "program.nodes", "program.notes"])
def test_a_poisoned_row_is_one_line(column: str, poison: str, path: Path, tmp_path: Path) -> None:
    table, _, name = column.partition(".")
    other = environment({**ENGINE, "threads": 2}, Facts(name="a CPU"))
    with Store(path) as store:
        store.put(made())
        store.put(dataclasses.replace(made(), environment=other.facts))
        with store.database:
            store.database.execute(f"UPDATE {table} SET {name} = ?", (poison,))
        asked = [lambda: store.find("m", "i", HERE)]
        if table == "environment":
            asked.append(store.environments)  # type: ignore[arg-type]
        for ask in asked:
            with pytest.raises(
                InputError, match=rf"holds a row that no flopwise has written \({column}: .*\); move"
            ) as error:
                ask()
            assert str(error.value).startswith(f"{path}: ")
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 500
        rows = export(store)
    with Store(tmp_path / "other.sqlite") as fresh:
        with pytest.raises(InputError):
            take(fresh, rows)
        assert fresh.database.execute("SELECT count(*) FROM session").fetchone() == (0,)


def test_a_poisoned_store_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.cli.conftest import EXAMPLES

    from flopwise.cli import main

    pytest.importorskip("onnxruntime")
    model = str(EXAMPLES / "tiny_resnet.onnx")
    assert main(["bench", model, "--time", "0.1", "--store", str(path)]) == 0
    with Store(path) as store, store.database:
        store.database.execute("UPDATE program SET nodes = '{'")
    capsys.readouterr()
    for command in (["bound", model], ["bench", model, "--missing", "--time", "0.1"]):
        assert main([*command, "--store", str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"flopwise: {path}: holds a row that no flopwise has written (program.nodes: ")
