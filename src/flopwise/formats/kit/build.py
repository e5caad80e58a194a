"""The nodes of a Graph from those of a program with their sizes; the modules around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.formats.kit.program import CONTROL_FLOW, Attributes, Graph, Model, Node, Operation, Own, entries, one_line
from flopwise.formats.kit.stored import Notes, StoredTensors, Weights, stored_tensors
from flopwise.formats.kit.tensors import Reopen, Stored
from flopwise.formats.weights.storage import SourceStorage
from flopwise.graph import STORED, Body, Module, Tensor
from flopwise.graph import Node as GraphNode
from flopwise.graph.graph import Members
from flopwise.operators.folding import CLASSICAL
from flopwise.operators.masks import PAIRS
from flopwise.sizes.facts import Fact
from flopwise.sizes.scope import Inner, Scope

if TYPE_CHECKING:
    from flopwise.graph.stored import StoredTensor

#: Key of a node's metadata: the paths of the modules around it, and of the node.
SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
#: Operators that a norm is fused into -> the class of module, but for its dimensions.
_FUSED = {"Conv": "Conv", "ConvTranspose": "ConvTranspose", "Gemm": "Linear"}
_QUOTED = re.compile(r"'([^']*)'")


def scope_of(node: Node) -> tuple[tuple[Module, ...], str]:
    """The modules around a node, outermost first, and what PyTorch called the operator ("" if unknown)."""
    if node.metadata and SCOPES in (notes := entries(node.metadata)):
        around, _, _ = notes[SCOPES].rpartition("', '")  # the last one is the node itself
        kinds, _, last = notes.get(_CLASSES, "").rpartition("', '")
        return _of_weight(node, _from_notes(around, kinds)), last.strip("[']")
    return scope_of_path(node.name), ""


def scope_of_path(name: str) -> tuple[Module, ...]:
    """The modules around a node without metadata, by its name; outermost first."""
    return _from_name(name.rpartition("/")[0]) if "/" in name else ()


def _of_weight(node: Node, scope: tuple[Module, ...]) -> tuple[Module, ...]:
    """The scope, with the module that the weight belongs to in place of a norm that was fused into it.

    Of a convolution and the norm after it, the exporter keeps the convolution, and the norm's metadata.
    """
    if node.op not in _FUSED or not scope or "Norm" not in scope[-1].kind or len(node.inputs) < 2:
        return scope
    path, _, name = node.inputs[1].rpartition(".")
    if name != "weight" or not path or path == scope[-1].path:
        return scope
    around = tuple(module for module in scope[:-1] if not module.path or path.startswith(f"{module.path}."))
    return (*around, Module(path, _class(node), (scope[-1].path, scope[-1].kind)))


def _class(node: Node) -> str:
    """The class of module that a fused node stands for, as far as it says."""
    sizes = {name: len(value) for name, value in node.attributes.values.items() if isinstance(value, tuple)}
    dims = sizes.get("kernel_shape") or sizes.get("strides") or sizes.get("pads", 0) // 2
    return "Linear" if node.op == "Gemm" else f"{_FUSED[node.op]}{dims}d" if dims else ""


@lru_cache(maxsize=4096)
def _from_notes(paths: str, classes: str) -> tuple[Module, ...]:
    """Modules from the beginnings of two lists in quotes, whose last item is cut off with the quote before it."""
    names = _QUOTED.findall(f"{paths}'")
    kinds = [c.rpartition(".")[2] for c in _QUOTED.findall(f"{classes}'")]
    kinds += [""] * (len(names) - len(kinds))
    return tuple(Module(n, k) for n, k in zip(names, kinds, strict=False))


@lru_cache(maxsize=4096)
def _from_name(prefix: str) -> tuple[Module, ...]:
    """Modules from the path in a node's name. A part of a container repeats the container: ``layer1/layer1.0``."""
    modules: list[Module] = []
    above = path = last = ""
    for part in prefix.split("/"):
        if not part:
            continue
        if not last or not part.startswith(last + "."):
            above = f"{path}." if path else ""
        path, last = above + part, part
        modules.append(Module(path, ""))
    return tuple(modules)


