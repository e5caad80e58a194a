"""``flopwise.formula``: what a model costs as closed formulas in its open dimensions."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from flopwise import conventions
from flopwise._arguments import checked
from flopwise.analyses.formula.conditions import Guards, recording
from flopwise.analyses.formula.derivation.derive import derive
from flopwise.analyses.formula.derivation.tracing import unknown_loops
from flopwise.analyses.formula.dim import dim
from flopwise.analyses.formula.domains import OpenShape, Point
from flopwise.analyses.formula.extras.lengths import FEW, Lengths
from flopwise.analyses.formula.following.files import File
from flopwise.analyses.formula.following.loops import Followed
from flopwise.analyses.formula.following.program import followed
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.rows import Counting
from flopwise.analyses.formula.subject import OpenInputs, Request, Subject, closed_model, open_inputs
from flopwise.analyses.formula.terms import substituted, symbol
from flopwise.api.read import read
from flopwise.conventions import Convention
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.formats.format import Format
from flopwise.formats.inputs import Declared, InputSpec, Value
from flopwise.formats.options import CaffeOptions, JaxOptions, Keywords, OnnxOptions, Options, TorchOptions, options_of
from flopwise.formats.sources.location import is_callable, shown
from flopwise.formats.table import ONNX, format_of
from flopwise.graph import Graph
from flopwise.graph.typed import in_type, retyped
from flopwise.operators.own import Rules, own_rows, using

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.formats.kit.read import Opened, Resolved


@checked
def formula(
    model: object,
    inputs: object = None,
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
    """The cost of a model as closed formulas in the open dimensions of its inputs.

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
    format = format_of(model)
    counting = Counting(conventions.get(convention), rules, fold, train)
    if not format.has_graph:
        raise InputError(f"{shown(str(model))}: holds weights and no graph, so there are no formulas")
    if not format.formulas:
        why = f", {format.no_formulas}" if format.no_formulas else ""
        raise InputError(f"{model}: formulas are not made for {format.models}{why}")
    request = _Request(model, inputs, dims, batch_size, train, progress)
    with using(own_rows(rules)):
        own = options_of(TorchOptions, options, keywords) if format.module is not None else None
        if own is not None and counting.convention.sees == "programs":
            own = replace(own, program=True)
        if own is not None and _by_table(request, own):
            with _naming(model):
                result = derive(_in_type(_configured(request, own), own), counting, progress)
        elif own is not None:
            from flopwise.formats.torch.model import module_of
            from flopwise.formats.torch.read import MADE_UP

            if train:
                own.refuse_type()
            module, name = module_of(model, own, progress)
            subject = _in_type(_module(replace(request, model=module), own, name), own)
            try:
                result = derive(subject, counting, progress)
                if decided := [note for note in result.notes if MADE_UP in note]:
                    raise InputError(f"no formula: {decided[0]}")
            except FlopwiseError as error:
                result = _beginning(subject, counting, progress, error)
            if name:
                called = name.rpartition(":")[2] if is_callable(name) else result.graph.name
                result = replace(result, graph=replace(result.graph, name=called, source=name))
        else:
            with _naming(model):
                result = derive(_subject(request, format, options, keywords), counting, progress)
    return result


def _subject(request: _Request, format: Format, options: Options | None, keywords: Keywords) -> Subject:
    """A file or a function with open sizes, in the element type that it counts as."""
    own: Options
    if format.options is CaffeOptions:
        subject = _net(request, own := options_of(CaffeOptions, options, keywords))
    elif format.options is JaxOptions:
        subject = _function(request, own := options_of(JaxOptions, options, keywords))
    else:
        kind = format.options if issubclass(format.options, OnnxOptions) else OnnxOptions
        subject = _file(request, own := options_of(kind, options, keywords))
    return _in_type(subject, own)


def _in_type(subject: Subject, options: Options) -> Subject:
    """The subject with its floating-point tensors in the element type of the options; itself where they name none."""
    if (kind := options.element_type) is None:
        return subject

    def follow(own: Request) -> Followed:
        followed = subject.follow(own)
        followed.base, followed.graph = in_type(followed.base, kind), in_type(followed.graph, kind)
        return followed

    way = subject.way
    return replace(
        subject,
        shapes=[(name, retyped(dtype, kind), dims) for name, dtype, dims in subject.shapes],
        read=lambda point: in_type(subject.read(point), kind),
        follow=follow,
        way=None if way is None else lambda point: _in_type(way(point), options),
    )


