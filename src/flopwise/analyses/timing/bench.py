"""Measuring a model with an engine: what it executes, flopwise's own count of that, and one session of times."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from flopwise.analyses.executed import ExecutedNode, match
from flopwise.analyses.timing import worker
from flopwise.analyses.timing.benchmark import Executed, Measurement, Session
from flopwise.analyses.timing.engines import Options
from flopwise.analyses.timing.machine import digest, environment
from flopwise.analyses.timing.quantities import works
from flopwise.conventions import get
from flopwise.errors import FlopwiseError
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: Seconds of rounds, unless the caller says otherwise.
SECONDS = 30.0

#: Figures of a session that its child process tells.
_FIGURES = ("median_ns", "cpu_ns", "rounds", "noise", "cpu_share", "verdict", "seconds")


def model_digest(graph: Graph) -> str:
    """The identity of a model: its operators, attributes, shapes and types, and no weights, which take no time."""
    nodes = [
        (
            node.op,
            sorted((key, repr(value)) for key, value in node.attrs.items()),
            [None if t is None else (t.name, t.dtype, repr(t.shape), t.kind) for t in node.inputs],
            [None if t is None else (t.name, t.dtype, repr(t.shape)) for t in node.outputs],
        )
        for node in graph.nodes
    ]
    return digest([nodes, [t.name for t in graph.outputs]])


def inputs_digest(graph: Graph) -> str:
    """The identity of the inputs: names, types and shapes."""
    return digest([(t.name, t.dtype, repr(t.shape)) for t in graph.inputs])


def bench(
    profile: Profile,
    path: str,
    engine: str,
    options: Options,
    seconds: float = SECONDS,
    skip: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
    report: Callable[[str], None] = lambda step: None,
    patience: float = worker.PATIENCE,
    identity: Profile | None = None,
) -> Session:
    """One session of an engine on a model.

    Args:
        profile: the model in the file, for its input shapes.
        path: of the ONNX file that the engine runs.
        engine: a name from ``engines.ENGINES``.
        options: how the engine runs it.
        seconds: how long rounds go on.
        skip: keys that failed before, and how.
        only: keys to measure; None for all.
        report: called with the name of each step.
        patience: seconds that one benchmark may take.
        identity: the model that the session is stored under, where the file was exported from another; None: the file.

    Raises:
        ModelError: the engine refuses the model.
        KeyboardInterrupt: the session was interrupted before its first round was done.
    """
    executed: list[Executed] = []
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix="flopwise-") as folder:
        request = {
            "engine": engine,
            "model": path,
            "inputs": {t.name: list(t.shape) for t in profile.graph.inputs if t.shape is not None},
            "options": asdict(options),
            "seconds": seconds,
            "skip": dict(skip or {}),
            "only": None if only is None else sorted(only),
            "folder": folder,
        }

        def prepared(event: worker.Event) -> None:
            nodes = [Executed.from_dict(node) for node in event["executed"]]
            executed.extend(counted(nodes, Path(folder) / "executed.onnx", profile))

        report(f"starting {engine}")
        result = worker.run(request, lambda event: _say(event, report), prepared, patience)
    stored = identity or profile
    measured = tuple(Measurement(**m) for m in result["measurements"])
    if not result["whole_ns"][0]:
        raise KeyboardInterrupt
    return Session(
        environment=environment(result["facts"]).facts,
        model=model_digest(stored.graph),
        inputs=inputs_digest(stored.graph),
        executed=tuple(executed),
        measurements=measured,
        whole_ns=(result["whole_ns"][0], result["whole_ns"][1]),
        **{name: result[name] for name in _FIGURES},
        started=started,
        facts={name: result[name] for name in ("built", "round_ns", "drift", "settling", "interrupted")},
        notes=tuple(result["notes"]),
    )


def counted(nodes: list[Executed], saved: Path, profile: Profile) -> list[Executed]:
    """The executed nodes with flopwise's own count and the rows behind each, where the engine saved its graph."""
    if not saved.exists():
        return nodes
    from flopwise.formats.onnx.decode import decoded
    from flopwise.formats.onnx.memory import opened
    from flopwise.formats.onnx.read import read_onnx
    from flopwise.formats.onnx.walk import read_skeleton

    shapes = {t.name: t.shape for t in profile.graph.inputs if t.shape is not None}
    try:
        graph = read_onnx(str(saved), shapes)
        count = profile_graph(graph, get("flops"), folding=False)
        with opened(str(saved)) as source:
            executed = decoded(read_skeleton(source), source.name).graph.nodes
    except FlopwiseError:  # what the engine made of the model is beyond the reader: times are known all the same
        return nodes
    places = match([ExecutedNode(row.node, row.counts) for row in count.rows], profile.rows)
    rows = {
        row.node.known_outputs[0].name: (work, tuple(profile.rows[place].name for place in behind))
        for row, work, behind in zip(count.rows, works(count), places, strict=True)
        if row.node.known_outputs
    }
    whole = []
    for node, saved_node in zip(nodes, executed, strict=True):
        if saved_node.first_output in rows:
            work, names = rows[saved_node.first_output]
            moved = 0 if node.alias else work.nbytes
            node = replace(node, macs=work.macs, flops=work.flops, nbytes=moved, dtypes=work.dtypes, rows=names)
        whole.append(node)
    return whole


def _say(event: worker.Event, report: Callable[[str], None]) -> None:
    """Hand on an event of the worker in words."""
    if event["event"] == "building":
        report(f"preparing benchmark {event['done'] + 1} of {event['of']}")
    elif event["event"] == "round":
        left = max(0, round(event["of"] - event["seconds"]))
        report(f"measuring: round {event['rounds']}, at most {left} s left")
    elif event["event"] == "lost":
        report(f"a benchmark was lost: it {event['why']}")
