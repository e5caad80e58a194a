"""The meta tensors that stand in for a program's tensors, the graph tensor of each, and what autograd keeps of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor as TorchTensor
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef

from flopwise.graph import Kind, ProgramTensor
from flopwise.readers.torch.capture.event import Births, Position
from flopwise.readers.torch.capture.tensors import DTYPES, elements_in_a_row, in_order, like_meta, shape_of
from flopwise.readers.torch.capture.values import NeedsLower, Values

_META = torch.device("meta")
_PARAMETER = torch.nn.Parameter

_functions: Any = torch._C._functorch


def is_transformed() -> bool:
    """True if the program is in a function that it transforms (``torch.func``), or derives forwards."""
    return _functions.maybe_current_level() is not None or forward_ad._current_level >= 0


_weak: Any = StorageWeakRef
_weak_tensor: Any = weakref.ref


class StandIns:
    """One graph tensor for each PyTorch tensor, and on meta runs one meta tensor in its place."""

    def __init__(
        self, graph_tensors: dict[int, ProgramTensor], position: Position, real: bool, grad: bool, low: bool
    ) -> None:
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
        self.unseen: Callable[[ProgramTensor], None] = lambda tensor: None
        #: Says whether a tensor follows from an input.
        self.varies: Callable[[ProgramTensor], bool] = lambda tensor: True
        #: The parameters, buffers and inputs themselves.
        self.raw: Sequence[TorchTensor] = ()
        self.births = Births()
        #: The tensors that the program got from the run, as long as it holds them.
        self.made: list[ReferenceType[TorchTensor]] = []
        self._position = position
        self._real = real
        self._grad = grad
        self._count = 0
        self._stand_ins: dict[int, tuple[TorchTensor, TorchTensor]] = {}
        self._held: list[TorchTensor] = []
        self._low = low
        self._storages: dict[int, tuple[Any, ProgramTensor]] = {}
        #: Tensors that others look into, by id; whether there are detached ones among these.
        self._viewed: set[int] = set()
        self._detached = False
        #: Those of them that were written into, and what was written last.
        self._rewritten: dict[int, tuple[Any, ProgramTensor]] = {}
        #: Graph tensors of what was written into through another tensor.
        self.renamed: list[ProgramTensor] = []

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
            elif self._grad and tensor.requires_grad and not is_transformed():
                stand_in.requires_grad_()
            stand_in._flopwise = graph_tensor  # type: ignore[attr-defined]
            if self._grad or self._low:
                self._remember(stand_in, graph_tensor)
            stand_in._flopwise_of = tensor, graph_tensor  # type: ignore[attr-defined]
            self.made.append(ref(stand_in))
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

    def tensor_of(self, tensor: TorchTensor) -> ProgramTensor:
        """The graph tensor of one of PyTorch's."""
        if self._rewritten and (self._detached or tensor._base is not None):
            self._renew(tensor)
        graph_tensor: ProgramTensor | None = self.graph_tensors.get(id(tensor)) or tensor.__dict__.get("_flopwise")
        if graph_tensor is not None:
            return graph_tensor
        if not self._real:
            return self.stand_in(tensor).__dict__["_flopwise"]  # type: ignore[no-any-return]
        return self._keep(tensor, self._unmade(tensor))

    def known(self, tensor: TorchTensor) -> ProgramTensor | None:
        """The graph tensor that one of PyTorch's has; None where it has none."""
        return self.graph_tensors.get(id(tensor)) or tensor.__dict__.get("_flopwise")

    def constant(self, tensor: TorchTensor) -> TorchTensor:
        """A new tensor as the program gets it, whose elements follow from constants and sizes alone."""
        self._keep(tensor, self._constant(tensor))
        return tensor if self._real else self.stand_in(tensor)

    def outside(self, tensor: TorchTensor) -> TorchTensor:
        """A new tensor as the program gets it, whose elements come from where nothing is seen."""
        self._keep(tensor, self._unseen(tensor))
        return tensor if self._real else self.stand_in(tensor)

    def _remember(self, tensor: TorchTensor, graph_tensor: ProgramTensor) -> None:
        """Remember whose storage a tensor has, where C++ asks for operations, or gradients keep tensors."""
        if (storage := storage_of(tensor)) is not None:
            owner = self._storages.get(storage._cdata)
            if owner is None or owner[0].expired():
                self._storages[storage._cdata] = (_weak(storage), graph_tensor)

    def owner_of(self, storage: torch.UntypedStorage) -> str:
        """The name of the tensor that has a storage; "" for one that no operation handed to the program."""
        owner = self._storages.get(storage._cdata)
        return "" if owner is None or owner[0].expired() else owner[1].name

    def _keep(self, tensor: TorchTensor, graph_tensor: ProgramTensor) -> ProgramTensor:
        self.graph_tensors[id(tensor)] = graph_tensor
        self._held.append(tensor)  # so that its id stays its own
        return graph_tensor

    def is_argument(self, tensor: TorchTensor) -> bool:
        """True if a tensor has a graph tensor already, so that an operation handed it back as it was."""
        return "_flopwise" in tensor.__dict__ or id(tensor) in self.graph_tensors

    def result(self, tensor: TorchTensor, inplace: bool, grad: bool = False) -> ProgramTensor:
        """A new graph tensor for a result; what is written into a view is written into the tensor behind it.

        Args:
            tensor: the result.
            inplace: whether it was written into an argument.
            grad: whether it has a gradient although it does not say so yet.
        """
        self._count += 1
        grad = grad and (tensor.is_floating_point() or tensor.is_complex())
        graph_tensor = ProgramTensor(
            f"t{self._count}",
            shape_of(tensor),
            DTYPES.get(tensor.dtype),
            grad=self._grad and (grad or tensor.requires_grad),
            contiguous=in_order(tensor),
        )
        if self._grad:
            self._remember(tensor, graph_tensor)
            storage = storage_of(tensor)
            owner = graph_tensor.name if storage is None else self._storages[storage._cdata][1].name
            graph_tensor = replace(graph_tensor, storage=owner)
        self._assign(tensor, graph_tensor)
        base = tensor._base
        if base is not None:
            self._viewed.add(id(base))
        if inplace:
            if id(tensor) in self._viewed:
                self._rewritten[id(tensor)] = (_weak_tensor(tensor), graph_tensor)
            behind = _behind(tensor)
            while behind is not None and self.is_argument(behind):
                self._overwrite(behind, graph_tensor)
                behind = _behind(behind)
        return graph_tensor

    def _overwrite(self, tensor: TorchTensor, made: ProgramTensor) -> None:
        """Let a tensor be a result that was written into its memory, or into a part of it."""
        grad = self._grad and tensor.requires_grad
        self._rename(tensor, replace(self.tensor_of(tensor), name=made.name, kind="activation", grad=grad))
        self._rewritten[id(tensor)] = (_weak_tensor(tensor), made)

    def _rename(self, tensor: TorchTensor, graph_tensor: ProgramTensor) -> None:
        self._assign(tensor, graph_tensor)
        self.renamed.append(graph_tensor)

    def _renew(self, tensor: TorchTensor) -> None:
        """Let a view be what was written into the tensor behind it after the view was made."""
        behind = _behind(tensor)
        if behind is None:
            return
        rewritten = self._rewritten.get(id(behind))
        if rewritten is None or rewritten[0]() is not behind:
            return
        latest = rewritten[1]
        own = self.graph_tensors.get(id(tensor)) or tensor.__dict__.get("_flopwise")
        if own is not None and _number(own) < _number(latest):
            self._rename(tensor, replace(own, name=latest.name, kind="activation"))

    def become(self, tensor: TorchTensor, other: TorchTensor) -> None:
        """Let a tensor be another one, whose elements it was given (``tensor.data = other``)."""
        self._assign(tensor, self.tensor_of(other))
        if "_flopwise_values" in tensor.__dict__ or "_flopwise_values" in other.__dict__:
            tensor._flopwise_values = self.values.of(other)  # type: ignore[attr-defined]

    def pass_on(self, tensor: TorchTensor, source: TorchTensor) -> None:
        """Remember that what is written into a detached tensor is written into the one that it was made of."""
        if "_flopwise" in tensor.__dict__:
            self._detached = True
            self._viewed.add(id(source))
            tensor._flopwise_source = _weak_tensor(source)  # type: ignore[attr-defined] # so that nothing outlives its use

    def elements_of(self, tensor: TorchTensor) -> TorchTensor | None:
        """The elements of a tensor of the program; None where they are not known."""
        return self.values.of(self.swap(tensor))

    def _assign(self, tensor: TorchTensor, graph_tensor: ProgramTensor) -> None:
        if self._grad or self._low:
            self._remember(tensor, graph_tensor)
        if id(tensor) in self.graph_tensors:
            self.graph_tensors[id(tensor)] = graph_tensor
        else:
            if "_flopwise" not in tensor.__dict__:
                self.made.append(ref(tensor))
            tensor._flopwise = graph_tensor  # type: ignore[attr-defined]

    def let_be(self, tensor: TorchTensor) -> None:
        """Do not follow a tensor that the program itself wanted without elements: whoever keeps it knows that."""
        if self.made and self.made[-1]() is tensor:
            self.made.pop()

    def release(self) -> None:
        """Hold no tensor any more: the run is over."""
        self._stand_ins.clear()
        self._held.clear()
        self._rewritten.clear()
        self.graph_tensors, self.raw = {}, ()

    def own(self, tensor: TorchTensor, device: torch.device) -> TorchTensor | None:
        """The tensor on a device that one of the run stands for; None where its elements are not known."""
        if self._real:
            return tensor
        original, graph_tensor = tensor.__dict__.get("_flopwise_of", (None, None))
        if original is not None and tensor.__dict__["_flopwise"] is graph_tensor:  # nothing was written into it
            return None if original.is_meta else original
        values = self.values.of(tensor)
        return None if values is None else values.to(device)

    def _unmade(self, tensor: TorchTensor) -> ProgramTensor:
        """A graph tensor for one that is not a parameter, buffer or input, and that no operation made.

        One that the program held before is a constant; one that is new came from where nothing is seen.
        """
        inner = tensor
        while _functions.is_functorch_wrapped_tensor(inner):  # of a function that is transformed
            inner = _functions.get_unwrapped(inner)
        if inner is not tensor:
            graph_tensor: ProgramTensor | None = self.graph_tensors.get(id(inner)) or inner.__dict__.get("_flopwise")
            return graph_tensor or self._constant(inner)
        if not self.births.is_new(tensor):
            return self._constant(tensor)
        if (values := elements_in_a_row(tensor)) is not None:
            return replace(self.tensor_of(values), contiguous=False)
        alias = self._alias(tensor)
        if alias is None:
            return self._unseen(tensor)
        if isinstance(tensor, _PARAMETER) and not (alias.kind == "weight" or self.varies(alias)):
            return self._graph_tensor(tensor, "parameter", "weight")  # which the program makes while it runs
        return replace(alias, shape=shape_of(tensor), contiguous=in_order(tensor))

    def _alias(self, tensor: TorchTensor) -> ProgramTensor | None:
        """The graph tensor of another tensor whose storage a new one has: autograd keeps results under objects of its
        own, and a program puts tensors under classes of its own.
        """
        storage = storage_of(tensor) if self._low or self._grad else None
        if storage is None:
            return None
        owner = self._storages.get(storage._cdata)
        if owner is not None and not owner[0].expired():
            return owner[1]
        own = (raw for raw in self.raw if (other := storage_of(raw)) is not None and other._cdata == storage._cdata)
        first = next(own, None)
        return None if first is None else self.graph_tensors[id(first)]

    def _constant(self, tensor: TorchTensor) -> ProgramTensor:
        return self._graph_tensor(tensor, "constant", "weight" if isinstance(tensor, _PARAMETER) else "constant")

    def _unseen(self, tensor: TorchTensor) -> ProgramTensor:
        graph_tensor = self._graph_tensor(tensor, "unseen", "activation")
        self.foreign.append(graph_tensor.name)
        self.unseen(graph_tensor)
        return graph_tensor

    def _graph_tensor(self, tensor: TorchTensor, name: str, kind: Kind) -> ProgramTensor:
        self._count += 1
        name = f"{name}{self._count}"
        graph_tensor = ProgramTensor(name, shape_of(tensor), DTYPES.get(tensor.dtype), kind, grad=tensor.requires_grad)
        return replace(graph_tensor, contiguous=in_order(tensor))


