"""onnxruntime for real: what it executes, which layers that is, and figures whose order no load can change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.analyses.timing.models import chain, model
from tests.cli.conftest import Run, run

import flopwise
from flopwise.analyses.timing.bench import bench
from flopwise.analyses.timing.benchmark import Session
from flopwise.analyses.timing.engines import Options
from flopwise.errors import InputError, ModelError

pytest.importorskip("onnxruntime")

__all__ = ["run"]  # a fixture


def session(content: bytes, folder: Path, level: str = "all", **others: Any) -> Session:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return bench(flopwise.profile(str(path)), str(path), "onnxruntime", Options(level), 0.2, **others)


def block() -> bytes:
    """Convolution, batch norm, ReLU, and a branch around it; at the end a Reshape and a product."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "m", "v"], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["r"], name="act"),
        helper.make_node("Add", ["r", "x"], ["a"], name="add"),
        helper.make_node("Flatten", ["a"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "g"], ["y"], name="fc"),
    ]
    weights = {"w": (8, 8, 3, 3), "s": (8,), "m": (8,), "v": (8,), "g": (8 * 64, 10)}
    proto = onnx.load_model_from_string(model(nodes, {"x": (1, 8, 8, 8)}, ["y"], weights))
    for tensor in proto.graph.initializer:
        if tensor.name == "v":
            tensor.CopyFrom(numpy_helper.from_array(np.ones(8, np.float32), "v"))
    return proto.SerializeToString()


def test_every_executed_node_is_measured(tmp_path: Path) -> None:
    found = session(chain(layers=3, size=64), tmp_path)
    assert [n.op for n in found.executed] == ["MatMul", "Relu"] * 3
    assert len({n.key for n in found.executed}) == 2
    assert {m.status for m in found.measurements} == {"ok"}
    assert all(m.best_ns is not None and m.best_ns > 0 for m in found.measurements if m.mode == "hot")
    assert found.best_ns > 0
    assert [n.needs for n in found.executed] == [(), (0,), (1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("level", ["off", "all"])
def test_executed_nodes_do_the_work_of_layers(level: str, tmp_path: Path) -> None:
    found = session(block(), tmp_path, level)
    layers = [name for node in found.executed for name in node.rows]
    assert sorted(layers) == ["act", "add", "conv", "fc", "flat", "norm"]
    if level == "off":
        assert [n.rows for n in found.executed] == [("conv",), ("norm",), ("act",), ("add",), ("flat",), ("fc",)]
    else:
        convolution = next(n for n in found.executed if "Conv" in n.op)
        assert {"conv", "norm", "act"} <= {*convolution.rows}
    flat = next(n for n in found.executed if n.op in ("Flatten", "Reshape"))
    assert flat.alias


def test_the_executed_graph_is_counted(tmp_path: Path) -> None:
    found = session(block(), tmp_path)
    product = next(n for n in found.executed if n.rows == ("fc",))
    assert product.macs == 8 * 64 * 10
    assert product.dtypes == ("float32",)
    assert all(n.macs is not None and n.nbytes is not None for n in found.executed)


def test_a_heavy_product_takes_longer_than_a_light_one(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="heavy"),
        helper.make_node("MatMul", ["h", "u"], ["y"], name="light"),
    ]
    content = model(nodes, {"x": (256, 512)}, ["y"], {"w": (512, 512), "u": (512, 1)})
    found = session(content, tmp_path)
    best = {m.key: m.best_ns or 0 for m in found.measurements if m.mode == "hot"}
    heavy, light = (best[n.key] for n in found.executed)
    assert heavy > 5 * light  # 512 times the work
    assert heavy > best[found.executed[1].key]


def test_weights_that_outweigh_what_they_make_are_streamed(tmp_path: Path) -> None:
    found = session(chain(layers=1, size=256, batch=1), tmp_path)
    (streamed,) = (m for m in found.measurements if m.mode == "streamed")
    copies = int(streamed.note.split()[0])
    assert copies * 256 * 256 * 4 >= 2 << 20


@pytest.mark.parametrize(("dtype", "value"), [("float32", 1e-40), ("float64", 1e-312)])
def test_denormal_weights_are_named(dtype: str, value: float, tmp_path: Path) -> None:
    proto = onnx.load_model_from_string(chain(layers=1, size=16))
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((16, 16), value, dtype), "w0"))
    if dtype == "float64":
        proto.graph.initializer[0].name = "wide"
        proto.graph.node.insert(0, helper.make_node("Cast", ["wide"], ["w0"], to=TensorProto.FLOAT))
    found = session(proto.SerializeToString(), tmp_path, "off")
    assert any("denormal numbers" in note and proto.graph.initializer[0].name in note for note in found.notes)
    assert not session(chain(layers=1, size=16), tmp_path).notes


