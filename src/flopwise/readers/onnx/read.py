"""An ONNX model -> Graph: weights never read, shapes resolved."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import Graph
from flopwise.graph.construction import MANY, give_back, no_search_for_garbage
from flopwise.readers.onnx import inputs as onnx_inputs
from flopwise.readers.onnx.build.nodes import Builder, with_masks
from flopwise.readers.onnx.build.scope import SCOPES
from flopwise.readers.onnx.file.proto import from_proto
from flopwise.readers.onnx.file.skeleton import Pieces, Skeleton
from flopwise.readers.onnx.file.stored import Notes, notes
from flopwise.readers.onnx.file.stripped import take_back
from flopwise.readers.onnx.file.walk import read_skeleton
from flopwise.readers.onnx.file.weights import Reopen, check_external, fill_small, hard_links
from flopwise.readers.onnx.listing import Listed, complete, initial, lean, listed
from flopwise.readers.onnx.messages import parsed
from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.native.suspects import hidden
from flopwise.readers.onnx.normalize.order import in_execution_order
from flopwise.readers.onnx.normalize.spelling import unify
from flopwise.readers.onnx.shapes.checks import note_faults
from flopwise.readers.onnx.shapes.context import name_control_flow, refuse_unknown_loops
from flopwise.readers.onnx.shapes.resolve import resolve, take_types_out
from flopwise.readers.onnx.states import settled_states
from flopwise.readers.onnx.suggestions import error_of, has_all, working_sizes
from flopwise.readers.onnx.types import CONTROL_FLOW, Shapes, in_short, one_line
from flopwise.readers.options import OnnxOptions, tokens_of
from flopwise.readers.source.open import open_source, refuse_other_formats
from flopwise.readers.source.source import Source
from flopwise.readers.weights.storage import SourceStorage


class Resolved(NamedTuple):
    """An ONNX model with resolved shapes, still in ONNX's own terms."""

    #: The model without weights, brought to one spelling: functions inlined, nodes in execution order.
    proto: onnx.ModelProto
    #: The nodes of its graph.
    nodes: list[Listed]
    shapes: Shapes
    skeleton: Skeleton
    #: What to call the model in a message.
    name: str
    #: Opens the source again; None for a model in memory.
    reopen: Reopen | None
    #: What an exporter wrote about tensors.
    notes: Notes
    #: Whether the user's input shapes are others than those in the file.
    changed: bool
    warnings: tuple[str, ...]
    #: Names of the inputs that are the state of a language model.
    states: tuple[str, ...] = ()


