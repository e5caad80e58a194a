"""The whole way in one call: read a model, count it, know how to print it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from flopwise import conventions
from flopwise.conventions import Convention
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph
from flopwise.operators.tables import Rule
from flopwise.profiles.profile import Profile, profile_graph
from flopwise.readers.formats import (
    is_caffe,
    is_callable,
    is_checkpoint,
    is_module,
    is_torch_file,
    is_url,
    is_weights,
    shown,
)

if TYPE_CHECKING:
    from flopwise.analyses.formula.formula import Formula
    from flopwise.operators.gradients.rule import BackwardRule
    from flopwise.readers.torch.read import Mode
    from flopwise.writers.onnx.write import Written


def read(
    model: object,
    inputs: Any = None,
    *,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    phase: str | None = None,
    stages: Sequence[str] = (),
    level: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    mode: Mode | None = None,
    grad: bool = False,
    arguments: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of a model with resolved shapes; no weights are read.

    Args:
        model: path of an ONNX file, its bytes, an open binary file, or an ``onnx.ModelProto``; path of a Caffe net
            (.prototxt, .caffemodel); a ``torch.nn.Module``, which is afterwards as it was, the name of a callable that
            makes one (``package.module:callable``, ``file.py:callable``), an exported program or a TorchScript file;
            path of a file with weights and no graph (.safetensors, its index, .gguf, .npz, .npy, a checkpoint of
            PyTorch's), whose operations stay unknown. In place of a path, a URL: only the ranges that are needed come
            over the network.
        inputs: shapes by input name (``{"x": (1, 3, 224, 224)}``), one shape when there is one input, or texts of the
            form ``name:dtype:shape[:data]``. Needed where the file leaves a shape open. An array in place of a shape
            carries its elements, which may decide shapes; a list of shapes or arrays is a sequence, None an empty
            optional. For a module: a shape, a tensor, or a sequence of them (positional arguments), a mapping (keyword
            arguments), a pair of a sequence and a mapping, or such texts; None for a Hugging Face model, whose inputs
            follow from its configuration.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        trips: how often loops run, by name, where the model does not say.
        phase: of a Caffe net: "TEST" or "TRAIN"; None: as the file says, else TEST.
        stages: of a Caffe net: the stages that are on.
        level: of a Caffe net: its level.
        weights: of a Caffe net: a .caffemodel to check it against; None: one of the same name beside it.
        mode: of a module: "eval", "train", or "as-is" for the mode that each of its modules is in; None: eval.
        grad: of a module: whether gradients are to be known (``Tensor.grad``), as training asks for them.
        arguments: of a callable: its keyword arguments as texts.
        progress: called with the name of each step.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit.
    """
    source = ""
    if is_weights(model) or (inputs is None and is_checkpoint(model)):
        from flopwise.readers.weights.read import read_weights

        _refuse("Caffe nets (.prototxt)", phase=phase, stages=stages, level=level, weights=weights)
        _refuse("models with a graph", dims=dims, trips=trips, mode=mode, arguments=arguments)
        progress("reading the header")
        return read_weights(os.fsdecode(cast("str", model)), inputs, batch_size)
    if is_url(model) and is_torch_file(model):
        raise _far(str(model))
    if is_callable(model) or is_torch_file(model):
        from flopwise.readers.torch import load

        progress("importing the model")
        source = str(model)
        made = load.made(source, arguments) if is_callable(model) else load.loaded(source)
        again: Callable[[], Any] = functools.partial(load.made, source, arguments, in_memory=True)
        model = made
    elif arguments:
        raise InputError("arguments are for a model that is given as package.module:callable")
    if is_module(model):
        from flopwise.readers.torch.read import NeedsMemoryError, read_torch

        _refuse("Caffe nets (.prototxt)", phase=phase, stages=stages, level=level, weights=weights)
        _refuse("ONNX models", trips=trips)
        run = functools.partial(
            read_torch,
            inputs=inputs,
            dims=dims,
            batch_size=batch_size,
            progress=progress,
            mode=mode or "eval",
            grad=grad,
        )
        try:
            graph: Graph = run(model, name=source)  # type: ignore[arg-type] # a module, as was asked
        except NeedsMemoryError:
            if not is_callable(source):
                raise
            graph = run(again(), name=source)  # it was made without memory here, so it can be made with it
        return graph
    _refuse("PyTorch modules", mode=mode, grad=grad)
    if is_caffe(model):
        from flopwise.readers.caffe.read import read_caffe

        if trips:
            raise InputError(f"no loop is named {next(iter(trips))!r}: Caffe nets have none")
        return read_caffe(
            model, inputs, dims, batch_size, progress, phase=phase, stages=stages, level=level, weights=weights
        )
    _refuse("Caffe nets (.prototxt)", phase=phase, stages=stages, level=level, weights=weights)
    from flopwise.readers.onnx.read import read_onnx

    return read_onnx(model, inputs, dims, batch_size, trips, progress)


