"""The floors of the house: a file imports only from its own floor and those below, and no files import in a circle.

Every import counts: at the top of a file, inside functions, and for type checking only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import flopwise

PACKAGE = Path(flopwise.__file__).parent

#: The floors from the ground up; a package stands for all that is in it. The table of answers stands on the ground,
#: since it imports none of them; the answers themselves stand on top of all that they are made of.
FLOORS: list[tuple[str, ...]] = [
    (
        "errors",
        "_arguments",
        "_child",
        "_current_folder",
        "_extensions",
        "_kinds",
        "_limits",
        "_results",
        "_user_code",
        "_version",
        "answers",
    ),
    ("graph",),
    ("operators",),
    ("sizes",),
    ("formats",),
    ("storage",),
    ("rows",),
    ("conventions",),
    ("profiles",),
    ("analyses", "writers"),
    ("report",),
    ("api",),
    ("__init__", "agents", "answers.*", "cli", "compat", "integrations", "pytest_plugin", "__main__"),
]

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name of a file inside the package: ``formats.onnx.read``; ``__init__`` is the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_of(path): path for path in FILES}


def floor_of(module: str) -> int:
    """The number of the floor that a module stands on."""
    room = module.split(".")[0]
    if module.startswith("answers."):
        room = "answers.*"
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def imports_of(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "flopwise":
            package = (node.module or "").partition(".")[2]
            for alias in node.names:
                inner = f"{package}.{alias.name}".lstrip(".")
                yield inner if inner in MODULES else package or "__init__"
        elif isinstance(node, ast.Import):
            yield from (
                a.name.partition(".")[2] or "__init__" for a in node.names if a.name.split(".")[0] == "flopwise"
            )


@cache
def imports() -> dict[str, list[str]]:
    """The other modules that each one imports; for the tests that ask, since every process collects this file."""
    return {module: sorted(set(imports_of(path)) - {module}) for module, path in MODULES.items()}


ROOMS = {"", *(module.split(".")[0] for module in MODULES)}


def folder_of(module: str) -> str:
    """The folder of a module; a package is its own."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def test_nothing_imports_from_a_higher_floor() -> None:
    wrong = []
    for module in MODULES:
        own = floor_of(module)
        importer = f"{module} (floor {own}: {'/'.join(FLOORS[own])})"
        for other in imports()[module]:
            if other == "__init__" and module.split(".")[0] not in FLOORS[-1] + FLOORS[-2]:
                wrong.append(f"{importer} imports flopwise itself, which knows all floors")
            elif floor_of(other) > own:
                wrong.append(
                    f"{importer} imports {other} (floor {floor_of(other)}: {'/'.join(FLOORS[floor_of(other)])})"
                )
    assert not wrong, "\n".join(wrong)


def circles(graph: dict[str, list[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or through others (strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph.get(module, ()):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            groups.append(stack[at:])
            del stack[at:]

    for module in graph:
        if module not in index:
            visit(module)
    return [sorted(group) for group in groups if len(group) > 1]


def test_no_circles() -> None:
    lines = [
        f"{module} -> {other}"
        for group in circles(imports())
        for module in group
        for other in imports()[module]
        if other in group
    ]
    assert not lines, "files that import each other in a circle:\n" + "\n".join(lines)


#: Folders of one package that still import each other; the list only gets shorter. A folder may import the files beside
#: it from the folder around it, which knows it.
BOTH_WAYS = {("formats.torch", "formats.weights")}


def test_folders_import_each_other_one_way() -> None:
    folders = {(folder_of(module), folder_of(other)) for module, others in imports().items() for other in others}
    apart = {(a, b) for a, b in folders if a < b and (b, a) in folders and not b.startswith(f"{a}.") and a not in ROOMS}
    assert {(a, b) for a, b in apart if b not in ROOMS} == BOTH_WAYS


def test_circles_are_seen() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == [["a", "b", "c"]]


def test_every_room_has_a_floor() -> None:
    rooms = {module.split(".")[0] for module in MODULES}
    known = {room for rooms in FLOORS for room in rooms}
    assert rooms <= known, rooms - known


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_folder_is_a_room_that_one_can_see_at_a_glance(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= 23, "more than about 20 files: make rooms inside"
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))), "say what is in the package"


#: What flopwise itself brings for other commands, and no plain one may wait for.
SLOW = ("logging", "difflib", "traceback", "asyncio", "multiprocessing", "concurrent.futures", "fractions", "sqlite3")
#: What only data, weights, engines and other tools' functions need.
LIBRARIES = ("onnx", "google.protobuf", "numpy", "ml_dtypes", "rich")
HEAVY = ("torch", "sympy", "matplotlib", "pandas", "pyarrow", "ssl", "http.client", "urllib.request", "onnx.reference")


@pytest.mark.parametrize(
    ("first", "code", "absent", "most"),
    [
        ("", "import flopwise", ("onnx", "numpy", "rich", "click", *SLOW, *HEAVY), 2),
        (
            "click",
            "from flopwise.cli import main; main(['--help'])",
            ("onnx", "numpy", "rich", "dataclasses", "json", *SLOW, *HEAVY),
            11,
        ),
        (
            "",
            "import flopwise; flopwise.profile('examples/tiny_resnet.onnx').to_dict()",
            ("click", *LIBRARIES, *SLOW, *HEAVY),
            107,
        ),
        (
            "click",
            "from flopwise.cli import main; main(['profile', 'examples/tiny_resnet.onnx'])",
            (*LIBRARIES, *SLOW, *HEAVY),
            132,
        ),
        (
            "",
            "import onnx; m = onnx.load('examples/tiny_resnet.onnx'); import flopwise; flopwise.profile(m).to_dict()",
            ("rich", "click"),
            107,
        ),
        (
            "torch",
            "import flopwise; flopwise.profile(torch.nn.Linear(3, 2, device='meta'), (1, 3)).to_dict()",
            ("onnx", "rich", "click"),
            96,
        ),
    ],
)
def test_a_cold_start_imports_what_it_uses(first: str, code: str, absent: tuple[str, ...], most: int) -> None:
    """Beside what other libraries import by themselves, and in no more files of flopwise's than it takes.

    Whoever needs a file more here imports it where it is used, or raises the bound with a reason.
    """
    check = f"""
import sys
{f"import {first}" if first else ""}
before = set(sys.modules)
{code}
late = [module for module in {absent!r} if module in sys.modules and module not in before]
assert not late, late
own = [module for module in sys.modules if module.partition(".")[0] == "flopwise"]
assert len(own) <= {most}, (len(own), own)
"""
    root = PACKAGE.parents[1]
    done = subprocess.run([sys.executable, "-c", check], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_process_of_the_command_line_searches_no_garbage() -> None:
    """Neither while it runs, nor as it ends: what is left goes back to the system in any case."""
    code = "import atexit, gc; atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 0)); " + (
        "import sys; sys.argv = ['flopwise', '--version']; from flopwise.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False True"
