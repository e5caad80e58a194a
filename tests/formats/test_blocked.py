"""A folder of ``formats/`` can be taken out: the rest works, and the few formats that need it say so in one line.

What a module imports when it is imported itself is read from its text; what commands import, a child process tries,
in which each folder in turn is not to be found.
"""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz import seeds
from tests.keras_models import CONFIGS
from tests.test_imports import MODULES, PACKAGE

from flopwise.formats.table import FORMATS

#: The folders of formats; ``kit``, ``sources`` and ``weights`` are those that formats share, and all need ONNX's.
FOLDERS = sorted(
    path.name
    for path in (PACKAGE / "formats").iterdir()
    if (path / "__init__.py").is_file() and path.name not in ("kit", "sources", "weights", "onnx")
)

#: Answers about the models of one folder alone, which go with it: modules of PyTorch, its traces, and its trainers;
#: language models; Keras' models on its backend of JAX.
ANSWERS = {
    "jax": ("formats.keras.traced",),
    "torch": ("analyses.meter.", "analyses.traces.kineto.", "api.annotate", "integrations."),
    "language": ("api.language.", "api.llm"),
}


def imported(module: str) -> Iterator[str]:
    """The modules of the package that are imported with a module: those at its top, and the packages around it."""
    waiting: list[ast.AST] = [ast.parse(MODULES[module].read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flopwise":
            package = (node.module or "").partition(".")[2]
            for alias in node.names:
                inner = f"{package}.{alias.name}".lstrip(".")
                yield inner if inner in MODULES else package or "__init__"
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("flopwise."))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    parts = module.split(".")
    yield from (".".join(parts[:end]) for end in range(1, len(parts)))


@functools.cache
def imports() -> dict[str, frozenset[str]]:
    return {module: frozenset(imported(module)) for module in MODULES}


@pytest.mark.parametrize("folder", FOLDERS)
def test_everything_else_can_be_imported(folder: str) -> None:
    gone = {module for module in MODULES if f"{module}.".startswith(f"formats.{folder}.")}
    lost, before = set(gone), 0
    while len(lost) > before:
        before = len(lost)
        lost |= {module for module, needed in imports().items() if not needed.isdisjoint(lost)}
    declared = {one.folders[0] for one in FORMATS if folder in one.folders[1:]}
    allowed = (*(f"formats.{name}." for name in declared), *ANSWERS.get(folder, ()))
    assert not [module for module in lost - gone if not module.startswith(allowed)]


_CHILD = """
import contextlib, io, json, sys

class Blocked:
    folder = ""

    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(f"flopwise.formats.{self.folder}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

blocked = Blocked()
sys.meta_path.insert(0, blocked)
results = {}
for blocked.folder, commands in json.loads(sys.argv[1]).items():
    for module in [name for name in sys.modules if name.partition(".")[0] == "flopwise"]:
        del sys.modules[module]
    from flopwise.cli import main

    results[blocked.folder] = []
    for command in commands:
        code = 0
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                code = main(command)
            except SystemExit as end:
                code = end.code
        results[blocked.folder].append([code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def test_commands_without_a_folder(tmp_path: Path) -> None:
    files = {
        "caffe": ("net.prototxt", seeds.prototxts()[0]),
        "coreml": ("m.mlmodel", seeds.coremls()[0]),
        "executorch": ("m.pte", seeds.executorchs()[0]),
        "keras": ("m.keras", json.dumps(next(iter(CONFIGS.values()))()).encode()),
        "language": ("config.json", seeds.configurations()[0]),
        "openvino": ("m.xml", seeds.openvinos()[0]),
        "stablehlo": ("m.mlir", b"module {}"),
        "tensorflow": ("m.pb", seeds.tensorflow_graphs()[0]),
        "tflite": ("m.tflite", seeds.tflites()[0]),
        "torch": ("m.pt2", seeds.programs()[0]),
    }
    paths = {folder: tmp_path / folder / name for folder, (name, _) in files.items()}
    for folder, (_, content) in files.items():
        paths[folder].parent.mkdir()
        paths[folder].write_bytes(content)
    models = {folder: str(path) for folder, path in paths.items()} | {"jax": "jax:jax.numpy:sin"}
    commands = {}
    for folder in FOLDERS:
        other = models["tflite" if folder == "caffe" else "caffe"]
        users = dict.fromkeys(one.folders[0] for one in FORMATS if folder in one.folders)
        files_of = ["examples/tiny_resnet.onnx", other, *(models[user] for user in users)]
        commands[folder] = [["--help"], *(["profile", model] for model in files_of)]
    run = [sys.executable, "-c", _CHILD, json.dumps(commands)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=PACKAGE.parents[1])
    for folder, (asked, onnx, other, *users) in json.loads(done.stdout).items():
        assert (asked[0], onnx[0], other[0]) == (0, 0, 0), (folder, asked, onnx, other)
        assert "profile" in asked[1]
        assert "3,818,068" in onnx[1]
        assert users
        for code, out, err in users:
            assert (code, out) == (2, ""), (folder, out, err)
            assert f"need flopwise.formats.{folder}, which this installation lacks" in err
            assert len(err.splitlines()) == 1, err
