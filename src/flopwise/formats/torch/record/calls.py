"""The calls of a model's modules while it runs, in scripts too; stretches that are not modules: checkpoints, functions;
and the threads that a program starts, which are recorded like the one that runs it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing.pool
import queue
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor as TorchTensor
from torch import nn

from flopwise.formats.torch.kinds import Args, Function, Kwargs
from flopwise.formats.torch.record.keep import Before, substituted
from flopwise.formats.torch.record.recorder import Recorder, Selection
from flopwise.graph import STORED, Call, Module, Tensor


class Calls:
    """The calls of a model's modules, in the order in which they began."""

    def __init__(self, modules: Sequence[tuple[str, nn.Module]], recorder: Recorder, before: Before) -> None:
        self._recorder = recorder
        self._before = before
        scripts = [m for _, m in modules if isinstance(m, torch.jit.ScriptModule)]
        originals = {id(m): m.original_name for m in scripts}  # the class that a script was made of
        self._steps = {id(m): Module(path, originals.get(id(m)) or type(m).__name__) for path, m in modules}
        self._attributes = [vars(m) for _, m in modules]
        self.calls: list[Call] = []
        #: Paths of modules that scripts have called, which no hook sees.
        self.in_scripts: set[str] = set()
        self._scripts = Scripts(self._steps) if scripts else None
        if scripts:
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
                self._before.reach_module(module)
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
            script.last = ()
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
        return self._script is not None and not _running()

    def _inside(self, taken: Sequence[Tensor]) -> Sequence[Module]:
        """The modules inside the running script around an operation that takes some tensors."""
        if self._script is None or self._scripts is None:
            return ()
        chain = self._scripts.inside(self._script, {t.name for t in taken if t.kind in STORED})
        self.in_scripts.update(inner.path for inner in chain.called)
        return chain.around

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


# --- stretches of a program: checkpoints, and functions with a gradient of their own

#: The entry in ``Node.via`` of what runs in a checkpoint, followed by the number of the call.
CHECKPOINT = "torch.utils.checkpoint.checkpoint#"

#: What follows the number where the whole stretch is computed once more, and not only what gradients need.
REENTRANT = ":reentrant"

#: The entry in ``Node.via`` of what runs in a ``torch.autograd.Function``, then its name and the number of the call.
APPLIED = "torch.autograd.Function.apply:"


