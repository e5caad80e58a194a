"""In which modules of a TorchScript program an operation runs: PyTorch tells nobody when its interpreter enters one.

The interpreter says in which line of which method it is, and the graphs of the methods say whom that line calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from flopwise.graph import Module

#: Where a node stands: in the code of a file, in what was scripted, or in what was traced.
_PLACE = re.compile(r'File "(.+?)", line (\d+)')
_TRACED = re.compile(r"(.+?)\((\d+)\): ")

#: A file and a line in it.
_Line = tuple[str, int]

#: The line of a call that was traced and did not go through a file.
_NOWHERE: _Line = ("??", 0)


class _Site(NamedTuple):
    """A call of a method, at a place of the method that calls it."""

    line: _Line
    #: Names of attributes that lead from the calling module to the called one; () for its own methods.
    names: tuple[str, ...]
    method: str
    #: Whether it stands in no branch and no loop.
    always: bool


class _Method(NamedTuple):
    """What is called in a method, in the order of the program, and the lines of all that it does."""

    sites: tuple[_Site, ...] = ()
    lines: frozenset[_Line] = frozenset()


class _Chain(NamedTuple):
    """A way from a script to a method inside: the places of the calls, and whom they lead to."""

    places: tuple[int, ...] = ()
    #: The modules that are called, and the lists that hold them.
    around: tuple[Module, ...] = ()
    called: tuple[Module, ...] = ()


class Scripts:
    """The scripts of a model."""

    def __init__(self, steps: Mapping[int, Module]) -> None:
        """
        Args:
            steps: path and class of each module of the model, by id.
        """
        self._steps = steps
        self._methods: dict[tuple[int, str], _Method] = {}
        self._known: dict[tuple[int, tuple[_Line, ...]], list[_Chain]] = {}
        self._last: tuple[int, ...] = ()

    def start(self) -> None:
        """A script is called: what runs comes in the order of its program from now on."""
        self._last = ()

    @staticmethod
    def running() -> tuple[_Line, ...]:
        """The lines that the interpreter of this thread is in, outermost first."""
        profiler: Any = torch._C._profiler
        frames = profiler.symbolize_tracebacks([profiler.gather_traceback(False, True, False)])[0]
        return tuple([(frame["filename"], frame["line"]) for frame in reversed(frames)])

    def inside(self, script: Any, stored: Collection[str]) -> tuple[tuple[Module, ...], tuple[Module, ...]]:
        """The modules inside a script around what it runs at the moment, outermost first, and which of them are called
        and do not only hold others.

        Where a line calls several that are alike, it is the one that has the weights, else the next in order.

        Args:
            script: the script, as its ``forward`` was called.
            stored: the names of the weights and buffers that the operation takes.
        """
        lines = self.running()
        if not lines or lines[0] not in self._method(script, "forward").lines:
            return (), ()
        chains = self._known.get((id(script), lines))
        if chains is None:
            chains = self._known[id(script), lines] = list(self._chains(script, "forward", lines))
        if len(chains) > 1:
            owners = {name.rpartition(".")[0] for name in stored}
            chains = [c for c in chains if c.called and c.called[-1].path in owners] or chains
            chains = [c for c in chains if c.places >= self._last[: len(c.places)]] or chains
        chosen = chains[0] if chains else _Chain()
        if self._last[: len(chosen.places)] != chosen.places:
            self._last = chosen.places
        return chosen.around, chosen.called

    def always(self, module: Any, method: str = "forward") -> Iterator[Module]:
        """The modules that a method calls whatever its data are, and those that these call."""
        for site in self._method(module, method).sites:
            way = self._way(module, site) if site.always else None
            if way is not None:
                yield from [self._steps[id(way[-1])]] if way else []
                yield from self.always(way[-1] if way else module, site.method)

    def _chains(self, module: Any, method: str, lines: Sequence[_Line]) -> Iterator[_Chain]:
        """The ways that may lead through some lines, of which the outermost is in the method, in order."""
        found = False
        for place, site in enumerate(self._method(module, method).sites if len(lines) > 1 else ()):
            if site.line != lines[0] or (way := self._way(module, site)) is None:
                continue
            inner = way[-1] if way else module
            if lines[1] in self._method(inner, site.method).lines:
                steps = tuple([self._steps[id(one)] for one in way])
                for rest in self._chains(inner, site.method, lines[1:]):
                    found = True
                    yield _Chain((place, *rest.places), (*steps, *rest.around), (*steps[-1:], *rest.called))
        if not found and (len(lines) == 1 or lines[0] != _NOWHERE):  # it runs here, or in a function
            yield _Chain()

    def _way(self, module: Any, site: _Site) -> tuple[Any, ...] | None:
        """The modules from a calling one to the one that it calls; None where that is not known as one of the model."""
        way = []
        for name in site.names:
            module = getattr(module, name, None)
            if id(module) not in self._steps:
                return None
            way.append(module)
        return tuple(way)

    def _method(self, module: Any, name: str) -> _Method:
        key = id(module), name
        if key not in self._methods:
            code: Any = getattr(module, "_c", None)
            known = code is not None and code._has_method(name)
            self._methods[key] = _read(code._get_method(name).graph) if known else _Method()
        return self._methods[key]


def _read(graph: Any) -> _Method:
    sites: list[_Site] = []
    lines: set[_Line] = set()
    own = next(iter(graph.inputs())).debugName()

    def names(value: Any) -> tuple[str, ...] | None:
        node = value.node()
        if node.kind() == "prim::GetAttr":
            around = names(next(iter(node.inputs())))
            return None if around is None else (*around, node.s("name"))
        return () if value.debugName() == own else None

    def read(block: Any, always: bool) -> None:
        for node in block.nodes():
            line = _line(node.sourceRange())
            lines.add(line)
            if node.kind() == "prim::CallMethod":
                target = names(next(iter(node.inputs())))
                if target is not None:
                    sites.append(_Site(line, target, node.s("name"), always))
            for inner in node.blocks():
                read(inner, False)

    read(graph, True)
    return _Method(tuple(sites), frozenset(lines))


def _line(text: str) -> _Line:
    """The line of a node, the one in the file that it was loaded from if it was, as the interpreter tells it."""
    found = _PLACE.findall(text.partition("Serialized")[2] or text) or _TRACED.findall(text)
    return (found[0][0], int(found[0][1])) if found else _NOWHERE
