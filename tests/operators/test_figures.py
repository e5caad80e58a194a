"""Figures of rules where one term more or less shows: every optional input given and left out, extents that differ.

Other tests hold exact rules to what plain definitions execute, and bounds from below. The lines of ``figures.txt`` hold
what those cannot: bounds to the digit, and inputs that an operator has in few models. Their figures follow from the
formula beside the rule; a line is ``operator | inputs | outputs | attributes | figures``, of a gradient ``gradient of
operator for inputs``. "()" is a scalar, "-" an input that is left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.operators.nodes import gradient_of

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count

LINES = Path(__file__).with_name("figures.txt").read_text("utf-8").splitlines()
_FORM = re.compile(r"(?:gradient of )?(?P<op>\S+)(?: for (?P<wanted>[\d,]+))?(?: version (?P<version>\d+))?")


def tensors(prefix: str, text: str) -> tuple[Tensor | None, ...]:
    """Tensors of a line, such as "3x4 - ():uint8"."""
    made: list[Tensor | None] = []
    for place, word in enumerate(text.split()):
        shape, _, dtype = word.partition(":")
        dims = () if shape == "()" else tuple(map(int, shape.split("x"))) if shape != "-" else None
        made.append(None if dims is None else Tensor(f"{prefix}{place}", dims, dtype or "float32"))
    return tuple(made)


def figures(text: str) -> Counts:
    """Counts of a line, such as "2 mac, 1 add"."""
    parts = [] if text == "nothing" else [part.split() for part in text.split(", ")]
    return Counts(**{name: int(number) for number, name in parts})


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.partition(" | ")[0].replace(" ", "_"))
def test_figures(line: str) -> None:
    what, inputs, outputs, attrs, expected = line.split(" | ")
    form = _FORM.fullmatch(what)
    assert form is not None
    named = json.loads(attrs) if attrs != "-" else {}
    node = Node(
        form["op"], "node", tensors("x", inputs), tensors("y", outputs), named, version=int(form["version"] or 0)
    )
    if form["wanted"]:
        wanted = frozenset(map(int, form["wanted"].split(",")))
        assert gradient_of(form["op"]).rule(node, wanted) == figures(expected)
    else:
        assert count(node) == figures(expected)
