"""The views of a data set beside counts of our own."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyses.zoo.made import made_zoo, random_layers

from flopwise import InputError, zoo
from flopwise.analyses.zoo.chains import LONGEST, add_chains
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.entry import Entry
from flopwise.analyses.zoo.place import alone
from flopwise.analyses.zoo.records import model_row, signature

Layers = list[dict[str, Any]]


def brute_force(models: list[Layers], longest: int) -> dict[str, tuple[int, int, int]]:
    """Operators of each chain -> how often, in how many models, and the bytes that fusing saves.

    A chain's own tensors are followed one by one: a layer that is no view writes one, views hand it on, and the next
    layer that is none reads it. Where both ends are in the chain, neither need touch memory.
    """
    times: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    where: dict[str, set[int]] = {}
    for number, layers in enumerate(models):
        for start in range(len(layers)):
            chain = [start]
            while len(chain) < longest and layers[chain[-1]]["follower"] is not None:
                chain.append(layers[chain[-1]]["follower"])
                ops = " ".join(layers[at]["op"] for at in chain)
                times[ops] += 1
                where.setdefault(ops, set()).add(number)
                for place, at in enumerate(chain):
                    if not layers[at]["view"]:
                        readers = [other for other in chain[place + 1 :] if not layers[other]["view"]]
                        saved[ops] += 2 * layers[at]["written"] if readers else 0
    return {ops: (times[ops], len(where[ops]), saved[ops]) for ops in times}


@pytest.mark.parametrize("seed", range(3))
def test_chains_equal_brute_force_on_random_graphs(tmp_path: Path, seed: int) -> None:
    models = made_zoo(tmp_path / "zoo", random.Random(seed))
    columns = "ops, times, models, saved_bytes, length"
    with zoo.open(tmp_path / "zoo") as data:
        rows = data.rows(f"SELECT {columns} FROM chains")[1]
        assert {ops: tuple(rest) for ops, *rest, _ in rows} == brute_force(models, LONGEST)
        assert all(length == len(ops.split()) for ops, *_, length in rows)
        for longest in (2, 3, 7):
            rows = data.rows(f"SELECT {columns} FROM chains_of({longest})")[1]
            assert {ops: tuple(rest) for ops, *rest, _ in rows} == brute_force(models, longest)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_columns_of_chains_equal_brute_force(seed: int) -> None:
    layers = random_layers(random.Random(seed), "m")
    expected = brute_force([layers], LONGEST)
    times: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    firsts: Counter[str] = Counter()
    for layer in layers:
        words = layer["chain"].split()
        for length in range(2, len(words) + 1):
            ops = " ".join(words[:length])
            times[ops] += 1
            saved[ops] += layer[f"saved_{length}"]
            firsts[ops] += layer["firsts"] >> length & 1
    assert {ops: (times[ops], firsts[ops], saved[ops]) for ops in times} == expected


def test_unique_layers_and_census_of_made_models(tmp_path: Path) -> None:
    models = made_zoo(tmp_path / "zoo", random.Random(5))
    alike: dict[tuple[str, str], set[int]] = {}
    count: Counter[tuple[str, str]] = Counter()
    ops: Counter[str] = Counter()
    macs: Counter[tuple[str, str]] = Counter()
    for number, layers in enumerate(models):
        for layer in layers:
            what = (layer["op"], layer["attributes"])
            count[what] += 1
            macs[what] += layer["macs"]
            ops[layer["op"]] += 1
            alike.setdefault(what, set()).add(number)
    with zoo.open(tmp_path / "zoo") as data:
        rows = data.rows("SELECT op, attributes, layers, models, macs, macs_percent FROM unique_layers")[1]
        assert {row[:2]: row[2:5] for row in rows} == {w: (count[w], len(alike[w]), macs[w]) for w in count}
        assert sum(row[5] for row in rows) == pytest.approx(100)
        assert dict(data.rows("SELECT op, sum(layers) FROM census GROUP BY op")[1]) == ops


def test_layers_in_loops_count_once_for_each_run(tmp_path: Path) -> None:
    layers: Layers = [{"model": "m", "position": 0, "op": "MatMul", "macs": 30, "times": 3, "follower": None}]
    layers[0] |= {"view": False, "written": 0, "signature": signature(layers[0])}
    add_chains(layers)
    data = Dataset(tmp_path / "zoo")
    with alone(data.place):
        data.put(model_row(Entry("m", "none"), "0" * 32, "0", status="ok", layers=1), layers)
        data.gather()
    assert zoo.query(tmp_path / "zoo", "SELECT macs_each, macs FROM unique_layers")[1] == [(10, 30)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of twenty models."""
    folder = tmp_path_factory.mktemp("zoo") / "plain"
    made_zoo(folder, random.Random(1))
    return folder


