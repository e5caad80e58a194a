"""A batch as a module is called with it: its tensors by name, a key of their shapes, its tokens."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from flopwise.errors import InputError
from flopwise.formats.inputs import FEW, Value
from flopwise.formats.torch.containers import ATOMS, attributes_of, tensors_inside
from flopwise.formats.torch.description import position_name

#: Inputs of whole numbers that are no tokens.
_NO_TOKENS = ("mask", "position", "label", "type", "target", "cu_seq", "max_")

#: Inputs with the borders of sequences in a row, and plain numbers that follow from the sizes of a batch.
BORDERS, NUMBERS = "cu_seq", ("max_seq", "max_length", "num_items")

#: Names of inputs that are remembered.
REMEMBERED = 1 << 10

#: The shape and type of a tensor, and True if it has a gradient.
_KIND = operator.attrgetter("shape", "dtype", "requires_grad")

#: Element types of masks, positions and borders.
WHOLE = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))


def called_with(batch: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments that a batch stands for: a sequence, a mapping or a pair of them; else
    the only one, which is a tensor or an object of the program's own.
    """
    if isinstance(batch, Mapping):
        return [], dict(batch)
    if type(batch) is tuple and len(batch) == 2 and type(batch[0]) in (list, tuple) and isinstance(batch[1], Mapping):
        return list(batch[0]), dict(batch[1])
    if type(batch) in (list, tuple):
        return list(batch), {}
    if isinstance(batch, ATOMS):
        raise InputError(
            f"a batch is a tensor, a sequence of arguments, a mapping, or a pair of both, not {type(batch).__name__}"
        )
    return [batch], {}


def named(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    """Each argument under the name of its parameter."""
    return [*((position_name(names, i), value) for i, value in enumerate(args)), *kwargs.items()]


def leaves(arguments: Sequence[tuple[str, Any]]) -> dict[str, Tensor]:
    """The tensors of a batch by name, in order."""
    return {name: tensor for argument, value in arguments for name, tensor in tensors_inside(value, argument)}


def replaced(value: Any, name: str, make: Callable[[str, Any], Any]) -> Any:
    """An argument with others in place of the tensors and plain values in it, as ``flopwise.read`` takes it.

    Args:
        value: the argument.
        name: its name.
        make: gives what stands in place of a tensor or value, by its name.

    Raises:
        InputError: it holds tensors in an object of another kind.
    """
    if isinstance(value, Tensor):
        return make(name, value)
    if type(value) is dict:
        return {key: replaced(part, f"{name}.{key}", make) for key, part in value.items()}
    if type(value) in (list, tuple) and any(True for _ in tensors_inside(value)):
        return type(value)([replaced(part, f"{name}.{place}", make) for place, part in enumerate(value)])
    if any(True for _ in tensors_inside(value)):
        raise InputError(f"input {name!r} holds tensors in an object of type {type(value).__name__}")
    return make(name, Value(value))


def key_of(value: Any, name: str = "") -> Hashable:
    """A key of an argument, equal where costs are: the shapes and types of its tensors, which of them have gradients,
    its plain values, and the facts that the elements of masks, positions and borders inside of it state.
    """
    if isinstance(value, Tensor):
        return (*_KIND(value), said_by(name, value)) if steers(name) else _KIND(value)
    if isinstance(value, Mapping):
        return tuple([(key, key_of(part, name if steers(name) else key)) for key, part in value.items()])
    if isinstance(value, (list, tuple)):
        return tuple([key_of(part, name) for part in value])
    if isinstance(value, ATOMS):
        return value
    if isinstance(value, numpy.ndarray):
        return value.shape, value.dtype.str, value.tobytes() if value.size <= FEW else None
    attributes = dict(attributes_of(value))
    return type(value), key_of(attributes) if attributes or hasattr(value, "__dict__") else id(value)


@functools.lru_cache(REMEMBERED)
def steers(name: str) -> bool:
    """True if the elements of an input of this name say what runs: a mask, positions, borders of sequences."""
    return "mask" in name or name.endswith("position_ids") or name.startswith(BORDERS)


def said_by(name: str, tensor: Tensor) -> Any:
    """The fact that the elements of an input state about the cost; None where they are not at hand, or are no facts.

    Of a mask whether it has holes, of positions whether several sequences lie in a row, of borders the lengths. A
    tensor on another device than the CPU is not read, because the device would have to be waited for.
    """
    if type(tensor) is not Tensor or not tensor.is_cpu or tensor.dtype not in WHOLE:
        return None
    if name.startswith(BORDERS):
        return tuple([end - start for start, end in itertools.pairwise(tensor.tolist())])
    if "mask" in name:
        return not tensor.all()
    return tensor.dim() > 0 and tensor.dtype is not torch.bool and bool((tensor.diff() != 1).any())


def saying(name: str, fact: bool, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A mask or positions of which ``said_by`` is a given fact."""
    if "mask" in name:
        tensor = torch.ones(*shape, dtype=dtype)
        tensor[..., :1] = 0 if fact else 1
        return tensor
    places = torch.arange(shape[-1], dtype=dtype)
    return (places % max(shape[-1] // 2, 1) if fact else places).expand(*shape).contiguous()


def tokens_of(tensors: Mapping[str, Tensor]) -> int | None:
    """Places of the sequences in a batch; None where no input holds tokens."""
    for name, tensor in tensors.items():
        if name.endswith("inputs_embeds") and tensor.dim() == 3:
            return tensor.shape[0] * tensor.shape[1]
        whole = tensor.dtype in (torch.int64, torch.int32, torch.int16)
        if whole and tensor.dim() in (1, 2) and not any(word in name for word in _NO_TOKENS):
            return tensor.numel() if tensor.dim() == 2 or len(tensors) == 1 or "id" in name else None
    return None


def samples_of(tensors: Mapping[str, Tensor]) -> int:
    """The size of the first axis of the first tensor that has one."""
    return next((tensor.shape[0] for tensor in tensors.values() if tensor.dim()), 1)


def counted(arguments: Sequence[tuple[str, Any]], ignored: Container[str]) -> list[tuple[str, Any]]:
    """The arguments without the numbers that change nothing in the cost."""
    return [one for one in arguments if one[0] not in ignored or not isinstance(one[1], (int, float))]


def plain(arguments: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Hashable]]:
    """The arguments without a tensor inside: other values of them are another program."""
    for name, value in arguments:
        if not any(True for _ in tensors_inside(value)) and not name.startswith(NUMBERS):
            yield name, key_of(value)
