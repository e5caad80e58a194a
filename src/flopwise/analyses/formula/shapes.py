"""A graph whose shapes are expressions in the model's symbols, from its graphs at a few points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flopwise.analyses.formula.fitting import Fitter, Vector
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.polynomial import Term, closed, unknown, value
from flopwise.graph import Body, Graph, Tensor

#: Place of a tensor in a graph: node, whether among its inputs, and which.
_Place = tuple[int, bool, int]


class Fitted:
    """The sizes in a graph as expressions, kept in step with the samples that they were found in."""

    def __init__(self, graphs: Sequence[Graph], fitter: Fitter) -> None:
        """
        Args:
            graphs: the graph at each point of the fitter, of the same nodes at each.
            fitter: what finds expressions.
        """
        self.graphs = graphs
        self.fitter = fitter
        #: Sizes over the points that follow no expression, and the name of a tensor with such a size.
        self.failures: dict[Vector, str] = {}
        #: Tensors of the first graph by identity -> sizes as expressions.
        self.found: dict[int, tuple[Term, ...]] = {}
        self.places = dict(_places(graphs[0]))
        self._memo: dict[tuple[object, ...], tuple[Term, ...]] = {}
        for key, place in self.places.items():
            self.found[key] = self._fit(place)
        self.trips = [self._trips(i) for i in range(len(graphs[0].nodes))]

    def _fit(self, place: _Place) -> tuple[Term, ...]:
        alike = [_at(graph, place) for graph in self.graphs]
        shapes = tuple(t.shape if t is not None and t.items is None else tuple(_sizes(t)) for t in alike)
        if shapes in self._memo:
            return self._memo[shapes]
        position, is_input, _ = place
        node = self.graphs[0].nodes[position]
        near = [] if is_input else [d for t in node.known_inputs for d in self.found.get(id(t), ())]
        base = alike[0]
        name = base.name if base is not None else ""
        if len({None if s is None else len(s) for s in shapes}) > 1:  # a tensor of another rank at another point
            fitted: tuple[Term, ...] = tuple(self._failed((), name) for _ in _sizes(base))
        else:
            vectors = zip(*(s or () for s in shapes), strict=True)
            fitted = tuple(self.term(vector, near, name) for vector in vectors)
        self._memo[shapes] = fitted
        return fitted

    def term(self, vector: Vector, near: Sequence[Term], name: str) -> Term:
        """The expression for a size, or an unknown."""
        found = self.fitter.fit(vector, near)
        return self._failed(vector, name) if found is None else found

    def _failed(self, vector: Vector, name: str) -> Term:
        self.failures.setdefault(vector, name)
        return unknown(f"{name}, {list(self.failures).index(vector)}")

    def _trips(self, position: int) -> tuple[Body, ...]:
        bodies = self.graphs[0].nodes[position].within
        made = []
        for depth, body in enumerate(bodies):
            trips = tuple(g.nodes[position].within[depth].trips for g in self.graphs)
            known = tuple(t for t in trips if t is not None)
            if len(known) < len(trips):
                made.append(body._replace(trips=None))
            else:
                made.append(body._replace(trips=self.term(known, (), body.part)))  # type: ignore[arg-type]
        return tuple(made)

    def agrees(self, graph: Graph, point: Point) -> bool:
        """Whether the expressions give the sizes of the graph at another point."""
        known: dict[str, int] = {}
        seen: set[tuple[object, object]] = set()
        for key, place in self.places.items():
            terms, tensor = self.found[key], _at(graph, place)
            sizes = tuple(_sizes(tensor))
            if (id(terms), sizes) in seen:
                continue
            seen.add((id(terms), sizes))
            if len(sizes) != len(terms):
                return False
            if any(closed(t) and value(t, point, known) != size for t, size in zip(terms, sizes, strict=True)):
                return False
        return True

    def graph(self) -> Graph:
        """The first graph with expressions for sizes."""
        base = self.graphs[0]
        made: dict[int, Tensor] = {}

        def tensor(old: Tensor | None) -> Tensor | None:
            if old is None:
                return None
            if id(old) not in made:
                terms = iter(self.found[id(old)])
                made[id(old)] = _with_sizes(old, terms)
            return made[id(old)]

        nodes = []
        for node, trips in zip(base.nodes, self.trips, strict=True):
            inputs, outputs = tuple(map(tensor, node.inputs)), tuple(map(tensor, node.outputs))
            nodes.append(replace(node, inputs=inputs, outputs=outputs, within=trips))
        return replace(base, nodes=tuple(nodes))


def in_modules(graph: Graph, named: Graph) -> Graph:
    """The graph with the module paths of another one of the same model; as it is where the two differ."""
    if graph is named or len(graph.nodes) != len(named.nodes) or not any(n.scope for n in named.nodes):
        return graph
    pairs = zip(graph.nodes, named.nodes, strict=True)
    return replace(graph, nodes=tuple(replace(node, scope=known.scope) for node, known in pairs))


def _places(graph: Graph) -> Iterator[tuple[int, _Place]]:
    """Each tensor of a graph once, by identity, in the order of the nodes."""
    seen: set[int] = set()
    for position, node in enumerate(graph.nodes):
        for is_input, tensors in ((True, node.inputs), (False, node.outputs)):
            for index, tensor in enumerate(tensors):
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield id(tensor), (position, is_input, index)


def _at(graph: Graph, place: _Place) -> Tensor | None:
    position, is_input, index = place
    node = graph.nodes[position]
    tensors = node.inputs if is_input else node.outputs
    return tensors[index] if index < len(tensors) else None


def _sizes(tensor: Tensor | None) -> Iterator[int]:
    """The extents of a tensor, or those of all members of a sequence."""
    if tensor is None:
        return
    if tensor.items is not None:
        for member in tensor.items:
            yield from _sizes(member)
    else:
        yield from tensor.shape or ()


def _with_sizes(tensor: Tensor, sizes: Iterator[Term]) -> Tensor:
    if tensor.items is not None:
        return replace(tensor, items=tuple(_with_sizes(t, sizes) for t in tensor.items))
    if tensor.shape is None:
        return tensor
    shape = tuple(next(sizes) for _ in tensor.shape)
    return replace(tensor, shape=shape)
