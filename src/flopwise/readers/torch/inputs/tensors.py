"""What a PyTorch module is called with: tensors made from shapes, or as the caller gave them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.errors import InputError
from flopwise.graph import Tensor
from flopwise.readers.inputs import FORM, InputSpec, parse
from flopwise.readers.torch.capture.packed import shape_of
from flopwise.readers.torch.capture.tensors import DTYPES

_BY_NAME = {name: dtype for dtype, name in reversed(DTYPES.items())}

#: Parameters of forward() that hold whole numbers: positions in a table, and flags of what is padding.
WHOLE = [
    "input_ids",
    "decoder_input_ids",
    "token_type_ids",
    "position_ids",
    "attention_mask",
    "decoder_attention_mask",
    "labels",
    "ids",
    "tokens",
    "input_tokens",
    "pixel_attention_mask",
    "bbox",
    "idx",
    "indices",
    "token_ids",
]

#: Those that are 1 where there is something.
_ONES = ("mask",)


@dataclass(frozen=True)
class Given:
    """The arguments of a call, and our tensor for each tensor among them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: dict[int, Tensor] = field(default_factory=dict)
    #: Inputs of which only the shape was given, by id: their elements are made up when they are needed.
    made: frozenset[int] = frozenset()

    @property
    def listed(self) -> tuple[Tensor, ...]:
        """Our tensors, in order."""
        return tuple(self.tensors.values())


def parameters_of(model: nn.Module) -> list[str]:
    """Names of the parameters of forward()."""
    try:
        found = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def settle(model: nn.Module, inputs: Any, dims: Mapping[str, int] | None, batch_size: int | None) -> Given:
    """The arguments of the call that is counted.

    Args:
        model: the module.
        inputs: a tensor, a shape, a sequence of them (positional arguments), a mapping (keyword arguments), a pair of a
            sequence and a mapping, or texts of the form ``name:dtype:shape[:data]``. None: made from the
            configuration of a Hugging Face model.
        dims: values of names that stand for sizes in shapes.
        batch_size: the first dimension of every input.

    Raises:
        InputError: nothing was given where something is needed, or it is none of these.
    """
    names = parameters_of(model)
    making = _Making(model, dims or {}, batch_size)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if inputs is None:
        from flopwise.readers.torch.inputs.configured import configured

        sizes = {**(dims or {}), **({"batch": batch_size} if batch_size is not None else {})}
        found = configured(model, names, sizes)
        if found is None:
            if _needed(model):
                raise InputError(_missing(model))
        else:
            kwargs = {name: making.one(name, shape) for name, shape in found.items()}
    elif isinstance(inputs, str) or _are_texts(inputs):
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        for position, text in enumerate(texts):
            name, value = making.text(text, names, position)
            if name is None:
                args = (*args, value)
            else:
                kwargs[name] = value
        args, kwargs = _positional(model, names, args, kwargs)
    elif isinstance(inputs, Mapping):
        kwargs = {name: making.one(name, value) for name, value in inputs.items()}
    elif _is_pair(inputs):
        args = tuple([making.one(_at(names, i), v) for i, v in enumerate(inputs[0])])
        kwargs = {name: making.one(name, value) for name, value in inputs[1].items()}
    elif isinstance(inputs, TorchTensor) or _is_shape(inputs):
        args = (making.one(_at(names, 0), inputs),)
    elif isinstance(inputs, Sequence):
        args = tuple([making.one(_at(names, i), v) for i, v in enumerate(inputs)])
    else:
        raise InputError(f"cannot understand inputs of type {type(inputs).__name__}; give shapes, tensors, or {FORM}")
    tensors = {id(t): _ours(t, name) for name, t in _named(names, args, kwargs)}
    return Given(args, kwargs, tensors, frozenset(making.made))


def _ours(tensor: TorchTensor, name: str) -> Tensor:
    return Tensor(name, shape_of(tensor), DTYPES.get(tensor.dtype), "input", grad=tensor.requires_grad)


def _named(names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, TorchTensor]]:
    for position, value in enumerate(args):
        yield from _inside(_at(names, position), value)
    for name, value in kwargs.items():
        yield from _inside(name, value)


