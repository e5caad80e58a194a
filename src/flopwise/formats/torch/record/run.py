"""One run of a module: in meta tensors or real ones, with its operations and calls recorded."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import re
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from flopwise._user_code import place_of, user_code
from flopwise.errors import FlopwiseError, InputError, message
from flopwise.formats.options import AttentionKernel, Mode
from flopwise.formats.torch.arguments import Arguments
from flopwise.formats.torch.containers import tensors_inside
from flopwise.formats.torch.description import DENIALS, DENIED, filled
from flopwise.formats.torch.kinds import is_program_of_file
from flopwise.formats.torch.lower.node import tensors
from flopwise.formats.torch.record.calls import Calls, followed, regions
from flopwise.formats.torch.record.keep import Before, one_thread, plain_execution, restored, take_back
from flopwise.formats.torch.record.modules import stored_tensors
from flopwise.formats.torch.record.recorder import Dispatch, Event, Recorder
from flopwise.formats.torch.record.values import LARGEST, NeedsLower, NeedsValues, mark_made_up
from flopwise.formats.torch.record.ways import launches, ways_of
from flopwise.graph import Call, Module, ProgramTensor, Tensor


class Run(NamedTuple):
    """The record of one run of a module."""

    events: Sequence[Event]
    calls: Sequence[Call]
    #: The parameters and buffers with their graph tensors, by id.
    stored: dict[int, tuple[torch.Tensor, ProgramTensor]]
    outputs: tuple[Tensor, ...]
    #: Names of tensors that no recorded operation made, and of operations inside one that was not recorded.
    foreign: Sequence[str]
    #: Where tensors appeared from where no operation is seen.
    notes: Sequence[str]
    #: What was to be kept of the module's result.
    result: Any
    #: Inputs of which only the shape is known and whose elements the program has asked for, those of which it has asked
    #: whether something is so, and those whose elements have chosen some of a tensor's: all of these were taken.
    asked: frozenset[str] = frozenset()
    tested: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()
    #: Paths of modules that scripts have called.
    in_scripts: frozenset[str] = frozenset()


class RunError(Exception):
    """The module raised.

    Attributes:
        where: the module in which it happened and the shapes it was called with, ready to be put before the words.
        words: what happened, in one line.
        place: file and line of the user's code, ready to be put after the words.
        before: what was recorded until then, where elements decide what comes next.
        read: whether the program has read elements that were made up for an input, or of an input at all.
    """

    def __init__(
        self, where: str, words: str, place: str = "", before: Run | None = None, *, read: bool = False
    ) -> None:
        super().__init__(words)
        self.read = read
        self.where = where
        self.words = words
        self.place = place
        self.before = before


def run(
    model: nn.Module,
    arguments: Arguments,
    mode: Mode,
    *,
    grad: bool,
    real: bool,
    attention: AttentionKernel | None = None,
    keep: Callable[[Any], object] = lambda result: None,
) -> Run:
    """Run a module and record it; once more with the dispatcher recording too, where not every operation was seen.

    Args:
        model: the module; afterwards it is as it was.
        arguments: what to call it with.
        mode: the mode of its modules.
        grad: whether gradients are recorded.
        real: whether to compute with real tensors.
        attention: the kernel of attention that is assumed; None: the one that PyTorch would choose.
        keep: what to keep of the module's result, whose tensors belong to the run.

    Raises:
        RunError: it raised.
    """
    modules = list(model.named_modules())
    low = any(isinstance(m, torch.jit.ScriptModule) for _, m in modules)
    once = functools.partial(_run, model, modules, arguments, mode, real, attention, keep, grad)
    try:
        recorded = once(grad, low)
        if low or not recorded.foreign:
            return recorded
    except RunError as error:
        if "saved tensor hooks" not in error.words:  # functions that are transformed do not run beside them
            raise
        return once(True, True)
    except NeedsLower:  # for gradients that the program asks for, or functions that it transforms
        return once(True, True)
    lower = once(grad, True)
    return recorded if recorded.notes and len(lower.foreign) >= len(recorded.foreign) else lower


def _run(
    model: nn.Module,
    modules: Sequence[tuple[str, nn.Module]],
    arguments: Arguments,
    mode: Mode,
    real: bool,
    attention: AttentionKernel | None,
    keep: Callable[[object], object],
    trains: bool,
    grad: bool,
    low: bool,
) -> Run:
    """As ``run``, once.

    Args:
        model: as there, and so on.
        trains: whether somebody asks for gradients.
        grad: whether they are recorded, which the program itself may need.
        low: whether the dispatcher records too.
    """
    stored = stored_tensors(modules)
    device = next((p.device for p in model.parameters() if not p.is_meta), torch.device("cpu"))
    recorder = Recorder({key: tensor for key, (_, tensor) in stored.items()}, device, real=real, grad=grad, low=low)
    recorder.attention, recorder.trains = attention, trains
    recorder.ways = ways_of(recorder)
    before = Before()
    calls = Calls(modules, recorder, before)
    training = {"eval": False, "train": True, "as-is": None}[mode]
    chance, exact = torch.get_rng_state(), False
    threads = contextlib.nullcontext() if real else one_thread()
    record: Run | None = None
    try:
        with restored(model, training, real, before) as elements, plain_execution(), threads:
            if elements is not None:
                recorder.before_write, recorder.before_set = elements.before_write, elements.before_set
            try:
                record = _recorded(model, stored, arguments, recorder, calls, keep)
            except RunError as error:
                record = error.before
                raise
            finally:
                chosen = recorder.generators or not torch.equal(torch.get_rng_state(), chance)
                exact = device.type == "cpu" and not (real or chosen)
    finally:
        for generator, state in recorder.generators.values():
            generator.set_state(state)
        recorder.stand_ins.release()
        if any(tensor() is not None for tensor in recorder.stand_ins.made):  # which few programs keep
            own = functools.partial(recorder.stand_ins.own, device=device)
            notes = take_back(recorder.stand_ins.made, before, own, exact)
            if record is not None:
                recorder.notes += notes
    return record


def _recorded(
    model: nn.Module,
    stored: dict[int, tuple[torch.Tensor, ProgramTensor]],
    arguments: Arguments,
    recorder: Recorder,
    calls: Calls,
    keep: Callable[[object], object],
) -> Run:
    """The record of one call of a module; nothing else keeps the arguments and the result."""
    outer = sys.exc_info()[1]
    args, kwargs, inputs, made = arguments.copies(recorder.real)
    recorder.stand_ins.graph_tensors |= {key: tensor for key, (_, tensor) in inputs.items()}
    recorder.stand_ins.raw = [tensor for tensor, _ in (stored | inputs).values()]
    recorder.stand_ins.made += map(weakref.ref, made)

    @contextlib.contextmanager
    def recording() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(bool(recorder.grad)))
            if recorder.saved:
                stack.enter_context(recorder.saved.hooks())
            if recorder.low:
                stack.enter_context(Dispatch(recorder))
            stack.enter_context(recorder)
            yield

    def run_of(outputs: tuple[Tensor, ...], result: object) -> Run:
        foreign, notes, values = recorder.stand_ins.foreign, recorder.notes, recorder.values
        read = frozenset(values.asked), frozenset(values.tested), frozenset(values.chosen)
        inside = frozenset(calls.in_scripts)
        return Run(recorder.events, calls.calls, stored, outputs, foreign, notes, result, *read, inside)

    if not recorder.real:
        _give_values(recorder, [inputs[id(tensor)] for tensor in made], arguments)
        if recorder.low and recorder.grad:  # in a function that is transformed nothing can be made to need a gradient
            for tensor, _ in stored.values():
                recorder.stand_ins.stand_in(tensor)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(user_code(type(model).__name__, "it ran"))
            stack.enter_context(recorder.stand_ins.births())
            stack.enter_context(calls.recorded())
            stack.enter_context(regions(recorder))
            stack.enter_context(launches(recorder))
            stack.enter_context(followed(recorder, recording))
            stack.enter_context(recording())
            result = contextvars.copy_context().run(_runner(model, recorder), *args, **kwargs)
        return run_of(_results(recorder, calls, result), keep(result))
    except (Exception, NeedsLower, NeedsValues) as error:  # whatever a program raises is reported in one line
        where, place, large = _where(calls), place_of(error), _has_large_indices(inputs)
        read = bool(recorder.values.asked or recorder.values.tested or recorder.values.chosen or recorder.looked)
        args, kwargs, inputs, made = (), {}, {}, []
        _clear_variables(error, outer)
        if isinstance(error, (FlopwiseError, NeedsLower)):
            raise
        if isinstance(error, NeedsValues):
            what = f"{error.function} reads elements" if error.function else "it reads the elements of a large tensor"
            what += f" (those of inputs are followed up to {LARGEST:,})" if large else ""
            raise RunError(where, what, place, run_of((), None), read=read) from error
        if isinstance(error, RecursionError):
            raise RunError(where, "recurses without end", place) from error
        if (sizes := _too_large(error)) is not None:
            where = f"{type(model).__name__}: {where}"
            raise InputError(f"{where}{sizes} has more bytes than PyTorch can count; give smaller sizes") from error
        raise RunError(where, _words(error), place, read=read) from error


def _clear_variables(error: BaseException, outer: BaseException | None) -> None:
    """Forget the variables of the calls that raised an error: they hold tensors without elements.

    Args:
        error: the error; those that led to it are followed.
        outer: what the caller was handling before, whose calls are the caller's own.
    """
    seen = {id(outer)}
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        traceback.clear_frames(cause.__traceback__)
        seen.add(id(cause))
        cause = cause.__context__ if cause.__cause__ is None else cause.__cause__


def _has_large_indices(inputs: dict[int, tuple[torch.Tensor, ProgramTensor]]) -> bool:
    """True if an input of whole numbers has more elements than are followed."""
    return any(t.numel() > LARGEST for t, _ in inputs.values() if not t.is_floating_point())


def _give_values(recorder: Recorder, made: Iterable[tuple[torch.Tensor, ProgramTensor]], arguments: Arguments) -> None:
    """Give elements to whole-number inputs of which only the shape is known: masks and positions decide what runs."""
    recorder.values.strict = arguments.strict
    recorder.values.denials = DENIALS if arguments.way == DENIED else 0
    for tensor, graph_tensor in made:
        if not tensor.is_floating_point() and tensor.numel() <= LARGEST:
            values = filled(tensor, graph_tensor.name, arguments.way)
            mark_made_up(values, frozenset({graph_tensor.name}))
            recorder.stand_ins.stand_in(tensor)._flopwise_values = values  # type: ignore[attr-defined]
            recorder.values.guesses = True


def _runner(model: nn.Module, recorder: Recorder) -> Callable[..., object]:
    """The callable that runs a module: itself, or for a graph that remembers its modules, its operations one by one."""
    program: Any = model
    if is_program_of_file(model):
        return functools.partial(program.run, recorder.position)
    if not isinstance(model, torch.fx.GraphModule) or not any("nn_module_stack" in n.meta for n in model.graph.nodes):
        return model
    return _GraphRunner(model, recorder)


class _GraphRunner(torch.fx.Interpreter):
    """Runs a graph whose operations say in which module they were before they were put into the graph."""

    def __init__(self, model: torch.fx.GraphModule, recorder: Recorder) -> None:
        super().__init__(model)
        self._position = recorder.position

    def __call__(self, *args: object, **kwargs: object) -> Any:
        flat, _ = torch.utils._pytree.tree_flatten((args, kwargs))
        return self.run(*flat)

    def run_node(self, node: torch.fx.Node) -> object:
        steps = node.meta.get("nn_module_stack", {}).values()
        before = self._position.scope
        classes = [(path, kind if isinstance(kind, str) else kind.__qualname__) for path, kind in steps]
        self._position.scope = tuple([Module(path, name.rpartition(".")[2]) for path, name in classes])
        try:
            return super().run_node(node)
        finally:
            self._position.scope = before


def _where(calls: Calls) -> str:
    """The module in which it happened, and the shapes it was called with."""
    if calls.failed is None:
        return ""
    step, inputs = calls.failed
    shapes = " and ".join("×".join(map(str, t.dims)) or "a scalar" for t in inputs[:3])
    module = f"in {step.path} ({step.kind})" if step.path else ""
    words = ", ".join(part for part in (module, f"given {shapes}" if shapes else "") if part)
    return f"{words}: " if words else ""


#: What PyTorch says of a tensor whose bytes are more than a number of 64 bits.
_OVERFLOW = re.compile(r"overflow.*sizes=\[([0-9, ]+)\]|integer multiplication overflow")


def _too_large(error: Exception) -> str | None:
    """The tensor whose bytes PyTorch could not count, in words; None where something else went wrong."""
    overflow = _OVERFLOW.search(message(error)) if isinstance(error, RuntimeError) else None
    if overflow is None:
        return None
    return "×".join((overflow[1] or "").split(", ")) or "a tensor"


def _words(error: Exception) -> str:
    text = message(error)
    operator, lacks, _ = text.partition(": We could not find the fake impl for this operator")
    if lacks:
        return f"{operator} does not run on them"
    if len(text) > 300:
        text = text[:297] + "..."
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _results(recorder: Recorder, calls: Calls, result: object) -> tuple[Tensor, ...]:
    """The graph tensors in what a module returned: those of lists and mappings in a row.

    Where gradients are asked for, then those of other objects, and those that the program keeps and that ask for a
    gradient which the others do not lead to.
    """
    listed = calls.flat((result,))
    if not recorder.grad:  # a cache that a language model hands on counts as its state
        return listed
    names = {tensor.name for tensor in listed}
    inner = [recorder.stand_ins.tensor_of(tensor) for _, tensor in tensors_inside(result)]
    outputs = [*listed, *{t.name: t for t in inner if t.name not in names}.values()]
    return (*outputs, *_held_tensors(recorder, outputs))


def _held_tensors(recorder: Recorder, outputs: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that the program keeps, from which gradients go where none goes from the outputs."""
    reached = {tensor.name for tensor in outputs if tensor.grad}
    events = recorder.events
    left = _unreached(events, reached)
    if not left:
        return []
    gc.collect(1)  # what only holds itself
    alive = {recorder.stand_ins.tensor_of(t).name for held in recorder.stand_ins.made if (t := held()) is not None}
    tensors: list[Tensor] = []
    for tensor in reversed(left):
        if tensor.name in alive and tensor.name not in reached:
            tensors.append(tensor)
            reached.add(tensor.name)
            _unreached(events, reached)
    return tensors[::-1]


def _unreached(events: Sequence[Event], reached: set[str]) -> list[Tensor]:
    """The results that ask for a gradient and get none from what is reached; what does is added to ``reached``."""
    left: list[Tensor] = []
    for event in reversed(events):
        asking = [tensor for tensor in event.outputs if tensor.grad]
        if not asking:
            continue
        if any(tensor.name in reached for tensor in asking):
            reached.update(t.name for t in tensors(*event.args, *event.kwargs.values()) if t.grad)
        else:
            left += asking
    return left[::-1]
