"""A profile as one HTML page that needs nothing else: values column by column, so that 5,000 layers stay small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flopwise._results import Json
from flopwise.conventions import CONVENTIONS
from flopwise.errors import FlopwiseError, counted
from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.graph.construction import no_search_for_garbage
from flopwise.graph.names import layer_names
from flopwise.report import structure
from flopwise.report.html.page import Layout, page, ridges
from flopwise.report.sheet.columns import COLUMNS, cell
from flopwise.report.sheet.listing import Choice, model_name
from flopwise.report.sheet.sheet import AtLeast, Look, is_gap
from flopwise.report.structure import KINDS, Group, Layers, groups, kinds_of
from flopwise.rows import Row
from flopwise.storage.liveness import Buffer, liveness

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

# The same graph in every convention that counts it.


@dataclass(frozen=True, eq=False)
class Views:
    """Profiles of one graph by the name of their convention, and why other conventions are left out."""

    profiles: dict[str, Profile]
    refused: dict[str, str]
    #: Of a training step, by convention: the backward pass of each node by its identity. A convention that says nothing
    #: of a backward pass is not in it.
    backward: dict[str, dict[int, int | None]]


def views(profile: Profile) -> Views:
    """The profile and its graph in every other convention that refuses no operator which flopwise itself can count."""
    from flopwise.profiles.count import Canonical, profile_graph

    first = profile.convention.name
    counted = {first: profile}
    refused: dict[str, str] = {}
    shared: dict[int, Canonical] = {}
    trained = profile.training is not None
    symbols = any(not isinstance(dim, int) for tensor in profile.graph.inputs for dim in tensor.shape or ())
    for name in CONVENTIONS:
        if name == first:
            continue
        if symbols and not CONVENTIONS[name].plain:
            refused[name] = "its rules need numbers, and this model has open dimensions"
            continue
        whole = CONVENTIONS[name].whole
        if whole is not None and not whole.programs and (reasons := list(whole.remarks(profile.graph))):
            refused[name] = reasons[0]  # a formula of language models, and this is none that it is for
            continue
        try:
            other = profile_graph(
                profile.graph, CONVENTIONS[name], profile.rules, profile.folding, trained, shared=shared
            )
        except FlopwiseError as error:
            refused[name] = str(error)
            continue
        lost = sorted({r.node.op for r in other.rows if r.count is None and r.counts is not None})
        if lost:
            refused[name] = f"cannot count {', '.join(lost[:4])}{' and others' if len(lost) > 4 else ''}"
        else:
            counted[name] = other
    order = [name for name in CONVENTIONS if name in counted]
    seen = {name: counted[name] for name in dict.fromkeys([*order, first])}
    backward = {name: own for name, view in seen.items() if trained and (own := _backward(view, profile)) is not None}
    return Views(seen, refused, backward)


def _backward(view: Profile, profile: Profile) -> dict[int, int | None] | None:
    """The backward pass of each node in the convention of a view; None when the convention defines none."""
    convention = view.convention
    if convention.plain:
        canonical = {id(row.node): row.backward_counts for row in reversed(profile.rows)}
        return {key: None if counts is None else counts.dot(convention.weights) for key, counts in canonical.items()}
    if convention.backward is None:
        return None
    if view.training is None:
        from flopwise.analyses.training import train

        view = train(view)
    return {id(row.node): row.backward for row in reversed(view.rows)}


LAYOUT = Layout(
    folder="model",
    sections={
        "summary": "Summary",
        "where": "Where",
        "depth": "Depth",
        "memory": "Memory",
        "intensity": "Intensity",
        "graph": "Graph",
        "layers": "Layers",
    },
    scripts="base modules summary operators treemap flame where depth memory intensity table layers graph start",
    graph=True,
    controls=True,
)

#: Integers beyond this lose digits in JavaScript; they travel as text.
EXACT = 2**53

#: Figures of a layer that do not depend on the convention.
FIGURES = ("macs", "flops", "params", "buffers", "weight_bytes", "input_bytes", "output_bytes", "activations")

#: The same of a training step.
OF_TRAINING = ("backward_macs", "backward_flops", "saved_bytes")

#: So many tensors alive at the peak are listed; the page says how many more there are.
AT_PEAK = 200

#: Of the shapes of a layer with very many inputs or outputs, these are shown.
SHAPES = 8

_LOOK = Look()


def render_profile(profile: Profile, choice: Choice, look: Look) -> str:
    """The page with all layers; its table is sorted and filtered by the reader."""
    with no_search_for_garbage():
        data = page_data(profile)
    return page(LAYOUT, f"{model_name(profile, look)} – flopwise", data)


def page_data(profile: Profile) -> Json:
    """The profile for the page: totals as in its JSON, and a list for each figure with an entry for each layer.

    The layers are those of the profile, in whichever convention they are shown. A number that is None is unknown. A
    count that is "" belongs to a layer which the convention does not list. Where a convention counts every layer as an
    earlier one does, the number of that one stands in place of its counts.
    """
    seen = views(profile)
    rows = list({id(row.node): row for row in reversed(profile.rows)}.values())[::-1]
    nodes = [row.node for row in rows]
    names = _names(profile, nodes)
    edges = structure.edges(profile.graph, nodes)
    makers = structure.makers(edges, len(nodes))
    alike = Layers([structure.likeness(node, row) for node, row in zip(nodes, rows, strict=True)], makers)
    modules, owners = groups(
        text(profile.graph.name or "model"), [node.scope for node in nodes], [node.op for node in nodes], names, alike
    )
    shapes, ops = Index(), Index()
    layers = {
        "name": names,
        "op": [ops.number_of(text(node.op)) for node in nodes],
        "kind": kinds_of(nodes, rows, modules, owners, makers),
        "group": owners,
        **_columns(nodes, rows, shapes),
        **({key: [number(getattr(row, key)) for row in rows] for key in OF_TRAINING} if profile.training else {}),
    }
    return {
        "schema": "flopwise.html/1",
        **_about(profile),
        "conventions": _shared(_view(view, nodes, seen.backward.get(name)) for name, view in seen.profiles.items()),
        "refused": [{"name": name, "why": text(why)} for name, why in seen.refused.items()],
        "layers": layers,
        "groups": [_group(group) for group in modules],
        "edges": [end for maker, user, shape in edges for end in (maker, user, shapes.number_of(_LOOK.shape(shape)))],
        "memory": _memory(profile.graph, nodes),
        "ridges": ridges(profile.graph),
        "shapes": shapes.values,
        "ops": ops.values,
        "kinds": KINDS,
    }


def _names(profile: Profile, nodes: Sequence[Node]) -> list[str]:
    """The name of each layer: that of its row, else one made from its node."""
    names = layer_names(profile.graph.nodes)
    position = {id(node): index for index, node in enumerate(profile.graph.nodes)}
    own = {id(row.node): row.name for row in reversed(profile.rows)}
    return [text(own.get(id(node)) or names[position[id(node)]]) for node in nodes]


def _about(profile: Profile) -> Json:
    """The model, its inputs and outputs, and its totals."""
    plain = profile.to_dict()
    totals = {key: number(value) for key, value in plain["totals"].items() if key not in ("count", "ops", "own")}
    return {
        "model": {key: text(value) for key, value in plain["model"].items()},
        "inputs": [port(t) for t in profile.graph.inputs],
        "outputs": [port(t) for t in profile.graph.outputs],
        "convention": profile.convention.name,
        "totals": totals,
        "training": _training(profile),
        "atLeast": [key for key in FIGURES if isinstance(cell(COLUMNS[key], profile.sum, profile), AtLeast)],
    }


def _columns(nodes: Sequence[Node], rows: Sequence[Row], shapes: Index) -> Json:
    """The facts and figures that do not depend on the convention, each with an entry for each layer."""
    activations = [[t for t in node.known_inputs if t.kind not in STORED] for node in nodes]
    weights = [[t for t in node.known_inputs if t.kind in ("weight", "buffer")] for node in nodes]
    return {
        "origin": _sparse(text(node.origin) if node.origin != node.op else "" for node in nodes),
        "scope": _sparse(text(node.module) for node in nodes),
        "inputs": [_shapes(tensors, shapes) for tensors in activations],
        "outputs": [_shapes(node.known_outputs, shapes) for node in nodes],
        "weights": [_shapes(tensors, shapes) for tensors in weights],
        **{key: [number(getattr(row, key)) for row in rows] for key in FIGURES},
        "times": _sparse(row.times if row.within else "" for row in rows),
        "note": _sparse(text(row.note) for row in rows),
    }


def _group(group: Group) -> list[object]:
    """Name, class, module around (-1 for none), and a number: 1 for a run, more for parts that repeat."""
    around = -1 if group.parent is None else group.parent
    return [text(group.name), text(group.kind), around, group.period + 1 if group.period else int(group.run)]


class Index:
    """Values by number, each listed once."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._numbers: dict[str, int] = {}

    def number_of(self, value: str) -> int:
        """The number of a value, which is listed if it is new."""
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]