def test_an_input_that_folding_leaves_behind_needs_no_data(tmp_path: Path) -> None:
    """Files of early versions list stored tensors among their inputs, and engines leave those that are like others."""
    nodes = [
        *(helper.make_node("ConstantOfShape", [f"s{i}"], [f"w{i}"]) for i in range(3)),
        *(helper.make_node("MatMul", [f"x{i}" if i else "x", f"w{i}"], [f"x{i + 1}"]) for i in range(3)),
    ]
    proto = onnx.load_model_from_string(model(nodes, {"x": (2, 4), "s0": (2,), "s1": (2,), "s2": (2,)}, ["x3"]))
    proto.ir_version = 3
    for i in range(3):
        proto.graph.input[i + 1].CopyFrom(helper.make_tensor_value_info(f"s{i}", 7, [2]))
        proto.graph.initializer.append(numpy_helper.from_array(np.array([4, 4]), f"s{i}"))
    found = session(proto.SerializeToString(), tmp_path)
    assert {m.status for m in found.measurements} == {"ok"}


def test_control_flow_runs_alone_with_what_it_takes_from_outside(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, [2, 4])]
    )
    other = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, [2, 4])]
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other, name="branch"),
    ]
    found = session(model(nodes, {"x": (2, 4)}, ["y"], {"zero": ()}), tmp_path, "off")
    status = {n.op: next(m.status for m in found.measurements if m.key == n.key) for n in found.executed}
    assert status["If"] == "ok"


def test_a_model_that_the_engine_refuses_is_one_line(tmp_path: Path) -> None:
    node = helper.make_node("Odd", ["x"], ["y"], domain="acme")
    content = model([node], {"x": (2, 2)}, ["y"], domains=["acme"])
    with pytest.raises(ModelError, match="onnxruntime refuses it") as error:
        session(content, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.upstream
def test_the_whole_way(tmp_path: Path, run: Run) -> None:
    path, store = tmp_path / "chain.onnx", tmp_path / "times.sqlite"
    path.write_bytes(chain(layers=2, size=64))
    result = run("bench", path, "--time", "0.2", "--store", store, "-f", "json")
    assert result.code == 0
    first = json.loads(result.out)
    assert first["coverage"]["measured"] == first["coverage"]["nodes"] == 4
    assert first["floors"]["engine_ns"] > 0
    assert first["floors"]["physical_ns"] > 0
    again = json.loads(run("bound", path, "--store", store, "-f", "json").out)
    assert again["floors"]["engine_ns"] == first["floors"]["engine_ns"]
    assert again["verdict"] in ("holds", "noisy")
    assert run("bench", path, "--time", "0.2", "--store", store, "--missing").code == 0
    exported = tmp_path / "times.json"
    assert run("bench", "--export", exported, "--store", store).code == 0
    other = tmp_path / "other.sqlite"
    assert run("bench", "--import", exported, "--store", other).err == "flopwise: 2 new sessions in the store\n"
    moved = json.loads(run("bound", path, "--store", other, "-f", "json").out)
    assert moved["floors"] == again["floors"]


def test_one_record_less_shows(tmp_path: Path, run: Run) -> None:
    import sqlite3

    path, store = tmp_path / "chain.onnx", tmp_path / "times.sqlite"
    path.write_bytes(chain(layers=2, size=64))
    assert run("bench", path, "--time", "0.2", "--store", store, "--strict").code == 0
    database = sqlite3.connect(store)
    key = database.execute("SELECT id FROM benchmark WHERE op = 'Relu'").fetchone()[0]
    database.execute("DELETE FROM measurement WHERE benchmark = ?", (key,))
    database.commit()
    database.close()
    result = run("bound", path, "--store", store, "--strict")
    assert result.code == 1
    assert "≥" in result.out
    assert "~ roofline" in result.out
    assert run("bound", path, "--store", store).code == 0


def test_parquet(tmp_path: Path, run: Run) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path, store = tmp_path / "chain.onnx", tmp_path / "times.sqlite"
    path.write_bytes(chain(layers=1, size=32))
    exported = tmp_path / "times.parquet"
    assert run("bench", path, "--time", "0.1", "--store", store, "--export", exported).code == 0
    table = parquet.read_table(exported)
    assert {"best_ns", "op", "status"} <= {*table.column_names}
    assert run("bench", "--import", exported, "--store", tmp_path / "b.sqlite").err.startswith("flopwise: 1 new")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--engine", "tensorflow"), "unknown engine 'tensorflow'; known: onnxruntime"),
        (("--level", "most"), "unknown level 'most'; choose off, basic, extended, all"),
        (("--only", "Conv"), "the engine executes no 'Conv'; it executes MatMul, Relu"),
    ],
)
def test_wrong_input(tmp_path: Path, run: Run, args: tuple[str, ...], message: str) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain(layers=1, size=32))
    result = run("bench", path, "--time", "0.1", "--store", tmp_path / "s.sqlite", *args)
    assert result.code == 2
    assert message in result.err


