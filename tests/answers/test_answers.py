"""The table of answers: all that it names is there, and without a folder everything else works."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import flopwise
from flopwise.answers import ANSWERS

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.name for path in (ROOT / "src/flopwise/answers").iterdir() if (path / "__init__.py").exists())

#: Runs without a folder of answers, whose line is taken out and whose modules cannot be imported.
BLOCKED = """
import importlib.abc, pkgutil, sys
folder = sys.argv[1]

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(f"flopwise.answers.{folder}"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
from flopwise import answers
del answers.ANSWERS[folder]
import flopwise
from flopwise.cli import COMMANDS, main, module_of
for name in flopwise.__all__:
    try:
        getattr(flopwise, name)
    except flopwise.InputError as error:
        assert "left out" in str(error), error
for command in COMMANDS:
    importlib.import_module(module_of(command))
for module in pkgutil.walk_packages(flopwise.__path__, "flopwise."):
    if module.name.startswith(("flopwise.answers", "flopwise.report", "flopwise.agents", "flopwise.cli")):
        if not module.name.startswith(f"flopwise.answers.{folder}"):
            importlib.import_module(module.name)
assert main(["profile", "examples/tiny_resnet.onnx"]) == 0
assert main(["--help"]) == 0
"""


@pytest.mark.parametrize("folder", ANSWERS)
def test_what_the_table_names_is_there(folder: str) -> None:
    answer = ANSWERS[folder]
    places = [*answer.reports.values(), *answer.notebooks.values()]
    places += [f"{module}.command" for module, _ in answer.commands.values()]
    for place in places:
        module, _, name = place.rpartition(".")
        assert callable(getattr(import_module(f"flopwise.{module}"), name)), place
    assert set(answer.names) <= set(flopwise.__all__)
    assert all(getattr(flopwise, name) is not None for name in answer.names)
    assert answer.notebooks.keys() <= answer.reports.keys()


def test_every_folder_is_in_the_table() -> None:
    assert set(FOLDERS) <= set(ANSWERS)


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != "profile"])
def test_a_folder_can_be_left_out(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1,859,904" in done.stdout


def test_answers_do_not_import_each_other() -> None:
    from tests.test_imports import imports

    pairs = {
        (module.split(".")[1], other.split(".")[1])
        for module, others in imports().items()
        for other in others
        if module.startswith("answers.") and other.startswith("answers.")
    }
    assert {(one, other) for one, other in pairs if one != other and other != "profile"} == set()