def text(name: str) -> str:
    """A name or a note, safe to show."""
    return _LOOK.text(name)


def number(value: object) -> Any:
    """A figure that JavaScript keeps exact; text for a large integer and for a figure in symbols."""
    if value is None or (isinstance(value, int) and abs(value) <= EXACT):
        return value
    return str(value)


def _sparse(values: Iterable[object]) -> dict[int, object]:
    """The values that are not empty, by index."""
    return {index: value for index, value in enumerate(values) if value != ""}


def port(tensor: Tensor) -> dict[str, str]:
    """An input or output of a model."""
    return {"name": text(tensor.name), "dtype": tensor.dtype or "?", "shape": _LOOK.shape(tensor.shape)}


def _shapes(tensors: Iterable[Tensor], texts: Index) -> list[int]:
    shapes = [texts.number_of(_LOOK.shape(tensor.shape)) for tensor in tensors]
    return shapes if len(shapes) <= SHAPES else [*shapes[:SHAPES], texts.number_of(f"+{len(shapes) - SHAPES}")]


def _training(profile: Profile) -> Json | None:
    """The figures of a training step, as in the JSON; None for a profile without training."""
    if profile.training is None:
        return None
    step = profile.training.to_dict(profile.rows, profile.sum)
    keys = ("backward_macs", "backward_flops", "optimizer_flops", "gradient_bytes", "state_bytes", "saved_bytes")
    return {
        **{key: number(step[key]) for key in (*keys, "memory_bytes")},
        "optimizer": step["optimizer"],
        "least": any(row.backward_counts is None for row in profile.rows),
        "exact": step["exact"],
    }


