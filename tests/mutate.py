"""Which facts of the operator tables could be wrong without a test that fails: ``python -m tests.mutate``.

Each mutation changes one fact of a row (two roles swapped, a view dropped, random no longer random, another claim) or
one term of a rule (a class or a coefficient of a count, a gradient or a shape). Tests are collected once; for each
mutation a forked process makes the change in memory and runs the tests that concern it, those that name the operator
first, until one fails. What survives is printed. 400 mutations take about ten minutes on four cores, so this is run by
hand; a small sample of it is a test. With ``--sources FILE`` the faults are those of ``tests/mutate_sources.py``, in
all other functions, and FILE says which tests reach them (``python -m pytest -p tests.reach --reach FILE``).
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.mutate_sources import Fault, faults
from tests.reach import Reached, name_of, read

from flopwise.operators.inputs import DATA, Input, Inputs
from flopwise.operators.late import Late
from flopwise.operators.operator import Operator
from flopwise.operators.tables import _ROWS, ROWS, TABLES

ROOT = Path(__file__).parents[1]

#: Kind of mutation -> the tests that concern it.
TESTS: dict[str, tuple[str, ...]] = {
    "count": ("tests/operators",),
    "claim": ("tests/operators",),
    "gradient": ("tests/analyses/training", "tests/operators"),
    "role": (
        *("tests/operators", "tests/profiles/test_precision.py", "tests/formats/onnx/build"),
        *("tests/answers/sparsity", "tests/formats/weights", "tests/analyses/training"),
    ),
    "view": ("tests/operators", "tests/storage", "tests/analyses/training"),
    "carries": ("tests/operators", "tests/profiles/test_precision.py", "tests/formats/onnx/build"),
    "effect": ("tests/operators", "tests/profiles/test_precision.py", "tests/analyses/training"),
    "shape": ("tests/operators/shapes", "tests/operators"),
}

#: Tests that look at every row in turn, and name none.
EVERY_ROW = "tests/operators/test_facts.py::"


class Mutation(NamedTuple):
    """One change."""

    kind: str
    op: str
    what: str
    apply: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.kind} of {self.op}: {self.what}"

    def files(self) -> Iterable[str]:
        """The files and folders of the tests that concern it."""
        return TESTS[self.kind]

    def tests(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that concern it: those that look at every row, those that name its operator, the others."""
        concerned = [item for item in items if item.nodeid.startswith(TESTS[self.kind])]
        name = self.op.rpartition("::")[2].lower()

        def order(item: pytest.Item) -> tuple[bool, bool]:
            return not item.nodeid.startswith(EVERY_ROW), name not in item.nodeid.rpartition("[")[2].lower()

        return sorted(concerned, key=order)


#: Seconds that the tests of one fault took when they were recorded: a function that most tests reach is seen by few.
LONGEST = 60


