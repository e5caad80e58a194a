"""A profile as a tree of modules with their layers, and the figures and shares of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flopwise.report.formats import table
from flopwise.report.sheet.columns import COLUMNS, Item, order
from flopwise.report.sheet.listing import (
    LONG,
    Choice,
    chosen_of,
    columns_of,
    framed,
    heavy,
    labelled,
    line_of,
    relative_path,
    sorting,
    sum_of,
)
from flopwise.report.sheet.sheet import Look, exact
from flopwise.rows import Row, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


@dataclass(slots=True)
class _Branch:
    """A module: a sum, or the row of its only layer; and what it contains."""

    item: Item
    name: str
    children: list[_Branch] = field(default_factory=list)


def render_profile(profile: Profile, choice: Choice, look: Look) -> str:
    """The tree. Sorting orders the branches of each module; ``top`` limits those of each.

    Without module information it is a list of layers under the model's name.

    Raises:
        InputError: a column is unknown.
    """
    columns = columns_of(profile, choice, "tree")
    if COLUMNS["name"] not in columns:
        columns = (COLUMNS["name"], *columns)
    part = choice.part_of(profile)
    root = _grow(part, choice)
    heaviest = heavy(part.rows)

    lines = [line_of(root.item, columns, profile, heaviest, "", root.name)]
    for indent, branch in _walk(root, profile, choice, look):
        if isinstance(branch, _Branch):
            lines.append(line_of(branch.item, columns, profile, heaviest, indent, branch.name))
        else:
            label = f"{look.glyphs.cut} {exact(len(branch))} more"
            lines.append(labelled(label, sum_of(branch), columns, profile, "rest")._replace(indent=indent))
    if choice.only:
        lines.append(labelled(chosen_of(part, profile), part.sum, columns, profile, "rest"))
    hint = "" if len(lines) <= LONG or choice.top else "to shorten this: --depth 2, --top 5"
    sheet = framed(profile, columns, lines, "tree", hint, bool(choice.columns), look)
    return table.render_sheet(sheet.for_people(), look)


def _grow(profile: Profile, choice: Choice) -> _Branch:
    """The modules, each with its modules and layers in the order in which they run."""
    depth = choice.depth
    around: list[_Branch] = []
    starts = {id(row): position for position, row in reversed(list(enumerate(profile.rows)))}
    for item, _ in choice._replace(by="module").groups_of(profile):
        del around[item.depth :]
        name = relative_path(item.name, around[-1].item.name) if around else item.name or profile.graph.name or "model"
        branch = _Branch(item, name)
        if around:
            around[-1].children.append(branch)
        around.append(branch)
        if depth is None or item.depth < depth:
            own = [row for row in item.rows if sum(bool(m.path) for m in row.node.scope) == item.depth]
            branch.children += [_Branch(row, _short(row)) for row in own]
    return _settle(around[0], starts)


def _settle(root: _Branch, starts: dict[int, int]) -> _Branch:
    """The same tree, its children in order, and a module of a single layer shown as one line."""

    def start(branch: _Branch) -> int:
        """The place of its first layer; modules in which nothing ran come last."""
        first = branch.item if isinstance(branch.item, Row) else next(iter(branch.item.rows), None)
        return len(starts) if first is None else starts[id(first)]

    pending = [root]
    while pending:
        branch = pending.pop()
        branch.children.sort(key=start)
        pending += branch.children
        alone = len(branch.children) == 1 and isinstance(branch.children[0].item, Row)
        if isinstance(branch.item, Sum) and branch.item.depth and alone:
            kind = branch.item.kind
            branch.item = branch.children[0].item
            branch.name += f" ({kind})" if kind else ""
            branch.children = []
    return root


def _short(row: Row) -> str:
    """A layer's name as seen from its module: the last part of a path, or all of another name."""
    if not row.node.module:
        return row.name
    if row.name.startswith(row.node.module + "."):
        return relative_path(row.name, row.node.module)
    return row.name.rpartition("/")[2] or row.name


def _walk(root: _Branch, profile: Profile, choice: Choice, look: Look) -> Iterator[tuple[str, _Branch | list[Item]]]:
    """Indent and branch, depth first; a list where branches of a module are not shown."""
    by, glyphs = sorting(choice), look.glyphs
    key = order(by, profile) if by else None
    pending: list[tuple[str, bool, _Branch | list[Item]]] = [("", True, root)]
    while pending:
        before, last, branch = pending.pop()
        at_root = branch is root
        if not at_root:
            yield before + (glyphs.corner if last else glyphs.tee), branch
        if not isinstance(branch, _Branch):
            continue
        children = sorted(branch.children, key=lambda b: key(b.item)) if key else branch.children
        shown: list[_Branch | list[Item]] = [*children[: choice.top]]
        if len(shown) < len(children):
            shown.append([b.item for b in children[len(shown) :]])
        inner = "" if at_root else before + (" " * len(glyphs.pipe) if last else glyphs.pipe)
        pending += [(inner, child is shown[-1], child) for child in reversed(shown)]
