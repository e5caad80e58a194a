"""Contents of containers and plain objects, remembered so that they can be put back."""

from __future__ import annotations

import functools
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.containers import ATOMS, CLOSED
from flopwise.formats.torch.kinds import Namespace

#: Values without an inside that a program could change.
PLAIN = frozenset(ATOMS)

#: How far from a module its containers are looked into, and how many entries of one.
_DEPTH, ENTRIES = 6, 10_000

_EMPTY = object()

#: Containers of elements; what their subclasses make of operators is code of somebody else's.
_CONTAINERS = (list, deque, bytearray, set, tuple, frozenset)


class Contents:
    """The contents of the lists, dicts, sets, generators and plain objects that a module holds beside its tensors and
    modules.
    """

    def __init__(self) -> None:
        #: Tensors inside that are neither parameters nor buffers.
        self.tensors: list[TorchTensor] = []
        #: Functions inside, which are not looked into, and classes of the objects.
        self.code: list[Any] = []
        self._seen: set[int] = set()
        self._restores: list[Callable[[], None]] = []

    def add(self, value: object, depth: int = 0) -> None:
        """Remember what is in a value, and in what is in it."""
        if value.__class__ in PLAIN or depth > _DEPTH or id(value) in self._seen:
            return
        if isinstance(value, (FunctionType, MethodType, functools.partial)):
            self.code.append(value)
        if isinstance(value, CLOSED):
            return
        self._seen.add(id(value))
        if isinstance(value, TorchTensor):
            self.tensors.append(value)
            return
        self.code.append(type(value))
        restores, parts = inside(value)
        self._restores += restores
        if len(parts) <= ENTRIES:
            for part in parts:
                self.add(part, depth + 1)

    def restore(self) -> None:
        """Put back what was there."""
        for restore in self._restores:
            restore()


def inside(value: Any) -> tuple[list[Callable[[], None]], list[Any]]:
    """Functions that put back the contents of a container, a generator or a plain object, and those contents.

    No code of the object's class runs.
    """
    kind = type(value)
    restores: list[Callable[[], None]] = []
    parts: list[Any] = []
    if issubclass(kind, dict):
        restores.append(_entries(value))
        parts += dict.values(value)
    elif issubclass(kind, (list, deque, bytearray, set)):
        restores.append(_elements(value))
        parts.extend(_iterated(value) if issubclass(kind, (list, deque)) else ())  # "+=" asks the value's class first
    elif issubclass(kind, (tuple, frozenset)):
        parts += [part for part in _iterated(value) if part.__class__ not in PLAIN]
    else:
        restores += _state(value)
    attributes = attributes_of(value)
    if attributes is not None:
        restores.append(_entries(attributes))
        parts += attributes.values()
    for base in kind.__mro__:
        for member in vars(base).values() if "__slots__" in vars(base) else ():
            if type(member) is MemberDescriptorType:
                part = _in_slot(member, value)
                restores.append(functools.partial(_put_back_in_slot, member, value, part))
                parts.append(part)
    return restores, parts


def attributes_of(value: object) -> Namespace | None:
    """The attributes of an object; None where its class gives it none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if type(attributes) is dict else None


def put_back(held: dict[Any, object], before: dict[Any, Any]) -> None:
    """Give a dict the entries that it had."""
    same = len(held) == len(before)
    for key, value in before.items() if same else ():
        if held.get(key, _EMPTY) is not value:
            same = False
            break
    if not same:
        kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict  # not what a subclass makes of it
        kind.clear(held)
        kind.update(held, before)


def _entries(held: dict[Any, object]) -> Callable[[], None]:
    return functools.partial(put_back, held, dict.copy(held))


def _elements(held: list[Any] | deque[object] | bytearray | set[object]) -> Callable[[], None]:
    before = list(_iterated(held))
    owner = _owner(held)

    def restore() -> None:
        now = list(_iterated(held))
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            owner.clear(held)
            put: Any = owner.update if owner is set else owner.extend
            put(held, before)

    return restore


def _owner(held: object) -> Any:
    """The class of Python's own that a container is of."""
    return next(owner for owner in _CONTAINERS if isinstance(held, owner))


def _iterated(held: object) -> Iterator[object]:
    """The elements of a container, whatever its class makes of iteration."""
    elements: Iterator[Any] = _owner(held).__iter__(held)
    return elements


def _state(value: object) -> list[Callable[[], None]]:
    """Functions that put back the state of a generator of random numbers; none for anything else."""
    if isinstance(value, torch.Generator):
        restore: Any = value.set_state
        return [functools.partial(restore, value.get_state())]
    if isinstance(value, random.Random):
        return [functools.partial(value.setstate, value.getstate())]
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(value, numpy.random.Generator):
        return [functools.partial(setattr, value.bit_generator, "state", value.bit_generator.state)]
    if numpy and isinstance(value, numpy.random.RandomState):
        return [functools.partial(value.set_state, value.get_state(legacy=False))]
    return []


def _in_slot(member: MemberDescriptorType, value: object) -> object:
    try:
        return member.__get__(value)
    except AttributeError:
        return _EMPTY


def _put_back_in_slot(member: MemberDescriptorType, value: object, before: object) -> None:
    if _in_slot(member, value) is not before:
        if before is _EMPTY:
            member.__delete__(value)
        else:
            member.__set__(value, before)
