"""The graph of a whole model from that of its twin: the layers that the twin lacks are copies of those like them.

Names are those that a run of the whole model gives: of modules and stored tensors by the number of the layer, of
results by counting on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from torch import nn

from flopwise.graph import STORED, Call, Graph, Module, Node, ProgramTensor, Submodule, Tensor
from flopwise.readers.torch.graph import dense_experts
from flopwise.readers.torch.kinds import Kwargs
from flopwise.readers.torch.language.layers import Twin
from flopwise.readers.torch.lower.node import Attributes
from flopwise.readers.torch.runs.modules import TensorsOfGraph, stored_tensors, submodules

#: The results of a run, and the constants that it makes, are counted together.
_RESULT = re.compile(r"(t|constant)(\d+)$")


class UnlikeError(Exception):
    """The layers of a program are not copies of each other."""


class _Block(NamedTuple):
    """A layer in a graph: its operators and calls, and the tensors that the next layer takes from it, by name."""

    nodes: range
    calls: range
    #: The numbers of its results.
    results: range
    handed_on: list[str]


class _Copy:
    """The names and tensors of a copy of a block."""

    def __init__(
        self,
        results: range,
        shift: int,
        handed_on: Mapping[str, str],
        paths: tuple[str, str] = ("", ""),
        stored: Mapping[str, ProgramTensor] | None = None,
    ) -> None:
        """Where a block goes.

        Args:
            results: the numbers of the block's results.
            shift: what is added to them.
            handed_on: results of the block before it -> those before the copy.
            paths: the path of the block's layer with a dot behind it, and the copy's; ("", "") for no layer.
            stored: the stored tensors by name, where there are paths.
        """
        self._results, self._shift, self._handed_on = results, shift, handed_on
        self._paths, self._stored = paths, stored or {}
        self._tensors: dict[int, Tensor] = {}
        self._scopes: dict[int, tuple[Module, ...]] = {}

    def name(self, name: str) -> str:
        """The name of an operator, or the path of a module."""
        old, new = self._paths
        inside = old and name.startswith(old[:-1]) and name[len(old) - 1 : len(old)] in (".", ":", "")
        return f"{new[:-1]}{name[len(old) - 1 :]}" if inside else name

    def tensor(self, tensor: Tensor) -> Tensor:
        """The tensor in place of one of the block's.

        Raises:
            UnlikeError: it belongs to another layer.
        """
        if (copied := self._tensors.get(id(tensor))) is None:
            copied = self._tensors[id(tensor)] = self._copied(tensor)
        return copied

    def _copied(self, tensor: Tensor) -> Tensor:
        name, (old, new) = tensor.name, self._paths
        if tensor.kind in STORED:
            if not (old and name.startswith(old)):
                return _renamed(tensor, self.result(name))
            if (stored := self._stored.get(new + name[len(old) :])) is None:
                raise UnlikeError(name)
            return stored
        if tensor.kind != "activation":
            layer = layer_of_state(name)
            own = old.split(".")[-2] if old else ""
            if layer is not None and str(layer) != own:
                raise UnlikeError(name)
            return tensor if layer is None else _renamed(tensor, numbered(name, int(new.split(".")[-2])))
        if name in self._handed_on:
            return _renamed(tensor, self._handed_on[name])
        return _renamed(tensor, self.result(name))

    def result(self, name: str) -> str:
        """The name in place of that of a result of the block; any other stays."""
        number = _RESULT.match(name)
        inside = number is not None and int(number[2]) in self._results
        return f"{number[1]}{int(number[2]) + self._shift}" if number is not None and inside else name

    def tensors(self, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        """The tensors in place of some of the block's."""
        return tuple([self.tensor(tensor) for tensor in tensors])

    def scope(self, scope: tuple[Module, ...]) -> tuple[Module, ...]:
        """The modules around an operator."""
        if (copied := self._scopes.get(id(scope))) is None:
            copied = tuple([module._replace(path=self.name(module.path)) for module in scope])
            self._scopes[id(scope)] = copied
        return copied

    def node(self, node: Node) -> Node:
        """The operator in place of one of the block's."""
        attrs = node.attrs
        if isinstance(attrs, Attributes):
            attrs = Attributes(attrs.shared, _MovedCall(attrs.call, self))
        return Node(
            node.op,
            self.name(node.name),
            tuple([None if tensor is None else self.tensor(tensor) for tensor in node.inputs]),
            tuple([None if tensor is None else self.tensor(tensor) for tensor in node.outputs]),
            attrs,
            self.scope(node.scope),
            node.origin,
            node.version,
            node.within,
            node.via,
            node.fault,
            node.layout,
            node.fused,
        )

    def call(self, call: Call, nodes: int, caller: int | None) -> Call:
        """The call in place of one of the block's, with its operators so much further on."""
        return Call(
            self.name(call.path),
            self.tensors(call.inputs),
            self.tensors(call.outputs),
            call.first + nodes,
            call.last + nodes,
            caller,
            call.positional,
        )