@dataclass(frozen=True)
class _Request:
    """The arguments of ``formula`` that say which model it is, and which of its sizes are open."""

    model: Any
    inputs: object
    dims: Mapping[str, int] | None
    batch_size: int | None
    train: bool
    progress: Callable[[str], None]

    def opened(self, declared: Sequence[Declared], inputs: object) -> OpenInputs:
        """The inputs with their open sizes."""
        return open_inputs(declared, inputs, self.dims, self.batch_size)

    def lengths(self, options: TorchOptions | OnnxOptions, longest: int | None = None) -> Lengths:
        """The batch, past and new tokens of a step of a language model.

        Raises:
            InputError: none of them is a symbol, or inputs are given as well.
        """
        if self.inputs is not None:
            raise InputError("past and new tokens make the inputs of a language model; give no others")
        return Lengths.of(self.batch_size, options.past, options.new, self.dims or {}, longest)


def _by_table(request: _Request, options: TorchOptions) -> bool:
    """True for a configuration of a type that the table of architectures has, of which a forward pass is asked for."""
    from flopwise.formats.torch.language.format import by_table

    return not request.train and by_table(request.model, request.inputs, None, options)


def _configured(request: _Request, options: TorchOptions) -> Subject:
    """A language model of the table of architectures, whose graph is made with sizes that carry expressions."""
    from flopwise.formats.language.read import call_of, inputs_of, language, windows_of

    decoder = language(request.model).decoder

    def followed_at(own: Request, call: Callable[[Point], Graph]) -> Followed:
        guards = Guards()
        with recording(guards):
            graph = call({name: dim(own.point[name], symbol(name)) for name in own.point})
        return Followed(call(own.point), graph, guards)

    if options.past is not None or options.new is not None:

        def step(past: int, new: int, batch: int) -> Graph:
            return call_of(decoder, batch, new, past)

        return _by_lengths(
            request.lengths(options, decoder.longest),
            step,
            lambda lengths, own: followed_at(own, lambda point: step(**lengths.at(point))),
            lambda past: {t.name: t.dims for t in step(past, 1, 1).inputs if t.kind == "state"},
            windows_of(decoder),
        )
    declared = inputs_of(decoder)
    opened = request.opened(declared, request.inputs)
    if not opened.symbols:
        raise InputError(closed_model(declared))

    def call(point: Point) -> Graph:
        specs: dict[str, Any] = {spec.name: spec.shape for spec in opened.at(point)}
        batch, new = specs[declared[-1].name]
        encoded = specs[declared[0].name][1] if len(declared) > 1 else 0  # of sound, which has a length of its own
        return call_of(decoder, batch, new, 0, encoded)

    return Subject(opened.symbols, call, lambda own: followed_at(own, call), opened.hints, opened.shapes)


def _opened(request: _Request, options: OnnxOptions) -> Opened:
    opener = format_of(request.model).opened or ONNX.opened
    assert opener is not None
    opened: Opened = opener(request.model, options)
    return opened


def _file(request: _Request, options: OnnxOptions) -> Subject:
    """A file of a program, which is read once for each point."""
    from flopwise.formats.kit.inputs import declared, has_loops
    from flopwise.formats.kit.read import resolved_at

    request.progress("reading the inputs")
    if options.past is not None or options.new is not None:
        return _exported_steps(request, options)
    model, loops = _opened(request, options), list[str]()
    inputs = declared(model.model.graph)
    opened = request.opened(inputs, request.inputs)

    def resolved(point: Point) -> Resolved:
        trips = {**(options.trips or {}), **{name: point[name] for name in loops}}
        own = replace(options, trips=trips)
        return resolved_at(model, opened.at(point), batch_size=request.batch_size, options=own)

    file = File(resolved, {one.name: one.dims for one in inputs})
    trips = dict(options.trips or {})
    subject = Subject(
        opened.symbols,
        file.at,
        lambda own: file.follow(replace(own, trips={**trips, **own.trips})),
        opened.hints,
        opened.shapes,
    )
    if has_loops(model.model.graph):
        loops += unknown_loops(subject)
    if not opened.symbols and not loops:
        raise InputError(closed_model(inputs))
    return replace(subject, names=(*opened.symbols, *loops), loops=loops)


