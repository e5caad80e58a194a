"""The functions of flopwise that each test reaches: ``python -m pytest -p tests.reach --reach FILE``.

Every function notes at its start that it was called, which costs a run of all tests a few percent; a tracer would
double its time. Each process writes a file of its own (``FILE``, or ``FILE.gw0`` and so on with pytest-xdist), a JSON
line for each test. ``python -m tests.mutate --sources`` reads them. With ``--reach-cases N`` N cases of each test with
parameters are run, and stand for the others.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import json
import random
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"

#: The functions called since the test began, by number; their names by number.
called: set[int] = set()
names: list[str] = []


class Instrumented(importlib.machinery.SourceFileLoader):
    """A module whose functions note that they are called."""

    def get_code(self, fullname: str) -> types.CodeType:
        """The code of the source, never that of a stored file, which is not instrumented."""
        path = Path(self.get_filename(fullname))
        tree = ast.parse(path.read_bytes())
        for node, name in functions(tree):
            note = ast.parse(f"__flopwise_called__({len(names)})").body[0]
            names.append(f"{path.relative_to(ROOT).as_posix()}:{name}")
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            for part in ast.walk(note):
                ast.copy_location(part, first)
            node.body.insert(int(documented), note)
        return compile(tree, str(path), "exec", dont_inherit=True)


def functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """The functions of a tree with their names, each after the one that holds it."""
    for node in ast.iter_child_nodes(tree):
        name = f"{outer}.{node.name}" if outer and hasattr(node, "name") else getattr(node, "name", outer)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, name
        yield from functions(node, name)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of flopwise for the loader above."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of a module of flopwise; None for others."""
        if fullname.partition(".")[0] != "flopwise":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(SOURCES):
            return None
        if b"import numba" in Path(spec.origin).read_bytes():  # which compiles the functions and could not call ours
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=Instrumented(fullname, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


class Reached(NamedTuple):
    """A test, the seconds that it took, and the functions that it reached (``path:Class.method``)."""

    test: str
    seconds: float
    functions: frozenset[str]


class Recorder:
    """Writes what each test reached."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="utf-8", buffering=1)  # a worker ends without a word
        self.written = 0
        self.seconds = 0.0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Write the functions that one test called."""
        called.clear()
        self.seconds = 0.0
        yield
        new, self.written = names[self.written :], len(names)
        mask = sum(1 << number for number in called)
        record = {"test": item.nodeid, "seconds": self.seconds, "reached": f"{mask:x}", "names": new}
        self.file.write(f"{json.dumps(record)}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the time of a test's phases."""
        self.seconds += report.duration

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        self.file.close()


def name_of(case: str) -> str:
    """The name of a test without that of its case.

    >>> name_of("tests/test_limits.py::test_of_files[a[0]]")
    'tests/test_limits.py::test_of_files'
    """
    return case.partition("[")[0]


def read(path: Path) -> list[Reached]:
    """What the tests reached, of all processes of a run."""
    tests = []
    for one in sorted(path.parent.glob(f"{path.name}*")):
        known: list[str] = []
        for line in one.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            known += record["names"]
            mask = int(record["reached"], 16)
            reached = frozenset(name for number, name in enumerate(known) if mask >> number & 1)
            tests.append(Reached(record["test"], record["seconds"], reached))
    return tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file's name; from here on modules of flopwise are instrumented."""
    builtins.__dict__["__flopwise_called__"] = called.add
    sys.meta_path.insert(0, Finder())
    parser.addoption("--reach", type=Path, default=None, help="write the functions that each test reaches to FILE")
    parser.addoption("--reach-cases", type=int, default=0, help="run at most so many cases of each test (0: all)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the cases of each test, by a seed that is always the same."""
    if cases := config.getoption("--reach-cases"):
        tests: dict[str, list[pytest.Item]] = {}
        for item in items:
            tests.setdefault(name_of(item.nodeid), []).append(item)
        chance = random.Random(0)
        chosen = {id(one) for every in tests.values() for one in chance.sample(every, min(cases, len(every)))}
        items[:] = [item for item in items if id(item) in chosen]


def pytest_configure(config: pytest.Config) -> None:
    """Record in each process that runs tests."""
    path: Path | None = config.getoption("--reach")
    worker: str | None = getattr(config, "workerinput", {}).get("workerid")
    distributes = bool(config.getoption("numprocesses", default=None))
    if path is not None and (worker or not distributes):
        name = f"{path.name}.{worker}" if worker else path.name
        config.pluginmanager.register(Recorder(path.absolute().with_name(name)), "flopwise-reach")