#: The modules around a node by its name, outermost first.
Paths = Callable[[str], "tuple[Module, ...]"]

#: The tensor of a name, None for an input or output that is left out.
_Lookup = Callable[[str], "Tensor | None"]


class _Form(NamedTuple):
    """The operator, attributes and version that nodes of an operation share in the graph."""

    op: str
    attrs: dict[str, object]
    version: int
    #: Whether it is a standard operator with bodies.
    control_flow: bool
    #: What an operator of another format has of its own.
    own: Own | None


class Builder:
    """Nodes and stored tensors of a model, graph by graph."""

    def __init__(
        self,
        model: Model,
        source: str,
        reopen: Reopen,
        notes: Notes,
        scopes: bool,
        paths: Paths = scope_of_path,
        nested: bool = False,
    ) -> None:
        """
        Args:
            model: the model.
            source: its name, for messages.
            reopen: opens its source.
            notes: what an exporter wrote about tensors.
            scopes: whether an exporter wrote down which modules the nodes belong to.
            paths: the modules that the name of a node says, where none did.
            nested: whether names of nodes in bodies begin with those of the operators around them.
        """
        self.model = model
        self.storage = SourceStorage(reopen)
        self.notes = notes
        self.scopes_noted, self.paths, self.nested = scopes, paths, nested
        self.nodes: list[GraphNode] = []
        #: The stored tensors of all graphs.
        self.weights = Weights(source)
        self.marks: dict[str, str] = {}
        #: The tensor of a name in the main graph.
        self.tensor: _Lookup = lambda name: None
        #: What nodes of an operation have in common.
        self.forms: dict[Operation, _Form] = {}

    def main(self, shapes: Scope, states: Collection[str] = (), last: bool = False) -> None:
        """Take in the main graph, which loses its nodes the ``last`` time; ``states`` are inputs that are states."""
        graph = self.model.graph
        stored = self.stored(graph.nodes, shapes, graph.initializers, "")
        stored.kinds.update({value.name: "state" for value in graph.states})
        for value in graph.inputs:
            stored.kinds.setdefault(value.name, "state" if value.name in states else "input")
        self.tensor = _lookup(shapes, stored, "", "")
        self.graph(_taken(graph.nodes) if last else graph.nodes, shapes, self.tensor, (), ())

    def stored(
        self,
        own: Sequence[Node],
        shapes: Scope,
        initializers: Mapping[str, Stored],
        prefix: str,
    ) -> StoredTensors:
        """The stored tensors of one graph; their names get the prefix."""
        nodes = list(_with_bodies(own, shapes)) if shapes.inner else own
        stored = stored_tensors(own, nodes, shapes, initializers, self.storage, self.notes)
        for mark, key in stored.marks.items():
            first = self.marks.setdefault(mark, prefix + key)
            if first != prefix + key:
                stored.first[key] = first
                stored.weights.pop(key, None)
        self.weights.add(stored, prefix, self.storage)
        return stored

    def graph(
        self,
        nodes: Iterable[Node],
        shapes: Scope,
        tensor: _Lookup,
        within: tuple[Body, ...],
        around: tuple[Module, ...],
        above: str = "",
    ) -> None:
        """Take in the nodes of a graph, each followed by its bodies; their names begin with ``above``."""
        taken_in, forms = self.nodes, self.forms
        inner_graphs, faults, noted, paths = shapes.inner, shapes.faults, self.scopes_noted, self.paths
        for node in nodes:
            operation, name, inputs, outputs, _ = node
            name = above + name if name else name
            op, attrs, version, control_flow, own = forms.get(operation) or self.form(operation)
            scope: Any = ()
            origin, fault = op, ""
            if noted:
                scope, origin = scope_of(node)
            elif "/" in name:
                scope = paths(name) if within else paths
            inside: Sequence[Inner] | None = ()
            if inner_graphs or control_flow or faults:
                first = node.first_output
                inside, fault = inner_graphs.get(first), faults.get(first, "")
                if inside is None and control_flow:
                    attrs = {**attrs, "bodies": None}
            taken_in.append(
                GraphNode(
                    op,
                    name,
                    tuple(map(tensor, inputs)),
                    tuple(map(tensor, outputs)),
                    attrs,
                    scope or around,
                    origin or op,
                    version,
                    within,
                    fault=fault,
                )
            )
            position = len(taken_in) - 1
            if own is not None:
                taken_in[position:] = own.shown(taken_in[position], node, shapes)
            for inner in inside or ():
                body = Body(position, inner.part, inner.trips, inner.branch, inner.bound)
                self.body(inner, f"{name}/", tensor, (*within, body), scope or around)

    def form(self, operation: Operation) -> _Form:
        """The form that the nodes of an operation share."""
        op, domain = operation.op, operation.domain
        called = one_line(f"{domain}::{op}" if domain else op)
        version = operation.version or self.model.opsets.get(domain, 0)
        control_flow = not domain and op in CONTROL_FLOW
        attrs = _attributes(operation.attributes, domain == CLASSICAL)
        form = self.forms[operation] = _Form(called, attrs, version, control_flow, operation.own)
        return form

    def body(
        self,
        inner: Inner,
        prefix: str,
        outside: _Lookup,
        within: tuple[Body, ...],
        around: tuple[Module, ...],
    ) -> None:
        """Take in the body of a control-flow operator."""
        graph: Any = inner.graph
        above = "" if self.nested else "".join(f"{self.nodes[b.owner].name}/{b.part}/" for b in within[:-1])
        stored_prefix = f"{above}{prefix}{inner.part.partition('[')[0]}/"
        stored = self.stored(graph.nodes, inner.scope, graph.initializers, stored_prefix)
        own = {*graph.initializers, *(o for n in graph.nodes for o in n.outputs), *inner.takes}
        inner_tensor = _lookup(inner.scope, stored, f"{above}{prefix}{inner.part}/", stored_prefix)

        def tensor(name: str) -> Tensor | None:
            return inner_tensor(name) if name in own else outside(name)

        self.graph(graph.nodes, inner.scope, tensor, within, around, f"{prefix}{inner.part}/" if self.nested else "")


