"""No command runs code of the folder that it is started in: neither its own process nor those that it starts.

The folder has a module for each name that Python or a library might import, and the settings that libraries look for.
Each module leaves a mark when it is imported, and fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.cli.view.served import served

from flopwise.cli import COMMANDS

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "examples" / "tiny_resnet.onnx")
OTHER = str(ROOT / "examples" / "alexnet.prototxt")

#: Packages that libraries look for and that may be missing here.
OPTIONAL = ("apex", "brotli", "brotlicffi", "cupy", "flash_attn", "gmpy2", "ipywidgets", "orjson", "pynvml", "scipy")
OPTIONAL += ("simplejson", "tensorflow", "tensorrt", "torchaudio", "triton", "ujson", "xformers", "zstandard")

#: What ``python -m`` imports itself, before the first line of the package that it runs.
BEFORE = ("contextlib", "collections", "functools", "importlib", "keyword", "operator", "pkgutil", "reprlib", "runpy")
BEFORE += ("types", "warnings")


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder; marks are lines of the file ``marks`` beside it."""
    folder = tmp_path_factory.mktemp("elsewhere") / "poisoned"
    folder.mkdir()
    mark = (
        "import posix\n"
        f"marks = posix.open({str(folder.parent / 'marks')!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND)\n"
        "posix.write(marks, __name__.encode() + b'\\n')\n"
        "raise ImportError('poisoned')\n"
    )
    for name in {*sys.stdlib_module_names, *packages_distributions(), *OPTIONAL} - {"flopwise", "posix"}:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(mark)
    (folder / "matplotlibrc").write_text("backend: module://poisoned_backend\ntext.usetex: True\n")
    (folder / "poisoned_backend.py").write_text(mark)
    (folder / ".numba_config.yaml").write_text("cache_dir: cache\n")
    return folder


def run(folder: Path, command: Sequence[str], code: int = 0) -> str:
    """What a command that is started in the folder prints; it leaves no mark."""
    marks = folder.parent / "marks"
    marks.unlink(missing_ok=True)
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FLOPWISE_TRACEBACK")}
    variables["FLOPWISE_STORE"] = str(folder.parent / "store.sqlite")
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    imported = marks.read_text() if marks.exists() else ""
    assert not imported, (imported, done.stderr)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def flopwise(*arguments: str) -> list[str]:
    """The installed command."""
    script = Path(sys.executable).with_name("flopwise")
    if not script.exists():
        pytest.skip("the command is not installed beside this interpreter")
    return [str(script), *arguments]


#: Command -> the arguments of calls of it that reach as much as can be reached.
CALLS: dict[str, list[list[str]]] = {
    "profile": [[MODEL], [MODEL, "-f", "html"]],
    "flops": [[MODEL]],
    "compare": [[MODEL, OTHER]],
    "check": [[MODEL, "--budget", "{beside}/budget.toml", "--update"]],
    "memory": [[MODEL, "--train"]],
    "bound": [[MODEL, "--device", "h100", "--figure", "{beside}/bound.pdf"], [MODEL]],
    "advise": [[MODEL, "--level", "all"], ["--rules"]],
    "devices": [[]],
    "bench": [[MODEL, "--time", "0.1"], ["torch.nn:ReLU", "-i", "1x4", "--time", "0.1"]],
    "trace": [[str(ROOT / "examples" / "classifier_trace.json.gz")]],
    "table": [[MODEL, OTHER, "-f", "latex"]],
    "sparsity": [[MODEL]],
    "weights": [[MODEL, "--figures", "{beside}/figures"]],
    "layers": [[MODEL]],
    "shapes": [[MODEL, "-o", "{beside}/shapes.onnx"]],
    "llm": [[str(ROOT / "examples" / "tiny_llama"), "--figures", "{beside}/llm", "--prompt", "64"]],
    "zoo": [
        ["build", MODEL, "-o", "{beside}/zoo"],
        ["query", "{beside}/zoo", "SELECT count(*) FROM layers"],
        ["report", "{beside}/zoo", "-o", "{beside}/zoo.html"],
        ["published"],
    ],
    "formula": [[MODEL, "-i", "image:f32:N,3,H,32", "--at", "H=32 N=1,2,3", "--plot", "{beside}/formula.svg"]],
    "explain": [["Conv"], [MODEL, "-c", "fvcore", "-c", "thop"]],
    "conventions": [[]],
    "schema": [[], ["profile"]],
    "operators": [[]],
    "mcp": [[], ["--tools"]],
    "completion": [["bash"]],
    "view": [],  # as it serves until it is ended, it has a test of its own
}


