"""Advice measured: the operators that go and those that come, as two pieces that run in turns in onnxruntime."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.analyses.advice.advice import Suggestion
from flopwise.analyses.advice.edited import Edited
from flopwise.analyses.advice.rule import Change
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.analyses.executed import ExecutedNode, match
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.engines.onnxruntime import Runtime, empty_model
from flopwise.analyses.timing.peaks import Way, in_turns
from flopwise.conventions import get
from flopwise.errors import ModelError
from flopwise.formats.onnx.read import read_onnx
from flopwise.graph import Node, Tensor
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

if TYPE_CHECKING:
    import onnx

# The graph that an engine executes, as a subject of advice: what the engine does by itself is no longer in it.


class Executed(NamedTuple):
    """An engine's graph, and which layers of the model each of its operators stands for."""

    subject: Subject
    #: Path of the engine's graph.
    path: str
    #: Position in the engine's graph -> names of layers.
    names: dict[int, tuple[str, ...]]


@contextlib.contextmanager
def executed(path: str, profile: Profile, options: Options) -> Iterator[Executed]:
    """The graph that onnxruntime makes of an ONNX file at a level; its elements can be read inside the block.

    Args:
        path: of the file.
        profile: of the file, with the sizes of its inputs.
        options: level and threads.

    Raises:
        ModelError: onnxruntime refuses the model, or saves what cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="flopwise-") as folder:
        saved = str(Path(folder) / "executed.onnx")
        try:
            Runtime(options).session(path, options.level, saved)
        except ModelError as error:
            raise ModelError(f"{path}: onnxruntime refuses it: {error}") from error
        graph = read_onnx(saved, {t.name: t.shape for t in profile.graph.inputs if t.shape is not None})
        count = profile_graph(graph, get("flops"), folding=False)
        positions = {id(node): position for position, node in enumerate(graph.nodes)}
        behind = match([ExecutedNode(row.node, row.counts) for row in count.rows], profile.rows)
        names = {
            positions[id(row.node)]: _names(row.node, [profile.rows[place] for place in places])
            for row, places in zip(count.rows, behind, strict=True)
        }
        yield Executed(Subject(count), saved, names)


def _names(node: Node, rows: Sequence[Row]) -> tuple[str, ...]:
    """The names of the layers that an operator does the work of, those that do as it does first."""
    return tuple(row.name for row in sorted(rows, key=lambda row: bare(row.node.op) != bare(node.op)))


#: Seconds that a pair runs at most.
SECONDS = 1.0


def measured(edited: Edited, found: Sequence[Suggestion], threads: int = 1) -> tuple[list[Suggestion], list[str]]:
    """The suggestions, the first of each rule with its measured share, and notes on pieces that do not run.

    Both pieces run without optimisation, since the operators are those that are executed already, and the time of an
    empty run is subtracted from both.

    Args:
        edited: the model in which the rules found them.
        found: what saves most first.
        threads: of onnxruntime.
    """
    firsts = {each.rule.name: each for each in reversed(found) if each.change and not each.change.stays}
    shares: dict[int, float] = {}
    notes = []
    for name, each in firsts.items():
        assert each.change is not None
        try:
            shares[id(each)] = _share(edited, each.change, Options("off", threads))
        except (ModelError, ValueError) as error:
            notes.append(f"{name} is not measured: {error}")
    return [replace(each, measured_share=shares.get(id(each))) for each in found], notes


def _share(edited: Edited, change: Change, options: Options) -> float:
    """The share of the time of what goes that is saved.

    Raises:
        ModelError: onnxruntime refuses a piece, or fails to run it.
    """
    built = [piece for piece in pieces(edited, change) if piece is not None]
    empty = Way(empty_model(1, 1)[0], {}, options)
    nothing, old, *new = in_turns([empty, *(Way(piece, {}, options) for piece in built)], SECONDS)
    before = max(1.0, old - nothing)
    return 1 - max(0.0, new[0] - nothing if new else 0.0) / before


def pieces(edited: Edited, change: Change) -> tuple[bytes, bytes | None]:
    """The operators that go as a model, and those that come; None where nothing comes.

    Raises:
        ModelError: the model has not the operators that go.
    """
    subject = edited.subject
    gone = [subject.nodes[position] for position in change.positions]
    places = {node.output[0]: node for node in edited.model.graph.node if node.output}
    names = [node.known_outputs[0].name for node in gone]
    if any(name not in places for name in names):
        raise ModelError("the file does not hold the operators one by one")
    protos = [places[name] for name in names]
    results = [t for node in gone for t in node.known_outputs]
    outside = _taken_outside(subject, change, results)
    old = _piece(edited, protos, [t for node in gone for t in node.known_inputs], outside or results, {})
    return old, _new_piece(edited, change, protos, outside) if change.after else None


def _taken_outside(subject: Subject, change: Change, results: Sequence[Tensor]) -> list[Tensor]:
    """The results that operators beside those of a change take, or that are outputs."""
    positions = set(change.positions)
    return [t for t in results if t.name in subject.outputs or not set(subject.takers(t)) <= positions]


def _new_piece(edited: Edited, change: Change, protos: Sequence[onnx.NodeProto], outside: Sequence[Tensor]) -> bytes:
    """The operators that come as a model."""
    values = {} if change.values is None else dict(change.values(edited.read))
    made = {t.name for node in change.after for t in node.known_outputs}
    ends = [t for t in outside if t.name in made] or list(change.after[-1].known_outputs)
    taken = [t for node in change.after for t in node.known_inputs]
    return _piece(edited, [edited.proto(node, protos) for node in change.after], taken, ends, values)


def _piece(
    edited: Edited,
    nodes: Sequence[onnx.NodeProto],
    taken: Iterable[Tensor],
    results: Sequence[Tensor],
    values: dict[str, Any],
) -> bytes:
    """A model of some operators; what varies and comes from elsewhere is an input."""
    import onnx
    from onnx import helper, numpy_helper

    made = {name for node in nodes for name in node.output}
    inputs, weights = [], []
    for tensor in {t.name: t for t in taken if t.name not in made}.values():
        if tensor.name in values:
            weights.append(numpy_helper.from_array(values[tensor.name], tensor.name))
        elif edited.subject.stored(tensor):
            weights.append(numpy_helper.from_array(edited.read(tensor.name), tensor.name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(_numpy(tensor))
            inputs.append(helper.make_tensor_value_info(tensor.name, kind, [int(size) for size in tensor.dims]))
    outputs = [onnx.ValueInfoProto(name=tensor.name) for tensor in results]
    graph = helper.make_graph(nodes, "piece", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=edited.model.opset_import, ir_version=edited.model.ir_version)
    return bytes(model.SerializeToString())


def _numpy(tensor: Tensor) -> object:
    import numpy as np

    try:
        return np.dtype(tensor.dtype or "float32")
    except TypeError as error:
        raise ModelError(f"{tensor.name}: no data is made of type {tensor.dtype}") from error