def _taken(nodes: list[Node]) -> Iterator[Node]:
    """The nodes, each of which the list loses."""
    nodes.reverse()
    return map(nodes.pop, repeat(-1, len(nodes)))


def _with_bodies(nodes: Iterable[Node], shapes: Scope) -> Iterator[Node]:
    for node in nodes:
        yield node
        for inner in shapes.inner.get(node.first_output, ()):
            graph: Any = inner.graph
            yield from _with_bodies(graph.nodes, inner.scope)


def _lookup(shapes: Scope, stored: StoredTensors, prefix: str, stored_prefix: str) -> _Lookup:
    """The tensors of one graph by the names that they have in it."""
    return _Tensors(shapes, stored, prefix, stored_prefix).__getitem__


class _Tensors(dict[str, "Tensor | None"]):
    """The tensors of one graph by the names that they have in it, made when somebody asks for them."""

    def __init__(self, shapes: Scope, stored: StoredTensors, prefix: str, stored_prefix: str) -> None:
        super().__init__({"": None})
        self._facts, self._kinds, self._first = shapes.tensors, stored.kinds, stored.first
        self._prefixes = (prefix, stored_prefix) if prefix or stored_prefix else None
        if self._prefixes is None and not self._first:  # as nearly all tensors are, which a loop makes soonest
            self.update(
                {
                    key: Tensor(key, fact.extents, fact.dtype, "activation", fact.bound)
                    for key, fact in self._facts.items()
                    if key and fact.kind == "tensor" and key not in self._kinds
                }
            )

    def __missing__(self, key: str) -> Tensor | None:
        fact, kind, name = self._facts[key], self._kinds.get(key, "activation"), key
        if key in self._first:
            name = self._first[key]
        elif self._prefixes is not None:
            name = self._prefixes[kind != "activation"] + key
        items = None if fact.kind == "tensor" else _items(fact, name)
        self[key] = tensor = Tensor(name, fact.extents, fact.dtype, kind, fact.bound, items)
        return tensor


