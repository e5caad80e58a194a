"""The calls of a model's modules while it runs, in scripts too; stretches that are not modules: checkpoints, functions;
and the threads that a program starts, which are recorded like the one that runs it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
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
from flopwise.formats.torch.record.keep import Before
from flopwise.formats.torch.record.recorder import Recorder, Selection
from flopwise.formats.torch.record.settings import substituted
from flopwise.graph import STORED, Call, Module, Tensor


def _kind(module: nn.Module) -> str:
    """The class of a module; of a script that of the module that it was made of."""
    own = module.original_name if isinstance(module, torch.jit.ScriptModule) else ""
    return own or type(module).__name__


class Calls:
    """The calls of a model's modules, in the order in which they began."""

    def __init__(self, modules: Sequence[tuple[str, nn.Module]], recorder: Recorder, before: Before) -> None:
        self._recorder = recorder
        self._before = before
        self._steps = {id(m): Module(path, _kind(m)) for path, m in modules}
        self._attributes = [vars(m) for _, m in modules]
        self.calls: list[Call] = []
        self._scripts: Scripts | None = None
        #: Paths of modules that scripts have called, which no hook sees.
        self.in_scripts: set[str] = set()
        if any(isinstance(m, torch.jit.ScriptModule) for _, m in modules):
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


class _Method(NamedTuple):
    """What is called in a method, in the order of the program, and the lines of all that it does."""

    sites: tuple[_Site, ...] = ()
    lines: frozenset[_Line] = frozenset()


class _Chain(NamedTuple):
    """A way from a script to a method inside: the places of the calls, and whom they lead to."""

    places: tuple[int, ...] = ()
    #: The modules that are called, and the lists that hold them.
    around: tuple[Module, ...] = ()
    called: tuple[Module, ...] = ()


class Scripts:
    """The scripts of a model."""

    def __init__(self, steps: Mapping[int, Module]) -> None:
        """
        Args:
            steps: path and class of each module of the model, by id.
        """
        self._steps = steps
        self._methods: dict[tuple[int, str], _Method] = {}
        self._known: dict[tuple[int, tuple[_Line, ...]], list[_Chain]] = {}
        self._last: tuple[int, ...] = ()

    def start(self) -> None:
        """A script is called: what runs comes in the order of its program from now on."""
        self._last = ()

    @staticmethod
    def running() -> tuple[_Line, ...]:
        """The lines that the interpreter of this thread is in, outermost first."""
        profiler: Any = torch._C._profiler
        frames = profiler.symbolize_tracebacks([profiler.gather_traceback(False, True, False)])[0]
        return tuple([(frame["filename"], frame["line"]) for frame in reversed(frames)])

    def inside(self, script: Any, stored: Collection[str]) -> tuple[tuple[Module, ...], tuple[Module, ...]]:
        """The modules inside a script around what it runs at the moment, outermost first, and which of them are called
        and do not only hold others.

        Where a line calls several that are alike, it is the one that has the weights, else the next in order.

        Args:
            script: the script, as its ``forward`` was called.
            stored: the names of the weights and buffers that the operation takes.
        """
        lines = self.running()
        if not lines or lines[0] not in self._method(script, "forward").lines:
            return (), ()
        chains = self._known.get((id(script), lines))
        if chains is None:
            chains = self._known[id(script), lines] = list(self._chains(script, "forward", lines))
        if len(chains) > 1:
            owners = {name.rpartition(".")[0] for name in stored}
            chains = [c for c in chains if c.called and c.called[-1].path in owners] or chains
            chains = [c for c in chains if c.places >= self._last[: len(c.places)]] or chains
        chosen = chains[0] if chains else _Chain()
        if self._last[: len(chosen.places)] != chosen.places:
            self._last = chosen.places
        return chosen.around, chosen.called

    def always(self, module: Any, method: str = "forward") -> Iterator[Module]:
        """The modules that a method calls whatever its data are, and those that these call."""
        for site in self._method(module, method).sites:
            way = self._way(module, site) if site.always else None
            if way is not None:
                yield from [self._steps[id(way[-1])]] if way else []
                yield from self.always(way[-1] if way else module, site.method)

    def _chains(self, module: Any, method: str, lines: Sequence[_Line]) -> Iterator[_Chain]:
        """The ways that may lead through some lines, of which the outermost is in the method, in order."""
        found = False
        for place, site in enumerate(self._method(module, method).sites if len(lines) > 1 else ()):
            if site.line != lines[0] or (way := self._way(module, site)) is None:
                continue
            inner = way[-1] if way else module
            if lines[1] in self._method(inner, site.method).lines:
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

    def _method(self, module: Any, name: str) -> _Method:
        key = id(module), name
        if key not in self._methods:
            code: Any = getattr(module, "_c", None)
            known = code is not None and code._has_method(name)
            self._methods[key] = _read(code._get_method(name).graph) if known else _Method()
        return self._methods[key]