def _far(url: str) -> FlopwiseError:
    """Why a file of PyTorch's cannot be counted from where it is."""
    if is_checkpoint(url):
        return InputError(
            f"{shown(url)}: inputs are for a model with operators; of a URL only tensors are read: "
            "download a program first, and give a module as package.module:callable"
        )
    return ModelError(f"{shown(url)}: PyTorch reads programs from local disks only; download it first")


def _refuse(kind: str, **given: Any) -> None:
    """Refuse what is for another kind of model.

    Raises:
        InputError: one of these was given.
    """
    names = [name for name, value in given.items() if value not in (None, False, (), [], {})]
    if names:
        raise InputError(f"{' and '.join(names)}: only for {kind}")


def profile(
    model: object,
    inputs: Any = None,
    *,
    convention: str | Convention = "flops",
    rules: Mapping[str, Rule] | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    phase: str | None = None,
    stages: Sequence[str] = (),
    level: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    mode: Mode | None = None,
    arguments: Mapping[str, str] | None = None,
    fold: bool | None = None,
    train: bool = False,
    optimizer: str | None = None,
    backward_rules: Mapping[str, BackwardRule] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Profile:
    """What a model costs, per layer and in total.

    Args:
        model: as in :func:`read`, or a Graph.
        inputs: as in :func:`read`.
        convention: how operations are added up: a name from ``flopwise.CONVENTIONS`` or a Convention.
        rules: your own operators: name -> function from Node to Counts. They win over the built-in ones.
        dims: as in :func:`read`.
        batch_size: as in :func:`read`.
        trips: as in :func:`read`.
        phase: as in :func:`read`.
        stages: as in :func:`read`.
        level: as in :func:`read`.
        weights: as in :func:`read`.
        mode: as in :func:`read`; with ``train``, None is "train".
        arguments: as in :func:`read`.
        fold: whether operators on weights and constants only are left out; None: as the convention does.
        train: whether each row also gets its backward pass, and the profile what a training step takes.
        optimizer: with ``train``: "sgd", "momentum", "adam" or "adamw", whose step and state are counted.
        backward_rules: with ``train``: your own gradients: operator name -> function from Node and the places of the
            inputs whose gradients are wanted to Counts.
        progress: as in :func:`read`.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, or the convention is unknown.
    """
    from dataclasses import replace

    if (optimizer is not None or backward_rules) and not train:
        raise InputError("an optimizer and rules for gradients are for a training step: train=True, or --train")
    chosen = conventions.get(convention)
    graph = model if isinstance(model, Graph) else None
    if graph is None:
        state: dict[str, Any] = {"phase": phase, "stages": stages, "level": level, "weights": weights, "mode": mode}
        state["arguments"] = arguments
        if train and (is_module(model) or is_callable(model) or (is_torch_file(model) and not is_checkpoint(model))):
            state |= {"mode": mode or "train", "grad": True}
        graph = read(model, inputs, dims=dims, batch_size=batch_size, trips=trips, progress=progress, **state)
    progress("counting")
    found = profile_graph(graph, chosen, rules, fold, train)
    if train:
        from flopwise.analyses.training.step import train as trained

        found = trained(found, optimizer, backward_rules)
    return replace(found, renderer=_as_text, html_renderer=_as_html)


def formula(
    model: object,
    inputs: Any = None,
    *,
    convention: str | Convention = "flops",
    rules: Mapping[str, Rule] | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    mode: Mode | None = None,
    arguments: Mapping[str, str] | None = None,
    fold: bool | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Formula:
    """What a model costs as closed formulas in the open dimensions of its inputs.

    The formulas are compared with profiles at several sizes before they are handed over.

    Args:
        model: as in :func:`read`.
        inputs: shapes as in :func:`read`, in which names may stand for sizes that the file fixes as numbers.
        convention: as in :func:`profile`.
        rules: as in :func:`profile`.
        dims: values of symbolic dimensions that are not to be symbols.
        batch_size: as in :func:`read`.
        trips: as in :func:`read`.
        mode: as in :func:`read`.
        arguments: as in :func:`read`.
        fold: as in :func:`profile`.
        progress: as in :func:`read`.

    Raises:
        ModelError: the model cannot be read.
        InputError: no dimension is open, no sizes were found that the model takes, or the convention is unknown.
    """
    from dataclasses import replace

    from flopwise.analyses.formula.derive import derive
    from flopwise.analyses.formula.points import unknown_loops
    from flopwise.analyses.formula.rows import Counting
    from flopwise.analyses.formula.shapes import in_modules
    from flopwise.analyses.formula.sizes import closed_model, open_inputs
    from flopwise.readers.onnx.signature import signature

    if is_caffe(model):
        raise InputError(f"{model}: formulas are not made for Caffe nets, which have numbers for all their dimensions")
    chosen = conventions.get(convention)
    if not chosen.closed:
        raise InputError(f"{chosen.name} rounds in ways that no formula follows; give another convention")
    if is_weights(model) or is_checkpoint(model):
        raise InputError(f"{shown(str(model))}: holds weights and no graph, so there are no formulas")
    if is_url(model) and is_torch_file(model):
        raise _far(str(model))
    if is_callable(model) or is_torch_file(model):
        from flopwise.readers.torch import load

        progress("importing the model")
        model = load.made(str(model), arguments) if is_callable(model) else load.loaded(str(model))
    elif arguments:
        raise InputError("arguments are for a model that is given as package.module:callable")
    if is_module(model):
        return _formula_of_module(model, inputs, chosen, rules, dims, batch_size, mode, fold, progress)
    _refuse("PyTorch modules", mode=mode)
    progress("reading the inputs")
    signed = signature(model)
    loops: list[str] = []
    named: list[Graph] = []  # with the names of modules, which the lighter form lacks
    with _naming(model):
        opened = open_inputs(signed.inputs, inputs, dims, batch_size)

        def at(point: Mapping[str, int]) -> Graph:
            counted = {**(trips or {}), **{name: point[name] for name in loops}}
            try:
                graph = read(signed.model if named else model, opened.at(point), batch_size=batch_size, trips=counted)
            except FlopwiseError as error:
                raise type(error)(str(error).partition(": ")[2] or str(error)) from error
            named[:] = named or [graph]
            return in_modules(graph, named[0])

        if signed.loops:
            loops += unknown_loops(opened.symbols, at, opened.hints)
        names = (*opened.symbols, *loops)
        if not names:
            raise InputError(closed_model(signed.inputs))
        counting, shapes = Counting(chosen, rules, fold), [(i.name, i.dtype, i.shape) for i in opened.inputs]
        found = derive(names, at, counting, opened.hints, shapes, progress)
    return replace(found, renderer=_formula_as_text)


def _formula_of_module(
    model: Any,
    inputs: Any,
    convention: Convention,
    rules: Mapping[str, Rule] | None,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    mode: Mode | None,
    fold: bool | None,
    progress: Callable[[str], None],
) -> Formula:
    """The formulas of a PyTorch module, which runs once for each point."""
    from dataclasses import dataclass, replace

    from flopwise.analyses.formula.derive import derive
    from flopwise.analyses.formula.rows import Counting
    from flopwise.analyses.formula.sizes import open_inputs
    from flopwise.readers.inputs import InputSpec
    from flopwise.readers.torch.inputs.signature import open_specs

    @dataclass(frozen=True)
    class Declared:
        name: str
        dtype: str | None
        dims: tuple[int | str, ...]

    specs = open_specs(model, inputs)
    declared = [Declared(s.name, s.dtype, s.shape) for s in specs]
    opened = open_inputs(declared, [InputSpec(s.name, s.shape, s.dtype) for s in specs], dims, batch_size)
    if not opened.symbols:
        raise InputError("no size is open; write a name in place of a number, such as -i batchx3x224x224")

    def at(point: Mapping[str, int]) -> Graph:
        return read(model, {spec.name: spec for spec in opened.at(point)}, mode=mode)

    shapes = [(i.name, i.dtype, i.shape) for i in opened.inputs]
    found = derive(opened.symbols, at, Counting(convention, rules, fold), opened.hints, shapes, progress)
    return replace(found, renderer=_formula_as_text)


@contextlib.contextmanager
def _naming(model: object) -> Iterator[None]:
    """Put the model's file before the message of an error."""
    try:
        yield
    except FlopwiseError as error:
        if not isinstance(model, str | os.PathLike):
            raise
        raise type(error)(f"{os.fspath(model)}: {error}") from error.__cause__


def _formula_as_text(formula: Formula) -> str:
    from flopwise.report.commands.formula import render

    return render(formula)


def write_shapes(
    model: object,
    path: str | os.PathLike[str],
    inputs: Any = None,
    *,
    tensors: Sequence[str] = (),
    weights: bool = True,
    annotate: bool = False,
    copy_data: bool = False,
    rules: Mapping[str, Rule] | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Written:
    """Write an ONNX model with every shape that is known; the file appears only when it is complete.

    Args:
        model: as in :func:`read`.
        path: the file to write, ending in ``.onnx``; it may be the one that is read.
        inputs: as in :func:`read`; these shapes are written into the inputs.
        tensors: names of hidden tensors that become outputs.
        weights: whether stored tensors keep their elements. Without them, each becomes a Constant operator whose sparse
            tensor holds nothing; tensors that may steer shapes and words stay.
        annotate: whether each operator gets its parameters, MACs, FLOPs and bytes as metadata.
        copy_data: whether files with weights that lie beside the model are copied to another folder.
        rules: as in :func:`profile`, for the metadata.
        dims: as in :func:`read`.
        batch_size: as in :func:`read`.
        trips: as in :func:`read`.
        progress: as in :func:`read`.

    Returns:
        How many shapes were written, and the names of the tensors that have none.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, a tensor is unknown, or the file cannot be written.
    """
    if is_caffe(model):
        raise InputError(f"{model}: only ONNX models are written; without -o the shapes of a Caffe net are listed")
    from flopwise.readers.onnx.read import graph_of, resolve_onnx
    from flopwise.writers.onnx.write import write_onnx

    resolved = resolve_onnx(model, inputs, dims, batch_size, trips, progress)
    costs = profile_graph(graph_of(resolved, progress), conventions.get("flops"), rules) if annotate else None
    progress("writing the model")
    return write_onnx(model, resolved, path, tensors, weights, costs, copy_data)


def _as_text(profile: Profile) -> str:
    from flopwise.report import render

    return render(profile)


def _as_html(profile: Profile) -> str:
    from flopwise.report.viewers.notebook import profile_html

    return profile_html(profile)
