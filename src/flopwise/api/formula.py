"""``flopwise.formula``: what a model costs as closed formulas in its open dimensions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flopwise import conventions
from flopwise.analyses.formula import derivation
from flopwise.analyses.formula.dim import Guards, dim, recording
from flopwise.analyses.formula.facts import ModelFacts
from flopwise.analyses.formula.first import Reading, unknown_loops
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.nets import NetFacts
from flopwise.analyses.formula.program import ProgramFacts, ProgramSizes, asking_line, loops_fixed
from flopwise.analyses.formula.rows import Counting
from flopwise.analyses.formula.shapes import in_modules
from flopwise.analyses.formula.sizes import closed_model, open_inputs
from flopwise.analyses.formula.terms.bounds import least
from flopwise.analyses.formula.terms.polynomial import symbol
from flopwise.api.read import read
from flopwise.conventions import Convention
from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import Graph, Tensor
from flopwise.operators.own import Rules, own_rows, using
from flopwise.readers.formats import format_of
from flopwise.readers.inputs import InputSpec
from flopwise.readers.options import CaffeOptions, OnnxOptions, TorchOptions, options_of
from flopwise.readers.source.location import is_callable, shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.readers.onnx.signature import Signature
    from flopwise.readers.options import Keywords, Options


def formula(
    model: object,
    inputs: Any = None,
    *,
    convention: str | Convention = "flops",
    rules: Rules | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: Options | None = None,
    fold: bool | None = None,
    train: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    **keywords: Unpack[Keywords],
) -> Formula:
    """What a model costs as closed formulas in the open dimensions of its inputs.

    The formulas are compared with profiles at several sizes before they are handed over.

    Args:
        model: as in ``flopwise.read``.
        inputs: shapes as in ``flopwise.read``, in which names may stand for sizes that the file fixes as numbers.
        convention: as in ``flopwise.profile``.
        rules: as in ``flopwise.profile``.
        dims: values of symbolic dimensions that are not to be symbols.
        batch_size: as in ``flopwise.read``.
        options: as in ``flopwise.read``.
        fold: as in ``flopwise.profile``.
        train: whether there are formulas of the backward pass and of what it keeps, too; a PyTorch model is then in
            train mode unless ``mode`` says otherwise.
        progress: as in ``flopwise.read``.
        keywords: as in ``flopwise.read``.

    Raises:
        ModelError: the model cannot be read.
        InputError: no dimension is open, no sizes were found that the model takes, or the convention is unknown.
    """
    format, chosen = format_of(model), conventions.get(convention)
    if not format.has_graph:
        raise InputError(f"{shown(str(model))}: holds weights and no graph, so there are no formulas")
    if not format.formulas:
        raise InputError(f"{model}: formulas are not made for {format.models}")
    counting = Counting(chosen, rules, fold, train)
    if format.options is CaffeOptions:
        of_caffe = options_of(CaffeOptions, options, keywords)
        with using(own_rows(rules)):
            result = _of_caffe(model, inputs, counting, dims, batch_size, of_caffe, progress)
    elif format.module is not None:
        own = options_of(TorchOptions, options, keywords)
        with using(own_rows(rules)):
            from flopwise.readers.torch.model import module_of

            module, name = module_of(model, own, progress)
            result = _of_module(module, inputs, counting, dims, batch_size, own, progress)
            if name:
                called = name.rpartition(":")[2] if is_callable(name) else result.graph.name
                result = replace(result, graph=replace(result.graph, name=called, source=name))
    else:
        of_onnx = options_of(OnnxOptions, options, keywords)
        with using(own_rows(rules)):
            result = _of_onnx(model, inputs, counting, dims, batch_size, of_onnx, progress)
    return replace(result, renderer=_as_text)


def _of_onnx(
    model: object,
    inputs: Any,
    counting: Counting,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: OnnxOptions,
    progress: Callable[[str], None],
) -> Formula:
    """The formulas of an ONNX model, which is read once for each point."""
    from flopwise.analyses.formula.facts import facts_of
    from flopwise.readers.onnx.read import graph_of, resolve_onnx
    from flopwise.readers.onnx.signature import signature

    progress("reading the inputs")
    signed = signature(model)
    loops: list[str] = []
    named: list[Graph] = []  # with the names of modules, which the lighter form lacks
    if options.past is not None or options.new is not None:
        with _naming(model):
            return _of_onnx_steps(model, signed, inputs, counting, dims, batch_size, options, progress)
    with _naming(model):
        opened = open_inputs(signed.inputs, inputs, dims, batch_size)

        def at(point: Mapping[str, int]) -> Reading:
            counts = {**(options.trips or {}), **{name: point[name] for name in loops}}
            try:
                resolved = resolve_onnx(
                    signed.model if named else model,
                    opened.at(point),
                    batch_size=batch_size,
                    options=replace(options, trips=counts),
                )
                graph = graph_of(resolved)
            except FlopwiseError as error:
                raise type(error)(str(error).partition(": ")[2] or str(error)) from error
            named[:] = named or [graph]
            graph = in_modules(graph, named[0])
            return Reading(graph, facts_of(resolved, graph.weights))

        if signed.loops:
            loops += unknown_loops(opened.symbols, at, opened.hints)
        names = (*opened.symbols, *loops)
        if not names:
            raise InputError(closed_model(signed.inputs))
        shapes = [(i.name, i.dtype, i.shape) for i in opened.inputs]
        return derivation.derive(names, at, counting, opened.hints, shapes, loops, progress)


def _of_caffe(
    model: object,
    inputs: Any,
    counting: Counting,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: CaffeOptions,
    progress: Callable[[str], None],
) -> Formula:
    """The formulas of a Caffe net, whose layers are worked out with sizes that carry expressions."""
    from flopwise.readers.caffe.read import open_net

    progress("reading the net")
    net = open_net(model, **vars(options))
    with _naming(model):
        named = {spec.name: spec for spec in net.specs(inputs)}
        declared = [
            _Declared(name, "float32", shape if shape is not None else named[name].shape if name in named else None)
            for name, shape in net.inputs
        ]
        opened = open_inputs(declared, list(named.values()) or None, dims, batch_size)
        if not opened.symbols:
            raise InputError(closed_model(declared))

        def at(point: Mapping[str, int]) -> Reading:
            return Reading(net.graph({spec.name: spec.shape for spec in opened.at(point)}), ModelFacts())

        def follow(point: Mapping[str, int], sizes: Mapping[str, tuple[int, ...]]) -> Reading:
            guards = Guards()
            with recording(guards):
                graph = net.graph(dict(sizes), reached=lambda layer: setattr(guards, "reason", layer))
            return Reading(at(point).graph, NetFacts(graph, guards))

        shapes = [(i.name, i.dtype, i.shape) for i in opened.inputs]
        return derivation.derive(opened.symbols, at, counting, opened.hints, shapes, progress=progress, follow=follow)


@dataclass(frozen=True)
class _Declared:
    """An input of a module or net as ``open_inputs`` takes it."""

    name: str
    dtype: str | None
    dims: tuple[Any, ...] | None


def _of_module(
    module: Any,
    inputs: Any,
    counting: Counting,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: TorchOptions,
    progress: Callable[[str], None],
) -> Formula:
    """The formulas of a PyTorch module, which runs once for each point."""
    from flopwise.readers.torch.inputs.arguments import parameters_of
    from flopwise.readers.torch.inputs.signature import open_specs

    if options.past is not None or options.new is not None:
        return _of_steps(module, inputs, counting, dims, batch_size, options, progress)
    specs = open_specs(module, inputs)
    declared = [_Declared(s.name, s.dtype, s.shape) for s in specs]
    opened = open_inputs(declared, [InputSpec(s.name, s.shape, s.dtype) for s in specs], dims, batch_size)
    if not opened.symbols:
        raise InputError("no size is open; write a name in place of a number, such as -i batchx3x224x224")

    def call(point: Mapping[str, int]) -> Any:
        """The arguments as ``flopwise.read`` would pass them: some tools count by the first positional one."""
        specs = {spec.name: spec for spec in opened.at(point)}
        if inputs is None or isinstance(inputs, Mapping):
            return specs
        first = [specs.pop(name) for name in list(takewhile(specs.__contains__, parameters_of(module)))]
        return (first, specs) if first else specs

    def at(point: Mapping[str, int]) -> Reading:
        return Reading(
            read(
                module,
                call(point),
                mode=options.mode or ("train" if counting.train else None),
                grad=counting.train,
            ),
            ModelFacts(),
        )

    shapes = [(i.name, i.dtype, i.shape) for i in opened.inputs]

    def follow(point: Mapping[str, int], sizes: Mapping[str, tuple[int, ...]]) -> Reading:
        return _followed(lambda: at(point).graph, sizes)

    return derivation.derive(opened.symbols, at, counting, opened.hints, shapes, progress=progress, follow=follow)


def _followed(run: Callable[[], Graph], sizes: Mapping[str, tuple[int, ...]]) -> Reading:
    """What a program does while the sizes that it asks for carry expressions."""
    from flopwise.readers.torch.capture.sizes import HANDED_OUT
    from flopwise.readers.torch.lower.operators import lower

    program, guards = ProgramSizes(sizes, lower), Guards(reason=asking_line)
    token = HANDED_OUT.set(program)
    try:
        with recording(guards), loops_fixed():
            graph = run()
    finally:
        HANDED_OUT.reset(token)
    for guard, why in program.guards.reasons.items():
        guards.reasons.setdefault(guard, why)
    return Reading(graph, ProgramFacts(program, guards))


def _of_steps(
    module: Any,
    inputs: Any,
    counting: Counting,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: TorchOptions,
    progress: Callable[[str], None],
) -> Formula:
    """The formulas of a step of a language model in the batch, the tokens in its state and the tokens fed.

    Raises:
        InputError: no number is a symbol, or inputs are given as well.
    """
    from flopwise.readers.torch.language.state import carry, step

    if inputs is not None:
        raise InputError("past and new tokens make the inputs of a language model; give no others")
    given, symbols = _open_lengths(dims, batch_size, options)

    def call(point: Mapping[str, int]) -> dict[str, Any]:
        sizes = {name: point[value] if isinstance(value, str) else value for name, value in given.items()}
        return dict(step(module, sizes["past"], sizes["new"], sizes["batch"]).inputs)

    def graph_of(made: dict[str, Any]) -> Graph:
        return read(module, made, mode=options.mode)

    def at(point: Mapping[str, int]) -> Reading:
        return Reading(graph_of(call(point)), ModelFacts())

    def follow(point: Mapping[str, int], sizes: Mapping[str, tuple[int, ...]]) -> Reading:
        made = call(point)
        carry(made, {point[value]: dim(point[value], symbol(value)) for value in symbols.values()})
        return _followed(lambda: graph_of(made), sizes)

    point = {value: _APART[name] for name, value in symbols.items()}
    near = step(module, _FEW, 1, 1).state if "past" in symbols else {}
    held = {name: tuple(int(size) for size in tensor.shape) for name, tensor in near.items()}
    shapes = _in_lengths(graph_of(call(point)).inputs, symbols, given, held)
    hints = {value: _APART[name] for name, value in symbols.items()}
    return derivation.derive(tuple(symbols.values()), at, counting, hints, shapes, progress=progress, follow=follow)


def _of_onnx_steps(
    model: object,
    signed: Signature,
    inputs: Any,
    counting: Counting,
    dims: Mapping[str, int] | None,
    batch_size: int | None,
    options: OnnxOptions,
    progress: Callable[[str], None],
) -> Formula:
    """The same of an exported language model, whose state is among its inputs.

    Raises:
        InputError: as for ``_of_steps``, or the model takes no state.
    """
    from flopwise.analyses.formula.facts import facts_of
    from flopwise.readers.onnx.read import graph_of, resolve_onnx

    if inputs is not None:
        raise InputError("past and new tokens make the inputs of a language model; give no others")
    given, symbols = _open_lengths(dims, batch_size, options)

    def at(point: Mapping[str, int]) -> Reading:
        sizes = {name: point[value] if isinstance(value, str) else value for name, value in given.items()}
        lengths = replace(options, past=sizes["past"], new=sizes["new"])
        resolved = resolve_onnx(model, None, dims, sizes["batch"], lengths)
        graph = graph_of(resolved)
        return Reading(graph, facts_of(resolved, graph.weights))

    hints = {value: _APART[name] for name, value in symbols.items()}
    shapes = _in_lengths(at(hints).graph.inputs, symbols, given)
    return derivation.derive(tuple(symbols.values()), at, counting, hints, shapes, progress=progress)


def _open_lengths(
    dims: Mapping[str, int] | None, batch_size: int | None, options: TorchOptions | OnnxOptions
) -> tuple[dict[str, int | str], dict[str, str]]:
    """Batch, past and new tokens as numbers or names, and those of them that are names.

    Raises:
        InputError: all are numbers.
    """
    given = {"batch": "batch" if batch_size is None else batch_size, "past": options.past or 0, "new": options.new or 1}
    given = {name: (dims or {}).get(value, value) if isinstance(value, str) else value for name, value in given.items()}
    symbols = {name: value for name, value in given.items() if isinstance(value, str)}
    if not symbols:
        raise InputError("no size is open; write a name in place of a number, such as --past past")
    return given, symbols


def _in_lengths(
    inputs: Iterable[Tensor],
    symbols: Mapping[str, str],
    given: Mapping[str, int | str],
    held: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> list[derivation.Shape]:
    """The shapes of inputs at sizes that lie apart, in the symbols for these.

    Args:
        inputs: the inputs at these sizes.
        symbols: what is open, and its name.
        given: numbers and names of all sizes.
        held: the shapes of the state after few tokens, which say what a full window is.
    """
    names: dict[int, Any] = {_APART[name]: symbol(value) for name, value in symbols.items()}
    past, new = (
        (_APART[name], symbol(value)) if isinstance(value, str) else (value, value)
        for name, value in (("past", given["past"]), ("new", given["new"]))
    )
    names.setdefault(past[0] + new[0], past[1] + new[1])

    def term(size: int, few: int | None) -> Any:
        if few == _FEW and few < size < _APART["past"] and "past" in symbols:
            return least(symbol(symbols["past"]), size)  # a window that is full
        return names.get(size, size)

    shapes: list[derivation.Shape] = []
    for tensor in inputs:
        before = held.get(tensor.name, ())
        fews = before if len(before) == len(tensor.dims) else (None,) * len(tensor.dims)
        dims = tuple([term(int(size), few) for size, few in zip(tensor.dims, fews, strict=True)])
        shapes.append((tensor.name, tensor.dtype, dims))
    return shapes


#: Sizes that no other dimension of a model has, by which the symbols are found in the shapes of its inputs.
_APART = {"batch": 11, "past": 1013, "new": 29}

#: Tokens in a state that fill no window.
_FEW = 5


@contextlib.contextmanager
def _naming(model: object) -> Iterator[None]:
    """Put the model's file before the message of an error."""
    try:
        yield
    except FlopwiseError as error:
        if not isinstance(model, str | os.PathLike):
            raise
        name = os.fspath(model)
        raise type(error)(str(error) if str(error).startswith(f"{name}: ") else f"{name}: {error}") from error.__cause__


def _as_text(formula: Formula) -> str:
    from flopwise.report.commands.formula import formula_report
    from flopwise.report.report import as_text

    return as_text(formula_report(formula))