def test_a_store_that_is_none_does_not_lose_the_figures(tmp_path: Path, run: Run) -> None:
    path, store = tmp_path / "chain.onnx", tmp_path / "notes.txt"
    path.write_bytes(chain(layers=1, size=32))
    store.write_text("no database at all, but long enough to be looked at" * 9)
    result = run("bench", path, "--time", "0.1", "--store", store)
    assert result.code == 0
    assert "engine floor" in result.out
    assert "not stored: " in result.err


def test_without_the_engine_the_figures_of_the_device_are_left(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flopwise.analyses.timing import engines

    def missing(name: str) -> str:
        raise InputError(f"{name} is not installed: pip install 'flopwise[time]'")

    monkeypatch.setattr(engines, "known_version", missing)
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain(layers=1, size=32))
    result = run("bound", path, "--store", tmp_path / "s.sqlite")
    assert result.code == 0
    assert "physical floor" in result.out
    assert "pip install 'flopwise[time]'" in result.out
    result = run("bench", path)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "pip install 'flopwise[time]'" in result.err


def test_a_module_is_exported(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    source, store = tmp_path / "net.py", tmp_path / "times.sqlite"
    source.write_text(
        "import torch\ndef net():\n    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())\n"
    )
    result = run("bench", f"{source}:net", "-i", "input:f32:2x8", "--time", "0.1", "--store", store, "-f", "json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    again = json.loads(run("bound", f"{source}:net", "-i", "input:f32:2x8", "--store", store, "-f", "json").out)
    assert again["floors"]["engine_ns"] == found["floors"]["engine_ns"]
    assert found["coverage"]["measured"] == found["coverage"]["nodes"]


@pytest.mark.parametrize(
    ("name", "message"), [("nothere.onnx", "no such file"), ("net.prototxt", "an engine runs ONNX files and PyTorch")]
)
def test_models_that_no_engine_runs(run: Run, name: str, message: str) -> None:
    result = run("bench", name)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err


def test_a_second_child_finds_a_clean_folder(tmp_path: Path) -> None:
    """After a crash the next child prepares the model in the same folder."""
    from flopwise.analyses.timing.engines.onnxruntime import open_program

    path, folder = tmp_path / "model.onnx", tmp_path / "work"
    path.write_bytes(block())
    folder.mkdir()
    first, second = (open_program(str(path), {}, Options(), str(folder)) for _ in range(2))
    assert [n.key for n in first.executed] == [n.key for n in second.executed]
