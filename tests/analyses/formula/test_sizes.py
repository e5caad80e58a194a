"""Open sizes of inputs: names, sums of names, and what the user says."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.analyses.formula.subject import open_inputs
from flopwise.errors import InputError
from flopwise.formats.inputs import Declared

IMAGE = Declared("x", "float32", ("N", 3, "H", "W"))
CLOSED = Declared("x", "float32", (1, 3, 8, 8))
MASK = Declared("mask", "int64", ("N", "past + seq"))
OTHER = Declared("other", "float32", (4, 4))


@pytest.mark.parametrize(
    ("declared", "options", "symbols", "point", "shapes"),
    [
        ([IMAGE], {}, ("N", "H", "W"), {"N": 2, "H": 5, "W": 7}, {"x": (2, 3, 5, 7)}),
        ([IMAGE, OTHER], {}, ("N", "H", "W"), {"N": 2, "H": 5, "W": 7}, {"x": (2, 3, 5, 7)}),
        ([IMAGE], {"dims": {"H": 9}}, ("N", "W"), {"N": 2, "W": 7}, {"x": (2, 3, 9, 7)}),
        ([IMAGE], {"batch_size": 4}, ("H", "W"), {"H": 5, "W": 7}, {"x": (4, 3, 5, 7)}),
        ([IMAGE], {"inputs": "x:1x3xHx9"}, ("H",), {"H": 5}, {"x": (1, 3, 5, 9)}),
        ([CLOSED], {"inputs": {"x": (1, 3, "S", "S")}}, ("S",), {"S": 5}, {"x": (1, 3, 5, 5)}),
        ([MASK], {}, ("N", "past", "seq"), {"N": 2, "past": 5, "seq": 7}, {"mask": (2, 12)}),
        ([MASK], {"dims": {"past": 1}}, ("N", "seq"), {"N": 2, "seq": 7}, {"mask": (2, 8)}),
        ([MASK], {"dims": {"past + seq": 9}}, ("N",), {"N": 2}, {"mask": (2, 9)}),
        ([Declared("x", None, ("2*n//3", "a b"))], {}, ("n", "a b"), {"n": 5, "a b": 7}, {"x": (3, 7)}),
        ([Declared("x", None, ("-1", "n-", "?"))], {}, ("-1", "n-", "?"), {"-1": 5, "n-": 7, "?": 2}, {"x": (5, 7, 2)}),
        ([Declared("x", None, ("n ** 9 ** 9 ** 9",))], {}, ("n ** 9 ** 9 ** 9",), {"n ** 9 ** 9 ** 9": 2}, {"x": (2,)}),
        ([CLOSED], {}, (), {}, {}),
    ],
)
def test_open_inputs(
    declared: list[Declared],
    options: dict[str, Any],
    symbols: tuple[str, ...],
    point: dict[str, int],
    shapes: dict[str, tuple[int, ...]],
) -> None:
    opened = open_inputs(declared, **options)
    assert opened.symbols == symbols
    assert {spec.name: spec.shape for spec in opened.at(point)} == shapes


def test_hints_are_the_numbers_of_the_file() -> None:
    assert open_inputs([CLOSED], "N,3,H,8").hints == {"N": 1, "H": 8}


@pytest.mark.parametrize(
    ("declared", "options", "message"),
    [
        ([IMAGE], {"dims": {"K": 9}}, "no input has a dimension named 'K'; the symbolic dimensions are: H, N, W"),
        ([Declared("x", None, ("n", None))], {}, "name; name them, for example -i x:float32:n,S"),
        ([Declared("x", "int64", (None, None, None))], {}, "-i x:int64:N,S,C"),
        ([CLOSED], {"inputs": {"y": ("N",)}}, "no input 'y'"),
        ([CLOSED], {"inputs": {"x": ("N", 4)}}, "has 4 dimensions, but 2 are given: Nx4"),
    ],
)
def test_errors(declared: list[Declared], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        open_inputs(declared, **options)