def _items(fact: Fact, name: str) -> Members | None:
    """The members of a sequence; None for one of unknown length."""
    if fact.members is not None and fact.extents is None:
        return Members(Tensor(f"{name}[{i}]", one.extents, one.dtype) for i, one in enumerate(fact.members))
    if fact.parts is not None:  # one of as many elements as all members together have
        return Members([Tensor(f"{name}[0]", fact.parts.shape, fact.dtype)])
    return None


def _attributes(held: Attributes, tensors: bool) -> dict[str, object]:
    """Attributes as plain Python values; a graph by its name.

    Tensors, without their elements, are kept only where they are a model's parameters: no count reads others.
    """
    return {name: _plain(value) for name, value in held.values.items() if _is_plain(value, tensors)}


def _is_plain(value: object, tensors: bool) -> bool:
    return isinstance(value, (int, float, str, Graph, Stored) if tensors else (int, float, str, Graph)) or (
        isinstance(value, tuple) and all(isinstance(one, int | float | str) for one in value)
    )


def _plain(value: object) -> object:
    if isinstance(value, Graph):
        return value.name
    if isinstance(value, Stored):
        return Tensor("", value.dims, value.dtype)
    return list(value) if isinstance(value, tuple) else value


#: Elements up to which a mask is read: one over 4,096 tokens.
_LARGEST = 1 << 24

#: A mask that is added closes a pair when it is this or less: the pair's weight is zero in every element type.
_CLOSED = -10_000.0


def with_masks(nodes: Sequence[GraphNode], weights: Mapping[str, StoredTensor]) -> Iterator[GraphNode]:
    """The nodes; attentions whose mask is stored with the model say how many pairs it leaves.

    Args:
        nodes: the operators.
        weights: the stored tensors.
    """
    masks: dict[str, object] = {}
    for node in nodes:
        if node.op != "Attention" or not _is_known(node, weights):
            yield node
            continue
        mask = node.input(3)
        if mask.name not in masks:
            masks[mask.name] = weights[mask.name].array()
        yield replace(node, attrs={**node.attrs, PAIRS: _pairs(node, masks[mask.name])})


def _is_known(node: GraphNode, weights: Mapping[str, StoredTensor]) -> bool:
    """True if the mask is stored and not too large, all shapes are numbers, and no input counts the valid keys."""
    if not all(node.has_input(place) for place in (0, 1, 3)) or node.has_input(6):
        return False
    tensors = (node.input(0), node.input(1), node.input(3), *node.outputs[:1])
    if not all(t is not None and t.shape is not None and all(type(d) is int for d in t.shape) for t in tensors):
        return False
    mask = node.input(3)
    return mask.kind in STORED and mask.name in weights and mask.numel <= _LARGEST


def _pairs(node: GraphNode, mask: Any) -> int:
    """Pairs that the mask, the causal frontier and the window of an attention leave together, over all heads.

    https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    import numpy

    query, key = node.input(0).dims, node.input(1).dims
    heads = node.attrs.get("q_num_heads", 1) if len(query) == 3 else query[-3]
    past = node.input(4).dims[-2] if node.has_input(4) else 0
    queries, keys = query[-2], key[-2] + past
    left = mask if mask.dtype == bool else mask > _CLOSED
    if left.shape[-1] < keys:  # keys beyond the mask are left out
        left = numpy.pad(left, [(0, 0)] * (left.ndim - 1) + [(0, keys - left.shape[-1])])
    distance = numpy.arange(keys) - (numpy.arange(queries)[:, None] + past)
    before, ahead = (int(node.attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    if node.attrs.get("is_causal", 0):
        left = left & (distance <= 0)
    if before >= 0:
        left = left & (distance >= -before)
    if ahead >= 0:
        left = left & (distance <= ahead)
    left = numpy.broadcast_to(left, numpy.broadcast_shapes(left.shape, (queries, keys)))
    return int(numpy.count_nonzero(left)) * (query[0] * heads * queries * keys // left.size)
