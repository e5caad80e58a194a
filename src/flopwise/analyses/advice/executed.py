"""The graph that an engine executes, as a subject of advice: what the engine does by itself is no longer in it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from flopwise.analyses.advice.subject import Subject, bare
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.engines.onnxruntime import Runtime
from flopwise.analyses.traces.executed.matching import ExecutedNode, match
from flopwise.conventions import get
from flopwise.errors import ModelError
from flopwise.formats.onnx.read import read_onnx
from flopwise.graph import Node
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile
from flopwise.rows import Row


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
