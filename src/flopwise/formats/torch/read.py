"""PyTorch modules: any module, any inputs, without weights and without computing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import nn

from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.formats.options import AttentionKernel, Mode
from flopwise.formats.sources.location import is_callable
from flopwise.formats.torch.arguments import Arguments, settle
from flopwise.formats.torch.description import DENIED
from flopwise.formats.torch.graph import dense_experts, filled_unseen, nodes_of, unused
from flopwise.formats.torch.kinds import is_program_of_file
from flopwise.formats.torch.lower.node import tensors
from flopwise.formats.torch.record.keep import outside_of_modes, uncompiled
from flopwise.formats.torch.record.modules import CONSTANT, FunctionModule, TensorsOfGraph, gathered, opaque, submodules
from flopwise.formats.torch.record.run import Run, RunError, run
from flopwise.formats.torch.record.values import HANDED_OUT, NeedsValues, is_mask
from flopwise.graph import Graph, Node, Program, Tensor

#: One run at a time: classes of PyTorch are patched during it, and the module's modes and tensors are set aside.
_ONE_AT_A_TIME = threading.RLock()

#: Whether a program of which elements decide what runs is read until there; else it is run on real tensors.
UNTIL_ELEMENTS: ContextVar[bool] = ContextVar("until_elements", default=False)

#: How the note begins on a program that asked for elements that meta tensors do not have.
REAL = "ran on real tensors"

#: What the note on elements says that decide what runs and were made up.
MADE_UP = "decide what runs and were made up"

#: The operator that stands for what runs after that.
REST = "aten::data_dependent"


def read_torch(
    model: nn.Module,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    *,
    mode: Mode = "eval",
    grad: bool = False,
    attention: AttentionKernel | None = None,
    name: str = "",
) -> Graph:
    """The graph of a module's operations on some inputs.

    The module runs once, on meta tensors. Where it asks for elements that do not follow from constants, it runs once
    more on its real tensors; a note says so. Threads that call this take turns.

    Args:
        model: the module; afterwards it is as it was.
        inputs: a shape, a tensor, a sequence of them, a mapping, or a pair of a sequence and a mapping; see
            ``flopwise.formats.torch.arguments.settle``.
        dims: values of names that stand for sizes in shapes.
        batch_size: first dimension of every input that is given as a shape.
        progress: called with the name of each step.
        mode: the mode of the modules.
        grad: whether gradients are to be known (``Tensor.grad``).
        attention: the kernel of attention whose gradient keeps tensors; None: as PyTorch would choose on the device.
        name: where the module comes from, for the report; "" = its class.

    Raises:
        ModelError: the module fails with these inputs.
        InputError: inputs are missing or not understood.
    """
    kind = type(model).__name__
    if is_program_of_file(model):
        inputs, mode, kind = _of_example(model.example, inputs, mode), "as-is", "ExportedProgram"
    elif isinstance(model, torch.export.ExportedProgram):
        inputs, mode, kind = _of_example(model.example_inputs, inputs, mode), "as-is", "ExportedProgram"
        model = model.module(check_guards=False)
    if not isinstance(model, nn.Module):
        raise ModelError(f"{kind} is not a torch.nn.Module")

    def recorded() -> Graph:
        with _ONE_AT_A_TIME, outside_of_modes(), gathered(model) as notes:
            reading = _Reading(model, name, kind, notes, mode, grad, attention)
            return reading.graph(settle(model, inputs, dims, batch_size, name or kind), progress)

    return uncompiled(recorded)


def result_of(model: nn.Module, inputs: object, keep: Callable[[object], object]) -> Any:
    """The part to be kept of what a module returns in eval mode, on meta tensors.

    Args:
        model: the module.
        inputs: as in ``read_torch``.
        keep: makes what is kept of the result; elements that follow from constants are at its tensors.

    Raises:
        ModelError: the module fails with these inputs.
    """
    with _ONE_AT_A_TIME:
        return _run_on_meta(model, settle(model, inputs, None, None), keep).result


def graph_and_result(model: nn.Module, inputs: object, keep: Callable[[object], object]) -> tuple[Graph, Any]:
    """The graph of a module in eval mode, from one run on meta tensors, and the part to be kept of what it returns.

    Args:
        model: the module.
        inputs: as in ``read_torch``.
        keep: as in ``result_of``.

    Raises:
        ModelError: the module fails with these inputs.
    """
    kind = type(model).__name__
    with _ONE_AT_A_TIME, outside_of_modes(), gathered(model) as notes:
        arguments = settle(model, inputs, None, None, kind)
        recorded = _run_on_meta(model, arguments, keep)
        return _Reading(model, "", kind, notes).of_run(arguments, recorded), recorded.result


def _run_on_meta(model: nn.Module, arguments: Arguments, keep: Callable[[object], object]) -> Run:
    """A run in eval mode on meta tensors; arguments and errors as in ``result_of``."""
    try:
        return run(model, arguments, "eval", grad=False, real=False, keep=keep)
    except RunError as failed:
        raise ModelError(f"{type(model).__name__}: {failed.where}{failed.words}{failed.place}") from failed.__cause__


class _Reading(NamedTuple):
    """A module that is read, and how it is run."""

    model: nn.Module
    #: Where it comes from, and what the report calls it.
    name: str
    kind: str
    #: What is to be said of it; added to.
    notes: list[str]
    mode: Mode = "as-is"
    grad: bool = False
    attention: AttentionKernel | None = None

    def run(self, arguments: Arguments, real: bool = False) -> Run:
        """One run of the module.

        Raises:
            RunError: it fails.
        """
        return run(self.model, arguments, self.mode, grad=self.grad, real=real, attention=self.attention)

    def graph(self, arguments: Arguments, progress: Callable[[str], None] = lambda step: None) -> Graph:
        """As ``read_torch``, for settled arguments."""
        progress("running on meta tensors")
        guessed = False
        try:
            recorded = self.run(arguments)
        except RunError as failed:
            why = failed.words
            if failed.before is not None and UNTIL_ELEMENTS.get():
                self.notes.append(f"the formulas end where {why}{failed.place}: what follows depends on the data")
                return self.of_run(arguments, failed.before, partial=True)
            guessed = bool(arguments.made) and (isinstance(failed.__cause__, NeedsValues) or failed.read)
            if any(t.is_meta for t in (*self.model.parameters(), *self.model.buffers())):
                doubt = _doubt(failed, arguments)
                raise NeedsMemoryError(
                    f"{self.kind}: {failed.where}{why}{failed.place}{doubt}; if the inputs are right, give the module "
                    "with its tensors in memory, not on the meta device"
                ) from failed.__cause__
            if is_program_of_file(self.model):
                raise ModelError(
                    f"{self.name or self.kind}: {failed.where}{why}; a program in a file runs without elements, unless "
                    "--trust-code (trust_code=True) is given"
                ) from failed.__cause__
            progress("running on real tensors")
            try:
                recorded = self.run(arguments, real=True)
            except RunError as again:
                doubt = _doubt(again, arguments)
                raise ModelError(f"{self.kind}: {again.where}{again.words}{again.place}{doubt}") from again.__cause__
            self.notes.append(f"{REAL}, because on meta tensors: {failed.where}{why}; other values may need other work")
        decide = self.deciding(arguments, recorded)
        if decide and UNTIL_ELEMENTS.get():
            return self.graph(arguments._replace(strict=True))
        if decide:
            self.notes.append(
                f"the elements of {_listed(decide)} {MADE_UP}, because only the shape is given: other values need "
                f"other work; {arguments.cure(decide)}"
            )
        elif recorded.chosen:
            self.notes.append(
                f"upper bounds, because all are counted that the elements of {_listed(recorded.chosen)} may choose, of "
                f"which only the shape is given; {arguments.cure(recorded.chosen)}"
            )
        return self.of_run(arguments, recorded, guessed or bool(decide or recorded.chosen))

    def deciding(self, arguments: Arguments, recorded: Run) -> frozenset[str]:
        """The inputs whose made-up elements decide what runs: those that the program has asked for, where it does
        something else with others, and those of which it has asked whether something is so, where it does with the
        other answer.
        """
        if arguments.strict:
            return frozenset()
        token = HANDED_OUT.set(None)
        try:
            for names, ways in ((recorded.tested, (DENIED,)), (recorded.asked, (1, 2))):
                for way in ways if names else ():
                    try:
                        other = self.run(arguments._replace(way=way))
                    except (RunError, FlopwiseError):  # these elements are none that it takes
                        continue
                    if _steps(other) != _steps(recorded):
                        return names
                    break
        finally:
            HANDED_OUT.reset(token)
        return frozenset()

    def of_run(self, arguments: Arguments, recorded: Run, guessed: bool = False, partial: bool = False) -> Graph:
        """The graph of a run; where it is the beginning of one, an operator stands for the rest."""
        model, name, notes = self.model, self.name, self.notes
        is_graph = self.kind == "ExportedProgram" or isinstance(model, torch.jit.ScriptModule)
        notes.extend(dict.fromkeys(recorded.notes))
        notes.extend(opaque(tensor for tensor, _ in recorded.stored.values()))
        if any(t.kind == "weight" and f".{CONSTANT}" in f".{t.name}" for _, t in recorded.stored.values()):
            notes.append("weights of a frozen script are constants of its program: real numbers count as parameters")
        parts = submodules(model, recorded.stored)
        own = parts
        if isinstance(model, FunctionModule):  # which has what it calls, and not all that it could
            called = tuple({f"{call.path}." for call in recorded.calls if call.path})
            own = tuple([part for part in parts if f"{part.path}.".startswith(called)])
            around = {path[:end] for path in called for end, letter in enumerate(path) if letter == "."}
            parts = tuple([part for part in parts if part in own or part.path in {"", *around}])
        if self.mode == "eval" and not name and any(part.training for part in parts):
            notes.append("counted in eval mode; the module is in train mode (mode='train' counts that)")
        if self.mode == "train":
            notes.append("counted in train mode")
        nodes = nodes_of(recorded.events)
        notes.extend(dense_experts(nodes))
        unseen, fillings = filled_unseen(recorded.events, nodes)
        notes.extend(fillings)
        idle = unused(nodes, own)
        if partial:
            left = [tensor for node in idle for tensor in node.known_inputs]
            data, result = Tensor("elements", None, None), Tensor("rest of the program", None, None)
            idle = [Node(REST, "rest of the program", (data, *left), (result,))]
        each_call, in_scripts = not is_graph, recorded.in_scripts
        return Graph(
            name=name.rpartition(":")[2] if is_callable(name) else self.kind,
            format="torch",
            source=name or f"{type(model).__module__}.{type(model).__qualname__}",
            inputs=arguments.listed,
            outputs=recorded.outputs,
            nodes=(*nodes, *unseen, *idle),
            weights=TensorsOfGraph(recorded.stored.values()),
            warnings=tuple(notes),
            program=Program(parts, tuple(recorded.calls), guessed, each_call=each_call, in_scripts=in_scripts),
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(map(repr, names)))


def _steps(record: Run) -> list[object]:
    """The operations of a run with the shapes of their arguments and results."""
    return [(e.plan.name, *[t.shape for t in (*tensors(e.args), *e.outputs)]) for e in record.events]


def _doubt(failed: RunError, arguments: Arguments) -> str:
    """What may be the reason for an error: a value that was taken for a shape, or a shape for a value, elements that
    were made up, or their type.
    """
    shapes = [t for key, t in arguments.tensors.items() if key in arguments.made]
    floats = [t for t in shapes if "float" in (t.dtype or "")]
    made = [t.name for t in shapes if t not in floats and not is_mask(t.name)]
    if failed.read and made and not isinstance(failed.__cause__, (AttributeError, TypeError)):
        return (
            f"; the elements of {_listed(made)} were made up, because only the shape is given: {arguments.cure(made)}"
        )
    doubt = f"; {arguments.doubt}" if arguments.doubt and isinstance(failed.__cause__, _OF_KINDS) else ""
    if not (floats and _OF_WHOLE.search(failed.words)):
        return doubt
    least = min(floats, key=lambda t: t.numel)  # lengths and places are fewer than features
    text = f"{least.name}:i64:{'x'.join(map(str, least.dims))}"
    return (
        f"{doubt}; {_listed([t.name for t in floats])} made as {least.dtype}, because only the shape is given: give "
        f"whole numbers as -i {text}, in Python {text!r}"
    )


def _of_example(example: object, inputs: object, mode: Mode) -> object:
    """The inputs of an exported program: those that are given, else those that it was exported with.

    Raises:
        InputError: it was exported without examples, and no inputs are given; or another mode is wanted than its own.
    """
    if mode == "train":
        raise InputError("an exported program has the mode that it was exported in")
    if inputs is None and example is None:
        raise InputError("the exported program holds no example inputs; give their shapes with -i")
    return example if inputs is None else inputs


#: What a program raises where an argument is of another kind than it expects.
_OF_KINDS = (AttributeError, IndexError, KeyError, TypeError, ValueError)

#: What PyTorch says where whole numbers are needed.
_OF_WHOLE = re.compile(r"\b(Long|Int|long, int|ints|integers?)\b|LongTensor|not implemented for '(Half|B?Float|Double)")


class NeedsMemoryError(ModelError):
    """The module fails on meta tensors and has no others."""
