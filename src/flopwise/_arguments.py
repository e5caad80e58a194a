"""Arguments of public functions: annotations say what each may be, and are checked where a function is called.

    @checked
    def measured(threads: int | None = None): ...

    measured("2")  # InputError: measured(threads=...): expected a whole number or None, not '2'

An annotation is read when its parameter is first given something else than its default: a call that names a model alone
costs next to nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

from flopwise._kinds import ANYTHING, Kind, evaluated, kind_of
from flopwise.errors import InputError

#: Arguments of a call by name.
Arguments: TypeAlias = "dict[str, Any]"

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R], name: str = "") -> Callable[P, R]:
    """The function, which raises InputError for arguments that their annotations do not allow.

    Args:
        function: a public function, or a method of a public class.
        name: what its users call it; "" for its own name.
    """
    plain = typing.cast(types.FunctionType, function)
    positional = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    last = plain.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(last) :], last, strict=True)) | (plain.__kwdefaults__ or {})
    kinds: dict[str, Kind] = {}

    def check(parameter: str, value: object, args: Sequence[object]) -> None:
        if parameter in defaults and value is defaults[parameter]:
            return
        if parameter not in kinds:
            kinds[parameter] = _kind_of_parameter(plain, parameter)
        if fault := kinds[parameter].fault(value):
            called = name or _called(plain, args)
            raise InputError(f"{called}({parameter}=...): expected {kinds[parameter].one}, not {fault}")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for parameter, value in zip(positional, args, strict=False):
            check(parameter, value, args)
        for value in args[len(positional) :]:
            check("*", value, args)
        for parameter, value in kwargs.items():
            check(parameter, value, args)
        return function(*args, **kwargs)

    return call


def _called(function: types.FunctionType, args: Sequence[object]) -> str:
    """A function as its users call it; what makes an object by the name of its class."""
    *packages, module = function.__module__.split(".")
    name = function.__qualname__ if function.__name__ != "__init__" else type(args[0]).__name__
    return f"{module}.{name}" if module == "zoo" or "compat" in packages else name


def _kind_of_parameter(function: types.FunctionType, name: str) -> Kind:
    """The kind of values that a parameter may have; "*" stands for further positional arguments."""
    parameters = inspect.signature(function).parameters
    rest = inspect.Parameter.VAR_POSITIONAL if name == "*" else inspect.Parameter.VAR_KEYWORD
    parameter = parameters.get(name) or next((p for p in parameters.values() if p.kind == rest), None)
    if parameter is None or parameter.annotation is parameter.empty:
        return ANYTHING  # Python itself says that there is no such parameter
    text = parameter.annotation.removeprefix("Unpack[")
    annotation = evaluated(text[: len(text) - (text != parameter.annotation)], function.__globals__)
    if typing.is_typeddict(annotation):
        annotation = typing.get_type_hints(annotation).get(name, Any)
    return kind_of(annotation, function.__globals__)


def documented(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """The text of a function's docstring, and the description of each argument in its ``Args``."""
    text, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", rest.partition("\n\n")[0], re.MULTILINE)
    return text.strip(), {name: " ".join(about.split()) for name, about in entries}


def annotated(function: Callable[..., object], parameter: str) -> object:
    """The annotation of a parameter, as an object of ``typing``."""
    plain = typing.cast(types.FunctionType, inspect.unwrap(function))
    return evaluated(str(inspect.signature(plain).parameters[parameter].annotation), plain.__globals__)
