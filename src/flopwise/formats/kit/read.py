"""A model of any format of files from the moment it is opened as a program: sizes chosen, worked out, a Graph built."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.formats.kit import inputs as onnx_inputs
from flopwise.formats.kit.build import SCOPES, Builder, Paths, scope_of_path, with_masks
from flopwise.formats.kit.inputs import error_of, has_all, working_sizes
from flopwise.formats.kit.program import Model, Type, dtype_of, one_line
from flopwise.formats.kit.sizes import resolve, settled_states
from flopwise.formats.kit.stored import Notes, kind_of_constant, uses
from flopwise.formats.kit.tensors import Pieces, Reopen, Skeleton, hard_links
from flopwise.formats.limits import refuse_unknown_loops
from flopwise.formats.options import OnnxOptions, tokens_of
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.storage import SourceStorage
from flopwise.graph import Graph, Kind
from flopwise.graph.construction import no_search_for_garbage
from flopwise.graph.names import FreshNames, primed
from flopwise.operators.size import Dims
from flopwise.operators.tables import row
from flopwise.sizes.facts import Fact, Facts
from flopwise.sizes.run import Pass, in_short
from flopwise.sizes.scope import Scope


class Dialect(NamedTuple):
    """Properties of another format whose models are read as ONNX models are."""

    #: As in ``Graph.format``.
    format: str = "onnx"
    #: The modules that the name of a node says.
    paths: Paths = scope_of_path
    #: Whether a size that data decide is only stated by the file: else its shapes follow from those of its inputs.
    states: bool = True
    #: Whether names of nodes in bodies begin with those of the operators around them.
    nested: bool = False
    #: Whether the shapes in the file hold as they are where the user chooses no others.
    trusted: bool = False
    #: Sizes of open dimensions where the user gives none, by name; "*" for all others.
    assume: Mapping[str, int] = MappingProxyType({})
    #: Where the file places tensors in the arena.
    offsets: Mapping[str, int] = MappingProxyType({})


class Resolved(NamedTuple):
    """An ONNX model with resolved shapes, still in ONNX's own terms."""

    #: The model without weights: functions inlined, nodes in execution order, inputs as the user says.
    model: Model
    shapes: Scope
    skeleton: Skeleton
    #: What to call the model in a message.
    name: str
    #: Opens the source again.
    reopen: Reopen
    #: What an exporter wrote about tensors.
    notes: Notes
    #: Whether the user's input shapes are others than those in the file.
    changed: bool
    warnings: tuple[str, ...]
    #: Names of the inputs that are the state of a language model.
    states: tuple[str, ...] = ()
    #: Facts about inputs that are not tensors, or whose elements the user gives.
    given: Mapping[str, Fact] = MappingProxyType({})
    dialect: Dialect = Dialect()


class Opened(NamedTuple):
    """An ONNX model in one spelling, whose inputs may still be open."""

    #: Functions are inlined, nodes are in execution order, and control flow has names.
    model: Model
    skeleton: Skeleton
    #: What to call it in a message.
    name: str
    #: Opens the source again.
    reopen: Reopen
    #: What an exporter wrote about tensors.
    notes: Notes
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]
    dialect: Dialect = Dialect()


