"""Builds of data sets: what is in them, and how they go on where they stopped, however that was."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

import onnx
import pyarrow.compute as pc

import flopwise
from flopwise import zoo
from flopwise.analyses.zoo.dataset import Dataset
from flopwise.analyses.zoo.place import MARKER, Place, alone
from flopwise.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"
SOURCES = (str(EXAMPLES),)
PATHS = os.pathsep.join(sys.path)
TIMED = "seconds, build_seconds, profile_seconds, peak_memory"

#: A model whose making takes as long as it is told.
SLOW = """
import time
import torch

def model(wait=False):
    if wait:
        time.sleep(600)
    return torch.nn.Linear(4, 4)
"""

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "light"
    built = zoo.build(str(LIGHT), output=folder)
    assert not built.failures
    return folder


def _ask(folder: str | Path, sql: str) -> list[tuple[Any, ...]]:
    return zoo.query(folder, sql)[1]


def test_a_query_ends_without_a_word_on_stderr(light: Path) -> None:
    command = [sys.executable, "-m", "flopwise", "zoo", "query", str(light), "SELECT count(*) FROM models"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


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


def same(one: str | Path, other: str | Path) -> bool:
    """Whether two data sets have the same rows, but for how long they took."""
    return rows_of(one) == rows_of(other)


def rows_of(folder: str | Path) -> list[object]:
    """The rows of a data set, but for how long they took."""
    with zoo.open(folder) as opened:
        models = f"SELECT * EXCLUDE ({TIMED}) FROM all_models ORDER BY name"
        return [opened.rows(q) for q in ("SELECT * FROM layers ORDER BY model, position", models)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "whole"
    zoo.build(*SOURCES, output=folder, jobs=2)
    return folder


def test_a_build_goes_on_where_it_stopped(tmp_path: Path, whole: Path) -> None:
    seen = 0

    def interrupt(step: str) -> None:
        nonlocal seen
        if " of " in step:
            seen += 1
            if seen == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zoo.build(*SOURCES, output=tmp_path / "parts", progress=interrupt)
    finished = len(_ask(tmp_path / "parts", "SELECT * FROM all_models"))
    assert 2 <= finished < 9
    rest = zoo.build(*SOURCES, output=tmp_path / "parts")
    assert rest.kept == finished
    assert same(tmp_path / "parts", whole)
    again = zoo.build(*SOURCES, output=tmp_path / "parts")
    assert again.kept == again.models
    assert same(tmp_path / "parts", whole)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_loses_nothing(tmp_path: Path, whole: Path, number: signal.Signals) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(f"{tmp_path}/slow.py:model --name m{i} -i 1x4 --arg wait={i > 2}" for i in range(6)))
    folder = tmp_path / "zoo"
    command = [
        sys.executable,
        "-m",
        "flopwise",
        "zoo",
        "build",
        str(listed),
        "-o",
        str(folder),
        "-j",
        "2",
        "--trust-code",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=PATHS))
    deadline = time.monotonic() + 120
    while len(list(folder.glob("parts/*.models.parquet"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    lines = [line for line in process.communicate()[1].splitlines() if line]
    assert lines == (
        [f"flopwise: what is finished is in {folder}; the same command goes on from there", "flopwise: interrupted"]
        if number == signal.SIGINT
        else []
    )
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert _ask(folder, "SELECT name FROM all_models ORDER BY name") == [("m0",), ("m1",), ("m2",)]
    assert _ask(folder, "SELECT count(*), sum(layers) FROM unique_layers") == [(1, 3)]
    (tmp_path / "slow.py").write_text(SLOW.replace("600", "0"))  # the same models under another hash
    built = zoo.build(str(listed), output=folder, trust_code=True)
    assert (built.models, built.failures, built.layers) == (6, (), 6)


def test_a_gathering_that_was_cut_off_is_finished(tmp_path: Path, whole: Path) -> None:
    """Wherever a process dies while it gathers, all rows are there, once, before and after the next build."""
    origin, rows = Dataset(whole), rows_of(whole)
    for stop in range(1, 60):
        folder = tmp_path / str(stop)
        shutil.copytree(whole, folder)
        data, left = Dataset(folder), stop
        for name in ("alexnet.prototxt", "tiny_resnet.onnx"):  # two models as parts, as a second build leaves them
            table = origin._read("models/00000.parquet", "models")
            (row,) = table.filter(pc.equal(table["name"], name)).to_pylist()
            layers = origin._read("layers/00000.parquet", "layers")
            data.put(row, layers.filter(pc.equal(layers["model"], name)).to_pylist())

        def dying(work: Any) -> Any:
            def call(*args: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
                return work(*args)

            return call

        place = data.place
        for verb in ("write", "remove", "clear"):
            setattr(place, verb, dying(getattr(place, verb)))
        try:
            data.gather()
        except KeyboardInterrupt:
            assert rows_of(folder) == rows
            Dataset(folder).gather()
            assert rows_of(folder) == rows
        else:
            assert left > 0
            assert sorted(path.name for path in folder.iterdir()) == [MARKER, "layers", "models", "unique"]
            return
    pytest.fail("gathering never ended")


def test_failures_are_rows(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "broken.onnx").write_bytes(b"\x08\x07nothing")
    built = zoo.build(str(tmp_path / "models"), output=tmp_path / "zoo")
    ((name, error),) = built.failures
    assert name == "broken.onnx"
    assert _ask(tmp_path / "zoo", "SELECT name, error FROM failures") == [(name, error)]
    assert _ask(tmp_path / "zoo", "SELECT * FROM models") == []


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "zoo")
    assert main(["zoo", "build", str(EXAMPLES / "tiny_resnet.onnx"), "-o", folder]) == 0
    assert "1 model: 1 profiled now, 0 there before, 0 failed; 54 layers" in capsys.readouterr().out
    assert (
        main(["zoo", "query", folder, "SELECT op, count(*) AS n FROM layers GROUP BY op ORDER BY n DESC", "-f", "json"])
        == 0
    )
    assert {"op": "Conv", "n": 15} in json.loads(capsys.readouterr().out)
    assert main(["zoo", "query", folder, "SELECT nothing"]) == 2
    assert "the query fails" in capsys.readouterr().err
    assert main(["zoo", "query", str(tmp_path), "FROM models"]) == 2
    assert "is not a data set of models" in capsys.readouterr().err


def test_a_model_that_changed_takes_the_place_of_its_rows(tmp_path: Path) -> None:
    folder, models = tmp_path / "zoo", tmp_path / "models"
    models.mkdir()
    (models / "a.onnx").write_bytes((EXAMPLES / "tiny_resnet.onnx").read_bytes())
    zoo.build(str(models), output=folder)
    (models / "a.onnx").write_bytes((EXAMPLES / "custom_op.onnx").read_bytes())
    built = zoo.build(str(models), output=folder)
    assert (built.kept, built.layers) == (0, 3)
    moved = zoo.build(str(models.rename(tmp_path / "moved")), output=folder)
    assert (moved.kept, moved.layers) == (1, 3)  # it is known by its content
    assert _ask(folder, "SELECT name, layers FROM models") == [("a.onnx", 3)]


def test_two_models_of_one_name_stay_apart(tmp_path: Path) -> None:
    for name, model in (("one", "tiny_resnet.onnx"), ("two", "custom_op.onnx")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.onnx").write_bytes((EXAMPLES / model).read_bytes())
        zoo.build(str(tmp_path / name), output=tmp_path / "zoo")
    expected = [("a.onnx", 54), ("a.onnx#2", 3)]
    assert _ask(tmp_path / "zoo", "SELECT name, layers FROM models ORDER BY name") == expected
    again = zoo.build(str(tmp_path / "two"), str(tmp_path / "one"), output=tmp_path / "zoo")
    assert again.kept == 2


def test_rows_say_what_people_ask_for(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, dilation=1, groups=2, bias=False)\n\n"
        "    def forward(self, x):\n        y = self.conv(x).flatten(2).view(1, 2, 4, -1)\n"
        "        return torch.nn.functional.scaled_dot_product_attention(y, y, y)\n"
    )
    (tmp_path / "list.txt").write_text(f"{tmp_path}/net.py:Net -i 1x4x8x8 --name net --year 2020 --tag t\n")
    zoo.build(str(tmp_path / "list.txt"), str(EXAMPLES / "tiny_resnet.onnx"), output=tmp_path / "zoo", trust_code=True)
    columns = "kernel, stride, padding, dilation, groups, weights, dtypes, scope, params, year"
    (conv,) = _ask(tmp_path / "zoo", f"SELECT {columns} FROM layers WHERE model = 'net' AND op = 'Conv'")
    assert conv == ("3x3", "2x2", "1x1x1x1", "1x1", 2, "8x2x3x3", "float32", "conv", 144, 2020)
    assert _ask(tmp_path / "zoo", "SELECT heads FROM layers WHERE op = 'Attention'") == [(2,)]
    columns = "format, opset, inputs, year, tags, length(hash), flopwise, build_seconds > 0, profile_seconds > 0"
    (net,) = _ask(tmp_path / "zoo", f"SELECT {columns} FROM models WHERE name = 'net'")
    assert net == ("torch", None, "x:float32:1x4x8x8", 2020, "t", 32, flopwise.__version__, True, True)
    (file,) = _ask(tmp_path / "zoo", "SELECT format, opset, peak_memory > 0 FROM models WHERE name <> 'net'")
    assert file == ("onnx", 20, True)


def test_a_second_build_waits_for_nobody(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        alone(Place(tmp_path / "zoo")),
        pytest.raises(flopwise.InputError, match="another build writes to this data set"),
    ):
        zoo.build(str(EXAMPLES / "tiny_resnet.onnx"), output=tmp_path / "zoo")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, message in ((tmp_path / "file", "is a file"), (tmp_path / "file" / "zoo", "cannot be written")):
        with pytest.raises(flopwise.InputError, match=message):
            zoo.build(str(EXAMPLES / "tiny_resnet.onnx"), output=folder)
    with pytest.raises(flopwise.InputError, match="cannot be opened"):
        zoo.build(str(EXAMPLES / "tiny_resnet.onnx"), output="nosuch://place")


def test_limits_hold_in_workers_and_failures_are_tried_again_when_that_is_asked_for(tmp_path: Path) -> None:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    source, folder = str(tmp_path / "w.safetensors"), tmp_path / "zoo"
    with flopwise.limits(header_bytes=8):
        ((name, error),) = zoo.build(source, output=folder).failures
    assert "header_bytes" in error
    kept = zoo.build(source, output=folder)
    assert (kept.kept, kept.failures) == (1, ((name, error),))
    tried = zoo.build(source, output=folder, retry=True)
    assert (tried.kept, tried.failures, tried.models) == (0, (), 1)


def _open_model(path: Path, *dims: int | str) -> None:
    value = onnx.helper.make_tensor_value_info
    tensors = [value(name, onnx.TensorProto.FLOAT, dims) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    onnx.save(onnx.helper.make_model(graph), path)


def test_open_dimensions_get_their_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, data = tmp_path / "models", str(tmp_path / "zoo")
    models.mkdir()
    _open_model(models / "open.onnx", "batch", "length")
    _open_model(models / "fixed.onnx", 2, 3)
    inputs = "SELECT name, status, inputs FROM all_models ORDER BY name"
    assert main(["zoo", "build", str(models), "-o", data, "--dim", "batch=5"]) == 0
    assert "--dim length=" in capsys.readouterr().err
    assert _ask(data, inputs) == [
        ("fixed.onnx", "ok", "x:float32:2x3"),
        ("open.onnx", "failed", "--dim batch=5"),
    ]
    assert main(["zoo", "build", str(models), "-o", data, "--dim", "batch=5", "--dim", "length=7", "--strict"]) == 0
    assert _ask(data, inputs)[1] == ("open.onnx", "ok", "x:float32:5x7")
    first = zoo.build(str(models), output=data, batch_size=4, assume={"*": 9})
    assert (first.kept, first.failures) == (0, ())
    assert [row[2] for row in _ask(data, inputs)] == ["x:float32:4x3", "x:float32:4x9"]
    assert zoo.build(str(models), output=data, batch_size=4, assume={"*": 9}).kept == 2


def test_a_path_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    listed, data = tmp_path / "list.txt", tmp_path / "zoo"
    listed.write_text(f"{EXAMPLES / 'tiny_resnet.onnx'} --name there\n\nmissing.onnx\n")
    built = zoo.build(str(listed), output=data)
    ((name, error),) = built.failures
    assert (built.models, name) == (2, "missing.onnx")
    assert f"{listed}, line 3: missing.onnx: no such file" in error
    shutil.copy(EXAMPLES / "tiny_resnet.onnx", tmp_path / "missing.onnx")
    again = zoo.build(str(listed), output=data)
    assert (again.kept, again.failures) == (1, ())
    assert _ask(data, "SELECT name, status FROM all_models ORDER BY name") == [("missing.onnx", "ok"), ("there", "ok")]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions of POSIX, for others than root")
def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        shutil.copy(EXAMPLES / "tiny_resnet.onnx", tmp_path / name)
    (tmp_path / "b.onnx").chmod(0)
    built = zoo.build(str(tmp_path), output=tmp_path / "zoo")
    assert [name for name, _ in built.failures] == ["b.onnx"]


@pytest.mark.parametrize("query", [";", "-- nothing", " ; ;"])
def test_a_query_without_a_statement(light: Path, query: str) -> None:
    with pytest.raises(flopwise.InputError, match="the query is empty"):
        zoo.query(light, query)


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("models/00000.parquet", "delete it, and the same zoo build"),
        ("layers/00000.parquet", "delete it and what is in models/, and the same zoo build"),
        ("unique/00000.parquet", "delete it and what is in models/, and the same zoo build"),
    ],
)
def test_a_damaged_file_is_named_with_a_way_to_go_on(tmp_path: Path, whole: Path, file: str, remedy: str) -> None:
    folder = tmp_path / "zoo"
    shutil.copytree(whole, folder)
    damaged = folder / file
    damaged.write_bytes(b"junk")
    with pytest.raises(flopwise.InputError, match=re.escape(remedy)) as raised:
        zoo.query(folder, "SELECT * FROM models, unique_layers")
    assert str(raised.value).startswith(f"{damaged}: is damaged")
    damaged.unlink()
    if "models/," in remedy:
        (folder / "models" / "00000.parquet").unlink()
    zoo.build(*SOURCES, output=folder, jobs=2)
    assert same(folder, whole)
    assert _ask(folder, "SELECT count(*) FROM unique_layers") == _ask(whole, "SELECT count(*) FROM unique_layers")
