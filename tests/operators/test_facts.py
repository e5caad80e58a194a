"""The facts of every row beside its formula, in a table to be read: whoever changes one changes a line here.

The lines of ``facts.txt`` are ``operator | claim | inputs | other facts``. An input is its role and what else is said
of it; inputs that are data and nothing else are "·"; behind "..." come those that repeat. ``python -m
tests.operators.test_facts`` writes the table anew, to be read before it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flopwise.operators.inputs import DATA, Input
from flopwise.operators.late import Late
from flopwise.operators.operator import Operator
from flopwise.operators.shape import Typed
from flopwise.operators.tables import ROWS

PAGE = Path(__file__).with_name("facts.txt")


def input_of(one: Input) -> str:
    """One input in words."""
    if one == DATA:
        return "·"
    words = [] if one.role == "data" else [one.role]
    words += ["factor"] * one.factor + ["wide bias"] * one.wide_bias + ["trained"] * one.trained
    if one.of >= 0:
        words.append(f"of {one.of}")
    if one.axis:
        words.append(f"axis {one.axis}")
    if one.weight:
        words.append(f"weight {one.weight.layout} {one.weight.transposed}".strip())
    if one.inside:
        words.append(f"as {one.inside}")
    if one.packed:
        words.append("packed")
    return " ".join(words)


def name_of(function: Callable[..., Any]) -> str:
    """What a rule is called."""
    if isinstance(function, Late):
        return function.name
    if isinstance(function, Typed):
        return name_of(function.rule)
    return function.__qualname__.replace(".<locals>", "").replace(".<lambda>", "")


def others(row: Operator) -> Iterator[str]:
    """The facts of a row that are neither claim nor inputs."""
    if row.view:
        yield f"view {name_of(row.view)}"
    if row.in_place:
        yield "in place"
    if row.carries:
        yield f"carries {row.carries}"
    yield from sorted(row.effects)
    if row.gradient:
        yield f"gradient {name_of(row.gradient.rule)} keeps {name_of(row.gradient.keeps)}"
        if row.gradient.from_result:
            yield "gradient from its result"
    if row.needed:
        yield f"needed {name_of(row.needed)}"
    if row.shape:
        yield f"shape {name_of(row.shape)}"
    if row.value:
        needs = "" if row.value.needs == "all" else f" if {row.value.needs} are known"
        yield f"{name_of(row.value.rule)}{needs}"
    if row.dtype:
        yield f"type {name_of(row.dtype) if callable(row.dtype) else row.dtype}"


def line(op: str, row: Operator) -> str:
    """The line of an operator."""
    inputs = [", ".join(map(input_of, row.inputs.first))]
    if row.inputs.repeated:
        inputs.append("... " + ", ".join(map(input_of, row.inputs.repeated)))
    return " | ".join((op, row.claim, " ".join(filter(None, inputs)), ", ".join(others(row)))).rstrip(" |")


LINES = {text.partition(" | ")[0]: text for text in PAGE.read_text("utf-8").splitlines()}


def test_rows() -> None:
    assert {op: line(op, row) for op, row in ROWS.items()} == LINES


if __name__ == "__main__":
    PAGE.write_text("".join(f"{line(op, row)}\n" for op, row in ROWS.items()), "utf-8")