@pytest.mark.skipif(os.name != "posix", reason="marks are made by POSIX calls")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_poisoned_folder(command: str, poisoned: Path) -> None:
    for arguments in CALLS[command]:
        run(poisoned, flopwise(command, *(text.format(beside=poisoned.parent) for text in arguments)))


@pytest.mark.skipif(os.name != "posix" or sys.version_info < (3, 11), reason="marks are made by POSIX calls; python -P")
def test_a_page_that_is_served_in_a_poisoned_folder(poisoned: Path) -> None:
    marks = poisoned.parent / "marks"
    marks.unlink(missing_ok=True)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    served("--no-browser", folder=poisoned, variables=variables)
    assert not marks.exists()


@pytest.mark.skipif(os.name != "posix", reason="marks are made by POSIX calls")
def test_as_a_module_in_a_poisoned_folder(poisoned: Path, tmp_path: Path) -> None:
    """``python -m`` itself imports from the current folder; from the first line of the package on nothing does."""
    folder = tmp_path / "poisoned"
    folder.mkdir()
    for file in poisoned.iterdir():
        if file.stem not in BEFORE:
            (folder / file.name).write_bytes(file.read_bytes().replace(bytes(poisoned.parent), bytes(tmp_path)))
    run(folder, [sys.executable, "-m", "flopwise", "profile", MODEL])
    run(folder, [sys.executable, "-m", "flopwise", "profile", "torchvision.models:resnet18", "-i", "1x3x64x64"])
    if sys.version_info >= (3, 11):
        run(poisoned, [sys.executable, "-P", "-m", "flopwise", "profile", MODEL])


@pytest.mark.skipif(os.name != "posix", reason="marks are made by POSIX calls")
def test_clusters_in_a_poisoned_folder(poisoned: Path) -> None:
    pytest.importorskip("distributed")
    (poisoned.parent / "model.onnx").write_bytes(Path(MODEL).read_bytes())
    models = (MODEL, "../model.onnx")  # wherever the workers run, a path is one from here
    said = run(poisoned, flopwise("zoo", "build", *models, "-o", str(poisoned.parent / "zoo"), "--engine", "dask"))
    assert "0 failed" in said


@pytest.mark.skipif(os.name != "posix", reason="marks are made by POSIX calls")
def test_what_a_model_starts_in_a_poisoned_folder(poisoned: Path) -> None:
    """Its file is elsewhere, and so it never asked for this folder."""
    (poisoned.parent / "net.py").write_text(
        "import multiprocessing, torch\n\n\n"
        "def model():\n"
        "    multiprocessing.get_context('spawn').Lock()\n"  # starts a process that keeps watch over such things
        "    return torch.nn.Linear(4, 4)\n"
    )
    if sys.version_info >= (3, 11):
        run(poisoned, flopwise("profile", "../net.py:model", "-i", "1x4"))
    listed = poisoned.parent / "list.txt"
    listed.write_text("net.py:model -i 1x4\ntorchvision:squeezenet1_0\n")
    said = run(poisoned, flopwise("zoo", "build", str(listed), "--trust-code", "-o", str(poisoned.parent / "listed")))
    assert "0 failed" in said


@pytest.mark.skipif(os.name != "posix", reason="marks are made by POSIX calls")
def test_compiled_loops_of_a_poisoned_folder(poisoned: Path, tmp_path: Path) -> None:
    """numba would load code from the place that a file in the current folder names."""
    pytest.importorskip("numba")
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "large.npy", np.zeros(1 << 23, np.float32))
    run(poisoned, flopwise("weights", str(tmp_path / "large.npy")))
    assert not (poisoned / "cache").exists()


def test_the_marks_are_seen(poisoned: Path) -> None:
    with pytest.raises(AssertionError, match="json"):
        run(poisoned, [sys.executable, "-c", "import json"])
