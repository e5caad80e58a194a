"""Recording: every tensor operation that a program asks for is run on stand-ins and written down.

PyTorch hands over each public function that a program calls; the function's plan says in which way it is met. Stand-ins
are meta tensors, which have a shape and no memory, so nothing of the module is touched or copied. Elements of small
tensors that follow from constants alone (positions, masks, lengths) are computed beside, so that a program that asks
for them gets them. Operations that no Python function asked for (those of TorchScript, and of extensions in C++) are
recorded one level lower, where composite operators have been decomposed already.

Of a tensor that a program makes where no operation is seen (by numpy, in another thread, in C++) nothing is known: it
changes from input to input, and what made it is a row of its own, without count.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor as TorchTensor
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from flopwise.formats.options import AttentionKernel
from flopwise.formats.torch.kinds import Args, Function, Kwargs, Namespace
from flopwise.formats.torch.lower.node import tensors as tensors_of
from flopwise.formats.torch.record.names import Plan, is_sign, plan_of, synthetic, written
from flopwise.formats.torch.record.remarks import ATTENTION, kernel_of, laid_out, remarks
from flopwise.formats.torch.record.stand_ins import META, SavedStorages, StandIns, is_transformed, shortened
from flopwise.formats.torch.record.values import (
    FAILURES,
    HANDED_OUT,
    LARGEST_REAL,
    NeedsValues,
    Sizes,
    asks_for_elements,
    count_of,
    flat,
    plain,
)
from flopwise.graph import Body, Module, ProgramTensor, Tensor

# --- one operation, where in the program it ran, and what it follows from


class Position(threading.local):
    """The modules, functions and branches around the running code, for each thread by itself."""

    def __init__(self) -> None:
        #: The modules, outermost first.
        self.scope: tuple[Module, ...] = ()
        #: The running modules themselves.
        self.modules: tuple[nn.Module, ...] = ()
        #: The public functions that the innermost module went through, outermost first.
        self.via: tuple[str, ...] = ()
        #: Checkpoints and functions with a gradient of their own, outermost first.
        self.regions: tuple[str, ...] = ()
        #: Branches of which one runs, and which one is not known.
        self.within: tuple[Body, ...] = ()
        #: The call of a module that is running, by its place among all calls.
        self.call: int | None = None
        #: Whether an operation is running, so that whatever happens inside is part of it.
        self.busy = False

    @contextlib.contextmanager
    def occupied(self) -> Iterator[None]:
        """Mark all that happens meanwhile as part of one operation."""
        outside, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = outside

    @property
    def path(self) -> str:
        """The path of the innermost module, "" for the model itself."""
        return self.scope[-1].path if self.scope else ""

    def copy(self) -> Kwargs:
        """The position of this thread."""
        return dict(vars(self))

    def adopt(self, position: Namespace) -> None:
        """Go to a position that this thread or another was at."""
        vars(self).update(position)


class Event(NamedTuple):
    """One operation as the program called it, with graph tensors in place of PyTorch's."""

    plan: Plan
    args: Args
    kwargs: Mapping[str, Any]
    outputs: tuple[Tensor, ...]
    scope: tuple[Module, ...]
    via: tuple[str, ...]
    within: tuple[Body, ...] = ()
    #: The storages that autograd keeps: the name of the tensor that has it, "" for one of the operation's own, and its
    #: bytes; None where that is not recorded.
    saved: tuple[tuple[str, int], ...] | None = None
    #: The checkpoints around it, of those in ``via``, that keep its results and do not compute them once more.
    cached: tuple[str, ...] = ()


def follow_from_input(tensors: Iterable[Tensor], events: Sequence[Event]) -> bool:
    """True if one of some tensors follows from an input, or from an operation that was not seen."""
    makers = {t.name: event for event in events for t in event.outputs}
    reached: set[str] = set()
    waiting = [*tensors]
    while waiting:
        tensor = waiting.pop()
        maker = makers.get(tensor.name)
        if tensor.kind == "input" or (maker is not None and maker.plan is UNSEEN):
            return True
        if maker is not None and tensor.name not in reached:
            reached.add(tensor.name)
            waiting += tensors_of(*maker.args, *maker.kwargs.values())
    return False


#: The operation that stands for whatever made the tensor.
UNSEEN = synthetic("torch.unseen", "torch.unseen")

#: The folders of PyTorch and of flopwise, whose code is not a line of the program.
LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, str(Path(__file__).parents[3]) + os.sep)


