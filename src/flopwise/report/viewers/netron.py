"""A profile as an attachment of Netron: figures that it shows in its side panel beside the model's own.

The format as Netron 9.3.3 reads it (https://github.com/lutzroeder/netron, ``source/view.js``, ``metadata.Attachment``):
an object with the signature "netron:attachment" and two lists of items, "metadata" and "metrics". An item has a kind
(model, graph, node or value), a target, a name and a value. Netron looks an object up by the first line of its name,
but for the metrics of the model and its graph by no name at all. Where several objects share a name and differ, an item
would be wrong for all but one, so there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from flopwise._results import Json
from flopwise.graph import STORED, Node, Tensor
from flopwise.report.formats import json
from flopwise.report.formats.csv import SHAPES
from flopwise.report.html.model import EXACT
from flopwise.report.sheet.columns import COLUMNS, cell, count_title
from flopwise.report.sheet.sheet import AtLeast, Value
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: What Netron knows an attachment by.
SIGNATURE = "netron:attachment"

#: The ending of a file name without which Netron takes an attachment for a model.
ENDING = ".json"

#: Figures of a layer and of the model, in the order in which Netron shows them.
FIGURES = ("macs", "flops", "params", "buffers", "weight_bytes", "activations", "output_bytes")

#: Name -> value of what is facts of one object.
_Facts: TypeAlias = Json


def render(profile: Profile) -> str:
    """The attachment: metadata and metrics of the model, its graph, its layers and its values.

    A layer without a name has its figures at its first result. Stored tensors are values in ONNX files alone, because
    Netron gives those of other files no name.
    """
    rows = {id(row.node): row for row in profile.rows}
    nodes, metrics, metadata = _Items("node"), _Items("value"), _Items("value")
    notes = _Items("node")
    named, values = _unique(profile.graph.nodes), _values(profile)
    for node in profile.graph.nodes:
        row = rows.get(id(node))
        if _key(node.name) in named:
            nodes.add(node.name, _figures(row, profile) if row else {})
            notes.add(node.name, _remarks(row))
        elif row and node.known_outputs:
            figures = {f"{row.node.op} {name}": value for name, value in _figures(row, profile).items()}
            metrics.more(values[node.known_outputs[0].name][0], figures)
    for name, tensor in values.values():
        metrics.add(name, _sizes(tensor))
        metadata.add(name, {"shape": SHAPES.shape(tensor.shape), "type": tensor.dtype or "?"})
    remarks = {f"note {number}": note for number, note in enumerate(profile.notes, start=1)}
    content = {
        "signature": SIGNATURE,
        "metadata": [*_of_model(profile, remarks), *notes.items(), *metadata.items()],
        "metrics": [*_of_model(profile, _model_facts(profile)), *nodes.items(), *metrics.items()],
    }
    return json.render_content(content)


class _Items:
    """The facts about the objects of one kind, by the name that Netron looks them up by."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._agreed: dict[str, _Facts | None] = {}
        self._more: dict[str, _Facts] = {}

    def add(self, name: str, facts: _Facts) -> None:
        """Add facts about an object; a name that several objects share keeps only those on which they agree."""
        key = _key(name)
        if key:
            self._agreed[key] = facts if self._agreed.get(key, facts) == facts else None

    def more(self, name: str, facts: _Facts) -> None:
        """Add a fact that other objects of the name cannot contradict."""
        self._more.setdefault(_key(name), {}).update(facts)

    def items(self) -> Iterator[Json]:
        """The items, object by object."""
        for key in dict.fromkeys([*self._agreed, *self._more]):
            yield from _item(self.kind, key, {**(self._agreed.get(key) or {}), **self._more.get(key, {})})


def _key(name: str) -> str:
    """The key by which Netron looks up an object of that name."""
    return name.split("\n", 1)[0]


def _item(kind: str, target: str, facts: _Facts) -> list[Json]:
    return [{"kind": kind, "target": target, "name": name, "value": value} for name, value in facts.items()]


