"""Nodes in execution order, with functions in place of their calls and without nodes that hand tensors on alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flopwise._limits import spend
from flopwise.errors import ModelError
from flopwise.formats.tensorflow.file import Body, File, Function, Node

#: Operators that hand their inputs on as they are, each at its place.
_HANDED_ON = frozenset(
    {
        "Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape", "ReadVariableOp",
        "CheckNumerics", "TensorListFromTensor", "TensorListStack",
    }
)  # fmt: skip

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})

#: What may be fed, and is a setting of the graph where it is a scalar (the rate of a dropout, whether it is trained).
_DEFAULT = "PlaceholderWithDefault"

#: Operators that run functions of theirs: attributes with the functions, and what the bodies are called in the house.
FLOWS: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    **dict.fromkeys(("While", "StatelessWhile"), (("cond", "cond"), ("body", "body"))),
    **dict.fromkeys(("If", "StatelessIf"), (("then_branch", "then_branch"), ("else_branch", "else_branch"))),
}

#: Results of operators that have several with names of their own, as functions write them.
_RESULTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
        ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"),
    ),
    "TopKV2": ("values", "indices"),
    "Unique": ("y", "idx"),
    "Switch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"),
}

#: Calls in calls, at most.
_DEPTH = 64


@dataclass
class Flat:
    """A graph without calls: each node with its inputs as "node:index"."""

    nodes: list[Node] = field(default_factory=list)
    #: Results of nodes that hand tensors on -> what they are.
    same: dict[str, str] = field(default_factory=dict)

    def found(self, key: str) -> str:
        """The tensor that a name stands for."""
        passed = {key}
        while key in self.same:
            key = self.same[key]
            if key in passed:
                raise ModelError("its nodes hand each other on in a circle")
            passed.add(key)
        return key


class Inliner:
    """Calls replaced by what they call."""

    def __init__(self, file: File, source: str) -> None:
        self.file, self.source = file, source
        #: Nodes by name and in order, by the identity of the list that they are in.
        self._orders: dict[int, tuple[dict[str, Node], list[Node]]] = {}

    def main(self, ends: Sequence[str]) -> Flat:
        """The nodes of the main graph that some results need; those that nothing reads where none are said."""
        flat = Flat()
        self._take(self.file.nodes, "", {}, flat, 0, {_key(end).rpartition(":")[0] for end in ends})
        return flat

    def body(self, name: str) -> tuple[Flat, Body]:
        """The nodes of a function that runs by itself; its arguments are nodes of the operator ``_Arg``."""
        body = self._function(name)
        flat = Flat()
        flat.nodes += [Node(argument, "_Arg", (), {}) for argument in body.arguments]
        known = {argument: f"{argument}:0" for argument in body.arguments}
        self._take(body.nodes, "", known, flat, 1, self._needed(body))
        return flat, body

    def _needed(self, body: Body) -> set[str]:
        return {end.partition(":")[0] for end in body.results.values()}

    def _function(self, name: str) -> Body:
        if name not in self.file.functions:
            raise ModelError(f"{self.source}: calls the function {name[:80]!r}, which it does not hold")
        return self.file.functions[name]

    def _take(
        self, nodes: Sequence[Node], prefix: str, known: Mapping[str, str], flat: Flat, depth: int, ends: set[str]
    ) -> None:
        """Add nodes with a prefix before their names; names of arguments are known already."""
        if depth > _DEPTH:
            raise ModelError(f"{self.source}: functions call each other without end")
        again = id(nodes) in self._orders
        if not again:
            names = {node.name: node for node in nodes}
            self._orders[id(nodes)] = names, self._ordered(names, ends)
        by_name, ordered = self._orders[id(nodes)]
        inside = depth > 0

        def reference(text: str) -> str:
            if text in known:
                return known[text]
            name, _, rest = text.partition(":")
            if name not in by_name and name not in known:
                raise ModelError(f"{self.source}: a node reads {text[:80]!r}, which nothing makes")
            if inside:
                part, _, index = rest.partition(":")
                names = _RESULTS.get(by_name[name].op, ()) if name in by_name else ()
                place = names.index(part) if part in names else 0
                return f"{prefix}{name}:{place + int(index or 0) if index.isdigit() or not index else place}"
            return f"{prefix}{name}:{rest if rest.isdigit() else 0}"

        for node in ordered:
            spend(repeated_nodes=int(again))
            inputs = tuple([flat.found(reference(text)) for text in node.inputs])
            self._add(node, inputs, prefix, flat, depth)

    def _add(self, node: Node, inputs: tuple[str, ...], prefix: str, flat: Flat, depth: int) -> None:
        name = f"{prefix}{node.name}"
        called = node.attrs.get("f") if node.op in _CALLS else None
        function = called.name if isinstance(called, Function) else node.op if node.op in self.file.functions else ""
        if function:
            body = self._function(function)
            known = dict(zip(body.arguments, inputs, strict=False))
            inner = f"{name}/"
            self._take(body.nodes, inner, known, flat, depth + 1, self._needed(body))
            for place, output in enumerate(body.outputs):
                flat.same[f"{name}:{place}"] = known_result(body, output, inner, known)
        elif node.op == _DEFAULT and node.attrs.get("shape") != ():
            flat.nodes.append(Node(name, "Placeholder", (), node.attrs))
        elif node.op in (*_HANDED_ON, _DEFAULT) and inputs:
            flat.same |= {f"{name}:{place}": one for place, one in enumerate(inputs)}
        else:
            flat.nodes.append(Node(name, node.op, inputs, node.attrs))

    def _ordered(self, by_name: Mapping[str, Node], ends: set[str]) -> list[Node]:
        """Nodes that the ends need, each behind what it reads."""
        read = {text.partition(":")[0] for node in by_name.values() for text in node.inputs}
        starts = [name for name in by_name if name in ends] if ends else [name for name in by_name if name not in read]
        loops = any(node.op == "NextIteration" for node in by_name.values())  # of TensorFlow 1
        ordered: list[Node] = []
        state: dict[str, int] = {}
        for start in starts:
            stack = [(start, False)]
            while stack:
                name, done = stack.pop()
                if done:
                    state[name] = 2
                    ordered.append(by_name[name])
                elif state.get(name) is None and name in by_name:
                    state[name] = 1
                    stack.append((name, True))
                    stack += [(text.partition(":")[0], False) for text in reversed(by_name[name].inputs)]
                elif state.get(name) == 1 and not loops:
                    raise ModelError(f"{self.source}: node {name[:80]!r} reads its own result")
        return ordered


def known_result(body: Body, output: str, prefix: str, known: Mapping[str, str]) -> str:
    """The tensor that a result of a function is."""
    text = body.results.get(output, "")
    if text in known:
        return known[text]
    name, _, rest = text.partition(":")
    part, _, index = rest.partition(":")
    names = _RESULTS.get(body.ops.get(name, ""), ())
    place = (names.index(part) if part in names else 0) + (int(index) if index.isdigit() else 0)
    return f"{prefix}{name}:{place}"


def _key(text: str) -> str:
    return text if ":" in text else f"{text}:0"


def attribute(node: Node, name: str, default: Any) -> Any:
    """An attribute of a node, or the default where the file has none of that kind."""
    value = node.attrs.get(name)
    return value if isinstance(value, type(default)) else default
