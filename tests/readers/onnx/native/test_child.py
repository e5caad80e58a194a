"""onnx's C++ code in a child: crashes, hangs and memory there are errors here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from tests.readers.models import model, node

from flopwise.readers.onnx.native import child as child_module
from flopwise.readers.onnx.native.child import Child, LostError
from flopwise.readers.onnx.native.worker import INLINE, MODEL, STRICT

NET = model([node("Relu", "x", "y")], {"x": (2, 3)})

#: onnx 1.23.2 looks for its dots without end.
HANG = model([node("Einsum", "x", "y", equation=".ij->ij")], {"x": (2, 3)})

#: onnx 1.23.2 follows a pointer to nowhere.
CRASH = model(
    [
        node("Foo", "x", "u", domain="acme"),
        node("LabelEncoder", "u", "y", domain="ai.onnx.ml", keys_int64s=[1], values_int64s=[2]),
    ],
    {"x": (2, 3)},
    domains={"acme": 1, "ai.onnx.ml": 5},
)

#: onnx 1.23.2 makes as many entries as the shape has dimensions.
GIANT = model(
    [node("Split", "x", "y", num_outputs=1 << 40)],
    {"x": (2, 3)},
    [TensorProto(name="long", data_type=TensorProto.INT64, dims=[1 << 31])],
    opset=18,
)


@pytest.fixture
def child() -> Child:
    return Child()


def test_answers_are_onnx_s_own(child: Child) -> None:
    assert child.ask(MODEL, NET).graph.output[0].type.tensor_type.shape.dim[1].dim_value == 3
    assert child.ask(INLINE, NET).graph.node[0].op_type == "Relu"


def test_errors_are_onnx_s_own_and_the_child_goes_on(child: Child) -> None:
    wrong = model([node("MatMul", "x x", "y")], {"x": (2, 3)})
    with pytest.raises(RuntimeError, match="Incompatible dimensions"):
        child.ask(STRICT, wrong)
    first = child._process
    child.ask(MODEL, NET)
    assert child._process is first


@pytest.mark.parametrize("lost", [CRASH, GIANT])
def test_a_crash_is_an_error_and_the_next_request_is_answered(lost: onnx.ModelProto, child: Child) -> None:
    with pytest.raises((LostError, RuntimeError)):
        child.ask(MODEL, lost)
    assert child.ask(MODEL, NET).graph.output


def test_a_hang_ends(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    child.ask(MODEL, NET)
    monkeypatch.setattr(child_module, "SECONDS", 0.1)
    with pytest.raises(LostError, match="takes too long"):
        child.ask(MODEL, HANG)
    assert child._process is None


def test_threads_share_a_child(child: Child) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(len(child.ask(MODEL, NET).graph.output))) for _ in "12345"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 5


def test_without_an_interpreter_there_is_no_child(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(LostError, match="would need a Python interpreter"):
        child.ask(MODEL, NET)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(LostError, match="cannot be started"):
        child.ask(MODEL, NET)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_hang(tmp_path: Path) -> None:
    file = tmp_path / "hang.onnx"
    onnx.save(HANG, file)
    script = (
        "import sys, onnx\n"
        "from flopwise.readers.onnx.native import child\n"
        "child.SECONDS = 60\n"
        "net = onnx.load(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "child.CHILD.ask(0, net)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert errors.strip().endswith("KeyboardInterrupt")


def test_the_current_folder_is_not_imported_from(child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runpy.py").write_text("open('ran', 'w')")
    (tmp_path / "onnx.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    child.ask(MODEL, NET)
    assert not (tmp_path / "ran").exists()