def _read(graph: Any) -> _Method:
    sites: list[_Site] = []
    lines: set[_Line] = set()
    own = next(iter(graph.inputs())).debugName()

    def names(value: Any) -> tuple[str, ...] | None:
        node = value.node()
        if node.kind() == "prim::GetAttr":
            around = names(next(iter(node.inputs())))
            return None if around is None else (*around, node.s("name"))
        return () if value.debugName() == own else None

    def read(block: Any, always: bool) -> None:
        for node in block.nodes():
            line = _line(node.sourceRange())
            lines.add(line)
            if node.kind() == "prim::CallMethod":
                target = names(next(iter(node.inputs())))
                if target is not None:
                    sites.append(_Site(line, target, node.s("name"), always))
            for inner in node.blocks():
                read(inner, False)

    read(graph, True)
    return _Method(tuple(sites), frozenset(lines))


def _line(text: str) -> _Line:
    """The line of a node, the one in the file that it was loaded from if it was, as the interpreter tells it."""
    found = _PLACE.findall(text.partition("Serialized")[2] or text) or _TRACED.findall(text)
    return (found[0][0], int(found[0][1])) if found else _NOWHERE


# --- threads

#: Seconds that the program waits for a thread after starting it, so that operations are recorded in the same order
#: each time; a thread that waits for the program in its turn goes on beside it afterwards.
_PATIENCE = 1.0

#: Seconds between two looks at a thread that was started; one that waits at the same place both times is let be.
_GLANCE = 0.005

#: Files whose code waits for other threads.
_WAITS = frozenset({threading.__file__, queue.__file__})

#: Modules whose threads wait for jobs, which are followed instead.
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
    start, submit = thread.start, pool.submit
    jobs = contextlib.ExitStack()
    patched: list[Any] = []

    def recorded(work: Callable[..., object]) -> Callable[..., object]:
        """A function that is recorded in any thread, at the position where it was handed over."""
        here = recorder.position.copy()

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

        return run

    def start_recorded(self: Any) -> None:
        if threading.get_ident() not in recorder.threads:
            start(self)
            return
        if getattr(getattr(self, "_target", None), "__module__", "") in _POOLS:
            follow_jobs()
            start(self)
            return
        done = threading.Event()
        run = recorded(self.run)

        def run_and_say() -> None:
            try:
                run()
            finally:
                done.set()

        self.run = run_and_say
        start(self)
        _await(self, done)

    def submit_recorded(self: object, function: Callable[..., object], /, *args: object, **kwargs: Any) -> object:
        if threading.get_ident() not in recorder.threads:
            return submit(self, function, *args, **kwargs)
        future = submit(self, recorded(function), *args, **kwargs)
        concurrent.futures.wait([future], _PATIENCE)
        return future

    def follow_jobs() -> None:
        """Follow the pools of the standard library's older kind, as soon as the program has them."""
        kind: Any = getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", None)
        if kind is not None and not patched:
            patched.append(kind)
            jobs.enter_context(_jobs_in_turn(kind, recorder, recorded))

    follow_jobs()
    try:
        with substituted(thread, "start", start_recorded), substituted(pool, "submit", submit_recorded):
            yield
    finally:
        jobs.close()
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


@contextlib.contextmanager
def _jobs_in_turn(kind: Any, recorder: Recorder, recorded: Callable[[Function], Function]) -> Iterator[None]:
    """Jobs that recorded threads hand to ``multiprocessing.pool.ThreadPool`` are recorded, each when the one before is
    done, so that they have the same order each time.
    """
    batches, apply = kind._guarded_task_generation, kind.apply_async

    def batches_recorded(
        self: object, job: object, function: Callable[..., object], items: Iterable[object]
    ) -> Iterable[object]:
        tasks: Iterable[Any] = batches(self, job, function, items)
        if threading.get_ident() not in recorder.threads:
            return tasks
        return _in_turn(tasks, function, recorded(function))

    def apply_recorded(
        self: object, func: Any, args: object = (), kwds: object = None, *callbacks: Any, **options: Any
    ) -> object:
        if threading.get_ident() not in recorder.threads:
            return apply(self, func, args, kwds or {}, *callbacks, **options)
        result = apply(self, recorded(func), args, kwds or {}, *callbacks, **options)
        result.wait(_PATIENCE)
        return result

    kind._guarded_task_generation, kind.apply_async = batches_recorded, apply_recorded
    try:
        yield
    finally:
        del kind._guarded_task_generation, kind.apply_async


def _in_turn(tasks: Iterable[Any], function: object, recorded: Function) -> Iterator[object]:
    """The tasks of a pool, each when the one before is done; those that run a function run its recorded form."""
    for job, place, own, args, kwargs in tasks:
        done = threading.Event()
        work = recorded if own is function else own

        def run(*args: object, work: Any = work, done: threading.Event = done, **kwargs: object) -> object:
            try:
                return work(*args, **kwargs)
            finally:
                done.set()

        yield job, place, run, args, kwargs
        done.wait(_PATIENCE)