def _of_model(profile: Profile, facts: _Facts) -> Iterator[Json]:
    """Items of the model and its graph, under no name and under their own."""
    for target in dict.fromkeys(("", _key(profile.graph.name))):
        for kind in ("model", "graph"):
            yield from _item(kind, target, facts)


def _unique(nodes: Iterable[Node]) -> set[str]:
    """The names that only one node has."""
    times = Counter(_key(node.name) for node in nodes)
    return {name for name, number in times.items() if name and number == 1}


def _number(value: Value) -> Value:
    """A figure as Netron shows it: "?" for what is unknown, text where JavaScript would lose digits."""
    if value is None:
        return "?"
    if isinstance(value, AtLeast):
        return f">= {int(value):,}"
    return f"{value:,}" if isinstance(value, int) and abs(value) > EXACT else value


def _figures(item: Row | Sum, profile: Profile) -> _Facts:
    """The figures of a layer or of the model; in flopwise's own conventions the count is one of the others."""
    convention = profile.convention
    figures = {COLUMNS[key].title: _number(cell(COLUMNS[key], item, profile)) for key in FIGURES}
    if convention.name in FIGURES:
        return figures
    count = _number(cell(COLUMNS["count"], item, profile))
    return {count_title(convention.unit, convention.name): count, **figures}


def _remarks(row: Row | None) -> _Facts:
    """Further remarks on a layer."""
    if row is None:
        return {"flopwise": "not counted: it runs only once, or the convention leaves it out"}
    facts: _Facts = {"flopwise": row.note} if row.note else {}
    if row.within:
        facts["runs in one inference"] = "?" if row.times is None else row.times
    return facts


def _model_facts(profile: Profile) -> _Facts:
    """Convention, input shapes and figures of the model."""
    convention = profile.convention
    inputs = "; ".join(f"{t.name} {t.dtype or '?'} {SHAPES.shape(t.shape)}" for t in profile.graph.inputs)
    about = {"convention": f"{convention.name}, unit {convention.unit}", "input shapes": inputs or "none"}
    peak = {"peak activation bytes": _number(profile.peak_activation_bytes)}
    return {**about, **_figures(profile.sum, profile), **peak}


def _sizes(tensor: Tensor) -> _Facts:
    if not tensor.resolved:
        return {"elements": "?", "bytes": "?"}
    return {"elements": _number(tensor.numel), "bytes": _number(tensor.nbytes if tensor.sized else None)}


def _values(profile: Profile) -> dict[str, tuple[str, Tensor]]:
    """The values of the graph by their names: the name that Netron gives them, and each as its operator makes it."""
    graph = profile.graph
    values = {t.name: (t.name, t) for t in graph.inputs}
    names = {t.name: t.name for t in graph.inputs}
    for node in graph.nodes:
        for tensor in node.known_outputs:
            names[tensor.name] = _name(tensor, node, profile, names)
            values[tensor.name] = (names[tensor.name], tensor)
    for node in graph.nodes:
        for tensor in node.known_inputs:
            if not (graph.program.recorded or graph.caffe) or tensor.kind not in STORED:
                values.setdefault(tensor.name, (_name(tensor, node, profile, names), tensor))
    return values


def _name(tensor: Tensor, node: Node, profile: Profile, names: Mapping[str, str]) -> str:
    """The name of a value in the file.

    Of a body, without the path of the operator around it; of a Caffe layer that works in place, the name of its bottom.
    """
    nodes = profile.graph.nodes
    if profile.graph.caffe:
        bottoms = [names.get(t.name, t.name) for t in node.known_inputs if t.kind not in STORED]
        return next((b for b in bottoms if tensor.name.startswith((f"{b}@", f"{b}'"))), tensor.name)
    return tensor.name.removeprefix("".join(f"{nodes[b.owner].name}/{b.part}/" for b in node.within))
