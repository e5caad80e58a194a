"""Arguments that an operator writes into: as its schema says, or where it has none, as PyTorch names functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor as TorchTensor

from flopwise.readers.torch.capture.tensors import flat

#: Looks up the overloads of an operator by its name ("aten::add").
schemas: Any = torch._C._jit_get_schemas_for_operator


class Target(NamedTuple):
    """An argument that an operator writes into."""

    #: Its place among the positional arguments; None where it is given by name alone.
    position: int | None
    name: str


#: The argument in which the functions of PyTorch take a tensor, or several, for their result.
OUT = Target(None, "out")

#: The first argument, which methods with a trailing underscore write into.
_FIRST = (Target(0, "input"),)


def targets_of_schemas(overloads: Iterable[Any]) -> tuple[Target, ...]:
    """The arguments that one of several overloads writes into."""
    targets: dict[Target, None] = {}
    for schema in overloads:
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write and _computes(schema):
                targets[Target(None if argument.kwarg_only else position, argument.name)] = None
    return tuple(targets)


def targets_of_operator(name: str) -> tuple[Target, ...]:
    """The arguments that an operator writes into, whichever of its overloads runs ("aten::add_")."""
    return targets_of_schemas(schemas(name))


def targets_of_function(name: str) -> tuple[Target, ...]:
    """The arguments that a function of PyTorch's writes into beside ``out``, by its bare name ("add_")."""
    targets = tuple([t for t in targets_of_operator(f"aten::{name}") if t.position is not None])
    return targets or (_FIRST if name.endswith("_") and not name.endswith("__") else ())


def written(targets: Sequence[Target], args: Sequence[object], kwargs: Mapping[str, object]) -> list[TorchTensor]:
    """The tensors that a call writes into, each once.

    Args:
        targets: the arguments that its operator writes into.
        args: what it is called with.
        kwargs: likewise.
    """
    tensors: dict[int, TorchTensor] = {}
    for position, name in (*targets, OUT):
        if position is not None and position < len(args):
            argument = args[position]
        else:
            argument = kwargs.get(name, kwargs.get("input") if name == "self" else None)
        tensors.update((id(tensor), tensor) for tensor in flat((argument,)))
    return list(tensors.values())


def _computes(schema: Any) -> bool:
    """True if an overload computes on tensors; TorchScript has others of the same names for its lists."""
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    return bool(torch._C._dispatch_has_kernel(schema.name + overload))