def test_what_a_data_set_hands_over(plain: Path) -> None:
    with zoo.open(plain) as data:
        count = data.sql("SELECT count(*) FROM layers").fetchall()[0][0]
        assert len(data.view("layers").df()) == len(data.view("layers").pl()) == count
        assert data.view("models").columns[:2] == ["key", "name"]
        assert "unique_layers" in repr(data)
        with pytest.raises(InputError, match="no view 'nothing'; views: models"):
            data.view("nothing")
        with pytest.raises(InputError, match="the query fails"):
            data.sql("SELECT nothing")


#: Statements that are no query; DIR is the data set, OUT the folder that it is in.
NO_QUERIES = [
    "COPY (SELECT 1 AS a) TO 'DIR/models/00000.parquet'",
    "COPY layers TO 'OUT/copy.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'DIR/copy.csv'",
    "ATTACH 'DIR/new.db'",
    "EXPORT DATABASE 'DIR/export'",
    "IMPORT DATABASE 'DIR'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t AS SELECT 1",
    "DROP VIEW models",
    "INSERT INTO models VALUES (1)",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL enable_logging(storage='file', storage_path='DIR/log')",
    "PREPARE a AS SELECT 1",
    "BEGIN",
    "VACUUM",
    "EXPLAIN SELECT 1",
    "PIVOT census ON op USING sum(layers)",
]

