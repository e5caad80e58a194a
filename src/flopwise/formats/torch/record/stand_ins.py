"""The meta tensors that stand in for a program's tensors, the graph tensor of each, and what autograd keeps of them.

What is written into memory is followed by storage, which views and detached tensors share.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor as TorchTensor
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef

from flopwise.formats.torch.kinds import Function
from flopwise.formats.torch.record.values import (
    DTYPES,
    LARGEST,
    LARGEST_REAL,
    NeedsLower,
    Values,
    elements_in_a_row,
    in_order,
    like_meta,
    shape_of,
)
from flopwise.graph import Kind, ProgramTensor

META = torch.device("meta")
_PARAMETER = torch.nn.Parameter
_PLAIN = (TorchTensor, _PARAMETER, torch.nn.Buffer)

_functions: Any = torch._C._functorch
_weak: Any = StorageWeakRef

#: Types of devices, as a program names them, in whose place is the meta device.
_DEVICES = ("cpu", "cuda", "mps", "xpu")


def is_transformed() -> bool:
    """True if the program is in a function that it transforms (``torch.func``), or derives forwards."""
    return _functions.maybe_current_level() is not None or forward_ad._current_level >= 0


def storage_of(tensor: TorchTensor) -> torch.UntypedStorage | None:
    """A tensor's storage, which is an object without memory on meta; None where it shares another's."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse and nested tensors, and those of transformed functions
        return None


def _collections() -> list[int]:
    return [generation["collections"] for generation in gc.get_stats()]