def read_onnx(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of an ONNX model with the shape of every tensor that can be resolved.

    Args:
        model: a path, bytes, an open binary file that can seek, or an ``onnx.ModelProto``.
        inputs: shapes of the model's inputs where the file leaves them open, or other shapes than the file's; see
            ``flopwise.readers.inputs.input_specs``.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        options: how often loops run, which inputs are states, what is assumed of open dimensions, and how large a graph
            may be.
        progress: called with the name of each step before it starts.

    Raises:
        ModelError: the model cannot be read.
        InputError: an input's shape is missing, or does not fit; or there is no such loop.
    """
    with no_search_for_garbage():  # none between the two either
        graph = graph_of(_in_brief(resolve_onnx(model, inputs, dims, batch_size, options, progress, True)), progress)
        if len(graph.nodes) >= MANY:
            give_back()
        return graph


def resolve_onnx(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
    progress: Callable[[str], None] = lambda step: None,
    sparing: bool = False,
) -> Resolved:
    """An ONNX model with the shape of every tensor that can be resolved; arguments and errors as for `read_onnx`.

    ``sparing`` leaves the messages of nodes and stored tensors out of a large model where nothing needs them.
    """
    chosen = options or OnnxOptions()
    progress("reading the graph")
    with _one_line(), no_search_for_garbage():
        skeleton, name, source = _skeleton(model, chosen)
    with _one_line(name), no_search_for_garbage():
        reopen = source.later() if source else None
        resolved = _resolve(skeleton, name, reopen, inputs, dims or {}, batch_size, chosen, progress, sparing)
        return resolved._replace(warnings=(*resolved.warnings, *_remarks(skeleton, source)))


def read_stored(
    model: object,
    inputs: Any = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    options: OnnxOptions | None = None,
) -> Graph:
    """The graph of an ONNX model for its stored tensors, which need no input shapes: what stays open stays open.

    Args:
        model: as for `read_onnx`, like the arguments that follow; with any of these, what they leave open is an error
            as there.
        inputs: shapes of inputs.
        dims: values of symbolic dimensions.
        batch_size: first dimension of the inputs.
        options: as for `read_onnx`.

    Raises:
        ModelError: the model cannot be read.
        InputError: what is given does not fit.
    """
    chosen = options or OnnxOptions()
    with _one_line():
        skeleton, name, source = _skeleton(model, chosen)
    with _one_line(name):
        reopen = source.later() if source else None
        try:
            resolved = _resolve(skeleton, name, reopen, inputs, dims or {}, batch_size, chosen, lambda step: None)
        except InputError:
            if inputs or dims or batch_size or chosen.trips or chosen.states or chosen.assume:
                raise
            resolved = _unresolved(skeleton, name, reopen)
        graph = _with_all_stored(_build(resolved), skeleton, name, reopen)
        return replace(graph, warnings=(*graph.warnings, *_remarks(skeleton, source)))


def _remarks(skeleton: Skeleton, source: Source | None) -> list[str]:
    """What the user should know about where the model comes from: files with further names, and what was downloaded."""
    if source is None:
        return []
    stored = (*skeleton.initializers.values(), *skeleton.inner.values())
    links = in_short(hard_links(stored, source.folder), "more data files are hard links")
    return [*map(one_line, links), *filter(None, [source.network_summary()])]


def _with_all_stored(graph: Graph, skeleton: Skeleton, name: str, reopen: Reopen | None) -> Graph:
    """The graph with the tensors in bodies and functions that were not read."""
    from flopwise.readers.onnx.file.elements import OnnxElements, stored_tensor

    weights = dict(graph.weights)
    seen = {id(t.elements.stored) for t in weights.values() if isinstance(t.elements, OnnxElements)}
    storage = SourceStorage(reopen) if reopen else None
    for mark, stored in skeleton.inner.items():
        if id(stored) not in seen:
            key = stored.name or mark
            while key in weights:
                key += "'"
            weights[key] = stored_tensor(key, stored, "weight", name, storage)
    return replace(graph, weights=weights)


def _unresolved(skeleton: Skeleton, name: str, reopen: Reopen | None) -> Resolved:
    """The model with the types and shapes that follow without those of its inputs."""
    proto = parsed(skeleton.model)
    take_back(proto, skeleton, name)
    check_external(itertools.chain(skeleton.initializers.values(), skeleton.inner.values()))
    proto, nodes, warnings = unify(proto, skeleton.initializers)
    nodes = in_execution_order(proto.graph, nodes=nodes)
    noted = notes(proto.graph)
    name_control_flow(proto.graph)
    inferred = proto.graph
    with contextlib.suppress(Exception), hidden(proto):  # types are a help here, and nothing depends on them
        inferred = Inference().model(proto).graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    shapes = Shapes({v.name: v.type for v in values}, initial(proto.graph))
    return Resolved(proto, nodes, shapes, skeleton, name, reopen, noted, False, tuple(map(one_line, warnings)))


def graph_of(resolved: Resolved, progress: Callable[[str], None] = lambda step: None) -> Graph:
    """The graph of a model whose shapes are resolved."""
    progress("building the graph")
    with _one_line(resolved.name), no_search_for_garbage():
        return _build(resolved)


def _skeleton(model: object, options: OnnxOptions) -> tuple[Skeleton, str, Source | None]:
    if isinstance(model, onnx.ModelProto):
        return from_proto(model), str(model.graph.name or "<ModelProto>"), None
    source = open_source(model)
    with contextlib.closing(source):
        refuse_other_formats(source)
        return read_skeleton(source, options.largest_graph), source.name, source


@contextlib.contextmanager
def _one_line(name: str = "") -> Iterator[None]:
    """Put the model's name before the message of an error if it is not there yet, and keep it to one short line."""
    try:
        yield
    except FlopwiseError as error:
        text = str(error) if not name or str(error).startswith(f"{name}: ") else f"{name}: {error}"
        raise type(error)(one_line(text), *error.args[1:]) from error.__cause__


def _resolve(
    skeleton: Skeleton,
    name: str,
    reopen: Reopen | None,
    inputs: Any,
    dims: Mapping[str, int],
    batch_size: int | None,
    options: OnnxOptions,
    progress: Callable[[str], None],
    sparing: bool = False,
) -> Resolved:
    sparing = sparing and options.past is None and options.new is None
    proto, nodes = _outlined(skeleton) if sparing and skeleton.is_large else (parsed(skeleton.model), None)
    take_back(proto, skeleton, name)
    check_external(itertools.chain(skeleton.initializers.values(), skeleton.inner.values()))
    stored = None if proto.functions else skeleton.initializers  # what is inlined may change their names
    if proto.functions:
        progress("inlining functions")
    proto, nodes, warnings = unify(proto, skeleton.initializers, nodes)
    held: tuple[str, ...] = ()
    if options.past is not None or options.new is not None:
        inputs, batch_size, held = _step(proto, inputs, batch_size, dims, options)
    fill_small(proto.graph, skeleton.initializers, name, reopen)
    nodes = in_execution_order(proto.graph, nodes=nodes, stored=stored)
    if len(nodes) >= MANY:
        give_back()
    try:
        settled = onnx_inputs.settle(proto, inputs, dims, batch_size, options.states, options.assume, stored)
    except onnx_inputs.OpenInputError as error:
        complete(nodes)
        usual = working_sizes(proto, error.names, lambda trial: _fits(trial, options))
        raise InputError(error_of(error.value, usual)) from None
    if settled.states or proto.graph.initializer:  # the user gives data
        complete(nodes)
    trips = options.trips or {}
    changed = settled.changed
    noted = notes(proto.graph)  # before resolving takes value_info away
    if any(n.op in CONTROL_FLOW for n in nodes):
        name_control_flow(proto.graph)
    if settled.states:
        progress("settling states")
        warnings += _settle_states(proto, settled, options)
    progress("resolving shapes")
    declared = take_types_out(proto.graph)
    proto = lean(proto, nodes)
    shapes, met = resolve(proto, not changed, settled.facts, trips, nodes, declared)
    del declared
    refuse_unknown_loops(trips, met)
    if batch_size is not None and any(n.op == "Reshape" for n in nodes):
        complete(nodes)
        onnx_inputs.check_reshapes(proto, shapes, batch_size)
    faults = list(note_faults(nodes, shapes))
    if faults and (changed or settled.chosen):
        raise InputError(f"the input shapes are impossible: {faults[0]}")
    shapes.warnings.extend(in_short(faults, "more operators do not fit their inputs"))
    remarks = tuple(one_line(w) for w in (*settled.warnings, *warnings, *shapes.warnings))
    return Resolved(proto, nodes, shapes, skeleton, name, reopen, noted, changed, remarks, held)


def _outlined(skeleton: Skeleton) -> tuple[onnx.ModelProto, list[Listed] | None]:
    from flopwise.readers.onnx.outline import outlined

    return outlined(skeleton)


def _step(
    proto: onnx.ModelProto, inputs: Any, batch_size: int | None, dims: Mapping[str, int], options: OnnxOptions
) -> tuple[Any, int | None, tuple[str, ...]]:
    """The inputs of a call with so many tokens in the state, the batch size left to set, and the inputs that are state.

    Raises:
        InputError: the model takes no state, inputs are given as well, or a name has no number.
    """
    from flopwise.readers.onnx.language import states, step_specs
    from flopwise.readers.onnx.signature import declared

    if inputs is not None:
        raise InputError("past and new tokens make the inputs of a language model; give no others")
    past, new = (tokens_of(name, getattr(options, name), dims) for name in ("past", "new"))
    values = declared(proto)
    batch = dims.get("batch") if batch_size is None else batch_size
    specs = step_specs(values, past or 0, 1 if new is None else new, batch)
    return specs, None, tuple(states(values))


def _fits(model: onnx.ModelProto, options: OnnxOptions) -> bool:
    """Whether a model with these inputs has all shapes and nothing in it that cannot run."""
    with contextlib.suppress(FlopwiseError):
        name_control_flow(model.graph)
        shapes = resolve(model, False, trips=options.trips)[0]
        return has_all(shapes, model) and not any(note_faults(listed(model.graph), shapes))
    return False


def _settle_states(proto: onnx.ModelProto, settled: onnx_inputs.Settled, options: OnnxOptions) -> list[str]:
    """Give the inputs that are states their shapes; what to warn of.

    Raises:
        InputError: a state that the user names does not settle, or another has no shape.
    """
    remarks, open_ones = settled_states(
        proto, settled.states, lambda trial: resolve(trial, False, settled.facts, options.trips)[0]
    )
    stated = options.states or {}
    for name in open_ones:
        if name in stated:
            raise InputError(
                f"the state {name!r} does not settle: output {stated[name]!r} never has the shape that the state has; "
                f"give its shape with -i"
            )
    opened = [v for v in proto.graph.input if v.name in open_ones]
    return [*remarks, *onnx_inputs.close(opened, settled.symbols, options.assume or {})]


def _in_brief(resolved: Resolved) -> Resolved:
    """A large model without the messages of its nodes and tensors, which take more memory than the graph made of them.

    One whose nodes are looked at themselves when the graph is built keeps them.
    """
    proto, nodes = resolved.proto, resolved.nodes
    if len(nodes) < MANY or resolved.shapes.inner or any(n.op in CONTROL_FLOW for n in nodes):
        return resolved
    noted = resolved.skeleton.mentions(SCOPES)
    if noted and nodes[0].messages.missing is None:
        return resolved
    graph = onnx.GraphProto(name=proto.graph.name, input=proto.graph.input, output=proto.graph.output)
    skeleton = resolved.skeleton._replace(head=b"", tensors=Pieces())
    if not noted:
        skeleton = skeleton._replace(nodes=Pieces())
    nodes[0].messages.keep(skeleton if noted else None)
    brief = onnx.ModelProto(opset_import=proto.opset_import, graph=graph)
    return resolved._replace(proto=brief, skeleton=skeleton)


def _build(resolved: Resolved) -> Graph:
    proto, name = resolved.proto, resolved.name
    if len(resolved.nodes) >= MANY:
        give_back()
    built = Builder(resolved.skeleton, name, resolved.reopen, resolved.notes, proto.opset_import)
    built.main(proto.graph, resolved.nodes, resolved.shapes, resolved.states)
    stored = [i.name in resolved.skeleton.initializers and i.name in built.weights for i in proto.graph.input]
    taken = (i.name for i, is_stored in zip(proto.graph.input, stored, strict=True) if not is_stored)
    values = tuple(t for name in taken if (t := built.tensor(name)))
    empty = [
        f"input {t.name!r} has a dimension of 0, so most costs are 0; give its shape with -i"
        for t in values
        if t.shape and 0 in t.shape and t.kind != "state"
    ]
    return Graph(
        name=_title(proto, name),
        format="onnx",
        source=name,
        inputs=values,
        outputs=tuple(t for o in proto.graph.output if (t := built.tensor(o.name))),
        nodes=tuple(with_masks(built.nodes, built.weights)),
        weights=built.weights,
        warnings=(*resolved.warnings, *empty),
    )


def _title(proto: onnx.ModelProto, name: str) -> str:
    """The file's name without its ending; without a file, the name of the graph."""
    return Path(name).stem if os.sep in name or name.endswith(".onnx") else proto.graph.name or name