#: Queries that ask for more than the files of the data set.
OTHER_FILES = [
    "FROM read_csv('OUT/other.csv')",
    "FROM 'OUT/other.csv'",
    "FROM read_text('DIR/../other.csv')",
    "FROM read_text('DIR/link.csv')",
    "FROM read_csv('DIR/notes.csv')",
    "FROM glob('OUT/*')",
    "FROM glob('DIR/*')",
    "FROM read_blob('/etc/passwd')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM read_text('http://127.0.0.1:1/x')",
    "FROM enable_logging(storage='file', storage_path='OUT/log')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''OUT/copy.csv''')",
    "FROM variable_of_this_test",
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with other files in it and beside it, at a path that looks like a pattern."""
    beside = tmp_path_factory.mktemp("it") / "it's [a] place"
    beside.mkdir()
    made_zoo(beside / "zoo", random.Random(1), models=3)
    (beside / "other.csv").write_text("a,b\n1,2\n")
    (beside / "zoo" / "notes.csv").write_text("a,b\n1,2\n")
    (beside / "zoo" / "link.csv").symlink_to(beside / "other.csv")
    return beside / "zoo"


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _at(folder: Path, sql: str) -> str:
    """A query about a folder."""
    outer, inner = (str(path).replace("'", "''") for path in (folder.parent, folder))
    return sql.replace("DIR", inner).replace("OUT", outer)


@pytest.mark.parametrize("sql", NO_QUERIES)
def test_what_is_no_query_is_refused(sql: str, guarded: Path) -> None:
    before = _content(guarded.parent)
    with zoo.open(guarded) as data:
        for ask in (data.rows, data.sql):
            with pytest.raises(InputError, match="only one query is run: a SELECT, or FROM with the name of a view"):
                ask(_at(guarded, sql))
        assert data.rows("SELECT count(*) FROM models")[1] == [(3,)]
    assert _content(guarded.parent) == before


@pytest.mark.parametrize("first", ["SELECT 1", "COPY (SELECT 1) TO 'OUT/copy.csv'"])
@pytest.mark.parametrize("second", ["SELECT 2", "DROP VIEW models", "COPY (SELECT 1) TO 'OUT/copy.csv'"])
def test_several_statements_are_refused(first: str, second: str, guarded: Path) -> None:
    before = _content(guarded.parent)
    with pytest.raises(InputError, match="only one query is run"):
        zoo.query(guarded, _at(guarded, f"{first}; {second}"))
    assert _content(guarded.parent) == before


@pytest.mark.parametrize("sql", OTHER_FILES)
def test_a_query_reads_the_files_of_its_data_set_alone(sql: str, guarded: Path) -> None:
    import duckdb
    import pyarrow

    before = _content(guarded.parent)
    variable_of_this_test = pyarrow.table({"a": [1]})
    with zoo.open(guarded) as data:
        with pytest.raises(InputError, match="the query fails") as error:
            data.rows(_at(guarded, sql))
        assert "\n" not in str(error.value)
        with pytest.raises((InputError, duckdb.Error)):  # some relations are lazy
            data.sql(_at(guarded, sql)).fetchall()
    assert _content(guarded.parent) == before
    assert variable_of_this_test.num_rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "FROM models",
        "SELECT count(*) FROM unique_layers;",
        "WITH a AS (FROM layers) SELECT op FROM a -- of all",
        "DESCRIBE models",
        "SUMMARIZE models",
        "SHOW TABLES",
        "FROM chains_of(3)",
        "FROM census PIVOT (sum(layers) FOR op IN ('a', 'b'))",
    ],
)
def test_what_is_a_query_is_answered(sql: str, guarded: Path) -> None:
    columns, rows = zoo.query(guarded, sql)
    assert columns
    assert rows


def test_the_connection_only_reads(guarded: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with zoo.open(guarded) as data, pytest.raises(duckdb.Error, match="read-only"):
        data.connection.execute("CREATE TABLE t AS SELECT 1")


@pytest.mark.parametrize("table", ["models", "layers", "unique"])
@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "other"])
def test_a_damaged_data_set_is_one_line(plain: Path, tmp_path: Path, table: str, damage: str, capsys: Any) -> None:
    from flopwise.cli import main

    shutil.copytree(plain, tmp_path / "zoo")
    file = tmp_path / "zoo" / table / "00000.parquet"
    whole = file.read_bytes()
    if damage == "other":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), file)
    else:
        noise = bytearray(whole)
        noise[len(whole) // 2 : -8] = b"\xff" * (len(whole) - 8 - len(whole) // 2)
        file.write_bytes({"cut": whole[:-20], "noise": bytes(noise), "empty": b""}[damage])
    folder = str(tmp_path / "zoo")
    commands = [
        ["zoo", "query", folder, "FROM unique_layers"],
        ["zoo", "query", folder, "FROM models"],
        ["zoo", "query", folder, "FROM layers"],
    ]
    statuses = [main(command) for command in commands]
    lines = capsys.readouterr().err.splitlines()
    assert set(statuses) <= {0, 2}
    assert 2 in statuses
    assert len(lines) == statuses.count(2)
    assert all(line.startswith("flopwise: ") for line in lines)


def test_json_of_a_query(plain: Path, capsys: Any) -> None:
    from flopwise.cli import main

    assert main(["zoo", "query", str(plain), "SELECT sum(macs) AS macs FROM layers", "-f", "json"]) == 0
    ((row),) = json.loads(capsys.readouterr().out)
    assert isinstance(row["macs"], int)


@pytest.mark.parametrize("damage", ["nothing", "empty", "damaged"])
def test_a_data_set_that_cannot_be_opened_leaves_no_folder(
    damage: str, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, folder = tmp_path / "temporary", tmp_path / "zoo"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    if damage == "empty":
        folder.mkdir()
    elif damage == "damaged":
        shutil.copytree(plain, folder)
        for file in folder.rglob("*.parquet"):
            file.write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(InputError):
        zoo.open(folder)
    assert [*place.iterdir()] == []