def _inside(name: str, value: Any) -> Iterator[tuple[str, TorchTensor]]:
    if isinstance(value, TorchTensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _inside(f"{name}.{key}", part)
    elif isinstance(value, (list, tuple)):
        for position, part in enumerate(value):
            yield from _inside(f"{name}.{position}", part)


def _at(names: Sequence[str], position: int) -> str:
    return names[position] if position < len(names) else f"input{position}"


def _needed(model: nn.Module) -> list[str]:
    """Parameters of forward() without a default."""
    try:
        found = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _missing(model: nn.Module) -> str:
    names = _needed(model)
    first = names[0] if names else "x"
    listed = ", ".join(repr(n) for n in names)
    return (
        f"{type(model).__name__} needs the shape of {'its input' if len(names) == 1 else 'its inputs'} {listed}: "
        f"give -i {first}:f32:1x3x224x224, or inputs={{{first!r}: (1, 3, 224, 224)}}"
    )


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list, torch.Size)) and bool(value) and all(type(v) in (int, str) for v in value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(v, str) for v in value)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[1], Mapping)
        and isinstance(value[0], (list, tuple))
        and not _is_shape(value[0])
    )


def _positional(
    model: nn.Module, names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Named arguments as positional ones where they are the first: some tools and hooks see no others."""
    ordered = list(args)
    left = dict(kwargs)
    for name in names[len(args) :]:
        if name not in left:
            break
        ordered.append(left.pop(name))
    return tuple(ordered), left


class _Making:
    """Tensors from what the caller says of them."""

    def __init__(self, model: nn.Module, dims: Mapping[str, int], batch: int | None) -> None:
        self._dims = dims
        self._batch = batch
        self._dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        if self._dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            self._dtype = torch.float32
        self.made: set[int] = set()

    def one(self, name: str, value: Any) -> Any:
        """The argument that a value stands for."""
        if isinstance(value, TorchTensor):
            return value
        if isinstance(value, InputSpec):
            return self._from(value)
        if isinstance(value, numpy.ndarray):
            return torch.from_numpy(value.copy())
        if isinstance(value, str):
            return self._from(parse(value if value.startswith(f"{name}:") else f"{name}:{value}", [name]))
        if _is_shape(value):
            return self._tensor(name, tuple(value), None)
        if isinstance(value, Mapping):
            return {key: self.one(key, part) for key, part in value.items()}
        if isinstance(value, (list, tuple)) and value:
            return type(value)([self.one(name, part) for part in value])
        return value

    def text(self, text: str, names: Sequence[str], position: int) -> tuple[str | None, Any]:
        """The name that a text gives, None when it gives none, and the argument."""
        named = any(text.startswith(f"{name}:") for name in names)
        if named:
            spec = parse(text, names)
            return spec.name, self._from(spec)
        head = text.partition(":")[0]
        if head != text and head.isidentifier() and names and not _looks_like_input(head):
            raise InputError(
                f"no input is named as in {text!r}; the inputs are {', '.join(map(repr, names))}; write {FORM}"
            )
        spec = parse(text, [_at(names, position)])
        return None, self._from(spec)

    def _from(self, spec: InputSpec) -> Any:
        if spec.value is not None:
            wanted = _BY_NAME.get(spec.dtype or "")
            tensor = torch.as_tensor(numpy.asarray(spec.value))
            return tensor.to(wanted) if wanted else tensor.to(self._default(spec.name, tensor))
        return self._tensor(spec.name, spec.shape, spec.dtype)

    def _default(self, name: str, tensor: TorchTensor) -> torch.dtype:
        return self._dtype if tensor.is_floating_point() else tensor.dtype

    def _tensor(self, name: str, shape: Sequence[int | str], dtype: str | None) -> TorchTensor:
        sizes = [self._size(d, name) for d in shape]
        if self._batch is not None and sizes:
            sizes[0] = self._batch
        if any(size < 0 for size in sizes):
            raise InputError(f"input {name!r}: {'x'.join(map(str, sizes))} has a negative size")
        if dtype is not None and dtype not in _BY_NAME:
            raise InputError(f"input {name!r}: PyTorch has no element type {dtype}")
        kind = _BY_NAME[dtype] if dtype else torch.int64 if name in WHOLE else self._dtype
        with torch.device("meta"):
            tensor = torch.empty(sizes, dtype=kind)
        self.made.add(id(tensor))
        return tensor

    def _size(self, dim: int | str, name: str) -> int:
        if isinstance(dim, int):
            return dim
        if dim not in self._dims:
            raise InputError(f"input {name!r}: {dim!r} has no value; give --dim {dim}=NUMBER")
        return self._dims[dim]


def _looks_like_input(head: str) -> bool:
    from flopwise.graph.dtypes import ALIASES, BITS

    return head.lower() in BITS or head.lower() in ALIASES or ("x" in head and head.replace("x", "").isdigit())


def filled(tensor: TorchTensor, name: str) -> TorchTensor:
    """Elements for an input of which only the shape is known: ones for masks, zeros for whole numbers, else chance."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return torch.rand(tensor.shape, dtype=torch.float32, generator=torch.Generator().manual_seed(0)).to(
            tensor.dtype
        )
    if any(word in name for word in _ONES):
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    return torch.zeros(tensor.shape, dtype=tensor.dtype)