def _view(view: Profile, nodes: Sequence[Node], backward: Mapping[int, int | None] | None) -> Json:
    """One convention: its total, and the count of each layer; for a training step, the backward pass too."""
    counts: dict[int, Any] = {}
    for row in view.rows:
        before = counts.get(id(row.node), 0)
        counts[id(row.node)] = None if row.count is None or before is None else before + row.count
    known = not view.rows or view.sum.unknown < len(view.rows)
    return {
        **convention_data(view),
        "total": number(view.sum.count if known else None),
        "unknown": {text(op): many for op, many in view.unknown.items()},
        "uncounted": sum(row.count is None for row in view.rows),
        "unresolved": len(view.unresolved),
        "listed": len(view.rows),
        "own": {text(name): number(value) for name, value in view.own.items()},
        "notes": [{"text": text(note), "gap": is_gap(note)} for note in (*view.notes, *_beside(view, nodes))],
        "backward": backward and [number(backward.get(id(node), "")) for node in nodes],
        "counts": [number(counts[id(node)]) if id(node) in counts else "" for node in nodes],
    }


def _beside(view: Profile, nodes: Sequence[Node]) -> Iterator[str]:
    """A note on what a convention counts of layers that the page does not list, such as those on constants alone."""
    listed = {id(node) for node in nodes}
    rows = [row for row in view.rows if row.count and id(row.node) not in listed]
    if rows:
        sum_of_them = f"{sum(row.count or 0 for row in rows):,} {view.convention.unit}"
        others = " and others" if len(rows) > 1 else ""
        yield f"the total has {sum_of_them} of {counted(len(rows), 'layer')} not listed here: {rows[0].name}{others}"


def convention_data(profile: Profile) -> dict[str, str]:
    """The convention of a profile, as the page describes it."""
    return {key: text(getattr(profile.convention, key)) for key in ("name", "unit", "summary", "source")}


def _shared(conventions: Iterable[Json]) -> list[Json]:
    """The conventions, with the number of an earlier one in place of counts that it has too."""
    listed: list[Json] = []
    firsts: dict[tuple[object, ...], int] = {}
    for view in conventions:
        first = firsts.setdefault(tuple(view["counts"]), len(listed))
        listed.append(view if first == len(listed) else {**view, "counts": first})
    return listed


def _memory(graph: Graph, nodes: Sequence[Node]) -> Json:
    """Bytes alive at each step, the layer that runs then (-1 for the start), and what is alive at the peak."""
    lives = liveness(graph)
    if lives.missing or lives.peak_step is None:
        return {"missing": [text(name) for name in lives.missing[:5]], "bytes": [], "more": len(lives.missing)}
    index = {id(node): place for place, node in enumerate(nodes)}
    layer: Callable[[int | None], int] = lambda at: -1 if at is None else index.get(id(graph.nodes[at]), -1)  # noqa: E731
    alive = lives.alive_at(lives.peak_step)
    return {
        "missing": [],
        "bytes": [number(b) for b in lives.alive],
        "layer": [layer(step) for step in lives.steps],
        "peak": lives.peak_step,
        "alive": [_buffer(b, layer) for b in alive[:AT_PEAK]],
        "more": max(len(alive) - AT_PEAK, 0),
    }


def _buffer(buffer: Buffer, layer: Callable[[int | None], int]) -> Json:
    return {
        "name": text(buffer.name),
        "bytes": number(buffer.nbytes),
        "shape": _LOOK.shape(buffer.tensors[0].shape),
        "made": layer(buffer.maker),
        "used": layer(buffer.user),
        "kept": buffer.kept,
    }
