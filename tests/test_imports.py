"""The import rule: each room sees only the rooms below it, and importing flopwise imports no framework."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flopwise

PACKAGE = Path(flopwise.__file__).parent

#: Rooms from the bottom up; a room sees the rooms of lower levels and of its own.
LEVELS: list[set[str]] = [
    {"errors", "dtypes", "quantities", "frames"},
    {"graph"},
    {"counts", "readers"},
    {"ops"},
    {"conventions"},
    {"rows", "precision", "grouping", "folding", "memory", "control_flow", "profiles"},
    {"training", "comparing", "budgets", "sparse", "statistics"},
    {"formulas", "writers"},
    {"report"},
    {"api", "changes", "pruned", "distributions"},
    {"__init__", "cli", "compat", "pytest_plugin", "__main__"},
]

#: Readers hand over a graph and know nothing of counting.
READERS_SEE = {"errors", "dtypes", "graph", "readers"}


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _level(room: str) -> int:
    return next(i for i, rooms in enumerate(LEVELS) if room in rooms)


def _imported(path: Path) -> set[str]:
    """Rooms that a file imports, inside functions too; what is imported for type checking only does not count."""
    rooms: set[str] = set()
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "flopwise":
            parts = node.module.split(".")
            rooms.update([parts[1]] if len(parts) > 1 else [a.name for a in node.names])
        elif isinstance(node, ast.Import):
            rooms.update(a.name.split(".")[1] for a in node.names if a.name.startswith("flopwise."))
    return rooms


FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = {_room(path) for path in FILES} - {"__init__", "__main__"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_imports_upward(path: Path) -> None:
    room = _room(path)
    rooms = {r for r in _imported(path) if r in ROOMS}
    if room == "readers":
        assert rooms <= READERS_SEE
    for other in rooms:
        assert _level(other) <= _level(room), f"{room} imports {other}"


def test_every_room_has_a_level() -> None:
    known = set().union(*LEVELS)
    rooms = {_room(p) for p in FILES}
    assert rooms <= known, rooms - known


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import flopwise", ("onnx", "numpy", "torch", "sympy", "matplotlib", "rich", "click", "pandas")),
        ("from flopwise.cli import main; main(['--help'])", ("onnx", "torch", "sympy", "matplotlib", "rich")),
        (
            "import flopwise, pathlib; flopwise.profile('examples/tiny_resnet.onnx').to_dict()",
            ("torch", "sympy", "matplotlib", "rich", "pandas", "onnx.reference"),
        ),
        (
            "from flopwise.cli import main; main(['profile', 'examples/tiny_resnet.onnx'])",
            ("torch", "sympy", "matplotlib", "pandas"),
        ),
    ],
)
def test_imports_no_framework(code: str, absent: tuple[str, ...]) -> None:
    check = f"{code}\nimport sys\nfound = [m for m in {absent!r} if m in sys.modules]\nassert not found, found"
    root = PACKAGE.parents[1]
    done = subprocess.run([sys.executable, "-c", check], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