def _net(request: _Request, options: CaffeOptions) -> Subject:
    """A Caffe net, whose layers are worked out with sizes that carry expressions."""
    from flopwise.formats.caffe.read import open_net

    request.progress("reading the net")
    net = open_net(request.model, options)
    specs = {spec.name: spec for spec in net.specs(request.inputs)}
    declared = [
        Declared(name, "float32", specs[name].shape if shape is None and name in specs else shape)
        for name, shape in net.inputs
    ]
    opened = request.opened(declared, list(specs.values()) or None)
    if not opened.symbols:
        raise InputError(closed_model(declared))

    def graph_at(point: Point) -> Graph:
        return net.graph({spec.name: spec.shape for spec in opened.at(point)})

    def follow(own: Request) -> Followed:
        guards = Guards()
        with recording(guards):
            graph = net.graph(dict(own.sizes), reached=lambda layer: setattr(guards, "reason", layer))
        return Followed(graph_at(own.point), graph, guards)

    return Subject(opened.symbols, graph_at, follow, opened.hints, opened.shapes, runs=True)


def _function(request: _Request, options: JaxOptions) -> Subject:
    """A function of JAX's, which is traced with symbolic dimensions."""
    from flopwise.formats.jax.read import open_inputs_of, traced_with_symbols

    specs, others = open_inputs_of(request.model, request.inputs, options)
    declared = [Declared(spec.name, spec.dtype, spec.shape) for spec in specs]
    opened = request.opened(declared, specs)
    if not opened.symbols:
        raise InputError("no size is open; write a name in place of a number, such as -i batchx28x28x1")

    def graph_at(point: Point) -> Graph:
        return read(request.model, {**{spec.name: spec for spec in opened.at(point)}, **others}, options=options)

    def follow(own: Request) -> Followed:
        guards = Guards()
        with recording(guards):
            graph = traced_with_symbols(request.model, opened.at(own.point), own.sizes, others, options)
        return Followed(graph_at(own.point), graph, guards)

    return Subject(opened.symbols, graph_at, follow, opened.hints, opened.shapes, runs=True)


def _module(request: _Request, options: TorchOptions, name: str) -> Subject:
    """A PyTorch module, which runs once for each point, and where it comes from."""
    from flopwise.formats.torch.arguments import open_specs, parameters_of

    if options.past is not None or options.new is not None:
        return _steps(request, options)
    module = request.model
    specs, others = open_specs(module, request.inputs, name)
    declared = [Declared(s.name, s.dtype, s.shape) for s in specs]
    opened = request.opened(declared, [InputSpec(s.name, s.shape, s.dtype) for s in specs])
    if not opened.symbols:
        raise InputError("no size is open; write a name in place of a number, such as -i batchx3x224x224")
    mode = options.mode or ("train" if request.train else None)

    def arguments(point: Mapping[str, int]) -> Any:
        """The arguments that ``flopwise.read`` would pass: some tools count by the first positional argument."""
        named = {**{spec.name: spec for spec in opened.at(point)}, **{n: Value(value) for n, value in others.items()}}
        if request.inputs is None or isinstance(request.inputs, Mapping):
            return named
        first = [named.pop(name) for name in list(takewhile(named.__contains__, parameters_of(module)))]
        return (first, named) if first else named

    def graph_at(point: Point) -> Graph:
        return read(module, arguments(point), mode=mode, grad=request.train)

    def follow(own: Request) -> Followed:
        return followed(lambda: graph_at(own.point), own)

    return Subject(opened.symbols, graph_at, follow, opened.hints, opened.shapes, runs=True)


def _beginning(subject: Subject, counting: Counting, progress: Callable[[str], None], failed: FlopwiseError) -> Formula:
    """The formulas of a program until the elements of tensors decide what runs, as in a detector after its head.

    Args:
        subject: the program.
        counting: how to count.
        progress: called with the name of each step.
        failed: why there are no formulas of all of it.

    Raises:
        FlopwiseError: elements are not the reason, or no formula holds until there either.
    """
    from flopwise.formats.torch.read import REST, UNTIL_ELEMENTS

    token = UNTIL_ELEMENTS.set(True)
    try:
        formula = derive(subject, counting, progress)
    except FlopwiseError as error:
        what = str(failed).partition("; if the inputs are right")[0]
        raise failed if str(error) == str(failed) else InputError(f"{what}; until there {error}") from None
    finally:
        UNTIL_ELEMENTS.reset(token)
    if len(formula.rows) < 2 or formula.rows[-1].node.op != REST:
        raise failed
    return formula