class StandIns:
    """One graph tensor for each PyTorch tensor, and on meta runs one meta tensor in its place."""

    def __init__(
        self,
        graph_tensors: dict[int, ProgramTensor],
        position: Any,
        real: bool,
        grad: bool,
        low: bool,
    ) -> None:
        """
        Args:
            graph_tensors: the graph tensor of each parameter, buffer and input, by id.
            position: says by ``busy`` that what happens is part of an operation.
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
        #: Says whether a tensor follows from an input, and whether elements of one that does have left the program.
        self.varies: Callable[[ProgramTensor], bool] = lambda tensor: True
        self.elements_left: Callable[[], bool] = lambda: True
        #: The tensors that the program got from the run, as long as it holds them.
        self.made: list[ReferenceType[TorchTensor]] = []
        #: The parameters, buffers and inputs themselves.
        self.raw: Sequence[TorchTensor] = ()
        self._position, self._real, self._grad, self._low = position, real, grad, low
        self._count = 0
        self._collections: Sequence[int] = ()
        self._stand_ins: dict[int, tuple[TorchTensor, TorchTensor]] = {}
        self._held: list[TorchTensor] = []
        #: Storage -> whose memory it is, where gradients or the dispatcher need that; and what was written into it.
        self._owners: dict[int, tuple[Any, ProgramTensor]] = {}
        self._written: dict[int, tuple[Any, ProgramTensor]] = {}

    # --- from the program's tensors to stand-ins and graph tensors

    def swap(self, thing: Any) -> Any:
        """An argument with stand-ins in place of the program's tensors, and meta in place of its devices."""
        if isinstance(thing, TorchTensor):
            is_stand_in = "_flopwise" in thing.__dict__ and id(thing) not in self.graph_tensors
            return thing if is_stand_in else self.stand_in(thing)
        kind = thing.__class__
        if kind is tuple or kind is list:
            return kind([self.swap(part) for part in thing])
        if kind is torch.device or (kind is str and thing.partition(":")[0] in _DEVICES):
            return META
        if kind is dict:
            return {key: self.swap(part) for key, part in thing.items()}
        return thing

    def stand_in(self, tensor: TorchTensor) -> TorchTensor:
        """The meta tensor that stands in for a tensor of the program, the same one every time."""
        pair = self._stand_ins.get(id(tensor))
        if pair is not None:
            return pair[1]
        outside, self._position.busy = self._position.busy, True
        try:
            with torch._C.DisableTorchFunction():
                own = self.graph_tensors.get(id(tensor)) or self._unmade(tensor)
                stand_in: Any = like_meta(tensor)
                if isinstance(tensor, _PARAMETER):
                    stand_in = _PARAMETER(stand_in, tensor.requires_grad)
                elif self._grad and tensor.requires_grad and not is_transformed():
                    stand_in.requires_grad_()
                stand_in._flopwise, stand_in._flopwise_of = own, (tensor, own)
                if self._grad or self._low:
                    self._remember(stand_in, own)
                self.made.append(ref(stand_in))
                most = LARGEST_REAL >> 4 if tensor.is_floating_point() else LARGEST
                plain = type(tensor) in _PLAIN and tensor.layout is torch.strided and not tensor.is_meta
                if plain and own.kind not in ("weight", "activation") and tensor.numel() <= most:
                    stand_in._flopwise_values = tensor.detach().cpu().clone()
        finally:
            self._position.busy = outside
        self._stand_ins[id(tensor)] = (tensor, stand_in)
        return stand_in  # type: ignore[no-any-return]

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

    def known(self, tensor: TorchTensor) -> ProgramTensor | None:
        """The graph tensor that one of PyTorch's has; None where it has none: no operation handed it over before."""
        return self.graph_tensors.get(id(tensor)) or tensor.__dict__.get("_flopwise")

    def tensor_of(self, tensor: TorchTensor) -> ProgramTensor:
        """The graph tensor of one of PyTorch's: what was written last into the memory that it reads."""
        own = self.known(tensor)
        if own is None and self._real:
            own = self._keep(tensor, self._unmade(tensor))
        own = own or self.stand_in(tensor).__dict__["_flopwise"]
        if self._written:
            held, latest = self._written.get(self._memory(tensor), (None, own))
            if held is not None and _number(latest) > _number(own) and not held.expired():
                own = replace(own, name=latest.name, kind="activation", grad=self._grad and tensor.requires_grad)
                self._assign(tensor, own)
        return own

    def elements_of(self, tensor: TorchTensor) -> TorchTensor | None:
        """The elements of a tensor of the program; None where they are not known."""
        return tensor if self._real and not tensor.is_meta else self.values.of(self.swap(tensor))

    # --- new tensors

    def result(self, tensor: TorchTensor, inplace: bool = False, grad: bool = False) -> ProgramTensor:
        """A new graph tensor for a result; what is written into a view is written into the tensor behind it.

        Args:
            tensor: the result.
            inplace: whether it was written into an argument.
            grad: whether it has a gradient although it does not say so yet.
        """
        self._count += 1
        grad = grad and (tensor.is_floating_point() or tensor.is_complex())
        own = ProgramTensor(
            f"t{self._count}",
            shape_of(tensor),
            DTYPES.get(tensor.dtype),
            grad=self._grad and (grad or tensor.requires_grad),
            contiguous=in_order(tensor),
        )
        if self._grad:
            self._remember(tensor, own)
            storage = storage_of(tensor)
            own = replace(own, storage=own.name if storage is None else self._owners[storage._cdata][1].name)
        self._assign(tensor, own)
        if inplace and (storage := storage_of(tensor)) is not None:
            tensor.__dict__.pop("_flopwise_memory", None)
            self._written[storage._cdata] = (_weak(storage), own)
        return own

    def _memory(self, tensor: TorchTensor) -> int:
        """The number of a tensor's storage, 0 for none; a stand-in knows its own."""
        number: int | None = tensor.__dict__.get("_flopwise_memory")
        if number is None:
            storage = storage_of(tensor)
            number = 0 if storage is None else storage._cdata
            if not self._real and id(tensor) not in self.graph_tensors:
                tensor._flopwise_memory = number  # type: ignore[attr-defined]
        return number

    def constant(self, tensor: TorchTensor, unseen: bool = False) -> TorchTensor:
        """A new tensor as the program gets it, whose elements follow from constants and sizes alone, or ``unseen`` from
        where nothing is seen.
        """
        self._keep(tensor, self._unseen(tensor) if unseen else self._constant(tensor))
        return tensor if self._real else self.stand_in(tensor)

    def become(self, tensor: TorchTensor, other: TorchTensor) -> None:
        """Let a tensor be another one, whose elements it was given (``tensor.data = other``)."""
        tensor.__dict__.pop("_flopwise_memory", None)
        self._assign(tensor, self.tensor_of(other))
        if "_flopwise_values" in tensor.__dict__ or "_flopwise_values" in other.__dict__:
            tensor._flopwise_values = self.values.of(other)  # type: ignore[attr-defined]

    def let_be(self, tensor: TorchTensor) -> None:
        """Do not follow a tensor that the program itself wanted without elements: whoever keeps it knows that."""
        if self.made and self.made[-1]() is tensor:
            self.made.pop()

    def _keep(self, tensor: TorchTensor, own: ProgramTensor) -> ProgramTensor:
        self.graph_tensors[id(tensor)] = own
        self._held.append(tensor)  # so that its id stays its own
        return own

    def _assign(self, tensor: TorchTensor, own: ProgramTensor) -> None:
        if self._grad or self._low:
            self._remember(tensor, own)
        if id(tensor) in self.graph_tensors:
            self.graph_tensors[id(tensor)] = own
        else:
            if "_flopwise" not in tensor.__dict__:
                self.made.append(ref(tensor))
            tensor._flopwise = own  # type: ignore[attr-defined]

    def _remember(self, tensor: TorchTensor, own: ProgramTensor) -> None:
        """Remember whose storage a tensor has, where C++ asks for operations, or gradients keep tensors."""
        if (storage := storage_of(tensor)) is not None and self.owner_of(storage) is None:
            self._owners[storage._cdata] = (_weak(storage), own)

    def owner_of(self, storage: torch.UntypedStorage) -> ProgramTensor | None:
        """The tensor that has a storage; None for one that no operation handed to the program."""
        owner = self._owners.get(storage._cdata)
        return None if owner is None or owner[0].expired() else owner[1]

    @contextlib.contextmanager
    def births(self) -> Iterator[None]:
        """Tensors that are made meanwhile are known as new.

        The youngest generation of the garbage collector is emptied, and collections wait until the end: what is in it
        then is new. That takes no time however many objects there are.
        """
        enabled = gc.isenabled()
        gc.collect(0)
        gc.disable()
        self._collections = _collections()
        try:
            yield
        finally:
            if enabled:
                gc.enable()

    def _unmade(self, tensor: TorchTensor) -> ProgramTensor:
        """A graph tensor for one that is not a parameter, buffer or input, and that no operation made.

        One that the program held before is a constant, and so is one with memory in a run on meta tensors, which have
        no elements that could be in it, unless some that are known were read; another new one is from where nothing is
        seen. Where the program collected garbage itself, every one may be new.
        """
        inner = tensor
        while _functions.is_functorch_wrapped_tensor(inner):  # of a function that is transformed
            inner = _functions.get_unwrapped(inner)
        if inner is not tensor:
            return self.known(inner) or self._constant(inner)
        plain = type(tensor) in _PLAIN and not tensor.is_meta
        of_numbers = plain and not (self._real or self.elements_left())
        collected = self._collections != _collections()
        if of_numbers or not (collected or any(young is tensor for young in gc.get_objects(0))):
            return self._constant(tensor)
        if (values := elements_in_a_row(tensor)) is not None:
            return replace(self.tensor_of(values), contiguous=False)
        storage = storage_of(tensor) if self._low or self._grad else None
        alias = None if storage is None else self.owner_of(storage)
        if storage is not None and alias is None:  # one that was put under a class of the program's own
            same = [t for t in self.raw if (other := storage_of(t)) is not None and other._cdata == storage._cdata]
            alias = self.graph_tensors[id(same[0])] if same else None
        if alias is None:
            return self._unseen(tensor)
        if isinstance(tensor, _PARAMETER) and not (alias.kind == "weight" or self.varies(alias)):
            return self._graph_tensor(tensor, "parameter", "weight")  # which the program makes while it runs
        return replace(alias, shape=shape_of(tensor), contiguous=in_order(tensor))

    def _constant(self, tensor: TorchTensor) -> ProgramTensor:
        return self._graph_tensor(tensor, "constant", "weight" if isinstance(tensor, _PARAMETER) else "constant")

    def _unseen(self, tensor: TorchTensor) -> ProgramTensor:
        own = self._graph_tensor(tensor, "unseen", "activation")
        self.foreign.append(own.name)
        self.unseen(own)
        return own

    def _graph_tensor(self, tensor: TorchTensor, name: str, kind: Kind) -> ProgramTensor:
        self._count += 1
        shape, dtype, grad = shape_of(tensor), DTYPES.get(tensor.dtype), tensor.requires_grad
        return ProgramTensor(f"{name}{self._count}", shape, dtype, kind, grad=grad, contiguous=in_order(tensor))

    # --- the end of a run

    def release(self) -> None:
        """Hold no tensor any more: the run is over."""
        self._stand_ins.clear()
        self._held.clear()
        self._written.clear()
        self.graph_tensors, self.raw = {}, ()

    def own(self, tensor: TorchTensor, device: torch.device) -> TorchTensor | None:
        """The tensor on a device that one of the run stands for; None where its elements are not known."""
        if self._real:
            return tensor
        original, own = tensor.__dict__.get("_flopwise_of", (None, None))
        if original is not None and tensor.__dict__["_flopwise"] is own:  # nothing was written into it
            return None if original.is_meta else original
        values = self.values.of(tensor)
        return None if values is None else values.to(device)


