"""The calls of a model's modules while it runs; and stretches of it that are not modules: checkpoints, functions."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.formats.torch.kinds import Args, Kwargs
from flopwise.graph import STORED, Call, Module, Tensor
from flopwise.readers.torch.capture.recorder import Recorder, Selection
from flopwise.readers.torch.runs.substitutes import substituted
from flopwise.readers.torch.runs.surroundings import Surroundings

if TYPE_CHECKING:
    from flopwise.readers.torch.runs.scripts import Scripts


def _kind(module: nn.Module) -> str:
    """The class of a module; of a script that of the module that it was made of."""
    own = module.original_name if isinstance(module, torch.jit.ScriptModule) else ""
    return own or type(module).__name__


class Calls:
    """The calls of a model's modules, in the order in which they began."""

    def __init__(
        self, modules: Sequence[tuple[str, nn.Module]], recorder: Recorder, surroundings: Surroundings
    ) -> None:
        self._recorder = recorder
        self._surroundings = surroundings
        self._steps = {id(m): Module(path, _kind(m)) for path, m in modules}
        self._attributes = [vars(m) for _, m in modules]
        self.calls: list[Call] = []
        self._scripts: Scripts | None = None
        #: Paths of modules that scripts have called, which no hook sees.
        self.in_scripts: set[str] = set()
        if any(isinstance(m, torch.jit.ScriptModule) for _, m in modules):
            from flopwise.readers.torch.runs.scripts import Scripts

            self._scripts = Scripts(self._steps)
            recorder.inside_script, recorder.compiles = self._inside, self._compiles
        #: The module in which the program failed first, and its arguments.
        self.failed: tuple[Module, tuple[Tensor, ...]] | None = None

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Calls of modules are recorded meanwhile, in what ``__call__`` calls: to replace that itself, Python would go
        through the classes of all modules that were ever imported. Compiled modules are called as they are written.
        """
        original: Any = nn.Module._call_impl
        for attributes in self._attributes:
            if attributes.get("_compiled_call_impl") is not None:
                attributes["_compiled_call_impl"] = None  # ``restored`` puts it back

        def call(module: nn.Module, *args: object, **kwargs: Any) -> Any:
            step = self._steps.get(id(module))
            if threading.get_ident() not in self._recorder.threads:
                return original(module, *args, **kwargs)
            if step is None:
                self._surroundings.add_module(module)
                return original(module, *args, **kwargs)
            return self._call(original, step, module, args, kwargs)

        with substituted(nn.Module, "_call_impl", call):
            yield

    def _call(self, original: Any, step: Module, module: nn.Module, args: Args, kwargs: Kwargs) -> object:
        recorder, position, calls = self._recorder, self._recorder.position, self.calls
        around, via = position.scope, position.via
        position.scope, position.via = (*around, step), ()
        modules, position.modules = position.modules, (*position.modules, module)
        index, first = len(calls), len(recorder.events)
        positional = self.flat(args)
        inputs = (*positional, *self.flat(tuple(kwargs.values()))) if kwargs else positional
        caller, position.call = position.call, index
        calls.append(Call(step.path, inputs, (), first, first, caller, len(positional)))
        script = self._scripts if isinstance(module, torch.jit.ScriptModule) else None
        if script is not None:
            script.start()
        outputs: tuple[Tensor, ...] = ()
        try:
            result = original(module, *args, **kwargs)
            outputs = self.flat((result,))
            if script is not None:
                self.in_scripts.update(inner.path for inner in script.always(module))
            return result
        except BaseException:
            self.failed = self.failed or (step, inputs)
            raise
        finally:
            calls[index] = Call(step.path, inputs, outputs, first, len(recorder.events), caller, len(positional))
            position.call = caller
            position.scope, position.via, position.modules = around, via, modules

    @property
    def _script(self) -> torch.jit.ScriptModule | None:
        """The script that runs, if the innermost module is one."""
        modules = self._recorder.position.modules
        return modules[-1] if modules and isinstance(modules[-1], torch.jit.ScriptModule) else None

    def _compiles(self) -> bool:
        """True in a script of which no line runs."""
        return self._script is not None and self._scripts is not None and not self._scripts.running()

    def _inside(self, taken: Sequence[Tensor]) -> Sequence[Module]:
        """The modules inside the running script around an operation that takes some tensors."""
        if self._script is None or self._scripts is None:
            return ()
        around, called = self._scripts.inside(self._script, {t.name for t in taken if t.kind in STORED})
        self.in_scripts.update(inner.path for inner in called)
        return around

    def flat(self, things: tuple[object, ...]) -> tuple[Tensor, ...]:
        """The graph tensors among some arguments or results, nested ones in a row."""
        tensors: list[Tensor] = []
        for thing in things:
            if isinstance(thing, TorchTensor):
                tensors.append(self._recorder.stand_ins.tensor_of(thing))
            elif isinstance(thing, (tuple, list)):
                tensors.extend(self.flat(tuple(thing)))
            elif isinstance(thing, Mapping):
                tensors.extend(self.flat(tuple(thing.values())))
        return tuple(tensors)


#: The entry in ``Node.via`` of what runs in a checkpoint, followed by the number of the call.
CHECKPOINT = "torch.utils.checkpoint.checkpoint#"

#: What follows the number where the whole stretch is computed once more, and not only what gradients need.
REENTRANT = ":reentrant"

#: The entry in ``Node.via`` of what runs in a ``torch.autograd.Function``, then its name and the number of the call.
APPLIED = "torch.autograd.Function.apply:"


@contextlib.contextmanager
def regions(recorder: Recorder) -> Iterator[None]:
    """Operations say meanwhile in which of these they ran."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_functions(recorder))
        if recorder.grad and "torch.utils.checkpoint" in sys.modules:
            stack.enter_context(_checkpoints(recorder))
        yield


