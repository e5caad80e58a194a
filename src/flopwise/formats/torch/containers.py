"""The tensors inside a module's arguments, however deep, and copies of the arguments for a run of their own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch import nn

#: Values without an inside that a program could change, and those that are left as they are.
ATOMS = (type(None), bool, int, float, complex, str, bytes, type, torch.dtype, torch.device)
CLOSED = (*ATOMS, nn.Module, FunctionType, MethodType, BuiltinFunctionType, ModuleType)


def tensors_inside(value: object, name: str = "") -> Iterator[tuple[str, TorchTensor]]:
    """The tensors inside a value, each once, with a dotted name below ``name``.

    Looks into lists, tuples, mappings and the attributes of plain objects, such as a cache of keys and values.
    """
    yield from _tensors_in(value, name, set())


def _tensors_in(value: object, name: str, seen: set[int]) -> Iterator[tuple[str, TorchTensor]]:
    if isinstance(value, CLOSED) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, TorchTensor):
        yield name, value
        return
    prefix = f"{name}." if name else ""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors_in(part, f"{prefix}{key}", seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for position, part in enumerate(value):
            yield from _tensors_in(part, f"{prefix}{position}", seen)
    for key, part in attributes_of(value):
        yield from _tensors_in(part, f"{prefix}{key}", seen)


def attributes_of(value: object) -> Iterator[tuple[str, object]]:
    """The attributes of a plain object, also of one that has slots for them."""
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from attributes.items()
    for kind in type(value).__mro__:
        for key, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and hasattr(value, key):
                yield key, getattr(value, key)


def copied(value: object, tensors: Mapping[int, TorchTensor]) -> Any:
    """A copy of a value and of all containers and plain objects inside it, so that a program may change them.

    Args:
        value: what to copy; modules and functions inside stay themselves, and so does what cannot be copied.
        tensors: the tensor to put in the place of each, by id.
    """
    memo: dict[int, object] = dict(tensors)
    for module in _modules_inside(value, set()):
        memo[id(module)] = module
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # an object that refuses to be copied: a stream, a lock
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)([copied(part, tensors) for part in value])
        if type(value) is dict:
            return {key: copied(part, tensors) for key, part in value.items()}
        return value


def _modules_inside(value: object, seen: set[int]) -> Iterator[nn.Module]:
    if isinstance(value, nn.Module):
        yield value
    elif not (isinstance(value, (*CLOSED, TorchTensor)) or id(value) in seen):
        seen.add(id(value))
        parts = [*value.values()] if isinstance(value, Mapping) else []
        parts += value if isinstance(value, (list, tuple, set, frozenset)) else []
        for part in (*parts, *(part for _, part in attributes_of(value))):
            yield from _modules_inside(part, seen)
