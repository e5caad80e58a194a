"""Rows grouped by operator, by module or by the element types that they compute with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flopwise.graph import Graph
from flopwise.precision import precisions
from flopwise.rows import Row, Sum, add_up


def by_op(rows: Sequence[Row]) -> list[Sum]:
    """One sum per operator (as the convention names it), the dearest first."""
    return _dearest_first(rows, [row.type for row in rows])


def by_dtype(rows: Sequence[Row], graph: Graph) -> list[Sum]:
    """One sum per precision (see ``precisions``), the dearest first.

    Args:
        rows: the layers.
        graph: the graph that they are of.
    """
    return _dearest_first(rows, precisions(graph, rows))


def _dearest_first(rows: Sequence[Row], names: Sequence[str]) -> list[Sum]:
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


def by_module(rows: Sequence[Row], depth: int | None = None) -> list[Sum]:
    """One sum per module, outermost first and in execution order; a module's sum includes all below it.

    The first sum is the whole model, with the empty path.

    Args:
        rows: the layers.
        depth: how many levels of the module path to show; None for all.
    """
    root = _Branch("")
    for row in rows:
        branch = root
        branch.rows.append(row)
        for module in row.node.scope:
            if not module.path:  # the model itself
                root.kind = root.kind or module.kind
                continue
            branch = branch.children.setdefault(module.path, _Branch(module.path, module.kind))
            branch.rows.append(row)
    return list(root.walk(0, depth))