def _number(tensor: ProgramTensor) -> int:
    """The place of a result among all; 0 for what is no result."""
    digits = tensor.name[1:]
    return int(digits) if tensor.name[:1] == "t" and digits.isdecimal() else 0


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
        self._storages, self._stated = {}, None

    def parts(self) -> tuple[tuple[str, int], ...]:
        """The storages so far: the name of the tensor that has it, "" for one of the operation's own, and its bytes."""
        owners = [(self._stand_ins.owner_of(storage), storage) for storage in self._storages.values()]
        return tuple([("" if owner is None else owner.name, storage.nbytes()) for owner, storage in owners])

    def state(self, parts: tuple[tuple[str, int], ...]) -> None:
        """Let these be what the operation keeps, of which only a part ran."""
        self._stated = parts

    def take(self) -> tuple[tuple[str, int], ...] | None:
        """What the operation that ends keeps, as ``parts`` has it; None where the program keeps tensors in its own way
        (a checkpoint).
        """
        parts = self.parts() if self._stated is None else self._stated
        self.forget()
        # Without it, before PyTorch 2.7, what a checkpoint keeps in its own way is nothing that the operation keeps.
        hooks_on_top: Any = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
        if hooks_on_top is not None:
            top = hooks_on_top(True)
            if top is None or top[0] != self._pack:
                return None
        return parts

    def _pack(self, tensor: TorchTensor) -> None:
        with torch._C.DisableTorchFunction():
            if (storage := storage_of(tensor)) is not None:
                self._storages[storage._cdata] = storage


