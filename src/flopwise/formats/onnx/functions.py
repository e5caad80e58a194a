"""Local functions put in place of their calls, after a look at how large the model becomes.

Names are those that onnx's own inliner gives (https://github.com/onnx/onnx/blob/main/onnx/inliner/inliner.cc): a tensor
or node ``t`` of the third function that is inlined becomes ``t__3``, with a running number where that is taken. Nodes
keep the operator set that their function is written for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from flopwise._limits import current
from flopwise.errors import ModelError
from flopwise.formats.kit.program import Attributes, Function, Graph, Key, Model, Node, Operation, Reference, Value
from flopwise.formats.kit.tensors import Stored, tag

#: How many bytes a model may have after inlining, unless it is so large by itself.
MOST_BYTES = 32 << 20

#: How many times larger than the file a model may become by inlining, whatever the limits.
GROWTH = 8

#: How deep functions may call each other.
DEEPEST = 200


def inlined(model: Model, nbytes: int) -> Model:
    """The model with its local functions in place of their calls.

    Args:
        model: a model whose operator sets are settled.
        nbytes: what it takes without weights.

    Raises:
        ModelError: functions call each other in a circle or too deep, the model becomes too large, or a call gives more
            than its function takes.
    """
    if not model.functions:
        return model
    _refuse_growth(model, nbytes)
    functions = {
        key: replace(function, nodes=[_marked(node, number, place) for place, node in enumerate(function.nodes)])
        for number, (key, function) in enumerate(model.functions.items())
    }
    graph = model.graph
    others = {key for key, function in functions.items() if _versions(function, model.opsets)}
    for part in (functions.keys() - others, others):  # onnx's inliner takes those of other operator sets last
        if part:
            graph = _Inliner(graph, {key: functions[key] for key in part}, model.opsets).graph(graph)
    return replace(model, functions={}, graph=graph)


def _versions(function: Function, opsets: Mapping[str, int]) -> dict[str, int]:
    """The operator sets of a function that are others than those of the model."""
    return {d: version for d, version in function.opsets.items() if opsets.get(d, version) != version}


def _marked(node: Node, number: int, place: int) -> Node:
    """A node of a function with a mark on the tensors that it holds, so that its copies are known to share them."""
    values = node.attributes.values
    if not any(isinstance(value, Stored) and not value.mark for value in values.values()):
        return node
    mark = tag(number, place)
    marked = {k: replace(v, mark=v.mark or mark) if isinstance(v, Stored) else v for k, v in values.items()}
    return node._replace(operation=replace(node.operation, attributes=Attributes.of(marked)))


class _Names:
    """Names that no tensor and no node of a graph has."""

    def __init__(self, graph: Graph) -> None:
        self._number = 0
        self._taken: set[str] = set()
        self._take(graph)

    def _take(self, graph: Graph) -> None:
        self._taken.update(value.name for values in (graph.inputs, graph.outputs) for value in values)
        self._taken.update(graph.initializers)
        for node in graph.nodes:
            self._taken.update((node.name, *node.inputs, *node.outputs))
            for body in node.bodies():
                self._take(body)

    def new(self, wish: str) -> str:
        name = wish
        while name in self._taken:
            name = f"{wish}_{self._number}"
            self._number += 1
        self._taken.add(name)
        return name


class _Inliner:
    """Puts functions in place of their calls in one graph and its bodies."""

    def __init__(self, graph: Graph, functions: Mapping[Key, Function], opsets: Mapping[str, int]) -> None:
        """
        Args:
            graph: the main graph.
            functions: those that are inlined.
            opsets: the operator sets of the model.
        """
        self.functions = functions
        self.names = _Names(graph)
        self.versions = {key: _versions(function, opsets) for key, function in functions.items()}
        self.calls = 0
        #: Operations of functions with the attributes of a call, if they refer to these, and a version.
        self.operations: dict[tuple[Operation, Attributes | None, int], Operation] = {}

    def graph(self, graph: Graph) -> Graph:
        """The graph with functions in place of calls."""
        nodes: list[Node] = []
        waiting: list[Iterator[Node]] = [iter(graph.nodes)]
        while waiting:
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
                continue
            function = self.functions.get(Key(node.domain, node.op, node.operation.overload))
            if function is not None:
                waiting.append(iter(self.called(node, function)))
                continue
            nodes.append(node.with_bodies(self.graph))
        return replace(graph, nodes=nodes)

    def called(self, call: Node, function: Function) -> list[Node]:
        """The nodes of a function as this call has them."""
        self.calls += 1
        for word, formals, actuals in _ends(function, call):
            if len(actuals) > len(formals):
                raise ModelError(
                    f"its functions cannot be inlined (a call of {function.key.name!r} has {len(actuals)} {word}, "
                    f"the function {len(formals)})"
                )
        copy = _Copy(self, call.attributes, function, f"__{self.calls}")
        copy.scopes[0].update(zip(function.inputs, call.inputs, strict=False))
        copy.scopes[0].update(dict.fromkeys(function.inputs[len(call.inputs) :], ""))
        outputs = (*call.outputs, *[""] * (len(function.outputs) - len(call.outputs)))
        for formal, actual in zip(function.outputs, outputs, strict=True):
            copy.scopes[0][formal] = actual or copy.unique(formal)
        return [copy.node(node) for node in function.nodes]


def _ends(function: Function, call: Node) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """Inputs and outputs as the function names them, and as a call does."""
    return ("inputs", function.inputs, call.inputs), ("outputs", function.outputs, call.outputs)


class _Copy:
    """A function as one call has it: with other names, and with the call's attributes."""

    def __init__(self, inliner: _Inliner, call: Attributes, function: Function, suffix: str) -> None:
        self.inliner = inliner
        self.call = call
        self.defaults = function.defaults
        self.versions = inliner.versions[function.key]
        self.suffix = suffix
        #: New names by old ones, of the function and of the bodies around a node.
        self.scopes: list[dict[str, str]] = [{}]

    def unique(self, name: str) -> str:
        return self.inliner.names.new(name + self.suffix)

    def node(self, node: Node) -> Node:
        name = self.unique(node.name) if node.name else ""
        inputs = tuple([self.renamed(one) for one in node.inputs])
        outputs = tuple([self.renamed(one, made=True) for one in node.outputs])
        node = Node(self.operation(node.operation), name, inputs, outputs, node.metadata)
        return node.with_bodies(self.body)

    def renamed(self, name: str, made: bool = False) -> str:
        """A name as the copy has it; one from outside of the function stays, one that is made gets a new one."""
        if not name:
            return name
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if made:
            self.scopes[-1][name] = self.unique(name)
            return self.scopes[-1][name]
        return name

    def operation(self, own: Operation) -> Operation:
        """The operation of a node of the function in this call: the call's attributes are in place of references."""
        version = own.version or self.versions.get(own.domain, 0)
        refers = any(isinstance(value, Reference) for value in own.attributes.values.values())
        if not refers and version == own.version:
            return own
        key = own, self.call if refers else None, version
        result = self.inliner.operations.get(key)
        if result is None:
            attributes = self.bound(own.attributes) if refers else own.attributes
            result = self.inliner.operations[key] = replace(own, attributes=attributes, version=version)
        return result

    def bound(self, attributes: Attributes) -> Attributes:
        values: dict[str, Any] = {}
        for name, value in attributes.values.items():
            if isinstance(value, Reference):
                given = next((some for some in (self.call, self.defaults) if value.name in some.values), None)
                if given is None:
                    continue
                value = given.values[value.name]
            values[name] = value
        return Attributes.of(values)

    def body(self, graph: Graph) -> Graph:
        """A body of control flow in the function."""
        self.scopes.append({})
        names = {name for node in graph.nodes for name in node.outputs}
        inputs = [self.value(value) for value in graph.inputs]
        initializers = {}
        for name, stored in graph.initializers.items():
            new = self.scopes[-1][name] = self.unique(name)
            initializers[new] = replace(stored, name=new)
        own = self.scopes[-1]
        outputs = [
            self.value(v) if v.name in names and v.name not in own else v._replace(name=self.renamed(v.name))
            for v in graph.outputs
        ]
        nodes = [self.node(node) for node in graph.nodes]
        self.scopes.pop()
        return replace(graph, inputs=inputs, outputs=outputs, initializers=initializers, nodes=nodes)

    def value(self, value: Value) -> Value:
        """An input or output of a body with a new name."""
        new = self.scopes[-1][value.name] = self.unique(value.name)
        return value._replace(name=new)


