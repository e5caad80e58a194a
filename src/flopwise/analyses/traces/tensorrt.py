"""Profiles of TensorRT's engines: the layers that it built, on the rows of the ONNX model that it built them of.

``trtexec --exportProfile`` writes the times, one entry for each layer behind the number of runs; ``--exportLayerInfo``
writes the layers. A layer is called after the nodes that it does the work of: ``Conv_0 + Relu_1``, ``PWN(Clip_3)``,
``{ForeignNode[a...b]}``; newer releases list them in its metadata as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flopwise._results import Json
from flopwise.analyses.executed import ExecutedNode, match, mismatch
from flopwise.analyses.traces.land import Landing, Place
from flopwise.analyses.traces.onnxruntime import LEAST, matched_of
from flopwise.analyses.traces.scan import Scan, nanoseconds
from flopwise.analyses.traces.trace import Layer, Matched, Recording, layers_of
from flopwise.errors import ModelError, counted
from flopwise.formats.tensorrt import node_of, tensor_of
from flopwise.graph import Tensor
from flopwise.operators.counts import FLOPS
from flopwise.profiles.profile import Profile
from flopwise.storage.traffic import traffic

#: What stands between the names of nodes in that of a layer.
_BETWEEN = re.compile(r" \+ |PWN\(|\)|, |\{ForeignNode\[|\.\.\.|\]\}")

#: What stands between the nodes in a layer's metadata.
_SEPARATORS = re.compile(r"[\x1e\x1f]")

#: What the name of a layer begins with that brings an operand of another one into another format.
_COPY = "Reformatting CopyNode"

#: Layers that only bring elements into another order or shape, by their type or their name.
_LAYOUT = re.compile(r"^(Reformat|NoOp|Shuffle)$|^Reformatting CopyNode|\[Shuffle\]|^(reshape|copied_squeeze|squeeze)")


def matches(scan: Scan) -> bool:
    """True where a file is the profile of an engine, or its layers."""
    return scan.array == "Layers" or (not scan.array and {"count", "averageMs"} & scan.first.keys() != set())


def read(scan: Scan, profile: Profile | None, beside: Sequence[Scan] = ()) -> Recording:
    """The average run of an engine, on the rows of a profile or, without one, on its layers.

    Args:
        scan: the profile.
        profile: of the ONNX model.
        beside: the engine's layers; without them only names are known.

    Raises:
        ModelError: a file is damaged or none of TensorRT's, the two belong to different engines, or the profile is of
            another model or other input shapes.
    """
    if scan.array == "Layers":
        raise ModelError(
            f"{scan.name}: layers of an engine, without times: give its profile, and this file with --beside"
        )
    runs, engine = _engine(scan, beside)
    notes = []
    if profile is None:
        rows: list[tuple[int, ...]] = [(number,) for number in range(len(engine))]
        layers, matched = tuple(map(_layer, engine)), Matched()
        notes.append("FLOPs of an engine's layers are those of matmuls and convolutions, without what is fused to them")
    else:
        layers = layers_of(profile)
        rows, matched = _matched(scan.name, engine, profile)
    if not beside:
        notes.append("only layer names are known: give what trtexec --exportLayerInfo wrote with --beside")
    return Recording("", layers, (_landing(f"average of {counted(runs, 'run')}", engine, rows),), matched, tuple(notes))


class _EngineLayer(NamedTuple):
    """A layer of an engine."""

    name: str
    time_ns: int
    #: Its own information; {} where there is none.
    described: Mapping[str, Any]
    node: ExecutedNode

    @property
    def kind(self) -> str:
        """Its type; "" where it is not known."""
        return str(self.described.get("LayerType", ""))


def _engine(scan: Scan, beside: Sequence[Scan]) -> tuple[int, list[_EngineLayer]]:
    """The number of runs, and the layers with their average times.

    Raises:
        ModelError: a file is damaged or none of TensorRT's, or the files belong to different engines.
    """
    runs, times = _times(scan)
    described = {name: layer for file in beside for name, layer in _layers(file).items()}
    files = ", ".join(file.name for file in beside)
    if beside and not described.keys() & {name for name, _ in times}:
        raise ModelError(f"{scan.name}: none of its layers are in {files}: it is of another engine")
    engine = []
    for name, time in times:
        layer = described.get(name, {})
        try:
            engine.append(_EngineLayer(name, time, layer, _executed(name, layer)))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelError(f"{files or scan.name}: the layer {name!r} is not TensorRT's: {error!r}") from error
    return runs, engine


def _matched(name: str, engine: Sequence[_EngineLayer], profile: Profile) -> tuple[list[tuple[int, ...]], Matched]:
    """The rows of each layer, and how much of the model they are.

    Raises:
        ModelError: the profile is of another model or other input shapes.
    """
    executed, times = [layer.node for layer in engine], [layer.time_ns for layer in engine]
    rows = match(executed, profile.rows)
    matched = matched_of(executed, rows, times, len(profile.rows))
    share = matched.product_time_share
    if share is None:
        named = [layer.time_ns for layer, own in zip(engine, rows, strict=True) if own or _LAYOUT.search(layer.name)]
        share = sum(named) / max(1, sum(times))
    if share < LEAST:
        raise ModelError(f"{name}: {mismatch(executed, profile.rows) or 'the profile is of another model'}")
    return rows, matched


def _landing(name: str, engine: Sequence[_EngineLayer], rows: Sequence[tuple[int, ...]]) -> Landing:
    """The times of a run."""
    times: Counter[Place] = Counter()
    launches: Counter[Place] = Counter()
    kernels: Counter[tuple[Place, str]] = Counter()
    for layer, own in zip(engine, rows, strict=True):
        place = Place(own) if own else Place(name=_remainder(layer.kind, layer.name))
        kernel = str(layer.described.get("TacticName") or layer.kind or layer.node.node.op)
        times[place] += layer.time_ns
        launches[place] += 1
        kernels[place, kernel] += layer.time_ns
    busy = times.total()
    return Landing(name, dict(times), dict(launches), dict(kernels), busy, busy, busy)


def _times(scan: Scan) -> tuple[int, list[tuple[str, int]]]:
    """The number of runs, and the average time of each layer in nanoseconds."""
    runs, times = 0, []
    for number, entry in enumerate(scan.events(), 1):
        try:
            if "name" in entry:
                times.append((str(entry["name"]), nanoseconds(entry["averageMs"], 1_000_000)))
            else:
                runs = int(entry["count"])
            if runs < 0 or (times and times[-1][1] < 0):
                raise ValueError("a figure below 0")
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{scan.name}: entry {number:,} is not of TensorRT's profile: {error!r}") from error
    if not times:
        raise ModelError(f"{scan.name}: the profile has no layers")
    return runs, times


def _layers(scan: Scan) -> dict[str, Json]:
    """The layers of an engine by name."""
    if scan.array != "Layers":
        raise ModelError(f"{scan.name}: no layers of an engine: write them with trtexec --exportLayerInfo")
    layers = {str(layer.get("Name", "")): layer for layer in scan.events()}
    if layers and not any("LayerType" in layer for layer in layers.values()):
        raise ModelError(f"{scan.name}: it has names only: build the engine with --profilingVerbosity=detailed")
    return layers


def _executed(name: str, layer: Mapping[str, Any]) -> ExecutedNode:
    """A layer of an engine as a node: what its own information says."""
    inputs, outputs = (tuple(map(tensor_of, layer.get(side, ()))) for side in ("Inputs", "Outputs"))
    names = [] if name.startswith(_COPY) else _BETWEEN.split(name)
    for part in _SEPARATORS.split(str(layer.get("Metadata", ""))):
        names.append(part.removeprefix("[ONNX Layer: ").removesuffix("]"))
    node = node_of(name, layer, inputs, outputs or (Tensor("", None, None),))
    return ExecutedNode.from_node(node, tuple(filter(None, names)))


def _layer(layer: _EngineLayer) -> Layer:
    """A layer of an engine as one that time lands on."""
    counts, moved = layer.node.counts, traffic(layer.node.node)
    known = bool(layer.described) and moved.read is not None and moved.written is not None
    return Layer(
        layer.name,
        layer.kind,
        None if counts is None else counts.dot(FLOPS),
        (moved.read or 0) + (moved.written or 0) if known else None,
        macs=None if counts is None else counts.mac,
    )


def _remainder(kind: str, name: str) -> str:
    """The name of the remainder that the time of a layer without rows belongs to."""
    if kind == "Constant":
        return "constants"
    return "layout" if _LAYOUT.search(kind) or _LAYOUT.search(name) else "unmatched"
