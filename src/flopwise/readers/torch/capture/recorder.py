"""Recording: every tensor operation that a program asks for is run on stand-ins and written down.

Stand-ins are meta tensors, which have a shape and no memory, so nothing of the module is touched or copied. Elements of
small tensors that follow from constants alone (positions, masks, lengths) are computed beside, so that a program that
asks for them gets them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor

from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.formats.torch.lower.node import tensors as tensors_of
from flopwise.graph import Module, ProgramTensor, Tensor
from flopwise.readers.options import AttentionKernel
from flopwise.readers.torch.capture.attention import (
    ATTENTION,
    SOFTMAX,
    VARLEN,
    kernel_of,
    laid_out,
    mask_of_module,
    pairs_left,
    ragged,
)
from flopwise.readers.torch.capture.event import UNSEEN, Event, Position, described, follow_from_input, holds_reals
from flopwise.readers.torch.capture.fallback import READING, asks_for_elements, chosen, second_attempt
from flopwise.readers.torch.capture.interception_plan import Plan, synthetic
from flopwise.readers.torch.capture.shape_cache import OVER, PLAIN, RECURRENT, again, keep, key_of
from flopwise.readers.torch.capture.stand_ins import SavedStorages, StandIns
from flopwise.readers.torch.capture.tensors import SPARSE, flat, packed_tensors, stored_elements
from flopwise.readers.torch.capture.values import HANDED_OUT, NeedsValues, Sizes, plain
from flopwise.readers.torch.capture.writes import written

#: Operators whose second argument is what stands in brackets.
_INDEXED = frozenset({"aten.getitem", "aten.setitem_"})


class Recorder:
    """The operations of one run in the order in which they ran."""

    def __init__(
        self, graph_tensors: dict[int, ProgramTensor], device: torch.device, *, real: bool, grad: bool, low: bool
    ) -> None:
        """
        Args:
            graph_tensors: the graph tensor of each parameter, buffer and input, by id.
            device: where the program is told that its tensors are.
            real: whether to compute with the tensors themselves, instead of on meta tensors.
            grad: whether gradients are recorded.
            low: whether the dispatcher records what no Python function asks for.
        """
        self.device = device
        self.real = real
        self.grad = grad
        self.low = low
        self.position = Position()
        self.stand_ins = StandIns(graph_tensors, self.position, real, grad, low)
        self.stand_ins.unseen = self._unseen
        self.stand_ins.varies = lambda tensor: follow_from_input([tensor], self.events)
        self.values = self.stand_ins.values
        #: Where tensors appeared from where no operation is seen.
        self.notes: list[str] = []
        self.events: list[Event] = []
        #: What autograd keeps; None where that is not recorded.
        self.saved = SavedStorages(self.stand_ins) if grad and not (real or low) else None
        self._read: list[Tensor] = []
        self.regions_entered = 0
        #: Whether a run on real tensors has read elements.
        self.looked = False
        #: Whether somebody asks for gradients, and not the program alone.
        self.trains = False
        #: Whether autograd, which is above the dispatcher, will give a result a gradient that its arguments have.
        self.below = False
        #: The threads that are recorded, by number.
        self.threads = {threading.get_ident()}
        #: Whether the run is over; a thread that goes on is not recorded any more.
        self.closed = False
        #: What hands out sizes that carry expressions; None where programs get plain numbers.
        self.sizes: Sizes | None = None if real else HANDED_OUT.get()
        if self.sizes is not None:
            self.sizes.start()
        self._sized: tuple[Args, Kwargs] | None = None
        #: The kernel of attention that is assumed; None: the one that PyTorch would choose on the device.
        self.attention: AttentionKernel | None = None
        #: Called on real runs with a tensor that an operation is about to write into.
        self.before_write: Callable[[TorchTensor], None] | None = None
        #: Likewise with a tensor that is about to be given other elements (``tensor.data = ...``).
        self.before_set: Callable[[TorchTensor], None] | None = None
        #: Called with what an operation takes, gives the modules inside the running script that it runs in.
        self.inside_script: Callable[[Sequence[Tensor]], Sequence[Module]] | None = None
        #: Whether PyTorch is at work on the program of a script, and does not run it: it compares constants.
        self.compiles: Callable[[], bool] | None = None
        #: The program's own generators of random numbers that were used, with the state that each had.
        self.generators: dict[int, tuple[torch.Generator, TorchTensor]] = {}
        #: Policies of selective checkpoints, and what those around the running operation said of its kernels.
        self._selections: list[Selection] = []
        self._kept: dict[str, set[bool]] = {}
        #: Entered where functions of the program run inside an operation that is not analysed otherwise.
        self.interception: contextlib.AbstractContextManager[object] = contextlib.nullcontext()

    def record(
        self,
        plan: Plan,
        func: Function,
        args: Args,
        kwargs: Kwargs,
        value: Callable[[], object] | None = None,
    ) -> Any:
        """Run an operation and write it down.

        Args:
            plan: what it is.
            func: what to call.
            args: as the program passed them.
            kwargs: likewise.
            value: computes the elements of the result where they follow from constants.
        """
        position = self.position
        if kwargs and isinstance(generator := kwargs.get("generator"), torch.Generator):
            self.generators.setdefault(id(generator), (generator, generator.get_state()))
        if self.sizes is not None:
            sized = self._graphed(*self._swapped(args, kwargs))
            args, kwargs = plain(args), plain(kwargs)
        swapped, named_swapped = (args, kwargs) if self.real else self._swapped(args, kwargs)
        if self.real and plan.name in READING:
            self.looked = True
        if plan.name in _INDEXED and not self.real:
            chooses = len(swapped) < 3 or (isinstance(swapped[2], TorchTensor) and swapped[2].numel() > 1)
            index = self.values.settled_index(swapped[1], self.stand_ins.constant, chooses)
            swapped = (swapped[0], index, *swapped[2:])
        graphed, named = self._graphed(swapped, named_swapped)  # before the call, which may change its arguments
        named |= self._remarks(plan.name, args, kwargs)
        if self.grad and plan.name in ATTENTION:
            named["kernel"] = self.attention or kernel_of(self.device.type, swapped, named_swapped)
        targets = self._targets(plan, swapped, named_swapped) if plan.writes or "out" in named_swapped else ()
        if self.saved:
            self.saved.forget()
        self._kept = {}
        outside, position.busy = position.busy, True
        try:
            if self.real:
                result = func(*args, **kwargs)
            else:
                result = self._compute(plan, func, swapped, named_swapped, value, targets)
        finally:
            position.busy = outside
        if self.sizes is not None:
            self._sized = sized
        if named.get("kernel", "math") != "math" and not (self.real or self.low):
            with self.aside():
                query = swapped[0] if swapped else named_swapped.get("query")
                result = laid_out(result, query, named["kernel"])
            for selection in self._selections:  # what was asked are the kernels that stand in for this one
                if selection.entry in position.regions:
                    kernels = _FUSED[named["kernel"]]
                    self._kept[selection.entry] = {any(selection.keeps(k, swapped, named_swapped) for k in kernels)}
        if plan.foreign:
            result = self._own_results(result, targets)
        self.write(plan, result, graphed, named, targets)
        return result

    def selection(self, policy: Callable[..., object]) -> Selection:
        """A policy of a selective checkpoint that is watched from now on."""
        self._selections.append(Selection(policy, self._selected))
        return self._selections[-1]

    def _selected(self, entry: str, keeps: bool) -> None:
        """Note that a checkpoint keeps the result of a kernel, or does not."""
        if self.position.busy:
            self._kept.setdefault(entry, set()).add(keeps)
        elif keeps and self.events:  # a mode above the one that recorded it
            last = self.events[-1]
            self.events[-1] = last._replace(cached=(*last.cached, entry))

    def _swapped(self, args: tuple[object, ...], kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The arguments with stand-ins for the program's tensors."""
        swap = self.stand_ins.swap
        return tuple([swap(a) for a in args]), {k: swap(v) for k, v in kwargs.items()} if kwargs else kwargs

    def _graphed(self, args: tuple[object, ...], kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The arguments with graph tensors for stand-ins."""
        graphed = self.stand_ins.graphed
        return tuple([graphed(a) for a in args]), {k: graphed(v) for k, v in kwargs.items()} if kwargs else {}

    def _targets(self, plan: Plan, args: tuple[object, ...], kwargs: Kwargs) -> Sequence[TorchTensor]:
        """The tensors that an operation is about to write into."""
        targets = written(plan.writes, args, kwargs)
        if self.before_write is not None:
            for target in targets:
                self.before_write(target)
        return targets

    def _remarks(self, name: str, args: tuple[object, ...], kwargs: Kwargs) -> Kwargs:
        """Facts about an operation's arguments beside shapes, by name: stored elements, lengths, masks, packing."""
        scope, modules = self.position.scope, self.position.modules
        if name in SPARSE:
            return stored_elements(args)
        if name in VARLEN:
            return ragged(name, args, kwargs, self._elements)
        if name in ATTENTION:
            lengths = ragged(name, args, kwargs, self._elements)
            return lengths | pairs_left(self.stand_ins, args, kwargs, modules[-1] if modules else None)
        if name in SOFTMAX and modules:
            return mask_of_module(modules[-1])
        if name.startswith("quantized."):
            return packed_tensors(args, scope[-1].path if scope else "")
        return {}

    def detach(self, plan: Plan, func: Function, args: Args, kwargs: Kwargs) -> Any:
        """As ``record``, for what gives a tensor that is the other one without its gradient."""
        result = self.record(plan, func, args, kwargs)
        self.stand_ins.pass_on(result, args[0] if self.real else self.stand_ins.swap(args[0]))
        return result

    def write(
        self,
        plan: Plan,
        result: object,
        graphed: tuple[object, ...],
        named: Mapping[str, object],
        targets: Sequence[TorchTensor] = (),
    ) -> None:
        """Write an operation down, and give its results graph tensors.

        An operation that hands back an argument as it was is not written down, nor is a setting of PyTorch's
        (``torch.set_grad_enabled``), which neither takes a tensor nor gives one, nor what PyTorch leaves to the other
        operand (``tensor == "text"``).

        Args:
            plan: what it is.
            result: what it returned.
            graphed: what it was called with, with graph tensors.
            named: likewise.
            targets: the tensors that it wrote into.
        """
        stand_ins = self.stand_ins
        grad = self.trains and self.below and any(t.grad for t in tensors_of(*graphed, *named.values()))
        if not targets and isinstance(result, TorchTensor):  # nearly always
            if not stand_ins.is_argument(result):
                self._append(plan, graphed, named, [stand_ins.result(result, False, grad)])
            return
        parts = list(flat((result,)))
        rewritten, returned = {id(target) for target in targets}, {id(part) for part in parts}
        outputs = []
        for part in parts:
            if id(part) in rewritten or not stand_ins.is_argument(part):
                outputs.append(stand_ins.result(part, id(part) in rewritten, grad))
        outputs += [stand_ins.result(target, True, grad) for target in targets if id(target) not in returned]
        is_setting = not (plan.foreign or tensors_of(*graphed, *named.values()))
        if outputs or not (parts or is_setting or result is NotImplemented):
            self._append(plan, graphed, named, outputs)

    def _elements(self, tensor: TorchTensor) -> TorchTensor | None:
        """The elements of a tensor of the program; None where they are not known."""
        return tensor if self.real and not tensor.is_meta else self.stand_ins.elements_of(tensor)

    def _own_results(self, result: object, targets: Sequence[TorchTensor]) -> object:
        """The results of an operator that is not PyTorch's: one that is an argument as it was, because a shape rule
        hands it back, becomes a tensor of its own.
        """
        if isinstance(result, TorchTensor):
            if not self.stand_ins.is_argument(result) or any(target is result for target in targets):
                return result
            with self.aside():
                return torch.ops.aten.alias(result)
        if result.__class__ in (tuple, list):
            return result.__class__([self._own_results(part, targets) for part in result])
        return result

    def applied(self, name: str, args: Sequence[object], result: object) -> None:
        """Write down a function with its own gradient, whose results are new tensors made from its arguments."""
        graphed = tuple(self.stand_ins.tensor_of(a) for a in args if isinstance(a, TorchTensor))
        outputs = [self.stand_ins.result(part, False) for part in flat((result,))]
        self._append(synthetic(f"autograd.{name}.apply", "torch.autograd.Function.apply"), graphed, {}, outputs)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leave flopwise's own work meanwhile out of the record."""
        with self.position.occupied(), torch._C.DisableTorchFunction():
            yield

    def read(self, tensor: TorchTensor) -> None:
        """Remember that the program took elements out of a tensor, which may come back in another."""
        if tensor.is_floating_point() or tensor.is_complex():
            self._read.append(self.stand_ins.tensor_of(tensor))

    def elements_were_read(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        """True if arguments hold real numbers that may follow from the input, because the program has read elements of
        a tensor that does.
        """
        if not self._read or not (holds_reals(args) or any(map(holds_reals, kwargs.values()))):
            return False
        if follow_from_input(self._read, self.events):
            return True
        self._read.clear()
        return False

    def _unseen(self, tensor: Tensor) -> None:
        here = self.position
        self.notes.append(described(tensor, here.scope[-1].path if here.scope else ""))
        self._append(UNSEEN, (), {}, (tensor,))

    def _append(
        self, plan: Plan, graphed: tuple[object, ...], named: Mapping[str, object], outputs: Sequence[Tensor]
    ) -> None:
        here = self.position
        via = (*here.regions, *here.via, plan.public)
        if self.sizes is not None:
            args, kwargs = self._sized or (graphed, named)
            self._sized = None
            self.sizes.made(plan.name, args, kwargs, outputs)
        saved = self.saved.take() if self.saved else None
        cached = tuple([entry for entry, kept in self._kept.items() if kept == {True}])
        if any(len(kept) > 1 for kept in self._kept.values()):
            what = f"a selective checkpoint keeps a part of what {plan.public} computes"
            self.notes.append(f"{what}: counted as if all of it ran once more")
        self._kept = {}
        scope = here.scope
        if self.inside_script is not None:
            scope = (*scope, *self.inside_script(tensors_of(*graphed, *named.values())))
        self.events.append(Event(plan, graphed, named, tuple(outputs), scope, via, here.within, saved, cached))

    def _compute(
        self,
        plan: Plan,
        func: Function,
        args: Sequence[object],
        kwargs: Kwargs,
        value: Callable[[], object] | None,
        targets: Sequence[TorchTensor],
    ) -> object:
        """The result on meta tensors, with its elements beside where they follow from constants."""
        if plan.name in RECURRENT and not (self.low or kwargs):
            from flopwise.readers.torch.capture.recurrent import shortened

            return shortened(func, args, self.saved)
        if value is None and not self.grad and not _has_values(args):
            if plan.name in OVER:
                return args[0]
            if plan.name in PLAIN and "out" not in kwargs:
                return self._on_meta(_cached(plan, func, args, kwargs))
        beside = None
        try:
            result = self._on_meta(func(*args, **kwargs))
            if value is None:
                beside = self.values.beside(func, args, kwargs, targets, result)
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            beside = chosen(self.values, plan.name, func, args, kwargs, targets) if value is None else None
            if beside is None:
                result = second_attempt(self.values, plan.name, func, args, kwargs)
            else:
                result = self.values.shaped_as(beside)
            if result is None:
                if asks_for_elements(plan.name, error):
                    raise NeedsValues(plan.public) from error
                raise
        if value is not None:
            beside = self.values.made(result, value)
        if beside is not None:
            self.values.keep(result, beside)
        return result

    def _on_meta(self, result: object) -> Any:
        """A result, or its stand-in where it has memory because it was made of numbers alone."""
        return self.stand_ins.constant(result) if type(result) is TorchTensor and not result.is_meta else result


class Selection:
    """The policy of a selective checkpoint: which kernels' results it keeps.

    Attributes:
        entry: the checkpoint, as ``Event.via`` names it.
    """

    def __init__(self, policy: Callable[..., object], noted: Callable[[str, bool], None]) -> None:
        self._policy = policy
        self._noted = noted
        self.entry = ""

    def __call__(self, context: object, kernel: Any, *args: object, **kwargs: object) -> object:
        """What the policy says, noted unless the kernel only moves elements."""
        answer = self._policy(context, kernel, *args, **kwargs)
        if not (kernel.is_view or kernel.overloadpacket in _MOVING):
            self._noted(self.entry, _is_kept(answer))
        return answer

    def keeps(self, kernel: object, args: Args, kwargs: Kwargs) -> bool:
        """True if it would keep the result of a kernel."""
        context = torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False)
        return _is_kept(self._policy(context, kernel, *args, **kwargs))


def _is_kept(answer: object) -> bool:
    """True for True and the policies MUST_SAVE and PREFER_SAVE."""
    return answer is True or getattr(answer, "name", "").endswith("_SAVE")


_aten = torch.ops.aten

#: Kernels beside views that move elements and compute nothing.
_MOVING = frozenset(
    {
        _aten._unsafe_view,
        _aten.clone,
        _aten._to_copy,
        _aten.copy_,
        _aten.cat,
        _aten.empty,
        _aten.empty_like,
        _aten.detach,
    }
)

#: Kernels that a device may run for an attention that is assumed to be fused.
_FUSED = {
    "flash": (
        _aten._scaled_dot_product_flash_attention.default,
        _aten._scaled_dot_product_flash_attention_for_cpu.default,
        _aten._scaled_dot_product_cudnn_attention.default,
    ),
    "efficient": (_aten._scaled_dot_product_efficient_attention.default,),
}


def _has_values(args: Sequence[object]) -> bool:
    """True if the elements of an argument are known, so that those of the result may be."""
    for arg in args:
        if isinstance(arg, TorchTensor):
            if "_flopwise_values" in arg.__dict__:
                return True
        elif arg.__class__ in (list, tuple) and _has_values(arg):
            return True
    return False


def _cached(plan: Plan, func: Function, args: Sequence[object], kwargs: Kwargs) -> object:
    """A result like the one that the same shapes gave before, or a new one."""
    key = key_of(plan.name, args, kwargs)
    result = again(key)
    if result is None:
        result = func(*args, **kwargs)
        keep(key, result)
    return result
