"""Data sets of models: what is in them, how a build goes on where it stopped, and views beside counts of our own."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

import onnx

import flopwise
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.records import model_row
from flopwise.analyses.zoo.sources import Entry, entries
from flopwise.analyses.zoo.views import LONGEST
from flopwise.api import zoo
from flopwise.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "light"
    built = zoo.build(str(LIGHT), output=folder)
    assert not built.failures
    return folder


def _ask(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    return zoo.query(folder, sql)[1]


def test_models_have_the_figures_of_their_profiles(light: Path) -> None:
    rows = dict(_ask(light, "SELECT name, [layers, macs, flops, params] FROM models"))
    assert rows.keys() == {path.name for path in LIGHT.glob("*.onnx")}
    for name, figures in rows.items():
        profile = flopwise.profile(LIGHT / name)
        assert figures == [len(profile.rows), *(profile.total(f) for f in ("macs", "flops", "params"))]


def test_unique_layers_equal_a_count_of_our_own(light: Path) -> None:
    seen: Counter[tuple[Any, ...]] = Counter()
    for path in LIGHT.glob("*.onnx"):
        for row in flopwise.profile(path).rows:
            tensors = (*row.node.known_inputs, *row.node.known_outputs)
            facts = tuple((t.shape, t.dtype, t.kind in ("weight", "buffer", "constant")) for t in tensors)
            seen[row.node.op, json.dumps(row.node.attrs, default=str, sort_keys=True), facts] += 1
    assert sorted(n for (n,) in _ask(light, "SELECT layers FROM unique_layers")) == sorted(seen.values())


def test_the_census_adds_up(light: Path) -> None:
    census = dict(_ask(light, "SELECT op, sum(layers) FROM census GROUP BY op"))
    assert census == Counter(row.node.op for path in LIGHT.glob("*.onnx") for row in flopwise.profile(path).rows)


def test_chains_equal_brute_force_on_random_graphs(tmp_path: Path) -> None:
    source, data = random.Random(3), Dataset(tmp_path / "zoo")
    expected: Counter[str] = Counter()
    for number in range(20):
        size = source.randrange(1, 30)
        ops = [source.choice("abc") for _ in range(size)]
        followers = [source.choice([None, *range(at + 1, size)]) if at + 1 < size else None for at in range(size)]
        entry = Entry(f"m{number}", "none")
        layers = [
            {"model": entry.name, "position": at, "op": op, "follower": after, "output_bytes": 10}
            for at, (op, after) in enumerate(zip(ops, followers, strict=True))
        ]
        data.put(model_row(entry, f"k{number}", "0", status="ok"), layers)
        for start in range(size):
            words, at = [ops[start]], followers[start]
            while at is not None and len(words) < LONGEST:
                words.append(ops[at])
                expected[" ".join(words)] += 1
                at = followers[at]
    data.gather(f"k{number}" for number in range(20))
    chains = zoo.query(tmp_path / "zoo", "SELECT ops, times, saved_bytes, length FROM chains")[1]
    assert {ops: times for ops, times, _, _ in chains} == expected
    assert all(saved == times * (length - 1) * 20 for _, times, saved, length in chains)


def test_a_build_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = zoo.build(str(EXAMPLES), output=tmp_path / "whole")
    seen = 0

    def interrupt(step: str) -> None:
        nonlocal seen
        if " of " in step:
            seen += 1
            if seen == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zoo.build(str(EXAMPLES), output=tmp_path / "parts", progress=interrupt)
    assert len(_ask(tmp_path / "parts", "SELECT * FROM all_models")) == 2
    rest = zoo.build(str(EXAMPLES), output=tmp_path / "parts")
    assert (rest.kept, rest.models) == (2, whole.models)
    for view in ("layers ORDER BY model, position", "models ORDER BY name"):
        timed = "EXCLUDE (seconds, peak_memory)" if "models" in view else ""
        assert _ask(tmp_path / "parts", f"SELECT * {timed} FROM {view}") == _ask(
            tmp_path / "whole", f"SELECT * {timed} FROM {view}"
        )
    again = zoo.build(str(EXAMPLES), output=tmp_path / "parts")
    assert again.kept == again.models


def test_failures_are_rows(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "broken.onnx").write_bytes(b"\x08\x07nothing")
    built = zoo.build(str(tmp_path / "models"), output=tmp_path / "zoo")
    ((name, error),) = built.failures
    assert name == "broken.onnx"
    assert _ask(tmp_path / "zoo", "SELECT name, error FROM failures") == [(name, error)]
    assert _ask(tmp_path / "zoo", "SELECT * FROM models") == []


def test_lists_of_models(tmp_path: Path) -> None:
    listed = tmp_path / "models.txt"
    listed.write_text(
        "# two models\n"
        f"{EXAMPLES}/tiny_resnet.onnx -i x:f32:2x3x64x64 --name small --family resnet --year 2015 --tag vision\n"
        "torchvision.models:resnet18 -i 1x3x224x224 --arg num_classes=10\n"
    )
    first, second = entries([str(listed)])
    assert (first.name, first.family, first.year, first.tags) == ("small", "resnet", 2015, ("vision",))
    assert second.arguments == {"num_classes": "10"}
    listed.write_text("model.onnx --colour red")
    with pytest.raises(flopwise.InputError, match="line 1: after the model stand"):
        entries([str(listed)])


def test_sources_that_stand_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(flopwise.InputError, match="no such file, directory or model"):
        entries([str(tmp_path / "*.onnx")])


def test_names_are_unique() -> None:
    path = str(EXAMPLES / "tiny_resnet.onnx")
    assert [entry.name for entry in entries([path, path])] == [path, f"{path}#2"]


def test_a_catalogue() -> None:
    import tests.torch_vision  # noqa: F401 - it declares what torchvision lacks here

    found = {entry.name: entry for entry in entries(["torchvision:resnet*"])}
    assert found["torchvision/resnet50"].inputs == ("1x3x224x224",)
    with pytest.raises(flopwise.InputError, match="no model of torchvision has such a name"):
        entries(["torchvision:nothing*"])


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "zoo")
    assert main(["zoo", "build", str(EXAMPLES / "tiny_resnet.onnx"), "-o", folder]) == 0
    assert "1 models, 54 layers" in capsys.readouterr().out
    assert (
        main(["zoo", "query", folder, "SELECT op, count(*) AS n FROM layers GROUP BY op ORDER BY n DESC", "-f", "json"])
        == 0
    )
    assert {"op": "Conv", "n": 15} in json.loads(capsys.readouterr().out)
    assert main(["zoo", "query", folder, "SELECT nothing"]) == 2
    assert "the query fails" in capsys.readouterr().err
    assert main(["zoo", "query", str(tmp_path), "FROM models"]) == 2
    assert "is not a data set of models" in capsys.readouterr().err


def test_queries_read_and_write_no_other_files(light: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    for sql in (f"FROM read_csv('{other}')", f"COPY layers TO '{tmp_path / 'copy.csv'}'"):
        with pytest.raises(flopwise.InputError, match="the query fails"):
            zoo.query(light, sql)
    assert not (tmp_path / "copy.csv").exists()
