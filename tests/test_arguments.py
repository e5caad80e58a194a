"""What annotations allow, and how an argument that they do not allow is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy
import pytest

import flopwise
from flopwise import conventions
from flopwise._arguments import checked
from flopwise._kinds import kind_of
from flopwise.conventions import CONVENTIONS
from flopwise.errors import InputError
from flopwise.operators.tables import ROWS

if TYPE_CHECKING:
    from flopwise.nowhere import Unloaded


@checked
def example(
    model: object,
    threads: int | None = None,
    *rest: str,
    dims: Mapping[str, int] | None = None,
    store: str | os.PathLike[str] | None = None,
    other: Unloaded | None = None,
    **more: float,
) -> tuple[Any, ...]:
    return model, threads, rest, dims, store, more


def test_right_arguments_reach_the_function() -> None:
    assert example("m") == ("m", None, (), None, None, {})
    assert example("m", 2, "a", "b", dims={"N": 1}, store=Path("s"), x=0.5) == (
        *("m", 2, ("a", "b"), {"N": 1}, Path("s")),
        {"x": 0.5},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": "2"}, "example(threads=...): expected a whole number or None, not '2'"),
        ({"threads": True}, "example(threads=...): expected a whole number or None, not True"),
        (
            {"dims": {"N": "x"}},
            "example(dims=...): expected a mapping from texts to whole numbers or None, not a dict with 'x'",
        ),
        ({"store": "a\0"}, "example(store=...): expected a path or None, not 'a\\x00'"),
        ({"other": object()}, "example(other=...): expected an Unloaded or None, not an object"),
        ({"x": float("nan")}, "example(x=...): expected a finite number, not nan"),
        ({"x": 10**400}, "example(x=...): expected a finite number, not an int"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        example("m", **arguments)
    assert str(error.value) == message
    with pytest.raises(InputError, match=r"example\(\*=...\): expected text, not 3"):
        example("m", 1, 3)  # type: ignore[arg-type]


def test_fields_of_objects_that_users_make_are_arguments_too() -> None:
    """What is swallowed is dangerous: ``trust_code="no"`` is true."""
    options: Any = flopwise.TorchOptions(trust_code="no")  # type: ignore[arg-type]
    with pytest.raises(InputError) as error:
        flopwise.profile("m.onnx", options=options)
    assert str(error.value) == (
        "profile(options=...): expected an Options or None, "
        "not a TorchOptions with trust_code='no' (expected True or False)"
    )
    rules: Any = {"Conv": flopwise.Operator(lambda node: flopwise.Counts(), effects=["random"])}  # type: ignore[arg-type]
    with pytest.raises(InputError, match="an Operator with effects=a list"):
        flopwise.profile("m.onnx", rules=rules)


def test_all_rows_and_conventions_are_allowed() -> None:
    row, convention = kind_of(flopwise.Operator, {}), kind_of(flopwise.Convention, {})
    assert [op for op, one in ROWS.items() if row.fault(one)] == []
    assert [name for name in CONVENTIONS if convention.fault(conventions.get(name))] == []


def test_python_itself_says_what_no_parameter_is() -> None:
    @checked
    def plain(model: object) -> None: ...

    with pytest.raises(TypeError, match="unexpected keyword argument 'x'"):
        plain("m", x=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (int, [0, -1, numpy.int64(3)], [True, 1.0, "1", None, numpy.zeros(2)]),
        (float, [0, 0.5, numpy.float32(1)], [True, "1", float("inf"), 1j, numpy.zeros(2)]),
        (bool, [True, 0, 1, numpy.True_], [2, "yes", None, 0.0]),
        (str, ["", "x"], [b"x", 1, None]),
        ("str | os.PathLike[str]", ["x", Path("x")], ["", "\0", b"x", 3]),
        (Sequence[int], [[1], (), numpy.arange(3)], ["12", [None], {1: 2}, {1}, iter([1]), numpy.array(3)]),
        (Iterable[str], [["x"], {"x"}, iter("x")], ["x", [1], 5]),
        (tuple[int, ...], [(1, 2), [3]], [3, ("x",)]),
        (Mapping[type, Callable[..., Any]], [{int: print}], [{"int": print}, {int: 5}]),
        (Callable[[str], None], [print, lambda step: None], ["print", None]),
        (Literal["a", "b"], ["a"], ["c", 1, None]),
        (frozenset[str], [{"a"}, frozenset()], [["a"], "a", {1}]),
    ],
)
def test_kinds(annotation: Any, right: list[Any], wrong: list[Any]) -> None:
    kind = kind_of(annotation, {"os": os})
    assert [value for value in right if kind.fault(value)] == []
    assert [value for value in wrong if not kind.fault(value)] == []


def test_an_argument_that_is_the_default_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a call which names a model alone costs next to nothing."""
    evaluated: list[str] = []
    monkeypatch.setattr("flopwise._arguments.evaluated", lambda text, names: evaluated.append(text) or object)

    @checked
    def many(model: object, threads: int = 1, dims: Mapping[str, int] | None = None) -> None: ...

    for _ in range(3):
        many("m", threads=1, dims=None)
    assert evaluated == ["object"]
