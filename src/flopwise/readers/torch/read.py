"""PyTorch modules: any module, any inputs, without weights and without computing."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import nn

from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph, Module, Tensor
from flopwise.readers.formats import is_callable
from flopwise.readers.options import Mode
from flopwise.readers.torch.capture.dispatch import Unseen
from flopwise.readers.torch.capture.modules import Calls, as_it_was, stored_tensors, submodules
from flopwise.readers.torch.capture.recorder import Watch
from flopwise.readers.torch.capture.regions import regions
from flopwise.readers.torch.capture.values import LARGEST, NeedsLower, NeedsValues
from flopwise.readers.torch.graph import nodes_of, unused
from flopwise.readers.torch.inputs import tensors as torch_inputs


def read_torch(
    model: nn.Module,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    *,
    mode: Mode = "eval",
    grad: bool = False,
    name: str = "",
) -> Graph:
    """The graph of what a module does with some inputs.

    The module runs once, on meta tensors. Where it asks for elements that do not follow from constants, it runs once
    more on its real tensors; a note says so.

    Args:
        model: the module; afterwards it is as it was.
        inputs: a shape, a tensor, a sequence of them, a mapping, or a pair of a sequence and a mapping; see
            :func:`flopwise.readers.torch.inputs.tensors.settle`.
        dims: values of names that stand for sizes in shapes.
        batch_size: first dimension of every input that is given as a shape.
        progress: called with the name of each step.
        mode: the mode of the modules.
        grad: whether gradients are to be known (``Tensor.grad``).
        name: where the module comes from, for the report; "" = its class.

    Raises:
        ModelError: the module fails with these inputs.
        InputError: inputs are missing or not understood.
    """
    kind = type(model).__name__
    if isinstance(model, torch.export.ExportedProgram):
        model, inputs, mode = _unpacked(model, inputs, mode)
        kind = "ExportedProgram"
    if not isinstance(model, nn.Module):
        raise ModelError(f"{kind} is no torch.nn.Module")
    given = torch_inputs.settle(model, inputs, dims, batch_size)
    progress("running on meta tensors")
    notes: list[str] = []
    why = ""
    try:
        found = _seen(model, given, mode, grad, real=False)
    except _RunError as failed:
        why = failed.words
        if any(t.is_meta for t in (*model.parameters(), *model.buffers())):
            raise NeedsMemoryError(
                f"{kind}: {failed.where}{why}; if the inputs are right, give the module with its tensors in memory, "
                "not on the meta device"
            ) from failed.__cause__
        progress("running on real tensors")
        try:
            found = _seen(model, given, mode, grad, real=True)
        except _RunError as again:
            raise ModelError(f"{kind}: {again.where}{again.words}") from again.__cause__
        notes.append(
            f"ran on real tensors, because on meta tensors: {failed.where}{why}; other elements may cost other work"
        )
    watch, calls, known, outputs = found
    modes = {m.training for m in model.modules()}
    if mode == "eval" and True in modes and not name:
        notes.append("counted in eval mode; the module is in train mode (mode='train' counts that)")
    if mode == "train":
        notes.append("counted in train mode")
    nodes = nodes_of(watch.events)
    parts = submodules(model, known)
    weights = {ours.name: functools.partial(_loaded, tensor) for tensor, ours in known.values()}
    return Graph(
        name=name.rpartition(":")[2] if is_callable(name) else kind,
        format="torch",
        source=name or f"{type(model).__module__}.{type(model).__qualname__}",
        inputs=given.listed,
        outputs=outputs,
        nodes=(*nodes, *unused(nodes, parts)),
        weights=weights,
        warnings=tuple(notes),
        modules=parts,
        calls=tuple(calls.calls),
    )


def _unpacked(program: Any, inputs: Any, mode: Mode) -> tuple[nn.Module, Any, Mode]:
    """The module of an exported program, its inputs where none are given, and the one mode that it has.

    Raises:
        InputError: it was exported without examples, and no inputs are given.
    """
    if mode == "train":
        raise InputError("an exported program has the mode that it was exported in")
    if inputs is None and program.example_inputs is None:
        raise InputError("the exported program holds no example inputs; give their shapes with -i")
    return program.module(check_guards=False), program.example_inputs if inputs is None else inputs, "as-is"


def _loaded(tensor: torch.Tensor) -> Any:
    """The elements of a tensor as a numpy array."""
    if tensor.is_meta:
        raise ModelError("the module's tensors are on the meta device, which has no elements")
    plain = tensor.detach().cpu()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()


class _RunError(Exception):
    """The module raised."""

    def __init__(self, where: str, words: str) -> None:
        super().__init__(words)
        self.where = where
        self.words = words


class NeedsMemoryError(ModelError):
    """The module fails on meta tensors and has no others."""


_Run: TypeAlias = "tuple[Watch, Calls, dict[int, tuple[torch.Tensor, Tensor]], tuple[Tensor, ...]]"


def _seen(model: nn.Module, given: torch_inputs.Given, mode: Mode, grad: bool, real: bool) -> _Run:
    """Run a module and watch it; once more, one level lower, where not all was seen.

    Raises:
        _RunError: it raised.
    """
    low = any(isinstance(m, torch.jit.ScriptModule) for m in model.modules())
    try:
        found = _run(model, given, mode, grad, real, low)
        if low or real or not found[0].foreign:
            return found
    except NeedsLower:  # for gradients that the program asks for, or functions that it transforms
        grad = True
    return _run(model, given, mode, grad, real, low=True)


def _run(model: nn.Module, given: torch_inputs.Given, mode: Mode, grad: bool, real: bool, low: bool) -> _Run:
    """Run a module once and watch it.

    Args:
        model: the module.
        given: what to call it with.
        mode: the mode of its modules.
        grad: whether gradients are to be known.
        real: whether to run on real tensors.
        low: whether to watch what no Python function asks for as well.

    Raises:
        _RunError: it raised.
    """
    known = stored_tensors(model)
    ours = {key: tensor for key, (_, tensor) in known.items()}
    args, kwargs = given.args, given.kwargs
    if real:
        args, kwargs, tensors = _filled(given)
        ours.update(tensors)
    else:
        ours.update(given.tensors)
    device = next((p.device for p in model.parameters() if not p.is_meta), torch.device("cpu"))
    watch = Watch(ours, device, real, grad, low)
    calls = Calls(model, watch)
    training = {"eval": False, "train": True, "as-is": None}[mode]
    with as_it_was(model, training, real), _quiet():
        if not real:
            _give_values(watch, given)
            if low and grad:  # in a function that is transformed nothing can be made to need a gradient
                for stored, _ in known.values():
                    watch.stand_in(stored)
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.set_grad_enabled(grad))
                stack.enter_context(calls.watched())
                stack.enter_context(regions(watch))
                if low:
                    stack.enter_context(Unseen(watch))
                stack.enter_context(watch)
                result = _runner(model, watch)(*args, **kwargs)
            outputs = calls._flat((result,))
        except FlopwiseError:
            raise
        except NeedsValues as error:
            asked = (
                f"{error.function} asks for elements"
                if error.function
                else "it asks for the elements of a large tensor"
            )
            raise _RunError(_where(calls), asked) from error
        except RecursionError as error:
            raise _RunError(_where(calls), "recurses without end") from error
        except Exception as error:  # whatever a program raises is told in one line
            raise _RunError(_where(calls), _words(error)) from error
    return watch, calls, known, outputs


def _runner(model: nn.Module, watch: Watch) -> Callable[..., Any]:
    """What runs a module: itself, or for a graph that remembers its modules, its operations one by one."""
    if not isinstance(model, torch.fx.GraphModule) or not any("nn_module_stack" in n.meta for n in model.graph.nodes):
        return model
    return _Remembering(model, watch)


class _Remembering(torch.fx.Interpreter):
    """Runs a graph; the operations say in which module they were before they were put into the graph."""

    def __init__(self, model: torch.fx.GraphModule, watch: Watch) -> None:
        super().__init__(model)
        self._watch = watch

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat, spec = torch.utils._pytree.tree_flatten((args, kwargs))
        del spec
        return self.run(*flat)

    def run_node(self, node: torch.fx.Node) -> Any:
        steps = node.meta.get("nn_module_stack", {}).values()
        before = self._watch.scope
        self._watch.scope = tuple([Module(path, _bare(kind)) for path, kind in steps])
        try:
            return super().run_node(node)
        finally:
            self._watch.scope = before


def _bare(kind: Any) -> str:
    return (kind if isinstance(kind, str) else kind.__qualname__).rpartition(".")[2]


def _where(calls: Calls) -> str:
    """The module in which it happened, and what it was given."""
    if calls.failed is None:
        return ""
    step, given = calls.failed
    shapes = " and ".join("×".join(map(str, t.dims)) or "a scalar" for t in given[:3])
    what = f"{step.path} ({step.kind})" if step.path else ""
    given_what = f"given {shapes}" if shapes else ""
    words = ", ".join(part for part in (f"in {what}" if what else "", given_what) if part)
    return f"{words}: " if words else ""


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    operator, lacks, _ = text.partition(": We could not find the fake impl for this operator")
    if lacks:
        return f"{operator} does not run on them"
    if len(text) > 300:
        text = text[:297] + "..."
    name = type(error).__name__
    return f"{name}: {text}" if text else name


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Fused paths are off, so that every operation is seen; compiled modules run as they were written; what else stands
    between a program and its operations (``with torch.device(...)``) waits.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    around = []
    modes: Any = torch.overrides
    compiler: Any = torch
    compiled = compiler.compile
    while modes._get_current_function_mode() is not None:
        around.append(modes._pop_mode())
    functions: Any = torch._C._functorch
    depth = functions.maybe_current_level() or 0
    try:
        compiler.compile = _uncompiled
        if "torch._dynamo" in sys.modules:
            with torch.compiler.set_stance("force_eager"):
                yield
        else:
            yield
    finally:
        while (functions.maybe_current_level() or 0) > depth:  # an exported program steps in and out by operations
            functions.pop_dynamic_layer_stack()
        compiler.compile = compiled
        torch.backends.mha.set_fastpath_enabled(fast)
        while around:
            modes._push_mode(around.pop())


def _uncompiled(model: Any = None, **options: Any) -> Any:
    """The function or module itself, in place of what ``torch.compile`` would make of it."""
    return (lambda function: function) if model is None else model


def _give_values(watch: Watch, given: torch_inputs.Given) -> None:
    """Elements for whole-number inputs of which only the shape is known: masks and positions decide what runs."""
    for tensor in _all(given.args, given.kwargs):
        if id(tensor) in given.made and not tensor.is_floating_point() and tensor.numel() <= LARGEST:
            watch.stand_in(tensor)._flopwise_values = torch_inputs.filled(tensor, given.tensors[id(tensor)].name)  # type: ignore[attr-defined]


def _all(args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    for thing in (*args, *kwargs.values()):
        if isinstance(thing, torch.Tensor):
            yield thing
        elif isinstance(thing, (list, tuple)):
            yield from _all(thing, {})
        elif isinstance(thing, Mapping):
            yield from _all((), thing)


def _filled(given: torch_inputs.Given) -> tuple[tuple[Any, ...], dict[str, Any], dict[int, Tensor]]:
    """The arguments with memory, and our tensor for each."""
    tensors: dict[int, Tensor] = {}

    def real(thing: Any) -> Any:
        if isinstance(thing, torch.Tensor):
            ours = given.tensors[id(thing)]
            made = torch_inputs.filled(thing, ours.name) if id(thing) in given.made else thing
            if made.is_meta:
                raise InputError(f"input {ours.name!r} is a meta tensor, and the module needs its elements")
            tensors[id(made)] = ours
            return made
        if isinstance(thing, (list, tuple)):
            return type(thing)([real(part) for part in thing])
        if isinstance(thing, Mapping):
            return {key: real(part) for key, part in thing.items()}
        return thing

    return tuple(map(real, given.args)), {k: real(v) for k, v in given.kwargs.items()}, tensors