def _refuse_growth(model: Model, nbytes: int) -> None:
    """Refuse a model that exceeds its bounds with all calls inlined."""
    calls = {key: _calls(function.nodes, model.functions) for key, function in model.functions.items()}
    sizes: dict[Key, tuple[int, int, int]] = {}  # operators, bytes, depth
    for key in _callees_first(model.functions, calls):
        function = model.functions[key]
        inner = [sizes[callee] for callee in calls[key]]
        sizes[key] = (
            len(function.nodes) + sum(s[0] for s in inner),
            len(function.data) + sum(s[1] for s in inner),
            1 + max((s[2] for s in inner), default=0),
        )
    called = [sizes[key] for key in _calls(model.graph.nodes, model.functions)]
    nodes = len(model.graph.nodes)
    operators, total = nodes + sum(s[0] for s in called), nbytes + sum(s[1] for s in called)
    most, most_bytes = max(current().repeated_nodes, GROWTH * nodes), max(MOST_BYTES, GROWTH * nbytes)
    if operators > most or total > most_bytes:
        raise ModelError(
            f"its functions call each other so often that it becomes {operators:,} operators of {total >> 20:,} MB; "
            f"at most {most:,} operators of {most_bytes >> 20} MB are read"
        )
    if max((s[2] for s in called), default=0) > DEEPEST:
        raise ModelError(f"its functions call each other deeper than {DEEPEST}")


def _calls(nodes: Iterable[Node], functions: Mapping[Key, Function]) -> list[Key]:
    """The functions that nodes call, those in bodies included, each as often as it is called."""
    calls: list[Key] = []
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            key = Key(node.domain, node.op, node.operation.overload)
            if key in functions:
                calls.append(key)
            waiting.extend(body.nodes for body in node.bodies())
    return calls


def _callees_first(functions: Iterable[Key], calls: Mapping[Key, list[Key]]) -> list[Key]:
    """The functions in an order in which each follows those that it calls.

    Raises:
        ModelError: they call each other in a circle.
    """
    order: dict[Key, None] = {}
    open_calls: set[Key] = set()
    for first in functions:
        stack = [(first, iter(dict.fromkeys(calls[first])))] if first not in order else []
        open_calls.update(key for key, _ in stack)
        while stack:
            key, callees = stack[-1]
            callee = next(callees, None)
            if callee is None:
                stack.pop()
                open_calls.discard(key)
                order[key] = None
            elif callee in open_calls:
                raise ModelError(f"function {callee.domain}::{callee.name} calls itself, directly or through others")
            elif callee not in order:
                open_calls.add(callee)
                stack.append((callee, iter(dict.fromkeys(calls[callee]))))
    return list(order)