class _MovedCall:
    """The arguments of an operator in a copy; made when somebody asks."""

    def __init__(self, call: Any, copy: _Copy) -> None:
        self._call, self._copy = call, copy

    @property
    def named(self) -> Kwargs:
        """Every argument by name."""
        return {name: self._moved(value) for name, value in self._call.named.items()}

    def _moved(self, value: Any) -> object:
        if isinstance(value, Tensor):
            return self._copy.tensor(value)
        return type(value)(map(self._moved, value)) if type(value) in (tuple, list) else value


class Repetition:
    """A whole model from its twin."""

    def __init__(self, model: nn.Module, twin: Twin) -> None:
        self._model, self._twin = model, twin

    @property
    def module(self) -> nn.Module:
        """The twin."""
        return self._twin.module

    @cached_property
    def _stored(self) -> dict[int, tuple[Any, ProgramTensor]]:
        return stored_tensors(self._model.named_modules())

    @cached_property
    def _by_name(self) -> dict[str, ProgramTensor]:
        return {tensor.name: tensor for _, tensor in self._stored.values()}

    @cached_property
    def _modules(self) -> tuple[Submodule, ...]:
        return submodules(self._model, self._stored)

    def names(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The names of the whole state in their order, each with the name in the twin's state of what is like it.

        Raises:
            UnlikeError: the tensors of the twin's layers do not stand one layer after the other.
        """
        twin, each = self._twin, [(layer_of_state(name), name) for name in names]
        layers = [layer for layer, _ in each if layer is not None]
        if layers != sorted(layers) or (layers and layers[-1] >= twin.layers):
            raise UnlikeError("state")
        end = next((place for place, (layer, _) in reversed([*enumerate(each, 1)]) if layer is not None), 0)
        yield from ((name, name) for _, name in each[:end])
        for number in range(twin.layers, len(twin.kinds)):
            like = twin.like(number)
            yield from ((numbered(name, number), name) for layer, name in each if layer is not None and layer == like)
        yield from ((name, name) for _, name in each[end:])

    def graph(self, graph: Graph) -> Graph:
        """The graph of the whole model.

        Args:
            graph: that of the twin, without gradients.

        Raises:
            UnlikeError: layers that should be alike do other things, or the program does something beside its layers
                that may depend on how many there are.
        """
        if graph.warnings != tuple(dense_experts(graph.nodes)) or any(node.within for node in graph.nodes):
            raise UnlikeError(graph.name)
        blocks = _blocks(graph, self._twin)
        start, end = blocks[0], blocks[-1]
        nodes, calls = [*graph.nodes[: end.nodes.stop]], [*graph.program.calls[: end.calls.stop]]
        handed_on, results = [block.handed_on for block in blocks], end.results.stop
        for number in range(2, len(self._twin.kinds)):
            if (like := self._twin.like(number)) is None:
                continue
            block, existing = blocks[like], blocks[number] if number < len(blocks) else None
            first = results if existing is None else existing.results.start
            copy = self._copy(block, like, number, first, handed_on)
            at = (len(nodes), len(calls)) if existing is None else (existing.nodes.start, existing.calls.start)
            own_nodes = [copy.node(node) for node in _part(graph.nodes, block.nodes)]
            own_calls = list(_calls(graph.program.calls, block, copy, *at))
            if existing is None:
                nodes += own_nodes
                calls += own_calls
                handed_on.append([copy.result(name) for name in block.handed_on])
                results += len(block.results)
            elif own_nodes != _part(nodes, existing.nodes) or own_calls != _part(calls, existing.calls):
                raise UnlikeError(f"layers {like} and {number}")
        taken = dict(zip(end.handed_on, handed_on[-1], strict=True))
        behind = _Copy(range(end.results.stop, sys.maxsize), results - end.results.stop, taken)
        more, more_calls = len(nodes) - end.nodes.stop, len(calls) - end.calls.stop
        around = [
            behind.call(call, 0, call.caller)._replace(last=call.last + more * (call.last >= end.nodes.stop))
            for call in calls[: start.calls.start]
        ]
        after = [
            behind.call(call, more, _moved(call.caller, end.calls.stop, more_calls))
            for call in graph.program.calls[end.calls.stop :]
        ]
        nodes += [behind.node(node) for node in graph.nodes[end.nodes.stop :]]
        inputs = {tensor.name: tensor for tensor in graph.inputs}
        return replace(
            graph,
            inputs=tuple([_renamed(inputs[like], name) for name, like in self.names(inputs)]),
            outputs=behind.tensors(graph.outputs),
            nodes=tuple(nodes),
            weights=TensorsOfGraph(self._stored.values()),
            warnings=tuple(dense_experts(nodes)),
            program=graph.program._replace(modules=self._modules, calls=(*around, *calls[start.calls.start :], *after)),
        )

    def _copy(self, block: _Block, like: int, number: int, first: int, handed_on: Sequence[list[str]]) -> _Copy:
        """The copy of a layer with another number, whose results are numbered from ``first`` on."""
        before = dict(zip(handed_on[like - 1], handed_on[number - 1], strict=True))
        paths = f"{self._twin.path}.{like}.", f"{self._twin.path}.{number}."
        return _Copy(block.results, first - block.results.start, before, paths, self._by_name)


def _blocks(graph: Graph, twin: Twin) -> list[_Block]:
    """The layers in the graph of a twin.

    Raises:
        UnlikeError: something runs between them, or takes more from a layer than the next layer does.
    """
    prefix = f"{twin.path}."
    scopes: dict[int, int | None] = {}

    def layer(path: str) -> int | None:
        number = path[len(prefix) :].partition(".")[0] if path.startswith(prefix) else ""
        return int(number) if number.isdigit() else None

    def layer_of(node: Node) -> int | None:
        scope = node.scope
        if id(scope) not in scopes:
            scopes[id(scope)] = next((n for module in scope if (n := layer(module.path)) is not None), None)
        return scopes[id(scope)]

    nodes = _stretches([layer_of(node) for node in graph.nodes], twin.layers)
    calls = _stretches([layer(call.path) for call in graph.program.calls], twin.layers)
    handed_on: list[dict[str, None]] = [{} for _ in nodes]
    makers: dict[str, int] = {}
    inside = [number for number, stretch in enumerate(nodes) for _ in stretch]
    behind = len(graph.nodes) - nodes[-1].stop
    owners = [*[-1] * nodes[0].start, *inside, *[len(nodes)] * behind]
    for node, own in zip(graph.nodes, owners, strict=True):
        for tensor in node.known_inputs:
            maker = makers.get(tensor.name, -1)
            if maker not in (own, own - 1, -1):
                raise UnlikeError(f"{node.name} takes a result of layer {maker}")
            if own - 1 == maker != -1:
                handed_on[maker][tensor.name] = None
        makers.update((tensor.name, own) for tensor in node.known_outputs)
    starts, last = [], 0
    for stretch in (range(nodes[0].start), *nodes, range(nodes[-1].stop, len(graph.nodes))):
        new = [number for number in _numbers(_part(graph.nodes, stretch)) if number > last]
        starts.append(min(new, default=last + 1))
        last = max(new, default=last)
    results = [range(first, after) for first, after in pairwise(starts[1:])]
    names = [list(tensors) for tensors in handed_on]
    return [_Block(*parts) for parts in zip(nodes, calls, results, names, strict=True)]


def _stretches(layers: Sequence[int | None], count: int) -> list[range]:
    """The places of each layer, of which there are so many, one after the other.

    Raises:
        UnlikeError: they are not.
    """
    places = [place for place, layer in enumerate(layers) if layer is not None]
    inside = layers[places[0] : places[-1] + 1] if places else []
    starts = [place for place in range(len(inside)) if place == 0 or inside[place] != inside[place - 1]]
    if [inside[place] for place in starts] != [*range(count)]:
        raise UnlikeError("layers")
    ends = [*starts[1:], len(inside)]
    return [range(places[0] + first, places[0] + last) for first, last in zip(starts, ends, strict=True)]


def _numbers(nodes: Iterable[Node]) -> Iterator[int]:
    """The numbers of the results and constants of some operators."""
    for node in nodes:
        matches = (_RESULT.match(tensor.name) for tensor in (*node.known_inputs, *node.known_outputs))
        yield from (int(match[2]) for match in matches if match is not None)


def _part(things: Sequence[object], places: range) -> list[Any]:
    return [things[place] for place in places]


def _calls(calls: Sequence[Call], block: _Block, copy: _Copy, nodes: int, index: int) -> Iterator[Call]:
    """The calls of a copy whose operators and calls begin at these places."""
    for place in block.calls:
        call = calls[place]
        caller = _moved(call.caller, block.calls.start, index - block.calls.start)
        yield copy.call(call, nodes - block.nodes.start, caller)


def _moved(caller: int | None, start: int, shift: int) -> int | None:
    """The place of a call that moved, if it began at ``start`` or later."""
    return caller + shift if caller is not None and caller >= start else caller


def _renamed(tensor: Tensor, name: str) -> Tensor:
    return tensor if name == tensor.name else replace(tensor, name=name)


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def numbered(name: str, layer: int) -> str:
    """The name of what another layer has in place of this tensor of the state.

    >>> numbered("cache.3.states.0", 12)
    'cache.12.states.0'
    """
    return _NUMBER.sub(str(layer), name, count=1)


def layer_of_state(name: str) -> int | None:
    """The layer that a tensor of the state belongs to; None for one that belongs to none."""
    number = _NUMBER.search(name)
    return None if number is None else int(number[0])
