"""What users may write about inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from flopwise.errors import InputError
from flopwise.readers.inputs import InputSpec, given, parse

ONE = ("x",)
TWO = ("x", "ids")
COLONS = ("input:0", "input", "a:b:c", "x y")


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        # name:dtype:shape
        ("x:f32:1x3x224x224", ONE, InputSpec("x", (1, 3, 224, 224), "float32")),
        ("x:float16:1,3,8", ONE, InputSpec("x", (1, 3, 8), "float16")),
        ("ids:I64:2x7", TWO, InputSpec("ids", (2, 7), "int64")),
        ("x:bf16:4", ONE, InputSpec("x", (4,), "bfloat16")),
        # without dtype
        ("x:1x3", ONE, InputSpec("x", (1, 3))),
        ("ids:2", TWO, InputSpec("ids", (2,))),
        # a scalar
        ("x:f32:", ONE, InputSpec("x", (), "float32")),
        ("x:", ONE, InputSpec("x", ())),
        # without a name, when there is one input
        ("1x3x8x8", ONE, InputSpec("x", (1, 3, 8, 8))),
        ("5", ONE, InputSpec("x", (5,))),
        ("f16:1x3", ONE, InputSpec("x", (1, 3), "float16")),
        ("Nx3", ONE, InputSpec("x", ("N", 3))),
        # names with colons and blanks
        ("input:0:f32:1x3", COLONS, InputSpec("input:0", (1, 3), "float32")),
        ("input:f32:1x3", COLONS, InputSpec("input", (1, 3), "float32")),
        ("input:1x3", COLONS, InputSpec("input", (1, 3))),
        ("a:b:c:2x2", COLONS, InputSpec("a:b:c", (2, 2))),
        ("x y:3", COLONS, InputSpec("x y", (3,))),
        # symbols
        ("x:f32:Nx3xHxW", ONE, InputSpec("x", ("N", 3, "H", "W"), "float32")),
        ("x:batch,seq,64", ONE, InputSpec("x", ("batch", "seq", 64))),
        ("x:batch, 3", ONE, InputSpec("x", ("batch", 3))),
        # data
        ("x:i64:3:1,2,3", ONE, InputSpec("x", (3,), "int64", (1, 2, 3))),
        ("x:f32:-1:0.25", ONE, InputSpec("x", (1,), "float32", (0.25,))),
        ("x:-1:4,5,6", ONE, InputSpec("x", (3,), None, (4, 5, 6))),
        ("x:i64:2x-1:1,2,3,4", ONE, InputSpec("x", (2, 2), "int64", (1, 2, 3, 4))),
        ("x:f32::-1e3", ONE, InputSpec("x", (), "float32", (-1000.0,))),
        ("x:f32:2:inf,-2", ONE, InputSpec("x", (2,), "float32", (float("inf"), -2))),
    ],
)
def test_texts(text: str, names: tuple[str, ...], expected: InputSpec) -> None:
    assert parse(text, names) == expected
    assert given([text], names) == given(text, names) == [expected]


@pytest.mark.parametrize(
    ("text", "names", "told"),
    [
        ("y:1x3", ONE, "no input is named as in 'y:1x3'; the inputs are 'x'; write NAME:DTYPE:SHAPE"),
        ("1x3", TWO, "no input is named as in '1x3'; the inputs are 'x', 'ids'"),
        ("y:1", [f"x{i}" for i in range(10)], "'x7' and 2 more"),
        ("y:1", [], "the inputs are none"),
        ("x:f99:1x3", ONE, "unknown element type 'f99'; known: bf16, bfloat16"),
        ("x:f32:1x3:1:2", ONE, "cannot understand 'x:f32:1x3:1:2'"),
        ("x:f32", ONE, "cannot understand 'x:f32'"),
        ("x:1xx3", ONE, "'' in 'x:1xx3' is no dimension"),
        ("x:1x", ONE, "'' in 'x:1x' is no dimension"),
        ("x:1*3", ONE, "'1\\*3' in 'x:1\\*3' is no dimension"),
        ("x:1.5x3", ONE, "'1.5' in 'x:1.5x3' is no dimension"),
        ("x:-1x3", ONE, "a dimension in 'x:-1x3' is negative"),
        ("x:-2:1,2", ONE, "a dimension in 'x:-2:1,2' is negative"),
        ("x:9223372036854775808", ONE, "negative or too large"),
        ("x:" + "9" * 5000, ONE, "is no dimension"),
        ("x:\u0663x3", ONE, "'\u0663' in 'x:\u0663x3' is no dimension"),
        ("x:2:1,2,3", ONE, "'x:2:1,2,3' gives 3 values for the shape 2"),
        ("x::1,2", ONE, r"gives 2 values for the shape \(\)"),
        ("x:Nx2:1,2", ONE, "unknown element type 'Nx2'"),
        ("x:i64:Nx2:1,2", ONE, "gives 2 values for the shape Nx2"),
        ("x:2:a,b", ONE, "'a,b' in 'x:2:a,b' is no list of numbers"),
        ("x:1:" + "9" * 5000, ONE, "is no list of numbers"),
    ],
)
def test_texts_that_mean_nothing(text: str, names: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse(text, names)


class Tensor(SimpleNamespace):
    """What arrays of every framework have in common."""


@pytest.mark.parametrize(
    ("inputs", "names", "expected"),
    [
        (None, ONE, []),
        ({}, ONE, []),
        ([], ONE, []),
        ((1, 3, 8), ONE, [InputSpec("x", (1, 3, 8))]),
        ([1, 3, 8], ONE, [InputSpec("x", (1, 3, 8))]),
        (("N", 3), ONE, [InputSpec("x", ("N", 3))]),
        (("N", "C"), ONE, [InputSpec("x", ("N", "C"))]),
        ({"x": (1, 3)}, ONE, [InputSpec("x", (1, 3))]),
        ({"x": ()}, ONE, [InputSpec("x", ())]),
        ({"x": (numpy.int64(4), True)}, ONE, [InputSpec("x", (4, 1))]),
        ({"x": "f16:2x2", "ids": "ids:3"}, TWO, [InputSpec("x", (2, 2), "float16"), InputSpec("ids", (3,))]),
        ({"x": numpy.zeros((2, 3), numpy.float16)}, ONE, [InputSpec("x", (2, 3), "float16")]),
        (numpy.zeros((2, 3), bool), ONE, [InputSpec("x", (2, 3), "bool")]),
        (Tensor(shape=(4,), dtype="torch.bfloat16"), ONE, [InputSpec("x", (4,), "bfloat16")]),
        (Tensor(shape=(4,), dtype="torch.float8_e4m3fn"), ONE, [InputSpec("x", (4,), "float8e4m3fn")]),
        ([InputSpec("ids", (1,))], TWO, [InputSpec("ids", (1,))]),
        ({"x": InputSpec("x", (1,), "int8")}, ONE, [InputSpec("x", (1,), "int8")]),
        (["x:1x3", "ids:i64:7"], TWO, [InputSpec("x", (1, 3)), InputSpec("ids", (7,), "int64")]),
        (("x:1x3", "ids:7"), TWO, [InputSpec("x", (1, 3)), InputSpec("ids", (7,))]),
    ],
)
def test_python_forms(inputs: Any, names: tuple[str, ...], expected: list[InputSpec]) -> None:
    assert given(inputs, names) == expected


@pytest.mark.parametrize(
    ("inputs", "names", "told"),
    [
        ({"y": (1,)}, ONE, "the model has no input 'y'; its inputs are 'x'"),
        ([InputSpec("y", (1,))], ONE, "the model has no input 'y'"),
        (["x:1", "x:2"], TWO, "input 'x' is given twice"),
        ((1, 3), TWO, r"the model has 2 inputs \('x', 'ids'\); give a shape for each by name"),
        ((1, 3), (), r"the model has 0 inputs \(none\)"),
        ({"x": (1.5,)}, ONE, "1.5 is no dimension of input 'x'; it must be a whole number or a symbol"),
        ({"x": (-1, 3)}, ONE, "-1 is no dimension of input 'x'; it must be from 0"),
        ({"x": (1 << 63,)}, ONE, "9223372036854775808 is no dimension"),
        ({"x": (None, 3)}, ONE, "None is no dimension"),
        ({"x": 3}, ONE, "the shape of input 'x' is not a sequence: 3"),
        ({1: "1x3"}, ONE, "cannot understand '1:1x3'|no input is named"),
        ([(1, 3), (1, 3)], TWO, "cannot understand inputs="),
        (3, ONE, "cannot understand inputs=3; give a shape, or a mapping from input name to shape"),
        (Tensor(shape=(4,), dtype="quint8x"), ONE, "unknown element type 'quint8x'"),
    ],
)
def test_python_forms_that_mean_nothing(inputs: Any, names: tuple[str, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        given(inputs, names)
