"""Kinds of values, as annotations name them: what is wrong with a value, in words."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from importlib import import_module
from itertools import islice
from typing import Any, Literal, NamedTuple

from flopwise.errors import with_article

#: Elements of a collection that are looked at.
MOST = 10_000

#: Classes whose objects users make themselves: their fields are looked at as well.
_MADE_BY_USERS = frozenset({"Operator", "Gradient", "Convention", "Options"})

#: Modules that annotations name, and that are imported for type checkers alone.
_MODULES = {"nn": "torch.nn", "torch": "torch", "numpy": "numpy"}


#: Kinds of collections, and what is asked of them: sets; sequences, which have places; all that can be gone through.
_METHODS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (Set, ("__contains__", "isdisjoint")),
    (Sequence, ("__len__", "__getitem__")),
    (Iterable, ("__iter__",)),
)


class Kind(NamedTuple):
    """The values that a parameter may have, and how an error names them."""

    #: One of them, and several, as an error calls them.
    one: str
    several: str
    #: What is wrong with a value, in words that follow "not"; "" if nothing is.
    fault: Callable[[Any], str]


class _Names(dict[str, Any]):
    """The names of a file, with those that it imports for type checkers alone: modules, and classes of flopwise."""

    def __missing__(self, name: str) -> object:
        if name in _MODULES:
            return import_module(_MODULES[name])
        for module in [module for key, module in sys.modules.items() if key.startswith("flopwise.")]:
            home = vars(module).get(name)
            if isinstance(home, type) and home.__module__ == module.__name__:
                return home
        return getattr(builtins, name, None) or type(name, (), {})  # nothing is of a class that nobody has loaded


def evaluated(text: str, names: Mapping[str, object]) -> object:
    """The object of ``typing`` that an annotation stands for in a file with these names."""
    return eval(text, {}, _Names(names))


def kind_of(annotation: object, names: Mapping[str, object]) -> Kind:
    """The kind of values that an annotation allows.

    Args:
        annotation: an object of ``typing``, or its text.
        names: what the names in a text stand for.
    """
    annotation = getattr(annotation, "__forward_arg__", annotation)  # the text of a ForwardRef
    if isinstance(annotation, str):
        annotation = evaluated(annotation, names)
    origin, inner = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        is_path = any(typing.get_origin(part) is os.PathLike for part in inner)
        return _either([_PATH if is_path and part is str else kind_of(part, names) for part in inner])
    if origin is Literal:
        return _either([Kind(repr(word), repr(word), functools.partial(_other_than, word)) for word in inner])
    if origin in _PLAIN:
        return _PLAIN[origin]
    if not isinstance(origin, type):
        return ANYTHING
    parts = [kind_of(part, names) for part in inner if part is not ...]
    if issubclass(origin, Mapping):
        return _mapping(*parts)
    if parts and issubclass(origin, Iterable) and origin.__module__ in ("builtins", "collections.abc"):
        return _collection(parts[0], next(needed for kind, needed in _METHODS if issubclass(origin, kind)))
    return _instance(origin)


def _instance(cls: type) -> Kind:
    """An object of a class."""
    library = cls.__module__.partition(".")[0]
    name = cls.__name__ if library in ("builtins", "flopwise") else f"{library} {cls.__name__}"
    fields = _fault_of_fields if cls.__name__ in _MADE_BY_USERS else _no_fault
    return Kind(
        with_article(name), f"{name}s", lambda value: fields(value) if isinstance(value, cls) else described(value)
    )


def _fault_of_fields(value: Any) -> str:
    """The first field of an object that holds what its annotation does not allow."""
    for name, kind in _fields(value.__class__).items():
        if fault := kind.fault(getattr(value, name)):
            expected = "" if "(expected" in fault else f" (expected {kind.one})"
            return f"{described(value)} with {name}={fault}{expected}"
    return ""


@functools.cache
def _fields(cls: type) -> dict[str, Kind]:
    """The kinds of the fields of a dataclass or a named tuple."""
    kinds: dict[str, Kind] = {}
    for owner in reversed(cls.__mro__):
        names = vars(sys.modules[owner.__module__])
        kinds |= {name: kind_of(annotation, names) for name, annotation in inspect.get_annotations(owner).items()}
    return kinds


def _either(kinds: Sequence[Kind]) -> Kind:
    """One of several kinds."""
    one, several = (_words(dict.fromkeys(words)) for words in zip(*((k.one, k.several) for k in kinds), strict=True))

    def fault(value: object) -> str:
        faults = [kind.fault(value) for kind in kinds]
        return "" if "" in faults else max(faults, key=len)  # the longest says what is wrong inside

    return Kind(one, several, fault)


def _words(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _mapping(key: Kind | None = None, value: Kind | None = None) -> Kind:
    """A mapping."""
    if key is None or value is None:
        key = value = ANYTHING
    words = "" if key is value is ANYTHING else f" from {key.several} to {value.several}"

    def fault(mapping: object) -> str:
        if not isinstance(mapping, Mapping):
            return described(mapping)
        pairs = islice(mapping.items(), MOST)
        return _first_fault(mapping, (fault for k, v in pairs for fault in (key.fault(k), value.fault(v))))

    return Kind(f"a mapping{words}", "mappings", fault)


def _collection(member: Kind, needed: tuple[str, ...]) -> Kind:
    """A collection that is no text, and has some methods."""

    def fault(value: Any) -> str:
        if isinstance(value, (str, bytes, Mapping)) or not all(hasattr(value, name) for name in needed):
            return described(value)
        try:
            members = (
                list(islice(value, MOST)) if hasattr(value, "__len__") else []
            )  # others are gone through only once
        except TypeError:  # an array without axes
            return described(value)
        return _first_fault(value, map(member.fault, members))

    name = "set" if needed == _METHODS[0][1] else "sequence"
    return Kind(f"a {name} of {member.several}", f"{name}s", fault)


def _first_fault(collection: object, faults: Iterable[str]) -> str:
    """The first fault among the members of a collection."""
    return next((f"{described(collection)} with {fault}" for fault in faults if fault), "")


def described(value: object) -> str:
    """A value in an error: plain ones as they are written, others by their type."""
    if value is None or type(value) in (bool, float, complex, str, bytes):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:36]} ..."
    if type(value) is int and abs(value) < 10**20:
        return str(value)
    return with_article(type(value).__name__)


def _no_fault(value: object) -> str:
    return ""


def _unless(right: bool, value: object) -> str:
    return "" if right else described(value)


def _other_than(word: object, value: object) -> str:
    return _unless(isinstance(value, str) and value == word, value)


def _no_whole_number(value: Any) -> str:
    try:
        operator.index(value)
    except Exception:  # tensors raise what they like
        return described(value)
    return _unless(not isinstance(value, bool), value)


def _no_number(value: Any) -> str:
    try:
        right = hasattr(type(value), "__float__") and math.isfinite(value)
    except Exception:  # as above; and whole numbers may be too large
        right = False
    return _unless(right and not isinstance(value, bool), value)


def _no_truth(value: object) -> str:
    is_numpy = type(value).__module__ == "numpy" and type(value).__name__.startswith("bool")
    return _unless(is_numpy or (isinstance(value, int) and value in (0, 1)), value)


def _no_path(value: Any) -> str:
    try:
        path = os.fspath(value)
    except TypeError:
        return described(value)
    return _unless(isinstance(path, str) and path != "" and "\0" not in path, value)


ANYTHING = Kind("anything", "values", _no_fault)
_PATH = Kind("a path", "paths", _no_path)
_PLAIN: dict[object, Kind] = {
    Any: ANYTHING,
    object: ANYTHING,
    bool: Kind("True or False", "Booleans", _no_truth),
    int: Kind("a whole number", "whole numbers", _no_whole_number),
    float: Kind("a finite number", "finite numbers", _no_number),
    str: Kind("text", "texts", lambda value: _unless(isinstance(value, str), value)),
    types.NoneType: Kind("None", "None", lambda value: _unless(value is None, value)),
    os.PathLike: _PATH,
    typing.get_origin(Callable[..., Any]): Kind(
        "a function", "functions", lambda value: _unless(callable(value), value)
    ),
    typing.TextIO: Kind("an open file", "open files", lambda value: _unless(hasattr(value, "write"), value)),
}
