"""Tensors of a run that the program still holds when it is over: in caches, names of modules, attributes of classes.

They have no elements, and whoever met one later would fail. One whose elements are known, such as a table of positions,
gets them, as if the program had run. What holds others is put back as it was, and caches of functions are emptied.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Callable, Sequence
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.formats.torch.kinds import Namespace
from flopwise.readers.torch.runs.contents import attributes_of
from flopwise.readers.torch.runs.surroundings import Surroundings

#: What ``functools.lru_cache`` and ``functools.cache`` make of a function.
_CACHED = type(functools.lru_cache(len))

#: How far up from a tensor its holders are looked for, and up to how many of them.
_FAR, _MOST = 8, 5_000


def take_back(
    made: list[ReferenceType[TorchTensor]],
    surroundings: Surroundings,
    elements: Callable[[TorchTensor], TorchTensor | None],
    exact: bool,
) -> list[TorchTensor]:
    """The tensors of a run that the program holds and that could not be taken back.

    Args:
        made: every tensor that the run handed to the program; empty afterwards.
        surroundings: what could hold one, as it was before.
        elements: the tensor that one of the run stands for; None where its elements are not known.
        exact: whether the program would compute the very same elements.
    """
    gc.collect(0)  # what the run made is young
    if exact:
        made = _without_elements(made, elements)
    if not _alive(made):
        return []
    empty_holders(_alive(made), surroundings)
    if _alive(made):
        gc.collect()
    return _alive(_without_elements(made, elements))


def notes_of(left: list[TorchTensor]) -> list[str]:
    """Notes that say where the program holds tensors without elements."""
    return list(dict.fromkeys([note for tensor in left if (note := _note(tensor, left))]))


def _note(tensor: TorchTensor, left: list[TorchTensor]) -> str:
    place = _place(tensor, {id(left)})
    if place is None:
        return ""
    kind = f"{'×'.join(map(str, tensor.shape)) or 'scalar'} {str(tensor.dtype).removeprefix('torch.')}"
    return f"{place} holds a {kind} tensor of this run, which has no elements: set it anew before use"


def _without_elements(
    made: list[ReferenceType[TorchTensor]], elements: Callable[[TorchTensor], TorchTensor | None]
) -> list[ReferenceType[TorchTensor]]:
    """The tensors that did not become what they stand for."""
    alive = _alive(made)
    made.clear()  # PyTorch gives no elements to a tensor that has weak references
    return [ref(t) for t in reversed(alive) if not _become(t, elements(t))]  # views before what they are views of


def _alive(made: Sequence[ReferenceType[TorchTensor]]) -> list[TorchTensor]:
    return [tensor for reference in made if (tensor := reference()) is not None]


def empty_holders(tensors: list[TorchTensor], surroundings: Surroundings) -> None:
    """Put back what holds some tensors, with all that it belongs to, and empty the caches of functions that do."""
    places = surroundings.places()
    restores: list[Callable[[], None]] = []
    seen = {id(tensors), *surroundings.memory()}
    level: Sequence[object] = tensors
    for _ in range(_FAR):
        above: list[object] = []
        for holder in gc.get_referrers(*level):
            if id(holder) in seen or holder is level or isinstance(holder, FrameType):
                continue
            seen.add(id(holder))
            if type(holder) is _CACHED:
                restores.append(holder.cache_clear)
            restores += places.get(id(holder), ())
            if not (_is_namespace(holder) or isinstance(holder, (FunctionType, ModuleType, type))):
                above.append(holder)
        level = above
        if not 0 < len(level) <= _MOST:
            break
    for restore in restores:
        restore()


def _is_namespace(holder: object) -> bool:
    """True if an object is the namespace of a Python module, to which everything leads."""
    return type(holder) is dict and "__name__" in holder and "__builtins__" in holder


def _become(tensor: TorchTensor, own: TorchTensor | None) -> bool:
    """Give a tensor the elements of another, for whoever holds it; False where there are none, or C++ holds it."""
    if own is None:
        return False
    own = own.detach()
    if isinstance(tensor, nn.Parameter):
        own = nn.Parameter(own, tensor.requires_grad)
    elif tensor.requires_grad:
        own.requires_grad_()
    own.__dict__.update({name: value for name, value in vars(tensor).items() if not name.startswith("_flopwise")})
    try:
        swap: Any = torch.utils.swap_tensors
        swap(tensor, own)
    except RuntimeError:  # something in C++ holds it
        return False
    return True


def _place(thing: object, apart: set[int]) -> str | None:
    """Where the program holds something, as in ``package.module.TABLE['key']``; None where only running code does.

    Args:
        thing: what is held.
        apart: holders that are not the program's, by id.
    """
    level: list[tuple[object, ...]] = [(thing,)]  # from the holder down
    seen = {*apart, id(level)}
    for _ in range(_FAR):
        above = []
        for holder in gc.get_referrers(*[path[0] for path in level]):
            if id(holder) in seen or isinstance(holder, FrameType):
                continue
            seen.add(id(holder))
            parts = {id(part) for part in gc.get_referents(holder)}
            path = next(((holder, *path) for path in level if id(path[0]) in parts), None)
            if path is None:
                continue
            if _is_namespace(holder) or isinstance(holder, (FunctionType, type)):
                return _in_words(path)
            above.append(path)
        if not 0 < len(above) <= _MOST:
            break
        level = above
        seen |= {id(path) for path in level} | {id(level)}
    return None if level[0][0] is thing else _in_words(level[0])


def _in_words(path: tuple[Any, ...]) -> str:
    """The names and keys that lead from a holder down to a tensor."""
    top = path[0]
    if _is_namespace(top):
        words = str(top["__name__"])
    else:
        named = top if isinstance(top, (type, FunctionType)) else type(top)
        words = f"{named.__module__}.{named.__qualname__}"
    around: Any = None
    for holder, part in itertools.pairwise(path):
        if isinstance(holder, dict):
            key = next((key for key, value in holder.items() if value is part), None)
            plain = not (_is_namespace(holder) or _has_attributes(around, holder))
            words += f"[{key!r}]" if plain else f".{key}"
        elif isinstance(holder, (list, tuple)) and not isinstance(part, CellType):
            words += f"[{next((i for i, value in enumerate(holder) if value is part), '')}]"
        else:
            attributes = attributes_of(holder) or {}
            words += "".join([f".{name}" for name, value in attributes.items() if value is part][:1])
        around = holder
    return words


def _has_attributes(thing: object, attributes: Namespace) -> bool:
    """True if a dict holds the attributes of an object or a class."""
    if isinstance(thing, type):
        return any(attributes is held for held in gc.get_referents(vars(thing)))
    return attributes_of(thing) is attributes