def _behind(tensor: TorchTensor) -> TorchTensor | None:
    """The tensor whose memory a view or a detached tensor reads; None for one with its own."""
    base = tensor._base
    source = tensor.__dict__.get("_flopwise_source") if base is None else None
    return base if source is None else source()


def _number(tensor: ProgramTensor) -> int:
    """The place of a result among all; 0 for what is no result."""
    digits = tensor.name[1:]
    return int(digits) if tensor.name[:1] == "t" and digits.isdecimal() else 0


def storage_of(tensor: TorchTensor) -> torch.UntypedStorage | None:
    """A tensor's storage, which is an object without memory on meta; None where it shares another's."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse and nested tensors, and those of transformed functions
        return None


class SavedStorages:
    """The storages that autograd keeps of the running operation."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._stated: tuple[tuple[str, int], ...] | None = None

    def hooks(self) -> AbstractContextManager[object]:
        """The hooks through which autograd says what it keeps.

        It keeps nothing: an operation that keeps its own result would keep itself alive, and no gradient is computed.
        """
        return torch.autograd.graph.saved_tensors_hooks(self._pack, _not_kept)

    def forget(self) -> None:
        """Forget what was kept: an operation begins."""
        if self._storages:
            self._storages = {}
        self._stated = None

    def sizes(self) -> dict[str, int]:
        """Bytes of the storages so far: the name of the tensor that has it, "" for all of the operation's own."""
        sizes: dict[str, int] = {}
        for storage in self._storages.values():
            owner = self._stand_ins.owner_of(storage)
            sizes[owner] = sizes.get(owner, 0) + int(storage.nbytes())
        return sizes

    def state(self, sizes: dict[str, int]) -> None:
        """Let these be what the operation keeps, of which only a part ran."""
        self._stated = tuple(sizes.items())

    def take(self) -> tuple[tuple[str, int], ...] | None:
        """The storages of the operation that ends: the name of the tensor that has it, "" for one of its own, and its
        bytes; None where the program keeps tensors in its own way (a checkpoint).
        """
        storages, self._storages = self._storages, {}
        stated, self._stated = self._stated, None
        top: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if top is None or top[0] != self._pack:
            return None
        if stated is not None:
            return stated
        return tuple([(self._stand_ins.owner_of(storage), storage.nbytes()) for storage in storages.values()])

    def _pack(self, tensor: TorchTensor) -> None:
        with torch._C.DisableTorchFunction():
            storage = storage_of(tensor)
            if storage is not None:
                self._storages[storage._cdata] = storage


def _not_kept(packed: None) -> TorchTensor:
    """Raise NeedsLower: gradients are asked for after all, and the dispatcher has to record them.

    Raises:
        NeedsLower: always.
    """
    raise NeedsLower
