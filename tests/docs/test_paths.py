"""Files, folders and functions that the pages for contributors name outside of their code exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.adding import page
from tests.test_imports import FLOORS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "flopwise"
ARCHITECTURE, ADDING = (f"docs/contributing/{name}.md" for name in ("architecture", "adding"))

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"(?<![\w/.])[\w.*-]+/[\w./*-]*")

#: Files that the examples of adding.md make, and do not find.
MADE = {f"src/flopwise/{block.file}" for block in page._blocks(page.PAGE.read_text("utf-8")) if block.file}


def paths(name: str) -> set[str]:
    """What a page's code spans name that has a slash in it."""
    prose = _FENCE.sub("", (ROOT / name).read_text("utf-8"))
    return {path for span in _SPAN.findall(prose) for path in _PATH.findall(span)}


def exists(path: str) -> bool:
    """Whether a path is a file, a folder, a module without its ending, or a name that a module defines.

    Paths begin in the repository or in the package; ``X`` stands for any name.
    """
    pattern = re.sub(r"\bX$", "*", path)
    for base in (ROOT, PACKAGE):
        if any(any(base.glob(candidate)) for candidate in (pattern, f"{pattern}.py")):
            return True
        module, _, name = path.rpartition(".")
        if module and (file := base / f"{module}.py").is_file():
            defined = ast.parse(file.read_text("utf-8")).body
            return any(name == getattr(statement, "name", None) for statement in defined)
    return False


@pytest.mark.parametrize("name", [ARCHITECTURE, ADDING, "CONTRIBUTING.md"])
def test_paths_exist(name: str) -> None:
    named = paths(name)
    assert named, "the page names no path: the test looks at nothing"
    assert sorted(path for path in named - MADE if not exists(path)) == []


def test_what_is_not_there_is_noticed() -> None:
    assert exists("profiles/count.profile_graph")
    assert exists("cli/commands/X")
    assert not exists("profiles/count.profile_nothing")
    assert not exists("formats/onnx/spelling")


def test_the_table_of_floors_has_every_floor() -> None:
    text = (ROOT / ARCHITECTURE).read_text("utf-8").partition("| floor |")[2].partition("\n\n")[0]
    rows = [_SPAN.findall(line.split("|")[1]) for line in text.splitlines()[2:]]
    named = {name for row in rows for name in row}
    assert named == {name for floor in FLOORS for name in floor} - {"__init__", "__main__", "pytest_plugin"}


def test_the_line_of_floors_is_that_of_the_test() -> None:
    line = re.search(r"`(errors, [^`]* < [^`]*)`", (ROOT / ADDING).read_text("utf-8"))
    assert line is not None
    floors = [set(floor.split(", ")) for floor in line[1].split(" < ")]
    plain = [{name for name in floor if not name.startswith("_")} - {"pytest_plugin"} for floor in FLOORS]
    assert floors == plain
