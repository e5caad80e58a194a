"""The arguments that a PyTorch module is called with, from what the caller describes or hands over."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor as TorchTensor
from torch import nn

from flopwise.errors import InputError
from flopwise.graph import Kind, Tensor
from flopwise.readers.inputs import FORM
from flopwise.readers.torch.capture.tensors import DTYPES, shape_of
from flopwise.readers.torch.inputs.containers import copied, tensors_inside
from flopwise.readers.torch.inputs.hint import missing, needed
from flopwise.readers.torch.inputs.making import Making, filled, is_shape, position_name

#: Parameters of forward() that take the state that an earlier call returned, as the models of transformers call them.
STATES = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states")


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, and the graph tensor of each tensor among them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: dict[int, Tensor] = field(default_factory=dict)
    #: Inputs of which only the shape was given, by id: their elements are made up when they are needed.
    made: frozenset[int] = frozenset()

    @property
    def listed(self) -> tuple[Tensor, ...]:
        """The graph tensors, in order."""
        return tuple(self.tensors.values())

    def copies(self, real: bool) -> tuple[tuple[Any, ...], dict[str, Any], dict[int, tuple[TorchTensor, Tensor]]]:
        """Arguments for one run, which may change them, and each tensor among them with its graph tensor, by id.

        Args:
            real: whether the run computes with the tensors, which are copied too, and made up where only the shape is
                known.

        Raises:
            InputError: a tensor without elements was handed over, and the run needs them.
        """
        tensors = {id(t): t for _, t in tensors_inside((self.args, self.kwargs))}
        if real:
            tensors = {key: self._real(tensor) for key, tensor in tensors.items()}
        args, kwargs = copied((self.args, self.kwargs), tensors)
        return args, kwargs, {id(tensor): (tensor, self.tensors[key]) for key, tensor in tensors.items()}

    def _real(self, tensor: TorchTensor) -> TorchTensor:
        name = self.tensors[id(tensor)].name
        if id(tensor) in self.made:
            return filled(tensor, name)
        if tensor.is_meta:
            raise InputError(f"input {name!r} is a meta tensor, and the module needs its elements")
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def parameters_of(model: nn.Module) -> list[str]:
    """Names of the parameters of forward()."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def settle(model: nn.Module, inputs: Any, dims: Mapping[str, int] | None, batch_size: int | None) -> Arguments:
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
    making = Making(model, dims or {}, batch_size)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if inputs is None:
        from flopwise.readers.torch.inputs.configured import configured

        sizes = {**(dims or {}), **({"batch": batch_size} if batch_size is not None else {})}
        shapes = configured(model, names, sizes)
        if shapes is None:
            if needed(model):
                raise InputError(missing(model))
        else:
            kwargs = {name: making.one(name, shape) for name, shape in shapes.items()}
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
        args = tuple([making.one(position_name(names, i), v) for i, v in enumerate(inputs[0])])
        kwargs = {name: making.one(name, value) for name, value in inputs[1].items()}
    elif isinstance(inputs, TorchTensor) or is_shape(inputs):
        args = (making.one(position_name(names, 0), inputs),)
    elif isinstance(inputs, Sequence):
        args = tuple([making.one(position_name(names, i), v) for i, v in enumerate(inputs)])
    else:
        raise InputError(f"cannot understand inputs of type {type(inputs).__name__}; give shapes, tensors, or {FORM}")
    tensors: dict[int, Tensor] = {}
    for name, tensor in _named(names, args, kwargs):
        tensors.setdefault(id(tensor), _graph_tensor(tensor, name))
    return Arguments(args, kwargs, tensors, frozenset(making.made))


def _graph_tensor(tensor: TorchTensor, name: str) -> Tensor:
    kind: Kind = "state" if name.partition(".")[0] in STATES else "input"
    return Tensor(name, shape_of(tensor), DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)


def _named(names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, TorchTensor]]:
    for position, value in enumerate(args):
        yield from tensors_inside(value, position_name(names, position))
    for name, value in kwargs.items():
        yield from tensors_inside(value, name)


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(v, str) for v in value)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[1], Mapping)
        and isinstance(value[0], (list, tuple))
        and not is_shape(value[0])
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