class SourceMutation(NamedTuple):
    """A fault in a function, and the cases that reach it with their seconds, in the order in which they are run."""

    fault: Fault
    cases: dict[str, float]

    def __str__(self) -> str:
        return str(self.fault)

    def apply(self) -> None:
        """Make the fault."""
        self.fault.apply()

    def files(self) -> Iterable[str]:
        """The files of its tests."""
        return {case.partition("::")[0] for case in self.cases}

    def tests(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Its cases, then other cases of the same tests, as many as fit into the time for one fault."""
        order = {case: place for place, case in enumerate(self.cases)}
        seconds = {name_of(case): time for case, time in self.cases.items()}
        places = {test: place for place, test in enumerate(seconds)}
        concerned = [item for item in items if name_of(item.nodeid) in seconds]
        concerned.sort(key=lambda item: (order.get(item.nodeid, len(order)), places[name_of(item.nodeid)]))
        starts = itertools.accumulate((seconds[name_of(item.nodeid)] for item in concerned), initial=0.0)
        return [item for item, start in zip(concerned, starts, strict=False) if start < LONGEST]


def nearest(path: str, tests: Iterable[Reached]) -> dict[str, float]:
    """The seconds of tests of a source file: those of its room first, then those that are quick and reach little.

    A test that reaches few functions looks at each of them more closely than one that reaches many.
    """

    def distance(test: Reached) -> float:
        rooms = zip(Path(test.test.partition("::")[0]).parts[1:], Path(path).parts[2:], strict=False)
        shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] in (pair[1], f"test_{pair[1]}"), rooms))
        return float((test.seconds + 0.02) * len(test.functions) / 4**shared)

    ordered = sorted(tests, key=distance)
    starts = itertools.accumulate((test.seconds for test in ordered), initial=0.0)
    return {test.test: test.seconds for test, start in zip(ordered, starts, strict=False) if start < LONGEST}


AnyMutation = Mutation | SourceMutation


def replaced(op: str, **changes: Any) -> Callable[[], None]:
    """A change of fields of a row, in all tables that hold it."""

    def apply() -> None:
        row = ROWS[op]._replace(**changes)
        for table in (_ROWS.all(), *TABLES.values()):
            if op in table:
                table[op] = row  # type: ignore[index] # a table is a dict

    return apply


def facts(op: str, row: Operator) -> Iterator[Mutation]:
    """The changes of the facts of a row that are no rules."""
    yield Mutation("claim", op, f"claim {row.claim}", replaced(op, claim=_CLAIMS[row.claim]))
    if row.view:
        yield Mutation("view", op, "no view", replaced(op, view=None))
    if row.in_place:
        yield Mutation("view", op, "not in place", replaced(op, in_place=False))
    if row.carries:
        yield Mutation("carries", op, f"carries {row.carries}", replaced(op, carries=_CARRIES[row.carries]))
    for effect in sorted(row.effects):
        yield Mutation("effect", op, f"not {effect}", replaced(op, effects=row.effects - {effect}))
    if row.gradient:
        yield Mutation("gradient", op, "no gradient", replaced(op, gradient=None))
        keeps = row.gradient._replace(keeps=_keeps_otherwise)
        yield Mutation("gradient", op, "keeps another input", replaced(op, gradient=keeps))
        if row.gradient.from_result:
            dropped = row.gradient._replace(from_result=False)
            yield Mutation("gradient", op, "not from its result", replaced(op, gradient=dropped))
    if row.shape:
        yield Mutation("shape", op, "no shape", replaced(op, shape=None))
    yield from roles(op, row.inputs)


_CLAIMS = {"exact": "bound", "bound": "exact", "nothing": "exact", "unknown": "nothing"}
_CARRIES = {"same": "moved", "moved": "some", "broadcast": "some", "some": "moved"}


def _keeps_otherwise(node: Any, wanted: Any) -> list[int]:
    return [12_345]


def roles(op: str, inputs: Inputs) -> Iterator[Mutation]:
    """The changes of what the inputs of an operator are for."""
    places = list(inputs.first)
    for place, one in enumerate(places):
        if one == DATA:
            continue
        for field, value in zip(Input._fields, one, strict=True):
            default = Input._field_defaults[field]
            if value != default:
                changed = [*places[:place], one._replace(**{field: default}), *places[place + 1 :]]
                apply = replaced(op, inputs=inputs._replace(first=tuple(changed)))
                yield Mutation("role", op, f"input {place} without {field} {value!r}", apply)
        if place and places[place - 1] != one:
            swapped = [*places[: place - 1], one, places[place - 1], *places[place + 1 :]]
            apply = replaced(op, inputs=inputs._replace(first=tuple(swapped)))
            yield Mutation("role", op, f"inputs {place - 1} and {place} swapped", apply)


def terms(op: str, row: Operator) -> Iterator[Mutation]:
    """The changes of numbers and classes in the rules of a row."""
    rules: list[tuple[str, Any]] = [("count", row.rule)]
    if row.gradient:
        rules.append(("gradient", row.gradient.rule))
    if row.shape:
        rules.append(("shape", row.shape))
    for kind, rule in rules:
        function = rule.target() if isinstance(rule, Late) else rule
        if isinstance(function, types.FunctionType):
            yield from _of_code(kind, op, function)
            yield from _of_cells(kind, op, function)


def _of_code(kind: str, op: str, function: types.FunctionType) -> Iterator[Mutation]:
    """Numbers, classes and attributes that a function's code holds."""
    code = function.__code__
    for position, constant in enumerate(code.co_consts):
        if position == 0 and function.__doc__:
            continue
        for changed in _changes(constant):
            new = code.replace(co_consts=(*code.co_consts[:position], changed, *code.co_consts[position + 1 :]))

            def apply(new: types.CodeType = new) -> None:
                function.__code__ = new

            what = f"{function.__module__.rpartition('.')[2]}.{function.__name__}: {constant!r} -> {changed!r}"
            yield Mutation(kind, op, what, apply)


def _of_cells(kind: str, op: str, function: types.FunctionType) -> Iterator[Mutation]:
    """Counts that a rule made by ``each`` and its kin holds."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = cell.cell_contents
        if not (isinstance(value, tuple) and hasattr(value, "mac") and any(value)):
            continue
        number = next(i for i, n in enumerate(value) if n)
        doubled = value._replace(**{value._fields[number]: value[number] + 1})
        other = value._fields[(number + 1) % len(value)]
        moved = value._replace(**{value._fields[number]: 0, other: getattr(value, other) + value[number]})
        for changed in (doubled, moved):

            def apply(cell: Any = cell, changed: Any = changed) -> None:
                cell.cell_contents = changed

            yield Mutation(kind, op, f"{name}: {changed}", apply)


#: A class of operations -> another one.
_CLASSES = {"mac": "mul", "add": "mul", "mul": "add", "div": "mul", "cmp": "bit", "bit": "cmp", "exp": "log"}


def _changes(constant: Any) -> Iterator[Any]:
    """What a constant of a rule's code could be instead."""
    if isinstance(constant, bool) or constant is None:
        return
    if isinstance(constant, int):
        yield constant + 1
    elif isinstance(constant, tuple) and constant:  # keywords of Counts
        other = _CLASSES.get(constant[0])
        if other is not None and other not in constant:
            yield (other, *constant[1:])


#: The changes that showed how little was tested, each by name.
NAMED = (
    *(("RandomNormalLike", "not random"), ("Bernoulli", "not random"), ("Pad", "carries some")),
    *(("Attention", "input 0 without factor True"), ("Sqrt", "not in place")),
    ("TopK", "input 1 without role 'setting'"),
)


def mutations(number: int | None, seed: int = 0) -> list[Mutation]:
    """So many mutations, the named ones among them; all for None. Each function is changed once, whoever shares it."""
    every = [m for op, row in ROWS.items() for m in (*facts(op, row), *terms(op, row))]
    unique = list({(m.kind, m.what if "->" in m.what else (m.op, m.what)): m for m in every}.values())
    if number is None:
        return unique
    named = [m for m in unique if (m.op, m.what) in NAMED]
    others = [m for m in unique if (m.op, m.what) not in NAMED]
    return [*named, *random.Random(seed).sample(others, min(len(others), max(number - len(named), 0)))]


def source_mutations(number: int, seed: int, path: Path) -> list[SourceMutation]:
    """So many faults in the functions that tests reach."""
    reached = [test for test in read(path) if "test_mutate" not in test.test]  # it runs this file
    tests: dict[str, list[Reached]] = {}
    for test in reached:
        for name in test.functions:
            tests.setdefault(name, []).append(test)
    drawn = faults(number, seed, reached)
    return [SourceMutation(one, nearest(one.path, tests[f"{one.path}:{one.function}"])) for one in drawn]


def _say(text: str) -> None:
    print(text, flush=True)


#: Seconds after which the tests of one mutation are ended: it made one of them hang, and is noticed.
HANGS = 900


class Runs:
    """A plugin of pytest's that runs the collected tests once for each mutation."""

    def __init__(
        self, chosen: Sequence[AnyMutation], processes: int, passing: bool, say: Callable[[str], None] = _say
    ) -> None:
        self.chosen = chosen
        self.processes = processes
        self.say = say
        #: Whether the tests are known to pass without a change.
        self.passing = passing
        self.survivors: list[AnyMutation] = []
        self.ran = False
        self._failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork for each mutation."""
        self.ran = True
        session.items = [item for item in session.items if "test_mutate" not in item.nodeid]  # it runs this file
        if not self.passing:
            self._leave_out_failing(session)
        running: dict[int, AnyMutation] = {}
        started, done = time.monotonic(), 0
        waiting = list(reversed(self.chosen))
        while waiting or running:
            while waiting and len(running) < self.processes:
                mutation = waiting.pop()
                child = os.fork()
                if not child:
                    os._exit(self._child(session, mutation))
                running[child] = mutation
            child, status = os.wait()
            mutation = running.pop(child)
            done += 1
            if status == 0:
                self.survivors.append(mutation)
                self.say(f"survived: {mutation}")
            if done % 10 == 0:
                self.say(f"{done} of {len(self.chosen)}, {time.monotonic() - started:.0f} s")
        return True

    def _leave_out_failing(self, session: pytest.Session) -> None:
        """Take out what fails without any change: it would fail with every change as well."""
        concerned = {id(item): item for mutation in self.chosen for item in mutation.tests(session.items)}
        items = list(concerned.values())
        pipes = []
        for share in range(self.processes):
            reading, writing = os.pipe()
            if not os.fork():
                session.config.pluginmanager.unregister(name="terminalreporter")
                self._run(items[share :: self.processes])
                os.write(writing, "\n".join(self._failed).encode()[:60_000])
                os._exit(0)
            os.close(writing)
            pipes.append(os.fdopen(reading, encoding="utf-8"))
        failing = {nodeid for pipe in pipes for nodeid in pipe.read().split("\n")} - {""}
        for pipe in pipes:
            pipe.close()
            os.wait()
        if failing:
            self.say(f"{len(failing)} tests fail without any change and are left out: {sorted(failing)[0]} ...")
        session.items = [item for item in session.items if item.nodeid not in failing]

    @staticmethod
    def _run(items: list[pytest.Item], until: Callable[[], bool] = lambda: False) -> None:
        """Run tests one after the other."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if until():
                return

    def _child(self, session: pytest.Session, mutation: AnyMutation) -> int:
        """0 when all tests pass."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        items = mutation.tests(session.items)
        signal.alarm(HANGS)
        try:
            mutation.apply()
        except RuntimeError as error:
            self.say(f"not made: {mutation}: {error}")
            return 0
        self._run(items, lambda: bool(self._failed))
        return int(bool(self._failed))


#: As in pyproject.toml, so that the tests have the same names.
_COLLECTING = "--import-mode=importlib --doctest-modules"


def survivors(
    chosen: Sequence[AnyMutation], processes: int, passing: bool, say: Callable[[str], None] = _say
) -> list[AnyMutation]:
    """The mutations that no test notices."""
    files = sorted({path for mutation in chosen for path in mutation.files()})
    runs = Runs(chosen, processes, passing, say)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-o", f"addopts={_COLLECTING}"]
    status = pytest.main([*options, *files], plugins=[runs])
    if not runs.ran:
        raise RuntimeError(f"the tests were not collected: {status!r}")
    return runs.survivors


def main() -> int:
    """Report survivors; 1 when they are 2 % or more."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", "--number", type=int, default=400, help="how many mutations (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--passing", action="store_true", help="the tests pass as they are: do not look first")
    parser.add_argument("--only", default="", help="a kind of mutation, or part of an operator's name")
    parser.add_argument("--sources", type=Path, help="faults in functions; FILE says which tests reach them")
    given = parser.parse_args()
    os.chdir(ROOT)
    chosen: Sequence[AnyMutation]
    if given.sources:
        chosen = source_mutations(given.number, given.seed, given.sources)
    elif given.only:
        every = [m for m in mutations(None) if given.only in (m.kind, m.op) or given.only in m.op]
        chosen = every[: given.number or None]
    else:
        chosen = mutations(given.number or None, given.seed)
    left = survivors(chosen, given.processes, given.passing)
    print(f"{len(left)} of {len(chosen)} mutations survived: {100 * len(left) / max(len(chosen), 1):.1f} %")
    return int(50 * len(left) >= len(chosen))


if __name__ == "__main__":
    sys.exit(main())
