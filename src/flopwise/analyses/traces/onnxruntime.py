"""Profiles of onnxruntime: the nodes that it executed, run by run, on the rows of the model; no engine is run.

The file is an array of events. Those of category "Node" stand before the "model_run" around them; the events of one run
are the executed graph's nodes, each once, those in bodies of loops once for each iteration.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from flopwise._results import Json
from flopwise.analyses.executed import ExecutedNode, match, mismatch
from flopwise.analyses.traces.land import Landing, Landings, Place, Span, Step, Work
from flopwise.analyses.traces.scan import Scan, nanoseconds
from flopwise.analyses.traces.trace import Layer, Matched, Recording, layers_of
from flopwise.errors import ModelError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import ALIASES
from flopwise.operators.counts import FLOPS
from flopwise.operators.tables import find, row
from flopwise.profiles.profile import Profile
from flopwise.storage.traffic import traffic

#: What the name of a node's event ends with.
_SUFFIX = "_kernel_time"

#: Domains of the operators that onnxruntime executes; the profile says none.
_DOMAINS = ("", "com.microsoft::", "com.microsoft.nchwc::", "com.ms.internal.nhwc::")

#: What ends the name of a normalisation in blocks of channels, which runs as a convolution of one weight a channel.
_NORM = re.compile(r"_bn_nchwc(_token_\d+)?$")

#: Less than this share of the time of products on the model's rows: the trace is another model's.
LEAST = 0.5


class Key(NamedTuple):
    """The identity of an executed node: bodies of loops number theirs from 0 again."""

    name: str
    op: str
    number: str


def matches(scan: Scan) -> bool:
    """True where a file's events are onnxruntime's."""
    return not scan.array and scan.first.get("cat") in ("Session", "Node", "Api")


def read(scan: Scan, profile: Profile | None) -> Recording:
    """The recorded runs of a file, on the rows of a profile or on the operators and shapes of the trace itself.

    Raises:
        ModelError: the file is damaged, holds no run, or is of another model or other input shapes.
    """
    nodes: dict[Key, ExecutedNode] = {}
    runs = _landings(scan, nodes)
    landings, stride = runs.kept, runs.stride
    if not landings:
        raise ModelError(f"{scan.name}: it has no model_run: run the session before end_profiling()")
    if not any(landing.times for landing in landings):
        raise ModelError(f"{scan.name}: its runs have no node events: call end_profiling() after the last run")
    executed = list(nodes.values())
    busy: Counter[int] = Counter()
    for landing in landings:
        for place, time in landing.times.items():
            busy[place.layers[0]] += time
    if profile is None:
        layers, places = _by_shape(executed)
        matched = Matched()
    else:
        layers, rows = layers_of(profile), match(executed, profile.rows)
        places = _places(executed, rows, profile)
        matched = matched_of(executed, rows, [busy[number] for number in range(len(executed))], len(layers))
        share = matched.product_time_share
        if share is not None and share < LEAST:
            other = f"the trace is of another model: {share:.1%} of its matmul and convolution time matches"
            raise ModelError(f"{scan.name}: {mismatch(executed, profile.rows) or other}")
        if not matched.rows:
            raise ModelError(f"{scan.name}: the trace is of another model: none of its nodes match")
    moved = tuple(_moved(landing, places, profile is None) for landing in landings)
    notes = (f"too many runs to keep: one in {stride} is reported",) if stride > 1 else ()
    return Recording("", layers, moved, matched, notes)


def _landings(scan: Scan, nodes: dict[Key, ExecutedNode]) -> Landings:
    """The times of each run on the executed nodes, by their position in ``nodes``, which is completed."""
    runs = _Runs()
    places: dict[Key, Place] = {}
    for number, event in enumerate(scan.events(), 1):
        try:
            if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
                args = event["args"]
                key = Key(event["name"].removesuffix(_SUFFIX), args["op_name"], str(args.get("node_index", "")))
                if key not in places:
                    places[key] = Place((len(places),))
                    nodes[key] = _executed(key, args)
                start, end = _span(event)
                runs.works.append(Work(places[key], str(event["tid"]), start, end, name=key.op))
            elif event.get("name") == "model_run":
                start, end = _span(event)
                if runs.window is not None and start < runs.window[1]:
                    raise ModelError(f"{scan.name}: runs overlap, so that their nodes cannot be told apart")
                runs.close()
                runs.window = start, end
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{scan.name}: event {number:,} is not onnxruntime's: {error!r}") from error
    runs.close()
    return runs.landings


@dataclass(slots=True)
class _Runs:
    """Runs as they come; one is landed when the next begins, as its event may stand before its nodes or behind them."""

    #: Of the last run.
    window: Span | None = None
    #: The nodes that are not landed yet.
    works: list[Work] = field(default_factory=list)
    landings: Landings = field(default_factory=Landings)

    def close(self) -> None:
        """Land the last run."""
        if self.window is None:
            return
        start, end = self.window
        if self.landings.takes_next():
            inside = [work for work in self.works if start <= work.start_ns <= end]
            self.landings.add(Step(f"run {self.landings.steps}", start, end, inside))
        self.works = [work for work in self.works if work.start_ns > end]


def _span(event: Json) -> tuple[int, int]:
    """The first and the last instant of an event."""
    start = nanoseconds(event["ts"])
    return start, start + nanoseconds(event["dur"])


def _executed(key: Key, args: Mapping[str, Any]) -> ExecutedNode:
    """The node behind an event."""
    inputs, outputs = (_tensors(args.get(f"{side}_type_shape", ())) for side in ("input", "output"))
    if _NORM.search(key.name) and len(inputs) > 2 and inputs[1].dims == (*inputs[2].dims, 1, 1, 1):
        statistics = tuple(Tensor(f"#{number}", inputs[2].dims, inputs[2].dtype) for number in range(1, 5))
        return ExecutedNode.from_node(Node("BatchNormalization", key.name, (inputs[0], *statistics), outputs))
    op = next((domain + key.op for domain in _DOMAINS if find(domain + key.op)), key.op)
    attributes = _attributes(inputs, outputs)
    whole = _with_weights(op, inputs, outputs)
    node = Node(op, key.name, whole or inputs, outputs or (Tensor("", None, None),), attributes)
    return ExecutedNode.from_node(node) if whole is not None else ExecutedNode(node, None)


def _with_weights(op: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    """The inputs with the weights that a kernel packed, which the profile leaves out; None where nobody can tell them.

    The right factor of a matrix product follows from the left one and the result.
    """
    for place, role in enumerate(row(op).inputs.first):
        layout = role.weight.layout if role.weight else ""
        shape = inputs[place].dims if place < len(inputs) else ()
        if layout == "right" and inputs and outputs:
            factor, result = inputs[0].dims[-2:], outputs[0].dims
            inner = factor[0] if _transposed(inputs[0], outputs[0]) else factor[-1]
            if sorted(shape[-2:]) != sorted((inner, result[-1])) and place <= len(inputs):
                packed = Tensor(f"#packed{place}", (inner, result[-1]), inputs[0].dtype)
                inputs = (*inputs[:place], packed, *inputs[place:])
        elif layout in ("conv", "conv transpose", "stacked") and len(shape) < 3:
            return None
    return inputs


def _tensors(shapes: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    """Tensors without names of their own: ``[{"float": [1, 3, 8, 8]}, ...]``."""
    pairs = [(dtype, shape) for each in shapes for dtype, shape in each.items()]
    return tuple(
        Tensor(f"#{number}", tuple(map(int, shape)), ALIASES.get(dtype, dtype))
        for number, (dtype, shape) in enumerate(pairs)
    )


def _attributes(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[str, object]:
    """The attributes that change a count, as far as shapes tell them: a transposed factor, and both directions."""
    attributes: dict[str, Any] = {}
    if inputs and outputs and _transposed(inputs[0], outputs[0]):
        attributes["transA"] = 1
    if len(inputs) > 1 and len(inputs[1].dims) == 3 and inputs[1].dims[0] == 2:
        attributes["direction"] = "bidirectional"
    return attributes


def _transposed(factor: Tensor, result: Tensor) -> bool:
    """True where the left factor of a product can only be a transposed one."""
    rows, result_rows = factor.dims[-2:], result.dims[-2:]
    return len(rows) == len(result_rows) == 2 and rows[0] != result_rows[0] == rows[1]


def _places(executed: Sequence[ExecutedNode], rows: Sequence[tuple[int, ...]], profile: Profile) -> list[Place]:
    """Where the time of each executed node lands."""
    own = {row.node.name for row in profile.rows}
    folded = {node.name for node in profile.graph.nodes} - own
    return [
        Place(places) if places else Place(name=_remainder(item, folded))
        for item, places in zip(executed, rows, strict=True)
    ]


def _remainder(item: ExecutedNode, folded: set[str]) -> str:
    """The name of the remainder that the time of a node without rows belongs to."""
    operator = row(item.node.op)
    if item.node.name in folded:
        return "constants"
    if operator.effects & {"quantizes", "dequantizes"} or item.node.op == "Cast":
        return "conversions"
    return "layout" if operator.moves else "unmatched"


def matched_of(
    executed: Sequence[ExecutedNode], rows: Sequence[tuple[int, ...]], times: Sequence[int], layers: int
) -> Matched:
    """The number of rows that were found, and their share of the time of products.

    Args:
        executed: the nodes.
        rows: the positions of the rows of each.
        times: of each.
        layers: how many rows the model has.
    """
    products = [number for number, item in enumerate(executed) if item.macs]
    time = sum(times[number] for number in products)
    landed = sum(times[number] for number in products if rows[number])
    return Matched(len({place for places in rows for place in places}), layers, landed / time if time else None)


def _moved(landing: Landing, places: Sequence[Place], each: bool) -> Landing:
    """A landing on executed nodes as one on layers.

    Args:
        landing: the times of a run.
        places: where each executed node lands.
        each: whether a layer stands for each single run of its nodes, and not for all that the model asks for.
    """
    times: Counter[Place] = Counter()
    launches: Counter[Place] = Counter()
    kernels: Counter[tuple[Place, str]] = Counter()
    for place, time in landing.times.items():
        times[places[place.layers[0]]] += time
        launches[places[place.layers[0]]] += landing.launches[place]
    for (place, name), time in landing.kernels.items():
        kernels[places[place.layers[0]], name] += time
    return replace(
        landing,
        times=dict(times),
        launches=dict(launches),
        kernels=dict(kernels),
        runs=dict(launches) if each else {},
        works=[work._replace(place=places[work.place.layers[0]]) for work in landing.works],
    )


def _by_shape(executed: Sequence[ExecutedNode]) -> tuple[tuple[Layer, ...], list[Place]]:
    """Layers for nodes of the same operator and shapes, and the place of each node."""
    places: list[Place] = []
    kinds: dict[str, tuple[int, ExecutedNode]] = {}
    for item in executed:
        shapes = ["x".join(map(str, t.dims)) or "1" for t in item.node.known_inputs]
        number, _ = kinds.setdefault(" ".join([item.node.op, *shapes]), (len(kinds), item))
        places.append(Place((number,)))
    return tuple(_layer(name, item) for name, (_, item) in kinds.items()), places


def _layer(name: str, item: ExecutedNode) -> Layer:
    """The work of a run of a node."""
    counts, moved = item.counts, traffic(item.node)
    packed = counts is None and find(item.node.op) is not None  # the event leaves weights out
    return Layer(
        name,
        item.node.op,
        None if counts is None else counts.dot(FLOPS),
        None if packed or moved.read is None or moved.written is None else moved.read + moved.written,
        macs=None if counts is None else counts.mac,
    )