def _steps(request: _Request, options: TorchOptions) -> Subject:
    """A step of a language model that is a program, in the batch, the tokens in its state and the tokens fed."""
    from flopwise.formats.torch.language.state import carry, longest_context, step, windows

    def graph_of(arguments: Mapping[str, object]) -> Graph:
        return read(request.model, dict(arguments), mode=options.mode)

    @functools.cache
    def reading(past: int, new: int, batch: int) -> Graph:
        return graph_of(step(request.model, past, new, batch).inputs)

    def follow(lengths: Lengths, own: Request) -> Followed:
        point = own.point
        arguments = step(request.model, **lengths.at(point)).inputs
        past = [name for kind, name in lengths.symbols.items() if kind == "past"]
        carry(arguments, {point[name]: dim(point[name], symbol(name)) for name in past})
        return followed(lambda: graph_of(arguments), own)

    lengths = request.lengths(options, longest_context(request.model))
    try:
        reading(**lengths.at(lengths.hints))
    except ModelError:
        lengths = replace(lengths, small=True)
    wide = windows(step(request.model, FEW, 1, 1).inputs) if "past" in lengths.symbols else ()
    return _by_lengths(
        lengths,
        reading,
        follow,
        lambda past: {name: tensor.shape for name, tensor in step(request.model, past, 1, 1).state.items()},
        wide,
    )


def _by_lengths(
    lengths: Lengths,
    reading: Callable[..., Graph],
    follow: Callable[[Lengths, Request], Followed],
    state: Callable[[int], Mapping[str, Sequence[Any]]],
    windows: Sequence[int],
) -> Subject:
    """A step of a language model, in the batch, the tokens in its state and the tokens fed.

    Each way that it may take at the smallest sizes is a subject of its own.

    Args:
        lengths: which of them are open.
        reading: the graph of a step, by ``past``, ``new`` and ``batch``.
        follow: the same with sizes that carry expressions.
        state: the shapes of the state of a sequence after so many tokens, by tensor.
        windows: the tokens that windows of the state hold.
    """

    def subject(lengths: Lengths, shapes: Sequence[OpenShape], start: Point | None) -> Subject:
        names = tuple(lengths.symbols.values())

        def graph_at(point: Point) -> Graph:
            return reading(**lengths.at(point))

        return Subject(names, graph_at, lambda own: follow(lengths, own), lengths.hints, shapes, runs=True, start=start)

    def way(point: Point) -> Subject:
        own = lengths.fixed(point)
        fixed = {name: size for name, size in point.items() if name not in own.symbols.values()}
        sizes = own.at({**lengths.hints, **fixed})
        shapes: Sequence[OpenShape] = [
            (name, dtype, tuple(substituted(size, fixed) for size in dims))
            for name, dtype, dims in main.shapes
            if sizes["past"] or name not in short_state
        ]
        if not sizes["past"] and {name for name, _, _ in shapes} != {t.name for t in reading(**sizes).inputs}:
            shapes = own.shapes(reading(**sizes).inputs)  # an encoder reads, whose output is there later
        return subject(own, shapes, {name: point[name] for name in own.symbols.values()})

    short_state: Mapping[str, Sequence[int]] = {}
    long_state: Mapping[str, Sequence[int | None]] = {}
    if "past" in lengths.symbols:
        short_state = {name: tuple(map(int, shape)) for name, shape in state(FEW).items()}
        wide = [size for size in windows if size > lengths.distinct["past"]]
        if wide:
            after = max(wide) + FEW
            long_state = {n: [None if int(size) == after else int(size) for size in s] for n, s in state(after).items()}
    inputs = reading(**lengths.at(lengths.hints)).inputs
    main = subject(lengths, lengths.shapes(inputs, short_state, long_state), None)
    return replace(main, way=way, tried=lengths.tried)


def _exported_steps(request: _Request, options: OnnxOptions) -> Subject:
    """The same of an exported language model, whose state is among its inputs."""
    from flopwise.formats.kit.inputs import declared
    from flopwise.formats.kit.read import resolved_at

    lengths, model = request.lengths(options), _opened(request, options)

    def resolved(point: Point) -> Resolved:
        sizes = lengths.at(point)
        own = replace(options, past=sizes["past"], new=sizes["new"])
        return resolved_at(model, None, request.dims, sizes["batch"], own)

    file = File(resolved, {one.name: one.dims for one in declared(model.model.graph)})
    shapes = lengths.shapes(file.at(lengths.hints).inputs)
    return Subject(tuple(lengths.symbols.values()), file.at, file.follow, lengths.hints, shapes)


@contextlib.contextmanager
def _naming(model: object) -> Iterator[None]:
    """Put the model's file before the message of an error."""
    try:
        yield
    except FlopwiseError as error:
        name = os.fspath(model) if isinstance(model, str | os.PathLike) else ""
        if not name or str(error).startswith(f"{name}: "):
            raise
        raise error.reworded(f"{name}: {error}") from error.__cause__