def _not_kept(packed: None) -> TorchTensor:
    """Raise NeedsLower: gradients are asked for after all, and the dispatcher has to record them."""
    raise NeedsLower


# --- recurrent layers whose steps repeat: PyTorch unrolls them on meta tensors, one operation after the other, so they
# run on few steps, and what those give is stretched to all of them

#: The steps of the two short runs; from the second step on each keeps as many bytes as the one before.
_SHORT = (2, 3)


def steps_of(args: Sequence[Any]) -> int:
    """The steps of a call that may be shortened; 0 where it may not: a packed sequence, whose lengths are data.

    Args:
        args: input, first state, weights, has_biases, num_layers, dropout, train, bidirectional, batch_first.
    """
    plain = len(args) == 9 and isinstance(args[0], TorchTensor) and isinstance(args[3], bool)
    return int(args[0].shape[1 if args[-1] else 0]) if plain and args[0].dim() == 3 else 0


def shortened(func: Function, args: Sequence[Any], saved: SavedStorages | None) -> object:
    """The results of a call, as of one with fewer steps.

    Args:
        func: the layer.
        args: of the call, on meta tensors.
        saved: what autograd keeps, which is stretched too; None where that is not recorded.
    """
    axis, steps = 1 if args[-1] else 0, steps_of(args)
    if steps <= _SHORT[-1]:
        return func(*args)
    sizes: list[dict[str, int]] = []
    for count in _SHORT if saved else _SHORT[:1]:
        if saved:
            saved.forget()
        result = func(args[0].narrow(axis, 0, count), *args[1:])
        if saved:
            sizes.append({})
            for owner, size in saved.parts():
                sizes[-1][owner] = sizes[-1].get(owner, 0) + size
    if saved:
        fewer, more = sizes
        own = more.get("", 0) + (steps - _SHORT[1]) * (more.get("", 0) - fewer.get("", 0))
        saved.state(tuple({**more, "": own}.items()))
    # A meta tensor that has more steps along the axis, and its elements in the same order.
    short = result[0]
    shape = [steps if place == axis else extent for place, extent in enumerate(short.shape)]
    strides, reach = [0] * len(shape), 1
    for place in sorted(range(len(shape)), key=lambda place: (short.stride(place), -place)):
        strides[place] = reach
        reach *= shape[place]
    longer = torch.empty_strided(shape, strides, dtype=short.dtype, device=short.device)
    return (longer.requires_grad_(short.requires_grad), *result[1:])