def holds_reals(data: object) -> bool:
    """True if nested lists and arrays hold real or complex numbers."""
    if isinstance(data, (list, tuple)):
        return any(map(holds_reals, data))
    return isinstance(data, (float, complex)) or getattr(getattr(data, "dtype", None), "kind", "") in ("f", "c")


def asker() -> FrameType | None:
    """The innermost code on the stack that is neither PyTorch's nor flopwise's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((*LIBRARIES, "<frozen")):
        frame = frame.f_back
    return frame


# --- the recorder

#: Operators whose second argument is what stands in brackets, and those that read the lengths of sequences.
_INDEXED = frozenset({"aten.getitem", "aten.setitem_"})
_READING = frozenset({"aten._pack_padded_sequence", "aten.pack_padded_sequence"})

#: Layers of which one call runs all steps, which are alike.
RECURRENT = frozenset(f"aten.{name}" for name in ("gru", "lstm", "rnn_tanh", "rnn_relu"))

#: Modules in which PyTorch works out the shapes of results in Python.
_RULES = """
    torch._meta_registrations torch._prims torch._prims_common.wrappers torch._refs torch._refs.nn.functional
    torch._decomp.decompositions
"""
_META_RULES = frozenset(_RULES.split())

#: Plans of methods that a program wrote as signs.
_SIGNED: dict[Function, Plan] = {}


class Recorder(TorchFunctionMode):
    """The operations of one run in the order in which they ran, in each thread that enters it."""

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
        super().__init__()
        self.device, self.real, self.grad, self.low = device, real, grad, low
        self.position = Position()
        self.stand_ins = StandIns(graph_tensors, self.position, real, grad, low)
        self.stand_ins.unseen = self._unseen
        self.stand_ins.varies = lambda tensor: follow_from_input([tensor], self.events)
        self.stand_ins.elements_left = lambda: follow_from_input(self._read, self.events)
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
        #: Called on real runs with a tensor that an operation is about to write into, or give other elements.
        self.before_write: Callable[[TorchTensor], None] | None = None
        self.before_set: Callable[[TorchTensor], None] | None = None
        #: Called with what an operation takes, gives the modules inside the running script that it runs in.
        self.inside_script: Callable[[Sequence[Tensor]], Sequence[Module]] | None = None
        #: Whether PyTorch is at work on the program of a script, and does not run it: it compares constants.
        self.compiles: Callable[[], bool] | None = None
        #: The program's own generators of random numbers that were used, with the state that each had.
        self.generators: dict[int, tuple[torch.Generator, TorchTensor]] = {}
        #: Policies of selective checkpoints, and what those around the running operation said of its kernels.
        self.selections: list[Selection] = []
        self._kept: dict[str, set[bool]] = {}
        #: Functions of PyTorch's that are looked into at the moment.
        self.inside: set[Function] = set()
        #: What is done with a function, by the way of its plan; see ``ways``.
        self.ways: dict[str, Callable[[Plan, Function, Args, Kwargs], Any]] = {"record": self.record}

    # --- the two doors

    def __torch_function__(self, func: Function, types: object, args: Args = (), kwargs: Any = None) -> object:
        if self.closed:
            return func(*args, **(kwargs or {}))
        plan = plan_of(func)
        if is_transformed():
            return self.ways["lower"](plan, func, args, kwargs or {})
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__") in _META_RULES:  # part of an operation that was not seen itself
            self.stand_ins.foreign.append(plan.name)
            return func(*args, **(kwargs or {}))
        if plan.sign and is_sign(frame):
            plan = _SIGNED.get(func) or _SIGNED.setdefault(func, plan._replace(public=plan.sign))
        return self.ways[plan.way](plan, func, args, kwargs or {})

    def dispatched(self, func: Function, args: Args, kwargs: Kwargs) -> object:
        """An operator that reached the dispatcher while no function was running."""
        with torch._C.DisableTorchFunction():  # PyTorch's own shape rules are written in Python as well
            if self.compiles is not None and self.compiles():
                return func(*args, **kwargs)
            plan = plan_of(func)
            below, self.below = self.below, torch.is_grad_enabled() and plan.way != "detach"
            try:
                return self.ways[plan.way](plan, func, args, kwargs)
            finally:
                self.below = below

    # --- operations

    def record(
        self, plan: Plan, func: Function, args: Args, kwargs: Kwargs, value: Callable[[], object] | None = None
    ) -> Any:
        """Run an operation and write it down.

        Args:
            plan: what it is.
            func: what to call.
            args: as the program passed them.
            kwargs: likewise.
            value: computes the elements of the result where they follow from constants.
        """
        position, stand_ins = self.position, self.stand_ins
        swap, graph = stand_ins.swap, stand_ins.graphed
        if kwargs and isinstance(generator := kwargs.get("generator"), torch.Generator):
            self.generators.setdefault(id(generator), (generator, generator.get_state()))
        if self.sizes is not None:
            sized = graph(swap(args)), graph(swap(kwargs))
            args, kwargs = plain(args), plain(kwargs)
        swapped, named_swapped = args, kwargs
        if self.real:
            self.looked = self.looked or plan.name in _READING
        else:
            swapped, named_swapped = tuple([swap(a) for a in args]), swap(kwargs) if kwargs else kwargs
            if plan.name in _INDEXED:
                chooses = len(swapped) < 3 or (isinstance(swapped[2], TorchTensor) and swapped[2].numel() > 1)
                index = self.values.settled_index(swapped[1], stand_ins.constant, chooses)
                swapped = (swapped[0], index, *swapped[2:])
        graphed = tuple([graph(a) for a in swapped])  # before the call, which may change its arguments
        named = graph(named_swapped) if named_swapped else {}
        module = position.modules[-1] if position.modules else None
        named |= remarks(plan.name, args, kwargs, stand_ins, module, position.path)
        if self.grad and plan.name in ATTENTION:
            named["kernel"] = self.attention or kernel_of(self.device.type, swapped, named_swapped)
        targets: Sequence[TorchTensor] = ()
        if plan.writes or "out" in named_swapped:
            targets = written(plan.writes, swapped, named_swapped)
            for target in targets if self.before_write is not None else ():
                self.before_write(target)  # type: ignore[misc] # there is one, as was asked
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
            for selection in self.selections:  # what was asked are the kernels that stand in for this one
                if selection.entry in position.regions:
                    kernels = _FUSED[named["kernel"]]
                    self._kept[selection.entry] = {any(selection.keeps(k, swapped, named_swapped) for k in kernels)}
        if plan.foreign:
            result = self._own_results(result, targets)
        self.write(plan, result, graphed, named, targets)
        return result

    def _compute(
        self,
        plan: Plan,
        func: Function,
        args: Args,
        kwargs: Kwargs,
        value: Callable[[], object] | None,
        targets: Sequence[TorchTensor],
    ) -> object:
        """The result on meta tensors, with its elements beside where they follow from constants."""
        if plan.name in RECURRENT and not (self.low or kwargs):
            return shortened(func, args, self.saved)
        key: Any = None
        repeats = value is None and plan.way != "factory" and not (self.grad or self.low or plan.foreign)
        source = args[:1] if plan.name in _NORMS else (args, *kwargs.values())
        if repeats and func not in _FRESH and not _has_values(source):
            key = (func, torch.get_default_dtype(), *map(_part, args), *[(k, _part(v)) for k, v in kwargs.items()])
            try:
                known = _KNOWN.get(key)
            except TypeError:  # an argument that no dictionary takes
                key = known = None
            if known is not None:
                return known.again(args)
        beside = None
        try:
            result: Any = func(*args, **kwargs)
            if type(result) is TorchTensor and not result.is_meta:  # it was made of numbers alone
                result = self.stand_ins.constant(result)
            if value is None:
                beside = self.values.beside(func, args, kwargs, targets, result)
        except FAILURES as error:
            result, beside = self.values.shaped(plan.name, func, args, kwargs, targets, value is None)
            if result is None:
                if asks_for_elements(plan.name, error):
                    raise NeedsValues(plan.public) from error
                raise
        if value is not None and count_of(result) <= LARGEST_REAL:
            with contextlib.suppress(NeedsValues, *FAILURES):
                beside = value()
        if beside is not None:
            self.values.keep(result, beside)
        elif key is not None:
            _keep_shapes(key, args, kwargs, targets, result)
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
            if stand_ins.known(result) is None:
                self._append(plan, graphed, named, [stand_ins.result(result, False, grad)])
            return
        parts = list(flat((result,)))
        rewritten, returned = {id(target) for target in targets}, {id(part) for part in parts}
        outputs = []
        for part in (*parts, *[target for target in targets if id(target) not in returned]):
            if id(part) in rewritten or stand_ins.known(part) is None:
                outputs.append(stand_ins.result(part, id(part) in rewritten, grad))
        is_setting = not (plan.foreign or tensors_of(*graphed, *named.values()))
        if outputs or not (parts or is_setting or result is NotImplemented):
            self._append(plan, graphed, named, outputs)

    def _own_results(self, result: object, targets: Sequence[TorchTensor]) -> object:
        """The results of an operator that is not PyTorch's: one that is an argument as it was, because a shape rule
        hands it back, becomes a tensor of its own.
        """
        if isinstance(result, TorchTensor):
            if self.stand_ins.known(result) is None or any(target is result for target in targets):
                return result
            with self.aside():
                return torch.ops.aten.alias(result)
        if result.__class__ in (tuple, list):
            return result.__class__([self._own_results(part, targets) for part in result])
        return result

    def applied(self, name: str, args: Sequence[object], result: object) -> None:
        """Write down a function with its own gradient, whose results are new tensors made from its arguments."""
        graphed = tuple([self.stand_ins.tensor_of(a) for a in args if isinstance(a, TorchTensor)])
        outputs = [self.stand_ins.result(part) for part in flat((result,))]
        self._append(synthetic(f"autograd.{name}.apply", "torch.autograd.Function.apply"), graphed, {}, outputs)

    def _append(
        self, plan: Plan, graphed: tuple[object, ...], named: Mapping[str, object], outputs: Sequence[Tensor]
    ) -> None:
        here = self.position
        if self.sizes is not None:
            args, kwargs = self._sized or (graphed, named)
            self._sized = None
            self.sizes.made(plan.name, args, kwargs, outputs)
        cached: tuple[str, ...] = ()
        if self._kept:
            cached = tuple([entry for entry, kept in self._kept.items() if kept == {True}])
            if any(len(kept) > 1 for kept in self._kept.values()):
                what = f"a selective checkpoint keeps a part of what {plan.public} computes"
                self.notes.append(f"{what}: counted as if all of it ran once more")
            self._kept = {}
        scope = here.scope
        if self.inside_script is not None:
            scope = (*scope, *self.inside_script(tensors_of(*graphed, *named.values())))
        via = (*here.regions, *here.via, plan.public)
        saved = self.saved.take() if self.saved else None
        self.events.append(Event(plan, graphed, named, tuple(outputs), scope, via, here.within, saved, cached))

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leave flopwise's own work meanwhile out of the record."""
        with self.position.occupied(), torch._C.DisableTorchFunction():
            yield

    # --- elements that leave the program and come back

    def read(self, tensor: TorchTensor) -> None:
        """Remember that the program took elements out of a tensor, which may come back in another."""
        self._read.append(self.stand_ins.tensor_of(tensor))

    def elements_were_read(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        """True if arguments hold real numbers that may follow from the input, because the program has read elements of
        a tensor that does.
        """
        reals = [tensor for tensor in self._read if "int" not in (tensor.dtype or "") and tensor.dtype != "bool"]
        if not reals or not holds_reals([*args, *kwargs.values()]):
            return False
        if follow_from_input(reals, self.events):
            return True
        self._read = [tensor for tensor in self._read if all(tensor is not other for other in reals)]
        return False

    def _unseen(self, tensor: Tensor) -> None:
        """A tensor that no operation made is a row, and there is a note on where it appeared."""
        shape, module, frame = "×".join(map(str, tensor.shape or ())) or "a scalar", self.position.path, asker()
        line = f" at {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""
        self.notes.append(
            f"{shape} {tensor.dtype} appeared{f' in {module}' if module else ''}{line} from an operation that flopwise "
            "does not see (numpy, another thread, C++): what made it is not counted, what is computed from it is"
        )
        self._append(UNSEEN, (), {}, (tensor,))

    def selected(self, entry: str, keeps: bool) -> None:
        """Note that a selective checkpoint keeps the result of a kernel, or does not."""
        if self.position.busy:
            self._kept.setdefault(entry, set()).add(keeps)
        elif keeps and self.events:  # a mode above the one that recorded it
            last = self.events[-1]
            self.events[-1] = last._replace(cached=(*last.cached, entry))


class Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call] # PyTorch's class has no types
    """Hands the operators that reach the dispatcher to a recorder, except inside an operation that is recorded."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # likewise
        self._recorder = recorder

    def __torch_dispatch__(self, func: Function, types: object, args: Args = (), kwargs: Any = None) -> object:
        if self._recorder.position.busy or self._recorder.closed:
            return func(*args, **(kwargs or {}))
        return self._recorder.dispatched(func, args, kwargs or {})


# --- results that were made before: working out the shape of a convolution takes PyTorch much longer than making a
# meta tensor of a known shape, and a network repeats its layers


class _Known(NamedTuple):
    """The shapes, strides and element types of the results of an operator; None where it wrote over its argument."""

    shapes: Sequence[tuple[Any, ...]] | None
    several: bool

    def again(self, args: Args) -> Any:
        """Results like them."""
        if self.shapes is None:
            return args[0]
        results = [torch.empty_strided(s, strides, dtype=d, device=META) for s, strides, d in self.shapes]
        return tuple(results) if self.several else results[0]


_KNOWN: dict[Any, _Known] = {}

#: Operators whose results have no known elements where their first input has none, whatever statistics they are given.
_NORMS = frozenset(("aten.batch_norm", "aten.instance_norm"))

#: Functions that have given views, and are asked each time.
_FRESH: set[Function] = set()

#: Results that are kept; then all are forgotten.
_MOST = 1 << 15


def _keep_shapes(key: Any, args: Args, kwargs: Kwargs, targets: Sequence[TorchTensor], result: Any) -> None:
    """Remember the shapes of what an operator gave: new tensors, or its first argument, of the same shape."""
    parts = result if type(result) is tuple else (result,)
    shapes = None
    if targets:
        same = len(targets) == 1 and args and result is args[0] is targets[0]
        if not (same and key[2][:2] == (result.shape, result.stride())):
            return
    elif all(type(t) is TorchTensor and t.is_meta and "_flopwise" not in t.__dict__ for t in parts):
        shapes = [(t.shape, t.stride(), t.dtype) for t in parts]
        memory = {t.untyped_storage()._cdata for t in flat((args, *kwargs.values())) if t.layout is torch.strided}
        if any(t.untyped_storage()._cdata in memory for t in parts):  # a view, or an argument as it was
            _FRESH.add(key[0])
            return
    else:
        return
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    _KNOWN[key] = _Known(shapes, result is parts)


def _part(thing: Any) -> Any:
    if isinstance(thing, TorchTensor):
        return (thing.shape, thing.stride(), thing.dtype)
    kind = thing.__class__
    return (kind, *map(_part, thing)) if kind is list or kind is tuple else (kind, thing)


def _has_values(args: Sequence[object]) -> bool:
    """True if the elements of an argument are known, so that those of the result may be."""
    for arg in args:
        if isinstance(arg, TorchTensor):
            if "_flopwise_values" in arg.__dict__:
                return True
        elif arg.__class__ in (list, tuple) and _has_values(arg):
            return True
    return False


# --- selective checkpoints


class Selection:
    """The policy of a selective checkpoint: which kernels' results it keeps.

    Attributes:
        entry: the checkpoint, as ``Event.via`` names it.
    """

    def __init__(self, policy: Callable[..., object], recorder: Recorder) -> None:
        self._policy = policy
        self._recorder = recorder
        self.entry = ""
        recorder.selections.append(self)

    def __call__(self, context: object, kernel: Any, *args: object, **kwargs: object) -> object:
        """What the policy says, noted unless the kernel only moves elements."""
        answer = self._policy(context, kernel, *args, **kwargs)
        if not (kernel.is_view or kernel.overloadpacket.__name__ in _MOVING):
            self._recorder.selected(self.entry, _is_kept(answer))
        return answer

    def keeps(self, kernel: object, args: Args, kwargs: Kwargs) -> bool:
        """True if it would keep the result of a kernel."""
        context = torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False)
        return _is_kept(self._policy(context, kernel, *args, **kwargs))


def _is_kept(answer: object) -> bool:
    """True for True and the policies MUST_SAVE and PREFER_SAVE."""
    return answer is True or getattr(answer, "name", "").endswith("_SAVE")


#: Kernels beside views that move elements and compute nothing.
_MOVING = frozenset({"_unsafe_view", "clone", "_to_copy", "copy_", "cat", "empty", "empty_like", "detach"})

#: Kernels that a device may run for an attention that is assumed to be fused.
_FUSED = {
    "flash": (
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    ),
    "efficient": (torch.ops.aten._scaled_dot_product_efficient_attention.default,),
}
