"""The nodes and tensors of a graph from the subgraphs of a file and the facts about their tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flopwise.formats.weights.storage import SourceStorage
from flopwise.graph import Body, Kind, Module, StoredTensor, Tensor
from flopwise.graph import Node as GraphNode
from flopwise.graph.names import FreshNames, primed
from flopwise.readers.subgraphs import tensors as file
from flopwise.readers.subgraphs.lowered import Lowered, Part
from flopwise.readers.subgraphs.program import Graph, Node
from flopwise.readers.subgraphs.roles import roles
from flopwise.sizes.scope import Scope

#: The tensor of a name in the program; None for one that is left out.
_Lookup = Callable[[str], "Tensor | None"]


class Builder(ABC):
    """Nodes and stored tensors, subgraph by subgraph."""

    def __init__(self, storage: SourceStorage, prefix: str = "") -> None:
        """
        Args:
            storage: the file.
            prefix: what stands before all names.
        """
        self.storage, self.prefix = storage, prefix
        self.nodes: list[GraphNode] = []
        self.weights: dict[str, StoredTensor] = {}
        self.names = FreshNames(form=primed)
        self.node_names = FreshNames(form=primed)

    def main(self, graph: Graph, scope: Scope) -> _Lookup:
        """Take in the main graph; returns its tensors by their names in the program."""
        tensors = _Tensors(self, graph, scope, self.prefix, {name.name for name in graph.inputs})
        self._graph(graph, scope, tensors.__getitem__, (), "")
        return tensors.__getitem__

    def _graph(self, graph: Graph, scope: Scope, tensor: _Lookup, within: tuple[Body, ...], around: str) -> None:
        for node in graph.nodes:
            position = self._node(node, graph, scope, tensor, within, around)
            inside = scope.inner.get(node.first_output, ()) if node.first_output else ()
            for inner in inside:
                body = Body(position, inner.part, inner.trips, inner.branch, inner.bound)
                above = f"{around}{self.nodes[position].name}/{inner.part}/"
                self._body(inner.graph, inner.scope, node, inner.part, tensor, (*within, body), above)

    def _body(
        self,
        graph: Any,
        scope: Scope,
        node: Node,
        part: str,
        outside: _Lookup,
        within: tuple[Body, ...],
        above: str,
    ) -> None:
        """Take in a body; the inputs of one that runs once are the tensors outside."""
        tensors = _Tensors(self, graph, scope, above)
        if node.op != "Loop":
            given = node.inputs[1:] if part.endswith("_branch") else node.inputs
            tensors.update({own.name: outside(name) for own, name in zip(graph.inputs, given, strict=False)})
        self._graph(graph, scope, tensors.__getitem__, within, above)

    def _node(
        self, node: Node, graph: Graph, scope: Scope, tensor: _Lookup, within: tuple[Body, ...], around: str
    ) -> int:
        """One operator and its parts; its position among the nodes."""
        lowered, names = self.lowered(node, scope), node.given
        if lowered.inputs is not None:
            names = tuple([names[place] if 0 <= place < len(names) else "" for place in lowered.inputs])
        inputs, outputs = tuple(map(tensor, names)), tuple(map(tensor, node.outputs))
        name = self.node_names.fresh(f"{around or self.prefix}{node.name}" if node.name else "")
        attrs = dict(lowered.attrs)
        views = lowered.views
        inputs = tuple([one and replace(one, shape=views.get(at, one.shape)) for at, one in enumerate(inputs)])
        more = self.parts(node, graph)
        results = [*(self._before(outputs[0], part.label) for part in more), outputs[0]] if more else []
        first = (results[0], *outputs[1:]) if results else outputs
        origin, scopes = node.operator.custom or node.operator.op, _modules(name)
        fault = scope.faults.get(node.first_output, "")
        position = len(self.nodes)
        self.nodes.append(
            GraphNode(
                lowered.op, name, inputs, first, attrs, scopes, origin, 0, within, fault=fault, layout=lowered.layout
            )
        )
        for place, part in enumerate(more):
            beside = [tensor(node.given[taken]) for taken in part.takes]
            self.nodes.append(
                GraphNode(
                    part.op,
                    f"{name}/{part.label}",
                    (results[place], *beside),
                    (results[place + 1],),
                    dict(part.attrs),
                    scopes,
                    f"{origin} ({part.label})",
                    within=within,
                    fused=True,
                )
            )
        return position

    def _before(self, result: Tensor | None, label: str) -> Tensor | None:
        """The tensor that an operator hands on to a part of itself."""
        return result and replace(result, name=self.names.fresh(f"{result.name}/before {label}"), kind="activation")

    @abstractmethod
    def stored(self, name: str, tensor: file.Tensor, kind: Kind) -> Tensor:
        """A stored tensor of the file; one that is there already is that one."""

    def lowered(self, node: Node, scope: Scope) -> Lowered:
        """The operator of the house, with what only the shapes of its tensors say."""
        return node.lowered

    def parts(self, node: Node, graph: Graph) -> list[Part]:
        """The operators that run behind one and are fused to it, in order."""
        return []


class _Tensors(dict[str, "Tensor | None"]):
    """The tensors of one subgraph by their names in the program, made when somebody asks for them."""

    def __init__(
        self, builder: Builder, graph: Graph, scope: Scope, prefix: str, inputs: frozenset[str] | set[str] = frozenset()
    ) -> None:
        super().__init__({"": None})
        self._builder, self._graph, self._scope, self._prefix, self._inputs = builder, graph, scope, prefix, inputs
        self._roles = roles(graph)

    def __missing__(self, key: str) -> Tensor | None:
        tensor, fact = self._graph.tensors[key], self._scope.tensors[key]
        name = self._prefix + (tensor.name or f"tensor_{key.partition(':')[2]}")
        if key in self._graph.initializers:
            stored = self._builder.stored(name, tensor, self._roles[key])
        else:
            kind: Kind = "input" if key in self._inputs else "state" if tensor.variable else "activation"
            dtype = None if tensor.dtype in ("resource", "variant") else tensor.dtype
            shape = () if tensor.dtype in ("resource", "variant") else fact.extents
            stored = Tensor(self._builder.names.fresh(name), shape, dtype, kind, fact.bound)
        self[key] = stored
        return stored


def _modules(name: str) -> tuple[Module, ...]:
    """The modules around an operator, by the path in its name; outermost first."""
    steps = name.split("/")[:-1]
    return tuple([Module(".".join(steps[: count + 1]), "") for count in range(len(steps)) if steps[count]])