@contextlib.contextmanager
def _region(recorder: Recorder, entry: str) -> Iterator[None]:
    before = recorder.position.regions
    recorder.position.regions = (*before, entry)
    try:
        yield
    finally:
        recorder.position.regions = before


def _next(recorder: Recorder) -> int:
    recorder.regions_entered += 1
    return recorder.regions_entered


@contextlib.contextmanager
def _functions(recorder: Recorder) -> Iterator[None]:
    """Watch the functions with a gradient of their own."""
    owner: Any = torch.autograd.Function
    original = vars(owner)["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> object:
        run = original.__get__(None, cls)
        if threading.get_ident() not in recorder.threads or recorder.position.busy:  # part of an operator's own
            return run(*args, **kwargs)
        number = _next(recorder)
        if cls.__name__ == "CheckpointFunction" and cls.__module__ == "torch.utils.checkpoint":
            with _region(recorder, f"{CHECKPOINT}{number}{REENTRANT}"):
                return args[0](*args[2:])  # the function itself, so that its gradients are seen
        with _region(recorder, f"{APPLIED}{cls.__name__}#{number}"):
            operands = args if recorder.real else [recorder.stand_ins.swap(a) for a in args]
            result = run(*operands, **kwargs)
        if recorder.grad:
            recorder.applied(cls.__name__, operands, result)
        return result

    with substituted(owner, "apply", classmethod(apply)):
        yield


@contextlib.contextmanager
def _checkpoints(recorder: Recorder) -> Iterator[None]:
    """Watch what is recomputed in the backward pass, and what selective checkpoints keep."""
    checkpoint: Any = sys.modules["torch.utils.checkpoint"]
    hook, caching = checkpoint._checkpoint_hook, getattr(checkpoint, "_CachingTorchDispatchMode", None)
    begin_original: Any = hook.__init__
    select_original: Any = getattr(caching, "__init__", None)
    open_: list[Any] = []
    waiting: list[Selection] = []

    def begin(self: Any, frame: Any) -> None:
        begin_original(self, frame)
        self.stops_early = getattr(frame, "early_stop", True)

    def select(self: object, policy: Any, *args: Any, **kwargs: Any) -> None:
        waiting.append(recorder.selection(policy))  # of the checkpoint that is entered next
        select_original(self, waiting[-1], *args, **kwargs)

    def enter(self: Any) -> object:
        entry = f"{CHECKPOINT}{_next(recorder)}{'' if self.stops_early else REENTRANT}"
        while waiting:
            waiting.pop().entry = entry
        region = _region(recorder, entry)
        region.__enter__()
        open_.append(region)
        return super(hook, self).__enter__()

    def leave(self: object, *args: object) -> object:
        open_.pop().__exit__(None, None, None)
        return super(hook, self).__exit__(*args)

    hook.__enter__, hook.__exit__ = enter, leave
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(substituted(hook, "__init__", begin))
            if caching is not None:  # which PyTorch has since 2.4
                stack.enter_context(substituted(caching, "__init__", select))
            yield
    finally:
        del hook.__enter__, hook.__exit__