def resolved_at(
    opened: Opened,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Resolved:
    """A model with the shape of every tensor that can be resolved; arguments and errors as for ``read_onnx``."""
    with in_one_line(opened.name), no_search_for_garbage():
        return _resolve(opened, inputs, dims or {}, batch_size, options or OnnxOptions(), progress)


def with_sizes(
    resolved: Resolved,
    inputs: Mapping[str, Dims],
    symbols: Mapping[str, int] | None,
    trips: Mapping[str, int],
    passes: Callable[..., Pass],
) -> Resolved:
    """A model resolved once more, with sizes of another kind.

    Args:
        resolved: the model at the same sizes as numbers.
        inputs: shapes of its inputs by name.
        symbols: sizes of symbols in the shapes that are written in the file; None where these are for other inputs.
        trips: how often loops run, by name.
        passes: makes the pass over the graph.
    """
    facts = Facts()
    dtypes = {value.name: dtype_of(value.type) for value in resolved.model.graph.inputs}
    sized = {
        name: facts.tensor(dtypes[name], shape)
        for name, shape in inputs.items()
        if name in dtypes and any(type(n) is not int for n in shape)
    }
    holds = symbols is not None and not resolved.changed
    shapes, _ = resolve(resolved.model, holds, facts, {**resolved.given, **sized}, trips, symbols or {}, passes)
    return resolved._replace(shapes=shapes, warnings=())


def stored_at(
    opened: Opened,
    inputs: object = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
) -> Graph:
    """The graph of a model for its stored tensors, which need no input shapes: what stays open stays open.

    Args:
        opened: the model; with any of the arguments that follow, what they leave open is an error.
        inputs: shapes of inputs.
        dims: values of symbolic dimensions.
        batch_size: first dimension of the inputs.
        options: as for ``read_onnx``.

    Raises:
        ModelError: the model cannot be read.
        InputError: what is given does not fit.
    """
    chosen = options or OnnxOptions()
    with in_one_line(opened.name):
        try:
            resolved = _resolve(opened, inputs, dims or {}, batch_size, chosen, lambda step: None)
        except InputError:
            if inputs is not None or dims or batch_size or chosen.trips or chosen.states or chosen.assume:
                raise
            resolved = _unresolved(opened)
        return _with_all_stored(_build(resolved), opened.skeleton, opened.name, opened.reopen)


def _with_all_stored(graph: Graph, skeleton: Skeleton, name: str, reopen: Reopen) -> Graph:
    """The graph with the tensors in bodies and functions that were not read."""
    from flopwise.formats.kit.elements import OnnxElements, stored_tensor

    weights = dict(graph.weights)
    names = FreshNames(weights, primed)
    seen = {id(t.elements.stored) for t in weights.values() if isinstance(t.elements, OnnxElements)}
    storage = SourceStorage(reopen)
    for mark, stored in skeleton.inner.items():
        if id(stored) not in seen:
            key = names.fresh(stored.name or mark)
            weights[key] = stored_tensor(key, stored, "weight", name, storage)
    return replace(graph, weights=weights)


def _unresolved(opened: Opened) -> Resolved:
    """The model with the types and shapes that follow without those of its inputs."""
    model, skeleton, name, reopen, noted, warnings, remarks, dialect = opened
    shapes, _ = resolve(model, False, Facts())
    shapes.faults.clear()
    told = (*map(one_line, warnings), *remarks)
    return Resolved(model, shapes, skeleton, name, reopen, noted, False, told, dialect=dialect)


def graph_of(resolved: Resolved, progress: Callable[[str], None] = lambda step: None, last: bool = False) -> Graph:
    """The graph of a model whose shapes are resolved; ``last`` says that the model may lose its nodes."""
    progress("building the graph")
    with in_one_line(resolved.name), no_search_for_garbage():
        return _build(resolved, last)


@contextlib.contextmanager
def in_one_line(name: str = "") -> Iterator[None]:
    """Put the model's name before the message of an error if it is not there yet, and keep it to one short line."""
    try:
        yield
    except FlopwiseError as error:
        text = str(error) if not name or str(error).startswith(f"{name}: ") else f"{name}: {error}"
        raise error.reworded(one_line(text)) from error.__cause__


def _resolve(
    opened: Opened,
    inputs: object,
    dims: Mapping[str, int],
    batch_size: int | None,
    options: OnnxOptions,
    progress: Callable[[str], None],
) -> Resolved:
    model, skeleton, name, reopen, noted, warnings, more, dialect = opened
    held: tuple[str, ...] = ()
    options = replace(options, assume=options.assume or dialect.assume)
    if options.past is not None or options.new is not None:
        inputs, batch_size, held = _step(model, inputs, batch_size, dims, options)
    facts = Facts()
    try:
        settled = onnx_inputs.settle(model, inputs, dims, batch_size, facts, options.states or {}, options.assume or {})
        model, trips, changed = settled.model, options.trips or {}, settled.changed
        if settled.states:
            progress("settling states")
            model, remarks = _with_states(model, settled, options, facts)
            warnings = (*warnings, *remarks)
    except onnx_inputs.OpenInputError as error:
        usual = working_sizes(model.graph, error.names, lambda types: _fits(model, types, options))
        raise InputError(error_of(error.value, usual)) from None
    progress("resolving shapes")
    shapes, met = resolve(model, not changed, facts, settled.given, trips, settled.symbols, trusted=dialect.trusted)
    refuse_unknown_loops(trips, met)
    if batch_size is not None:
        onnx_inputs.check_reshapes(model.graph, shapes, batch_size)
    faults = list(shapes.impossible(model.graph))
    if faults and (changed or settled.chosen):
        raise InputError(f"the input shapes are impossible: {faults[0]}")
    shapes.warnings.extend(in_short(faults, "more operators do not fit their inputs"))
    told = tuple(one_line(w) for w in (*settled.warnings, *warnings, *shapes.warnings))
    told = (*told, *more)
    return Resolved(model, shapes, skeleton, name, reopen, noted, changed, told, held, settled.given, dialect)


def _step(
    model: Model, inputs: object, batch_size: int | None, dims: Mapping[str, int], options: OnnxOptions
) -> tuple[object, int | None, tuple[str, ...]]:
    """The inputs of a call with so many tokens in the state, the batch size left to set, and the inputs that are state.

    Raises:
        InputError: the model takes no state, inputs are given as well, or a name has no number.
    """
    from flopwise.formats.kit.inputs import declared
    from flopwise.formats.kit.language import states, step_specs

    if inputs is not None:
        raise InputError("past and new tokens make the inputs of a language model; give no others")
    past, new = (tokens_of(name, getattr(options, name), (dims or {}).get) for name in ("past", "new"))
    values = declared(model.graph)
    batch = dims.get("batch") if batch_size is None else batch_size
    specs = step_specs(values, past or 0, 1 if new is None else new, batch)
    return specs, None, tuple(states(values))


def _fits(model: Model, types: Mapping[str, Type | None], options: OnnxOptions) -> bool:
    """True if a model with these inputs has all shapes and nothing in it that cannot run."""
    with contextlib.suppress(FlopwiseError):
        shapes = resolve(onnx_inputs.with_inputs(model, types), False, Facts(), trips=options.trips)[0]
        return has_all(shapes, model.graph) and not any(shapes.impossible(model.graph))
    return False


def _with_states(
    model: Model, settled: onnx_inputs.Settled, options: OnnxOptions, facts: Facts
) -> tuple[Model, list[str]]:
    """The model with the shapes of the inputs that are states; what to warn of.

    Raises:
        InputError: a state that the user names does not settle, or another has no shape.
    """

    def trial(types: Mapping[str, Type | None]) -> Scope:
        return resolve(onnx_inputs.with_inputs(model, types), False, facts, settled.given, options.trips)[0]

    def faulty(shapes: Scope) -> bool:
        return any(shapes.impossible(model.graph))

    stated = options.states or {}
    types, remarks, open_ones = settled_states(
        model.graph.inputs, settled.states, stated, settled.symbols, trial, faulty
    )
    for name in open_ones:
        if name in stated:
            raise InputError(
                f"the state {name!r} does not settle: output {stated[name]!r} never has the shape that the state has; "
                f"give its shape with -i"
            )
    model = onnx_inputs.with_inputs(model, types)
    opened = [v for v in model.graph.inputs if v.name in open_ones]
    closed, assumed = onnx_inputs.close(opened, settled.symbols, options.assume or {})
    return onnx_inputs.with_inputs(model, closed), [*remarks, *assumed]


def _build(resolved: Resolved, last: bool = False) -> Graph:
    graph, name = resolved.model.graph, resolved.name
    scopes = any(SCOPES.encode() in part for node in graph.nodes if node.metadata for part in node.metadata)
    dialect = resolved.dialect
    built = Builder(resolved.model, name, resolved.reopen, resolved.notes, scopes, dialect.paths, dialect.nested)
    stated = _decided_by_data(resolved) if dialect.states else frozenset()
    built.main(resolved.shapes, resolved.states, last)
    attends = any(form.op == "Attention" for form in built.forms.values())
    taken = [v.name for v in graph.inputs]
    values = tuple(t for name in taken if (t := built.tensor(name)))
    return Graph(
        name=_title(graph.name, name),
        format=dialect.format,
        source=name,
        inputs=values,
        outputs=tuple(t for o in graph.outputs if (t := built.tensor(o.name))),
        nodes=tuple(with_masks(built.nodes, built.weights) if attends else built.nodes),
        weights=built.weights,
        warnings=resolved.warnings,
        stated=stated,
        offsets=dict(dialect.offsets),
    )


def _decided_by_data(resolved: Resolved) -> frozenset[str]:
    """The tensors whose shape the file alone states although there is a rule for it, which needs the data."""
    stated = resolved.shapes.stated
    if not stated:
        return frozenset()
    ruled = (
        n for n in resolved.model.graph.nodes if row(f"{n.domain}::{n.op}" if n.domain else n.op).shape is not None
    )
    return frozenset(name for node in ruled for name in node.outputs if name in stated)


def _title(own: str, name: str) -> str:
    """The file's name without its ending; without a file, the name of the graph."""
    return (
        Path(name).stem if os.sep in name or name.endswith((".onnx", ".xml", ".mlmodel", ".mlpackage")) else own or name
    )


def refuse_large(source: Source, options: OnnxOptions | None) -> None:
    """Raise ModelError if a file is larger than a graph may be."""
    most = None if options is None else options.largest_graph
    if most is not None and source.size > most:
        raise ModelError(f"it takes {source.size:,} bytes, more than the limit of {most:,}")


def opened_as(
    model: Model,
    name: str,
    source: Source,
    dialect: Dialect,
    warnings: Iterable[str],
    remarks: Iterable[str],
    biases: Container[str] = (),
    kinds: Mapping[str, Kind] | None = None,
) -> Opened:
    """An opened model.

    Args:
        model: its graph, with nodes in execution order and control flow named.
        name: what to call it in a message.
        source: of its elements; it may be closed.
        dialect: how its format differs from ONNX.
        warnings: on its graph.
        remarks: on its files.
        biases: stored tensors that are parameters, although a single number of theirs would be a setting.
        kinds: those of stored tensors, where the format knows them; None: as uses say.
    """
    graph = model.graph
    stored, taken = graph.initializers, uses(graph.nodes, graph.initializers, graph.operations)
    settings = [
        key
        for key, one in stored.items()
        if key not in biases
        and kind_of_constant(one.dtype, len(one.dims), math.prod(one.dims), taken.get(key, ())) == "constant"
    ]
    notes = Notes(dict.fromkeys(settings, "CONSTANT_TENSOR"), {}, False, kinds or {})
    skeleton = Skeleton(b"", {}, {}, Pieces(), Pieces())
    remarks = (*hard_links(stored.values(), source.folder), *remarks)
    return Opened(model, skeleton, name, source.later(), notes, tuple(warnings), remarks, dialect)
