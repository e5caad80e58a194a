"""What rows name and is loaded later is there, and what is there is named by a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import flopwise.operators
from flopwise.operators.late import Late
from flopwise.operators.operator import Operator
from flopwise.operators.shape import Typed
from flopwise.operators.tables import ROWS

ROOM = Path(flopwise.operators.__file__).parent


def references(row: Operator) -> Iterator[Late]:
    """What a row names."""
    gradient = row.gradient
    for part in (
        row.shape.rule if isinstance(row.shape, Typed) else row.shape,
        row.dtype,
        row.value and row.value.rule,
        *((gradient.rule, gradient.keeps, gradient.again) if gradient else ()),
    ):
        if isinstance(part, Late):
            yield part


NAMES = {one.name for row in ROWS.values() for one in references(row)}


def test_what_rows_name_are_functions() -> None:
    assert not [name for name in NAMES if not callable(Late(name).target())]


def test_what_lowerings_of_formats_name_are_functions() -> None:
    """A name that is gone would leave a shape unknown, where the operator's own rule knows it."""
    rooms = {"by": "shapes", "dtypes": "shapes", "elements": "elements"}
    named = {
        f"{rooms[kind]}.{name}"
        for path in (ROOM.parent / "formats").rglob("*.py")
        for kind, name in re.findall(r"\b(by|dtypes|elements)\(\s*\"(\w+:\w+)\"", path.read_text("utf-8"))
    }
    assert len(named) > 20
    assert not [name for name in sorted(named) if not callable(Late(name).target())]


def test_gradients_say_what_they_compute() -> None:
    formulas = {op: row.gradient.formula for op, row in ROWS.items() if row.gradient}
    assert formulas
    assert not [op for op, formula in formulas.items() if formula.strip() != formula or not formula]


@pytest.mark.parametrize("room", ["elements", "gradients", "shapes"])
def test_every_function_is_named_by_a_row_or_used_beside_one(room: str) -> None:
    sources = {path.stem: path.read_text("utf-8") for path in (ROOM / room).glob("*.py")}
    lowered = " ".join(path.read_text("utf-8") for path in (ROOM.parent / "formats").glob("*/*.py"))
    idle = []
    for stem, source in sources.items():
        for statement in ast.parse(source).body:
            if not isinstance(statement, ast.FunctionDef):
                continue
            name = statement.name
            uses = sum(text.count(name) for text in sources.values())
            if f"{room}.{stem}:{name}" not in NAMES and uses < 2 and f"{stem}:{name}" not in lowered:
                idle.append(f"{stem}:{name}")
    assert not idle
