"""The walk over a graph: the expression of every extent, checked against the graph at the hint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy

from flopwise.analyses.formula.dim import dim, recording, require, term
from flopwise.analyses.formula.facts import Flow, ModelFacts
from flopwise.analyses.formula.guards import Guards
from flopwise.analyses.formula.propagation import movement, pointwise, products, sequences, values, windows
from flopwise.analyses.formula.propagation.by_row import by_row
from flopwise.analyses.formula.propagation.sequences import Members
from flopwise.analyses.formula.propagation.site import (
    Shape,
    Site,
    UnknownError,
    Value,
    agrees,
    array,
    has_sizes,
    settled,
    shape_of,
    varies,
    whole,
)
from flopwise.analyses.formula.propagation.turns import Scan, Turns
from flopwise.errors import FlopwiseError
from flopwise.graph import Body, Graph, Node, Tensor
from flopwise.operators.extents import product
from flopwise.operators.tables import row, with_effect

#: Operator -> the shapes of its results.
RULES: Mapping[str, Callable[[Site], Sequence[Shape | None]]] = {
    **pointwise.RULES,
    **windows.RULES,
    **products.RULES,
    **movement.RULES,
}

#: Operators of programs whose rules find what they need in the node; of others it stands in the arguments of the call.
PROGRAMS: frozenset[str] = frozenset(windows.RULES) | frozenset(products.RULES) | pointwise.ELEMENTWISE

CONTROL = with_effect("bodies")

#: Stored tensors of more elements steer no shape.
SMALL = 1024

#: What goes wrong in a rule where attributes or shapes make no sense.
WRONG = (ArithmeticError, AttributeError, FlopwiseError, LookupError, TypeError, ValueError)


class Explain(Protocol):
    """What knows the shapes of outputs at several points, by the node's position and the output's place."""

    def __call__(self, position: int, place: int, inputs: Sequence[Shape | None]) -> Shape | None:
        """A shape in the extents of the inputs for which there is no rule."""

    def agrees(self, position: int, place: int, shape: Shape) -> bool:
        """Whether a shape is right at all points."""

    def position(self, name: str) -> tuple[int, int] | None:
        """The position of the node that makes a tensor, and the place of the output; None where none does."""


@dataclass
class Propagation:
    """Shapes and small values by the names of tensors, and the conditions under which they hold."""

    graph: Graph
    facts: ModelFacts
    #: Shapes of the inputs with open sizes, by name.
    inputs: Mapping[str, Shape]
    #: Loops by name whose number of trips is a symbol.
    trips: Mapping[str, int] = field(default_factory=dict)
    #: What finds a shape for which there is no rule; None: nothing does.
    explain: Explain | None = None
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    #: Shapes of tensors of which a part has the same name, by name and extents at the hint.
    changed: dict[tuple[str, tuple[int, ...]], Shape] = field(default_factory=dict)
    values: dict[str, Value | None] = field(default_factory=dict)
    #: The members of sequences by name.
    sequences: dict[str, Members] = field(default_factory=dict)
    guards: Guards = field(default_factory=Guards)
    #: Outputs without a shape: position of the node and place of the output.
    open: list[tuple[int, int]] = field(default_factory=list)
    #: How often each body runs, where that is a size.
    runs: dict[tuple[int, str], int | None] = field(default_factory=dict)
    _memo: dict[Any, list[Shape | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        #: Shapes of the tensors in bodies, by name.
        self.inner = {t.name: t.shape for n in self.graph.nodes if n.within for t in n.known_inputs}
        self.children: dict[int, list[int]] = {}
        for position, node in enumerate(self.graph.nodes):
            owner = node.within[-1].owner if node.within else -1
            self.children.setdefault(owner, []).append(position)

    def run(self) -> None:
        """Follow the sizes through the whole graph."""
        self.shapes.update(self.inputs)
        with recording(self.guards):
            for position in self.children.get(-1, ()):
                self.step(position)

    def step(self, position: int) -> None:
        """Follow the sizes through one operator, and through the bodies in it."""
        node = self.graph.nodes[position]
        self.guards.reason = f"{node.op} {node.name!r}"
        if node.op in CONTROL:
            self.control(position, node)
            return
        site = self.site(node)
        for place, shape in enumerate(self.results(position, node, site)):
            output = node.outputs[place]
            if output is not None:
                self.shapes[output.name] = shape
        self.work_out(node, site)

    def shape(self, tensor: Tensor | None) -> Shape | None:
        """The shape of a tensor; what no rule has named has the extents that it has in the graph, if it is stored."""
        if tensor is None:
            return None
        if tensor.name in self.shapes:
            return self.shapes[tensor.name]
        return tensor.shape  # stored, or an input without an open size

    def value(self, tensor: Tensor | None) -> Value | None:
        """The elements of a small tensor, None where they are not known."""
        if tensor is None:
            return None
        if tensor.name not in self.values:
            self.values[tensor.name] = self.stored(tensor)
        return self.values[tensor.name]

    def stored(self, tensor: Tensor) -> Value | None:
        """The elements of a tensor that no operator makes, or that one makes of constants."""
        if varies(self.shape(tensor)) or tensor.shape is None or tensor.numel > SMALL:
            return None
        held = self.facts.values.get(tensor.name)
        if held is None and tensor.name in self.facts.weights and tensor.kind != "weight":
            try:
                held = self.facts.weights[tensor.name].array()
            except WRONG:
                return None
        return None if held is None else array(numpy.asarray(held))

    def site(self, node: Node) -> Site:
        """A node with what flows into it."""

        def hint(place: int) -> Value | None:
            output = node.outputs[place]
            held = None if output is None else self.facts.values.get(output.name)
            return None if held is None else array(numpy.asarray(held))

        return Site(
            node,
            [self.shape(t) for t in node.inputs],
            [self.value(t) for t in node.inputs],
            [None if t is None else t.shape for t in node.outputs],
            hint,
        )

    def results(self, position: int, node: Node, site: Site) -> list[Shape | None]:
        """The shape of each output: by the operator's rule, or as it is where nothing flows in that varies."""
        constant = not any(map(varies, site.shapes)) and not any(map(has_sizes, site.values))
        program = self.graph.format == "torch"
        of_sequences = node.op in sequences.OPERATORS and not program
        if constant and not of_sequences and "random" not in row(node.op).effects:
            return [self.unchanging(position, place, site) for place in range(len(site.hints))]
        rule = RULES.get(node.op, _by_row) if not program or node.op in PROGRAMS else None
        if of_sequences:
            rule = self.of_sequences
        inferred: Sequence[Shape | None] = ()
        guards = Guards(reason=self.guards.reason)
        if rule is not None:
            try:
                with recording(guards):
                    inferred = rule(site)
            except (UnknownError, *WRONG):
                pass
        trusted = False
        shapes: list[Shape | None] = []
        for place, hint in enumerate(site.hints):
            shape = inferred[place] if place < len(inferred) else None
            fits = shape is not None and tuple(map(int, shape)) == hint
            trusted = trusted or (fits and shape is not None)
            if shape is not None and fits and self.explain is not None and varies(shape):
                fits = self.explain.agrees(position, place, shape)
            output = node.outputs[place]
            if output is None or fits or output.name in self.sequences:
                trusted = trusted or (output is not None and output.name in self.sequences)
                shapes.append(shape)
                continue
            shapes.append(self.unexplained(position, place, site.shapes))
        if trusted:  # what a rule that is wrong asks for means nothing
            for guard, why in guards.reasons.items():
                self.guards.reasons.setdefault(guard, why)
        return shapes

    def of_sequences(self, site: Site) -> Sequence[Shape | None]:
        """The shape of the result of an operator on sequences; a sequence has members in place of a shape."""
        made = sequences.members(site, self.sequences)
        if made is None:
            return [sequences.shape(site, self.sequences)]
        output = site.node.output()
        elements = sum(product(shape) for shape in made.all)
        if output.items is None or len(output.items) != int(made.count) or int(elements) != output.numel:
            raise UnknownError
        self.sequences[output.name] = made
        return [None]

    def unchanging(self, position: int, place: int, site: Site) -> Shape | None:
        """The shape of an output into which nothing flows that varies; a program may have sizes in other arguments."""
        hint = site.hints[place]
        if self.explain is None or hint is None or self.explain.agrees(position, place, hint):
            return hint
        return self.unexplained(position, place, site.shapes)

    def unexplained(self, position: int, place: int, inputs: Sequence[Shape | None]) -> Shape | None:
        """The shape of an output for which the rule gives none, or a wrong one."""
        shape = self.explain(position, place, inputs) if self.explain else None
        if shape is None:
            self.open.append((position, place))
        return shape

    def work_out(self, node: Node, site: Site) -> None:
        """The elements of small results."""
        outputs = node.outputs
        steered = any(map(varies, site.shapes)) or any(map(has_sizes, site.values))
        if node.op == "SequenceLength":
            self.learn(outputs, lambda: [array(sequences.length(site, self.sequences))])
            return
        if node.op == "Split" and site.values[0] is not None:
            self.learn(outputs, lambda: values.split(site))
            return
        rule = values.RULES.get(node.op)
        ready = node.op in ("Shape", "Size") or any(v is not None for v in site.values)
        if rule is not None and ready and self.learn(outputs, lambda: [rule(site)]):
            return
        if not steered and all(v is not None for v, t in zip(site.values, node.inputs, strict=True) if t is not None):
            for place, output in enumerate(outputs):
                held = site.hint_value(place)
                if output is not None and held is not None:
                    self.values[output.name] = held

    def learn(self, outputs: Sequence[Tensor | None], work: Callable[[], Sequence[Value]]) -> bool:
        """Write down what a rule makes; False where it makes nothing that agrees with the values at the hint."""
        try:
            made = work()
        except (UnknownError, *WRONG):
            return False
        for output, value in zip(outputs, made, strict=False):
            if output is None:
                continue
            held = self.facts.values.get(output.name)
            if value.size > values.MOST or (held is not None and not agrees(value, held)):
                return False
            self.values[output.name] = value
        return True

    # Control flow.

    def control(self, position: int, node: Node) -> None:
        """Follow the sizes through the bodies of an operator, and out of it."""
        site = self.site(node)
        parts: dict[str, Body] = {}
        for child in self.children.get(position, ()):
            body = self.graph.nodes[child].within[-1]
            parts.setdefault(body.part, body)
        results: dict[str, list[Shape | None]] = {}
        for key in [k for k in self.facts.flows if k[0] == position and k[1] not in parts]:
            parts[key[1]] = Body(position, key[1], None)
        repeats = self.repeats(position, node, site, parts)
        before: Flow | None = None
        for part, body in parts.items():
            flow = self.facts.flows.get((position, part))
            self.runs[position, part] = body.trips if len(parts) > 1 and node.op == "Loop" else repeats
            if flow is not None:
                self.enter(node, site, part, flow, before if node.op == "Loop" else None)
                before = flow
            for child in self.children.get(position, ()):
                if self.graph.nodes[child].within[-1].part == part:
                    self.step(child)
            if flow is not None:
                results[part] = [self.named(names) for names in flow.gives]
                if repeats is not None and node.op == "Loop" and len(parts) == 1:
                    self.guards.reason = f"{node.op} {node.name!r}"
                    repeats = self.runs[position, part] = self.turned(flow, repeats)
                for names, output in zip(flow.gives, node.outputs, strict=False):
                    if node.op == "If" and output is not None and len(parts) == 1:
                        self.values[output.name] = next((self.values[n] for n in names if n in self.values), None)
        self.guards.reason = f"{node.op} {node.name!r}"
        self.leave(position, node, site, results, repeats)

    def named(self, names: Sequence[str]) -> Shape | None:
        """The shape of a body's result under one of its names."""
        for name in names:
            if name in self.shapes:
                return self.shapes[name]
        for name in names:
            for tensor in self.graph.inputs:
                if tensor.name == name:
                    return tensor.shape
        return None

    def repeats(self, position: int, node: Node, site: Site, parts: Mapping[str, Body]) -> int | None:
        """How often the body runs; None where it is not known, or where several graphs stand for it."""
        if node.op == "If":
            return 1
        hints = [body.trips for body in parts.values()]
        hint = hints[0] if len(hints) == 1 else None
        if node.op == "SequenceMap":
            return hint
        if node.name in self.trips:
            return self.trips[node.name]
        trips: int | None = None
        try:
            if node.op == "Loop":
                trips = self.turns(position, site, parts)
            elif node.op == "Scan":
                scan = Scan.of(site)
                first = site.shape(scan.states + scan.old)
                trips = first[1] * first[0] if scan.old else first[scan.axes[0]]
        except (UnknownError, *WRONG):
            return None
        if trips is not None and hint is not None and int(trips) != hint:
            return None  # a condition ends it earlier
        if trips is not None and hint is None and node.op == "Loop" and int(trips) == sum(t or 0 for t in hints):
            settled(trips)  # each turn differs from the one before
        return trips if hint is not None or node.op != "Loop" else None

    def turns(self, position: int, site: Site, parts: Mapping[str, Body]) -> int | None:
        """How often the body of a Loop runs; None where that is not known."""
        flow = next((self.facts.flows[position, part] for part in parts if (position, part) in self.facts.flows), None)
        if flow is None:
            return whole(site.value(0).ravel().tolist()[0]) if site.has(0) else None
        body = [self.graph.nodes[child] for child in self.children.get(position, ())]
        return Turns.of(site, flow, body, self.value, self.facts.values).count()

    def turned(self, flow: Flow, repeats: int) -> int:
        """How often a body runs, which is settled where a turn hands other shapes on than it was handed."""
        for names, output in zip(flow.takes[2:], flow.gives[1:], strict=False):
            before, after = self.named(names), self.named(output)
            if before is not None and after is not None and tuple(map(term, before)) != tuple(map(term, after)):
                for one, other in zip(before, after, strict=False) if int(repeats) > 1 else ():
                    require(term(one) - term(other), "==")  # they are the same at the hint alone
                repeats = settled(repeats)
        return repeats

    def enter(self, node: Node, site: Site, part: str, flow: Flow, before: Flow | None) -> None:
        """The shapes of the inputs of a body; those of later turns come from the turn before."""
        try:
            inputs = self.flowing(node, site, flow, before)
        except (UnknownError, *WRONG):  # its inputs or attributes make no sense
            inputs = [None] * len(flow.takes)
        for names, shape in zip(flow.takes, inputs, strict=False):
            for name in names[:1]:
                hint = self.inner.get(name)
                same = shape is not None and tuple(map(int, shape)) == hint
                self.shapes[name] = shape if same else None

    def flowing(self, node: Node, site: Site, flow: Flow, before: Flow | None) -> list[Shape | None]:
        """The shapes of what flows into a body."""
        inputs: list[Shape | None] = []
        if node.op == "Loop":
            carried = site.shapes[2:] if before is None else map(self.named, before.gives[1 : len(flow.takes) - 1])
            inputs = [(), (), *carried]
        elif node.op == "Scan":
            scan = Scan.of(site)
            for index, shape in enumerate(site.shapes[scan.old :]):
                if shape is not None and scan.old:
                    shape = shape[1:] if index < scan.states else shape[2:]
                elif shape is not None and index >= scan.states:
                    axis = scan.axes[index - scan.states] % len(shape)
                    shape = (*shape[:axis], *shape[axis + 1 :])
                inputs.append(shape)
        return inputs

    def leave(
        self,
        position: int,
        node: Node,
        site: Site,
        results: Mapping[str, list[Shape | None]],
        repeats: int | None,
    ) -> None:
        """The shapes of the results of an operator with bodies."""
        for place, output in enumerate(node.outputs):
            if output is None:
                continue
            try:
                shape = self.result(node, site, place, results, repeats)
            except (UnknownError, *WRONG):  # its inputs or attributes make no sense
                shape = None
            if shape is None or tuple(map(int, shape)) != output.shape:
                shape = None if output.shape is None else self.unexplained(position, place, site.shapes)
            self.shapes[output.name] = shape

    def result(
        self, node: Node, site: Site, place: int, results: Mapping[str, list[Shape | None]], repeats: int | None
    ) -> Shape | None:
        if node.op == "If":
            shapes = [gives[place] for gives in results.values() if place < len(gives)]
            if not shapes or any(s is None for s in shapes):
                return None
            expressions = {tuple(map(term, s or ())) for s in shapes}
            return shapes[0] if len(expressions) == 1 else None
        if (
            node.op == "Loop"
            and place < len(node.inputs) - 2
            and (not results or (type(repeats) is int and not repeats))
        ):
            return site.shapes[place + 2]
        if len(results) > 1 and node.op == "Loop" and place < len(node.inputs) - 2:
            return list(results.values())[-1][place + 1]
        if len(results) != 1:
            return None
        (gives,) = results.values()
        if node.op not in ("Loop", "Scan"):
            return None
        first, carried = (1, len(node.inputs) - 2) if node.op == "Loop" else (0, Scan.of(site).states)
        shape = gives[place + first] if place + first < len(gives) else None
        if shape is None or (node.op == "Scan" and Scan.of(site).old):
            return None
        if place < carried or repeats is None:
            return shape if place < carried else None
        axis = (site.attr("scan_output_axes") or [0] * len(node.outputs))[place - carried]
        axis = axis if axis >= 0 else axis + len(shape) + 1
        return (*shape[:axis], repeats, *shape[axis:])

    # The graph with expressions.

    def expressed(self) -> Graph:
        """The graph with sizes that carry expressions; what has none is unresolved."""
        made: dict[int, Tensor] = {}

        def tensor(old: Tensor | None) -> Tensor | None:
            if old is None or old.name not in self.shapes:
                return old
            if id(old) not in made:
                if old.name in self.sequences:
                    shapes = enumerate(self.sequences[old.name].all)
                    items = tuple(Tensor(f"{old.name}[{i}]", shape, old.dtype) for i, shape in shapes)
                    made[id(old)] = replace(old, items=items)
                    return made[id(old)]
                shape = shape_of(old, self.shapes, self.changed)
                made[id(old)] = old if shape is old.shape else replace(old, shape=shape)
            return made[id(old)]

        def arguments(thing: Any) -> Any:
            if isinstance(thing, Tensor):
                return tensor(thing)
            if isinstance(thing, (list, tuple)) and not hasattr(thing, "_fields"):
                return type(thing)(map(arguments, thing))
            return thing

        nodes = []
        for node in self.graph.nodes:
            attrs = node.attrs
            if isinstance(attrs.get("args"), Mapping):  # what a call of a program was called with
                attrs = {**attrs, "args": {name: arguments(thing) for name, thing in attrs["args"].items()}}
            within = tuple(self.bodies(node.within)) if node.within else ()
            nodes.append(
                replace(
                    node,
                    inputs=tuple(map(tensor, node.inputs)),
                    outputs=tuple(map(tensor, node.outputs)),
                    attrs=attrs,
                    within=within,
                )
            )
        inputs = tuple(t for t in map(tensor, self.graph.inputs) if t is not None)
        outputs = tuple(t for t in map(tensor, self.graph.outputs) if t is not None)
        calls = tuple(
            call._replace(inputs=arguments(call.inputs), outputs=arguments(call.outputs)) for call in self.graph.calls
        )
        return replace(self.graph, inputs=inputs, outputs=outputs, nodes=tuple(nodes), calls=calls)

    def bodies(self, within: Sequence[Body]) -> Sequence[Body]:
        """The control flow around a node, with sizes for the numbers of trips."""
        made = []
        for body in within:
            runs = self.runs.get((body.owner, body.part))
            exact = runs is not None and body.trips is not None and int(runs) == body.trips
            made.append(body._replace(trips=runs if exact else None))
        return made


def _by_row(site: Site) -> Sequence[Shape | None]:
    """The shapes of an operator that onnx does not know, by the rule in its row."""
    return by_row(site, RULES)


__all__ = ["CONTROL", "RULES", "Explain", "Propagation", "dim", "require"]
