"""The views of a data set beside counts of our own."""

from __future__ import annotations

import json
import random
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
from flopwise.analyses.zoo.chains import LONGEST, with_chains
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.entry import Entry
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
    with_chains(layers)
    data = Dataset(tmp_path / "zoo")
    data.put(model_row(Entry("m", "none"), "k", "0", status="ok", layers=1), layers)
    data.gather()
    assert zoo.query(tmp_path / "zoo", "SELECT macs_each, macs FROM unique_layers")[1] == [(10, 30)]


def test_what_a_data_set_hands_over(tmp_path: Path) -> None:
    made_zoo(tmp_path / "zoo", random.Random(1))
    with zoo.open(tmp_path / "zoo") as data:
        count = data.sql("SELECT count(*) FROM layers").fetchall()[0][0]
        assert data.arrow("layers").num_rows == len(data.pandas("layers")) == len(data.polars("layers")) == count
        assert data.view("models").columns[:2] == ["key", "name"]
        assert "unique_layers" in repr(data)
        with pytest.raises(InputError, match="no view 'nothing'; views: models"):
            data.view("nothing")
        with pytest.raises(InputError, match="the query fails"):
            data.sql("SELECT nothing")


def test_queries_read_and_write_no_other_files(tmp_path: Path) -> None:
    made_zoo(tmp_path / "zoo", random.Random(1))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    for sql in (
        f"FROM read_csv('{other}')",
        f"COPY layers TO '{tmp_path / 'copy.csv'}'",
        "SET enable_external_access = true",
        f"ATTACH '{tmp_path / 'new.db'}'",
        "INSTALL httpfs",
    ):
        with pytest.raises(InputError, match="the query fails"):
            zoo.query(tmp_path / "zoo", sql)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv", "zoo"]


@pytest.mark.parametrize("table", ["models", "layers", "unique"])
@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "other"])
def test_a_damaged_data_set_is_one_line(tmp_path: Path, table: str, damage: str, capsys: Any) -> None:
    from flopwise.cli import main

    made_zoo(tmp_path / "zoo", random.Random(1))
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


def test_json_of_a_query(tmp_path: Path, capsys: Any) -> None:
    from flopwise.cli import main

    made_zoo(tmp_path / "zoo", random.Random(1))
    assert main(["zoo", "query", str(tmp_path / "zoo"), "SELECT sum(macs) AS macs FROM layers", "-f", "json"]) == 0
    ((row),) = json.loads(capsys.readouterr().out)
    assert isinstance(row["macs"], int)
