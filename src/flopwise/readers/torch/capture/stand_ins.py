"""The meta tensors that stand in for a program's tensors, the graph tensor of each, and what autograd keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch.multiprocessing.reductions import StorageWeakRef

from flopwise.graph import Kind, Tensor
from flopwise.readers.torch.capture.event import Births, Position
from flopwise.readers.torch.capture.tensors import DTYPES, in_order, like_meta, shape_of
from flopwise.readers.torch.capture.values import Values

_META = torch.device("meta")
_PARAMETER = torch.nn.Parameter

#: The level of nested function transforms (``torch.func``) that a program is in; None outside of any.
transform_level = torch._C._functorch.maybe_current_level
_functions: Any = torch._C._functorch
_weak: Any = StorageWeakRef


class StandIns:
    """One graph tensor for each PyTorch tensor, and on meta runs one meta tensor in its place."""

    def __init__(self, graph_tensors: dict[int, Tensor], position: Position, real: bool, grad: bool, low: bool) -> None:
        """
        Args:
            graph_tensors: the graph tensor of each parameter, buffer and input, by id.
            position: where the run is.
            real: whether the run computes with the tensors themselves.
            grad: whether gradients are recorded.
            low: whether the dispatcher records what no Python function asks for.
        """
        self.graph_tensors = graph_tensors
        self.values = Values()
        #: Names of tensors that are neither stored nor the result of a recorded operation, and such operations.
        self.foreign: list[str] = []
        #: Told of each tensor that was made during the run and by no operation that was seen.
        self.unseen: Callable[[Tensor], None] = lambda tensor: None
        self.births = Births()
        self._position = position
        self._real = real
        self._grad = grad
        self._count = 0
        self._stand_ins: dict[int, tuple[TorchTensor, TorchTensor]] = {}
        self._held: list[TorchTensor] = []
        self._low = low
        self._storages: dict[int, tuple[Any, Tensor]] = {}

    def swap(self, thing: Any) -> Any:
        """An argument with stand-ins in place of the program's tensors, and meta in place of its devices."""
        if isinstance(thing, TorchTensor):
            is_stand_in = "_flopwise" in thing.__dict__ and id(thing) not in self.graph_tensors
            return thing if is_stand_in else self.stand_in(thing)
        kind = thing.__class__
        if kind is tuple or kind is list:
            return kind([self.swap(part) for part in thing])
        if kind is torch.device or (kind is str and thing.partition(":")[0] in ("cpu", "cuda", "mps", "xpu")):
            return _META
        if kind is dict:
            return {key: self.swap(part) for key, part in thing.items()}
        return thing

    def stand_in(self, tensor: TorchTensor) -> TorchTensor:
        """The meta tensor that stands in for a tensor of the program, the same one every time."""
        pair = self._stand_ins.get(id(tensor))
        if pair is not None:
            return pair[1]
        position = self._position
        outside, position.busy = position.busy, True
        with torch._C.DisableTorchFunction(), torch.no_grad():
            graph_tensor = self.graph_tensors.get(id(tensor)) or self._unmade(tensor)
            stand_in = like_meta(tensor)
            if isinstance(tensor, _PARAMETER):
                stand_in = _PARAMETER(stand_in, tensor.requires_grad)
            elif self._grad and tensor.requires_grad and transform_level() is None:
                stand_in.requires_grad_()
            stand_in._flopwise = graph_tensor  # type: ignore[attr-defined]
            if self._grad or self._low:
                self._remember(stand_in, graph_tensor)
            if graph_tensor.kind not in ("weight", "activation"):
                self.values.hold(stand_in, tensor)
        position.busy = outside
        self._stand_ins[id(tensor)] = (tensor, stand_in)
        return stand_in

    def graphed(self, thing: Any) -> Any:
        """An argument with graph tensors in place of PyTorch's."""
        if isinstance(thing, TorchTensor):
            return self.tensor_of(thing)
        kind = thing.__class__
        if kind is tuple or kind is list:
            return kind([self.graphed(part) for part in thing])
        if kind is dict:
            return {key: self.graphed(part) for key, part in thing.items()}
        return thing

    def tensor_of(self, tensor: TorchTensor) -> Tensor:
        """The graph tensor of one of PyTorch's."""
        graph_tensor: Tensor | None = self.graph_tensors.get(id(tensor)) or tensor.__dict__.get("_flopwise")
        if graph_tensor is not None:
            return graph_tensor
        if not self._real:
            return self.stand_in(tensor).__dict__["_flopwise"]  # type: ignore[no-any-return]
        return self._keep(tensor, self._unmade(tensor))

    def constant(self, tensor: TorchTensor) -> TorchTensor:
        """What the program gets for a new tensor whose elements follow from constants and sizes alone."""
        self._keep(tensor, self._constant(tensor))
        return tensor if self._real else self.stand_in(tensor)

    def outside(self, tensor: TorchTensor) -> TorchTensor:
        """What the program gets for a new tensor whose elements come from where nothing is seen."""
        self._keep(tensor, self._unseen(tensor))
        return tensor if self._real else self.stand_in(tensor)

    def _remember(self, tensor: TorchTensor, graph_tensor: Tensor) -> None:
        """Remember whose storage a tensor has, where C++ asks for operations, or gradients keep tensors."""
        if (storage := storage_of(tensor)) is not None:
            owner = self._storages.get(storage._cdata)
            if owner is None or owner[0].expired():
                self._storages[storage._cdata] = (_weak(storage), graph_tensor)

    def owner_of(self, storage: Any) -> str:
        """The name of the tensor that has a storage; "" for one that no operation handed to the program."""
        owner = self._storages.get(storage._cdata)
        return "" if owner is None or owner[0].expired() else owner[1].name

    def _keep(self, tensor: TorchTensor, graph_tensor: Tensor) -> Tensor:
        self.graph_tensors[id(tensor)] = graph_tensor
        self._held.append(tensor)  # so that its id stays its own
        return graph_tensor

    def is_argument(self, tensor: TorchTensor) -> bool:
        """Whether a tensor has a graph tensor already, so that an operation handed it back as it was."""
        return "_flopwise" in tensor.__dict__ or id(tensor) in self.graph_tensors

    def result(self, tensor: TorchTensor, inplace: bool) -> Tensor:
        """A new graph tensor for a result; what is written into a view is written into the tensor behind it."""
        self._count += 1
        made = Tensor(
            f"t{self._count}",
            shape_of(tensor),
            DTYPES.get(tensor.dtype),
            grad=self._grad and tensor.requires_grad,
            contiguous=in_order(tensor),
        )
        if self._grad:
            self._remember(tensor, made)
            storage = storage_of(tensor)
            owner = made.name if storage is None else self._storages[storage._cdata][1].name
            made = replace(made, storage=owner)
        self._assign(tensor, made)
        if inplace:
            base = tensor._base
            if base is not None and self.is_argument(base):
                whole = self.tensor_of(base)
                grad = self._grad and base.requires_grad
                self._assign(base, replace(whole, name=made.name, kind="activation", grad=grad))
        return made

    def elements_of(self, tensor: TorchTensor) -> TorchTensor | None:
        """The elements of a tensor of the program; None where they are not known."""
        return self.values.of(self.swap(tensor))

    def _assign(self, tensor: TorchTensor, graph_tensor: Tensor) -> None:
        if self._grad or self._low:
            self._remember(tensor, graph_tensor)
        if id(tensor) in self.graph_tensors:
            self.graph_tensors[id(tensor)] = graph_tensor
        else:
            tensor._flopwise = graph_tensor  # type: ignore[attr-defined]

    def _unmade(self, tensor: TorchTensor) -> Tensor:
        """A graph tensor for one that is not a parameter, buffer or input, and that no operation made.

        One that the program held before is a constant; one that is new came from where nothing is seen.
        """
        inner = tensor
        while _functions.is_functorch_wrapped_tensor(inner):  # of a function that is transformed
            inner = _functions.get_unwrapped(inner)
        if inner is not tensor:
            graph_tensor: Tensor | None = self.graph_tensors.get(id(inner)) or inner.__dict__.get("_flopwise")
            return graph_tensor or self._constant(inner)
        if not self.births.is_new(tensor):
            return self._constant(tensor)
        storage = storage_of(tensor) if self._low or self._grad else None
        alias = None if storage is None else self._storages.get(storage._cdata)
        if alias is not None and not alias[0].expired():  # autograd keeps results under objects of its own
            return replace(alias[1], shape=shape_of(tensor), contiguous=in_order(tensor))
        return self._unseen(tensor)

    def _constant(self, tensor: TorchTensor) -> Tensor:
        return self._named(tensor, "constant", "weight" if isinstance(tensor, _PARAMETER) else "constant")

    def _unseen(self, tensor: TorchTensor) -> Tensor:
        graph_tensor = self._named(tensor, "unseen", "activation")
        self.foreign.append(graph_tensor.name)
        self.unseen(graph_tensor)
        return graph_tensor

    def _named(self, tensor: TorchTensor, name: str, kind: Kind) -> Tensor:
        self._count += 1
        name = f"{name}{self._count}"
        graph_tensor = Tensor(name, shape_of(tensor), DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)
        return replace(graph_tensor, contiguous=in_order(tensor))


def storage_of(tensor: TorchTensor) -> Any:
    """A tensor's storage, which is an object without memory on meta; None where it shares another's."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse and nested tensors, and those of transformed functions
        return None


class SavedStorages:
    """The storages that autograd keeps of the running operation."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._storages: dict[int, Any] = {}

    def hooks(self) -> AbstractContextManager[Any]:
        """The hooks through which autograd says what it keeps."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def forget(self) -> None:
        """Forget what was kept: an operation begins."""
        if self._storages:
            self._storages = {}

    def take(self) -> tuple[tuple[str, int], ...] | None:
        """The storages of the operation that ends: the name of the tensor that has it, "" for one of its own, and its
        bytes; None where the program keeps tensors in its own way (a checkpoint).
        """
        storages, self._storages = self._storages, {}
        top: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if top is None or top[0] != self._pack:
            return None
        return tuple([(self._stand_ins.owner_of(storage), storage.nbytes()) for storage in storages.values()])

    def _pack(self, tensor: TorchTensor) -> TorchTensor:
        with torch._C.DisableTorchFunction():
            storage = storage_of(tensor)
            if storage is not None:
                self._storages[storage._cdata] = storage
        return tensor