@contextlib.contextmanager
def regions(recorder: Recorder) -> Iterator[None]:
    """Operations say meanwhile in which of these they ran."""
    owner: Any = torch.autograd.Function
    original = vars(owner)["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> object:
        run = original.__get__(None, cls)
        if threading.get_ident() not in recorder.threads or recorder.position.busy:  # part of an operator's own
            return run(*args, **kwargs)
        if cls.__module__ == "torch.utils.checkpoint" and cls.__name__ == "CheckpointFunction":
            with _region(recorder, CHECKPOINT, REENTRANT):
                return args[0](*args[2:])  # the function itself, so that its gradients are seen
        if cls.__module__ == "torch.utils.checkpoint":  # _NoopSaveInputs, in which PyTorch 2.6 to 2.9 keep the inputs
            with recorder.position.occupied():
                return run(*args, **kwargs)
        with _region(recorder, f"{APPLIED}{cls.__name__}#"):
            operands = args if recorder.real else [recorder.stand_ins.swap(a) for a in args]
            result = run(*operands, **kwargs)
        if recorder.grad:
            recorder.applied(cls.__name__, operands, result)
        return result

    with contextlib.ExitStack() as stack:
        stack.enter_context(substituted(owner, "apply", classmethod(apply)))
        if recorder.grad and "torch.utils.checkpoint" in sys.modules:
            stack.enter_context(_checkpoints(recorder))
        yield


@contextlib.contextmanager
def _region(recorder: Recorder, entry: str, kind: str = "") -> Iterator[str]:
    recorder.regions_entered += 1
    entry = f"{entry}{recorder.regions_entered}{kind}"
    before = recorder.position.regions
    recorder.position.regions = (*before, entry)
    try:
        yield entry
    finally:
        recorder.position.regions = before


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
        waiting.append(Selection(policy, recorder))  # of the checkpoint that is entered next
        select_original(self, waiting[-1], *args, **kwargs)

    def enter(self: Any) -> object:
        open_.append(_region(recorder, CHECKPOINT, "" if self.stops_early else REENTRANT))
        entry = open_[-1].__enter__()
        while waiting:
            waiting.pop().entry = entry
        return super(hook, self).__enter__()

    def leave(self: object, *args: object) -> object:
        open_.pop().__exit__(None, None, None)
        return super(hook, self).__exit__(*args)

    with contextlib.ExitStack() as stack:
        stack.enter_context(substituted(hook, "__init__", begin))
        stack.enter_context(substituted(hook, "__enter__", enter))
        stack.enter_context(substituted(hook, "__exit__", leave))
        if caching is not None:  # which PyTorch has since 2.4
            stack.enter_context(substituted(caching, "__init__", select))
        yield


# --- in which modules of a TorchScript program an operation runs: PyTorch tells nobody when its interpreter enters one,
# but in which line of which method it is, and the graphs of the methods say whom that line calls

#: Where a node stands: in the code of a file, in what was scripted, or in what was traced.
_PLACE = re.compile(r'File "(.+?)", line (\d+)')
_TRACED = re.compile(r"(.+?)\((\d+)\): ")

#: A file and a line in it.
_Line = tuple[str, int]

#: The line of a call that was traced and did not go through a file.
_NOWHERE: _Line = ("??", 0)


class _Site(NamedTuple):
    """A call of a method, at a place of the method that calls it."""

    line: _Line
    #: Names of attributes that lead from the calling module to the called one; () for its own methods.
    names: tuple[str, ...]
    method: str
    #: Whether it stands in no branch and no loop.
    always: bool


class _Chain(NamedTuple):
    """A way from a script to a method inside: the places of the calls, and whom they lead to."""

    places: tuple[int, ...] = ()
    #: The modules that are called, and the lists that hold them.
    around: tuple[Module, ...] = ()
    called: tuple[Module, ...] = ()


def _running() -> tuple[_Line, ...]:
    """The lines that TorchScript's interpreter of this thread is in, outermost first."""
    profiler: Any = torch._C._profiler
    frames = profiler.symbolize_tracebacks([profiler.gather_traceback(False, True, False)])[0]
    return tuple([(frame["filename"], frame["line"]) for frame in reversed(frames)])


class Scripts:
    """The scripts of a model."""

    def __init__(self, steps: Mapping[int, Module]) -> None:
        """
        Args:
            steps: path and class of each module of the model, by id.
        """
        self._steps = steps
        self._methods: dict[tuple[int, str], tuple[list[_Site], set[_Line]]] = {}
        #: The places of the last operation in the program of the script that runs.
        self.last: tuple[int, ...] = ()

    def inside(self, script: Any, stored: Collection[str]) -> _Chain:
        """The way to what a script runs at the moment.

        Where a line calls several that are alike, it is the one that has the weights, else the next in order.

        Args:
            script: the script, as its ``forward`` was called.
            stored: the names of the weights and buffers that the operation takes.
        """
        lines = _running()
        if not lines or lines[0] not in self._method(script, "forward")[1]:
            return _Chain()
        chains = list(self._chains(script, "forward", lines))
        if len(chains) > 1:
            owners = {name.rpartition(".")[0] for name in stored}
            chains = [c for c in chains if c.called and c.called[-1].path in owners] or chains
            chains = [c for c in chains if c.places >= self.last[: len(c.places)]] or chains
        chosen = chains[0] if chains else _Chain()
        if self.last[: len(chosen.places)] != chosen.places:
            self.last = chosen.places
        return chosen

    def always(self, module: Any, method: str = "forward") -> Iterator[Module]:
        """The modules that a method calls whatever its data are, and those that these call."""
        for site in self._method(module, method)[0]:
            way = self._way(module, site) if site.always else None
            if way is not None:
                yield from [self._steps[id(way[-1])]] if way else []
                yield from self.always(way[-1] if way else module, site.method)

    def _chains(self, module: Any, method: str, lines: Sequence[_Line]) -> Iterator[_Chain]:
        """The ways that may lead through some lines, of which the outermost is in the method, in order."""
        found = False
        for place, site in enumerate(self._method(module, method)[0] if len(lines) > 1 else ()):
            if site.line != lines[0] or (way := self._way(module, site)) is None:
                continue
            inner = way[-1] if way else module
            if lines[1] in self._method(inner, site.method)[1]:
                steps = tuple([self._steps[id(one)] for one in way])
                for rest in self._chains(inner, site.method, lines[1:]):
                    found = True
                    yield _Chain((place, *rest.places), (*steps, *rest.around), (*steps[-1:], *rest.called))
        if not found and (len(lines) == 1 or lines[0] != _NOWHERE):  # it runs here, or in a function
            yield _Chain()

    def _way(self, module: Any, site: _Site) -> tuple[Any, ...] | None:
        """The modules from a calling one to the one that it calls; None where that is not known as one of the model."""
        way = []
        for name in site.names:
            module = getattr(module, name, None)
            if id(module) not in self._steps:
                return None
            way.append(module)
        return tuple(way)

    def _method(self, module: Any, name: str) -> tuple[list[_Site], set[_Line]]:
        """The calls in a method, in the order of the program, and the lines of all its operations."""
        known = self._methods.get((id(module), name))
        if known is None:
            known = self._methods[id(module), name] = [], set()
            code: Any = getattr(module, "_c", None)
            if code is not None and code._has_method(name):
                graph = code._get_method(name).graph
                _read(graph, next(iter(graph.inputs())).debugName(), True, *known)
        return known


def _read(block: Any, own: str, always: bool, sites: list[_Site], lines: set[_Line]) -> None:
    """Add the calls and the lines of a part of a method.

    Args:
        block: the part.
        own: the name of the module itself.
        always: whether it stands in no branch and no loop.
        sites: the calls so far.
        lines: likewise.
    """
    for node in block.nodes():
        text = node.sourceRange()  # the line in the file that it was loaded from if it was, as the interpreter tells it
        places = _PLACE.findall(text.partition("Serialized")[2] or text) or _TRACED.findall(text)
        line = (places[0][0], int(places[0][1])) if places else _NOWHERE
        lines.add(line)
        if node.kind() == "prim::CallMethod":
            names: list[str] = []
            value = next(iter(node.inputs()))
            while value.node().kind() == "prim::GetAttr":
                names.insert(0, value.node().s("name"))
                value = next(iter(value.node().inputs()))
            if value.debugName() == own:
                sites.append(_Site(line, tuple(names), node.s("name"), always))
        for inner in node.blocks():
            _read(inner, own, False, sites, lines)


# --- threads

#: Seconds that the program waits for a thread after starting it, so that operations are recorded in the same order
#: each time; a thread that waits for the program in its turn goes on beside it afterwards.
_PATIENCE = 1.0

#: Seconds between two looks at a thread that was started; one that waits at the same place both times is let be.
_GLANCE = 0.005

#: Files whose code waits for other threads.
_WAITS = frozenset({threading.__file__, queue.__file__})

#: Modules whose threads wait for jobs.
_POOLS = frozenset({"concurrent.futures.thread", "multiprocessing.pool"})


@contextlib.contextmanager
def followed(recorder: Recorder, recording: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Record threads and jobs of pools that recorded threads start meanwhile.

    Args:
        recorder: what writes operations down.
        recording: what a thread enters in order to be recorded.
    """
    thread: Any = threading.Thread
    pool: Any = concurrent.futures.ThreadPoolExecutor
    older: Any = multiprocessing.pool.ThreadPool
    start, submit, apply, tasks = thread.start, pool.submit, older.apply_async, older._guarded_task_generation

    def recorded(work: Function, done: threading.Event, here: Kwargs) -> Function:
        """A function that is recorded in any thread, at a position."""

        def run(*args: object, **kwargs: Any) -> object:
            number, position = threading.get_ident(), recorder.position
            before = position.copy()
            position.adopt(here)
            recorder.threads.add(number)
            try:
                with recording():
                    return work(*args, **kwargs)
            finally:
                recorder.threads.discard(number)
                position.adopt(before)
                done.set()

        return run

    def start_recorded(self: Any) -> None:
        waits = getattr(getattr(self, "_target", None), "__module__", "") in _POOLS
        if waits or threading.get_ident() not in recorder.threads:
            start(self)
            return
        done = threading.Event()
        self.run = recorded(self.run, done, recorder.position.copy())
        start(self)
        _await(self, done)

    def job_recorded(hand_over: Function) -> Function:
        def handed_over(self: object, function: Function, /, *args: Any, **kwargs: Any) -> object:
            if threading.get_ident() not in recorder.threads:
                return hand_over(self, function, *args, **kwargs)
            done = threading.Event()
            result = hand_over(self, recorded(function, done, recorder.position.copy()), *args, **kwargs)
            done.wait(_PATIENCE)
            return result

        return handed_over

    def in_turn(batches: Iterable[Any], here: Kwargs) -> Iterator[object]:
        """Tasks of a pool, each when the one before is done, so that they have the same order each time."""
        for job, place, work, args, kwargs in batches:
            done = threading.Event()
            yield job, place, recorded(work, done, here), args, kwargs
            done.wait(_PATIENCE)

    def tasks_recorded(self: object, *args: Any) -> Iterable[object]:
        batches: Iterable[Any] = tasks(self, *args)
        mine = threading.get_ident() in recorder.threads
        return in_turn(batches, recorder.position.copy()) if mine else batches

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(substituted(thread, "start", start_recorded))
            stack.enter_context(substituted(pool, "submit", job_recorded(submit)))
            stack.enter_context(substituted(older, "apply_async", job_recorded(apply)))
            stack.enter_context(substituted(older, "_guarded_task_generation", tasks_recorded))
            yield
    finally:
        recorder.closed = True


def _await(thread: threading.Thread, done: threading.Event) -> None:
    """Wait until a thread is done, or until it waits for others itself."""
    place: tuple[int, int] | None = None
    for _ in range(round(_PATIENCE / _GLANCE)):
        if done.wait(_GLANCE):
            return
        frame = sys._current_frames().get(thread.ident or 0)
        before, place = place, None if frame is None else (id(frame), frame.f_lasti)
        if frame is not None and frame.f_code.co_filename in _WAITS and place == before:
            return
