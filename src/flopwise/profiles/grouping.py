"""Rows grouped by operator, by module or by the element types that they compute with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flopwise.graph import Graph, Submodule
from flopwise.profiles.precision import precisions
from flopwise.rows import Row, Sum, add_up


def by_op(rows: Sequence[Row]) -> list[Sum]:
    """One sum per operator (as the convention names it), the most expensive first."""
    return _most_expensive_first(rows, [row.type for row in rows])


def by_dtype(rows: Sequence[Row], graph: Graph) -> list[Sum]:
    """One sum per precision (see ``precisions``), the most expensive first."""
    return _most_expensive_first(rows, precisions(graph, rows))


def _most_expensive_first(rows: Sequence[Row], names: Sequence[str]) -> list[Sum]:
    groups: dict[str, list[Row]] = {}
    for row, name in zip(rows, names, strict=True):
        groups.setdefault(name, []).append(row)
    return sorted((add_up(name, group) for name, group in groups.items()), key=lambda s: (-s.count, -s.macs))


@dataclass
class _Branch:
    path: str
    kind: str = ""
    rows: list[Row] = field(default_factory=list)
    children: dict[str, _Branch] = field(default_factory=dict)

    def walk(self, depth: int, deepest: int | None) -> Iterator[Sum]:
        yield add_up(self.path, self.rows, self.kind, depth)
        if deepest is None or depth < deepest:
            for child in self.children.values():
                yield from child.walk(depth + 1, deepest)


def by_module(rows: Sequence[Row], depth: int | None = None, modules: Sequence[Submodule] = ()) -> list[Sum]:
    """One sum per module, outermost first and in execution order; a module's sum includes all below it.

    The first sum is the whole model, with the empty path. Modules in which nothing ran follow the others beside them.

    Args:
        rows: the layers.
        depth: how many levels of the module path to show; None for all.
        modules: all modules of the model, where it is a program.
    """
    root = _Branch("")
    places: dict[str, _Branch] = {"": root}
    kinds = {module.path: module.kind.rpartition(".")[2] for module in modules}
    for row in rows:
        branch = root
        branch.rows.append(row)
        for module in row.node.scope:
            if not module.path:  # the model itself
                root.kind = root.kind or module.kind
                continue
            for path, kind in (*_modules_between(branch.path, module.path, kinds), module[:2]):
                branch = branch.children.setdefault(path, _Branch(path, kind))
                places.setdefault(path, branch)
                branch.rows.append(row)
    for path, kind in kinds.items():
        if path not in places and (around := places.get(path.rpartition(".")[0])) is not None:
            places[path] = around.children[path] = _Branch(path, kind)
    return list(root.walk(0, depth))


def _modules_between(outer: str, inner: str, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The modules between the inner and the outer one that are not called themselves: lists of modules."""
    start = len(outer) + 1 if outer else 0
    if outer and not inner.startswith(f"{outer}."):
        return
    for place, letter in enumerate(inner):
        if letter == "." and place >= start and inner[:place] in kinds:
            yield inner[:place], kinds[inner[:place]]
