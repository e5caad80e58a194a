"""Surroundings that the code of a model can reach: names of its Python modules, attributes of its classes, variables of
its closures.

A program keeps tables and results there. Most of it belongs to others and changes for reasons of its own, so that only
what holds a tensor of a run is put back.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor as TorchTensor
from torch import nn

from flopwise.formats.torch.kinds import Namespace
from flopwise.readers.torch.runs.contents import ENTRIES, PLAIN, attributes_of, inside, put_back

#: How far from a name its containers are looked into, and how many values in all.
_DEPTH, _MOST = 4, 20_000

#: Packages whose code keeps nothing of a program's, and those of which nothing is looked into.
_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "flopwise"}
_CLOSED = frozenset({"torch", "numpy", "flopwise", "logging"})

#: What wraps a function -> its attributes that hold what it wraps.
_WRAPPERS: dict[type, tuple[str, ...]] = {
    MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    functools.cached_property: ("func",),
    type(functools.lru_cache(len)): ("__wrapped__",),
}

_CODE = frozenset({FunctionType, ModuleType, type, *_WRAPPERS})

#: Methods that run without being named, and those that make an object.
_CALLED = frozenset({"__call__", "__getitem__", "__enter__", "__exit__"})
_MAKERS = ("__new__", "__init__", "__post_init__")

_EMPTY = object()


class Surroundings:
    """Names, attributes and variables as they were, and what is in their containers.

    What code can reach is read off the names in it: a global name of a function, or an attribute of any class or Python
    module that other code names.
    """

    def __init__(self) -> None:
        #: What holds something, and what puts that back.
        self._places: list[tuple[Any, Sequence[Callable[[], None]]]] = []
        self._seen: set[int] = set()
        self._unread: list[FunctionType] = []
        #: The names in the code that was read, and attributes whose names were not in any.
        self._names = {"forward", *_CALLED}
        self._unnamed: dict[str, list[object]] = defaultdict(list)

    def add(self, code: Iterable[object], made: bool = False) -> None:
        """Remember what functions and the methods of classes can reach.

        Args:
            code: the functions and classes.
            made: whether objects of the classes are made as well.
        """
        for each in code:
            if made:
                self._follow_makers(each)
            for part in each.__mro__ if isinstance(each, type) else (each,):
                self._follow(part, 0)
        while self._unread:
            self._read(self._unread.pop())

    def add_module(self, module: nn.Module) -> None:
        """Remember what a module that is no part of the model holds, and what its methods can reach."""
        if id(module) not in self._seen:
            self._object(module, 0)
            self.add([type(module)])

    def places(self) -> dict[int, Sequence[Callable[[], None]]]:
        """The functions that put back each object that can hold a tensor, by id as the garbage collector names it."""
        return {holder: restores for held, restores in self._places for holder in _as_holders(held)}

    def memory(self) -> set[int]:
        """The objects in which all this is remembered, by id."""
        inner = [part for entry in self._places for part in (entry, entry[1], *entry[1])]
        values = [
            value for restore in inner if isinstance(restore, functools.partial) for value in gc.get_referents(restore)
        ]
        return {id(self._places), *map(id, inner), *map(id, values)} - self.places().keys()

    def _follow(self, value: Any, depth: int) -> None:
        kind = type(value)
        if (kind in PLAIN and kind is not type) or depth > _DEPTH or id(value) in self._seen:
            return
        if len(self._seen) >= _MOST:
            return
        if depth and (kind in _CODE or issubclass(kind, (type, ModuleType))):
            return  # a table of functions, most of which other models call
        if kind is FunctionType:
            self._seen.add(id(value))
            if not _is_library(value.__module__):
                self._unread.append(value)
        elif issubclass(kind, type):
            self._seen.add(id(value))
            if not (_is_library(value.__module__) or issubclass(value, Enum)):
                self._attributes(value)
                self._places.append((value, (functools.partial(_put_back_attributes, value, dict(vars(value))),)))
        elif issubclass(kind, ModuleType):
            self._seen.add(id(value))
            if not _is_library(value.__name__):
                self._attributes(value)
                self._globals(vars(value))
        elif kind in _WRAPPERS:
            self._seen.add(id(value))
            for name in _WRAPPERS[kind]:
                self._follow(getattr(value, name), depth)
        elif not (issubclass(kind, (TorchTensor, nn.Module, Enum)) or kind.__module__.partition(".")[0] in _CLOSED):
            self._object(value, depth)

    def _follow_makers(self, thing: object) -> None:
        for base in thing.__mro__ if isinstance(thing, type) else ():
            for name in _MAKERS if not _is_library(base.__module__) else ():
                self._follow(vars(base).get(name), 0)

    def _object(self, value: object, depth: int) -> None:
        kind = type(value)
        self._seen.add(id(value))
        restores, parts = inside(value)
        if restores:
            self._places.append((value, restores))
        for part in parts if len(parts) <= ENTRIES else ():
            self._follow(part, depth if kind is tuple else depth + 1)
        self._follow(kind, 0)

    def _read(self, function: FunctionType) -> None:
        cells = [(cell, _value_of(cell)) for cell in function.__closure__ or ()]
        restores = [functools.partial(_put_back_variable, cell, before) for cell, before in cells]
        for cell, before in cells:
            self._places.append((cell, restores))
            self._follow(before, 0)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._follow(value, 0)
        attributes = function.__dict__
        self._places.append((attributes, (functools.partial(put_back, attributes, dict(attributes)),)))
        for value in attributes.values():
            self._follow(value, 0)
        names = function.__globals__
        self._globals(names)
        used = _names_in(function.__code__)
        for name in sorted(used & names.keys()):
            if id(names[name]) not in self._seen:
                self._follow(names[name], 0)
                if isinstance(names[name], type):
                    self._follow_makers(names[name])
        fresh = used - self._names
        self._names |= fresh
        for name in sorted(fresh & self._unnamed.keys()):
            for value in self._unnamed.pop(name):
                self._follow(value, 0)

    def _attributes(self, owner: type | ModuleType) -> None:
        """Remember what code reaches by the attributes of a class or a Python module that it names."""
        for name, value in vars(owner).items():
            if name in self._names:
                self._follow(value, 0)
            elif type(value) in _CODE or type(value) not in PLAIN:
                self._unnamed[name].append(value)

    def _globals(self, names: Namespace) -> None:
        if id(names) not in self._seen:
            self._seen.add(id(names))
            self._places.append((names, (functools.partial(self._put_back_names, names, dict(names)),)))

    def _put_back_names(self, held: Namespace, before: Namespace) -> None:
        for name in self._names:  # others are none of the model's
            if name not in before:
                held.pop(name, None)
            elif held.get(name) is not before[name]:
                held[name] = before[name]


@functools.lru_cache(4096)
def _names_in(code: CodeType) -> frozenset[str]:
    """The names in the code of a function and of those that are written inside it, but for Python's own."""
    inner = [_names_in(constant) for constant in code.co_consts if type(constant) is CodeType]
    return frozenset([name for name in code.co_names if name[:2] != "__" or name[-2:] != "__"]).union(*inner)


def _is_library(module: object) -> bool:
    return isinstance(module, str) and _in_library(module)


@functools.lru_cache(4096)
def _in_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES and module != "__main__"


def _as_holders(held: object) -> tuple[int, ...]:
    """The objects, by id, through which the garbage collector sees what something holds."""
    if isinstance(held, type):
        return (id(held), *map(id, gc.get_referents(vars(held))))
    attributes = attributes_of(held)
    return (id(held),) if attributes is None else (id(held), id(attributes))


def _put_back_attributes(kind: type, before: Namespace) -> None:
    now = dict(vars(kind))
    for name in now.keys() - before.keys():
        type.__delattr__(kind, name)
    for name, value in before.items():
        if now.get(name, _EMPTY) is not value:
            type.__setattr__(kind, name, value)


def _value_of(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a variable without a value yet
        return _EMPTY


def _put_back_variable(cell: CellType, before: object) -> None:
    if before is _EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = before
