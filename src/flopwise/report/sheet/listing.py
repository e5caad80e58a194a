"""Profile -> sheet: group the rows, sort them, keep the heaviest, and fill the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from flopwise.errors import InputError, counted
from flopwise.report.formats.format import Audience
from flopwise.report.sheet.columns import COLUMNS, Column, Item, cell, defaults, order, select
from flopwise.report.sheet.sheet import NAMED, Line, Look, Mark, Sheet, about, head, summary, without_empty
from flopwise.rows import Row, Sum, add_up

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: How rows can be grouped.
GROUPINGS = ("layer", "op", "module", "dtype")

#: Set apart as the heaviest are this many lines, if they are at most one in four and have this share of the first.
HEAVIEST, SHARE = 5, 0.1

#: A table of more lines than this says how to shorten it.
LONG = 60


class Choice(NamedTuple):
    """What a report should show."""

    by: str = "layer"
    depth: int | None = None
    columns: str | Sequence[str] | None = None
    sort: str | None = None
    top: int | None = None


def sorting(choice: Choice) -> Column | None:
    """The column to sort by: the count where only the top is asked for, None for the order of execution.

    Raises:
        InputError: there is no such column, or there are no lines to show.
    """
    if choice.top is not None and choice.top < 1:
        raise InputError(f"--top {choice.top}: give 1 or more")
    return select([choice.sort])[0] if choice.sort else COLUMNS["count"] if choice.top else None


def columns_of(profile: Profile, choice: Choice, audience: Audience | Literal["tree"]) -> tuple[Column, ...]:
    """The chosen columns, or those that suit the audience.

    Raises:
        InputError: a column or the grouping is unknown.
    """
    if choice.by not in GROUPINGS:
        raise InputError(f"cannot group by {choice.by!r}; choose {', '.join(GROUPINGS)}")
    return select(choice.columns) if choice.columns else defaults(audience, choice.by, profile)


def listing(profile: Profile, choice: Choice, look: Look, audience: Audience) -> Sheet:
    """The sheet of a profile.

    Raises:
        InputError: a column or the grouping is unknown.
    """
    columns = columns_of(profile, choice, audience)
    items: list[Item] = list(profile.rows) if choice.by == "layer" else list(profile.by(choice.by, choice.depth))
    by = sorting(choice)
    nested = choice.by == "module" and by is None
    bodies = choice.by == "layer" and by is None
    heaviest = heavy(items)
    if by is not None:
        items.sort(key=order(by, profile))
    shown = items[: choice.top]
    lines = [
        Line(
            values=tuple(cell(column, item, profile) for column in columns),
            mark=mark(item, heaviest),
            # a module in modules, a layer in control flow
            indent="  " * (item.depth if isinstance(item, Sum) else len(item.within)) if nested or bodies else "",
        )
        for item in shown
    ]
    if nested:
        lines = _relative(lines, shown)
    if len(shown) < len(items):
        lines.append(_hidden(items[len(shown) :], columns, profile, choice.by, look))
    hint = _hint(choice, len(lines), any(row.missing == "rule" for row in profile.rows))
    sheet = framed(profile, columns, lines, choice.by, hint, bool(choice.columns), look)
    return sheet if choice.columns or audience == "program" else without_empty(sheet)


def framed(
    profile: Profile, columns: Sequence[Column], lines: Sequence[Line], by: str, hint: str, squeeze: bool, look: Look
) -> Sheet:
    """The lines of a profile between what they are about and their total, the model's figures and its notes."""
    return Sheet(
        heads=tuple(head(column, profile, by, look) for column in columns),
        lines=tuple(lines),
        total=labelled("Total", profile.sum, columns, profile),
        about=about(profile, look),
        summary=summary(profile, look),
        notes=_notes(profile, "module" if by == "tree" else by, look),
        hint=hint,
        squeeze=squeeze,
    )


def _notes(profile: Profile, by: str, look: Look) -> tuple[str, ...]:
    """The profile's notes, after what the grouping has to say."""
    flat = by == "module" and profile.rows and not any(row.node.scope for row in profile.rows)
    own = ["the model has no module names; all layers are at the top level"] if flat else []
    own += [] if profile.rows else ["the model has no layers"]
    own += _uncalled(profile) if by == "module" else []
    return tuple(look.text(note) for note in (*own, *profile.notes))


def _uncalled(profile: Profile) -> list[str]:
    """The modules that were not called, the outermost of each branch, in one line."""
    called = {call.path for call in profile.graph.calls}
    around = {path[: at + 1] for path in called for at, character in enumerate(path) if character == "."}
    idle = [m.path for m in profile.graph.modules if m.path not in called and f"{m.path}." not in around]
    outermost = [path for path in idle if path.rpartition(".")[0] not in idle]
    if not outermost or not called:
        return []
    more = f" and {len(outermost) - 5} more" if len(outermost) > 5 else ""
    return [f"not called: {', '.join(outermost[:5])}{more}"]


def labelled(label: str, total: Sum, columns: Sequence[Column], profile: Profile, mark: Mark = "") -> Line:
    """The line of a sum: the label in the first column of text, figures in those of numbers."""
    values = [cell(c, total, profile) if c.kind not in ("text", "shapes") else "" for c in columns]
    at = next((i for i, c in enumerate(columns) if c.kind == "text"), None)
    if at is not None:
        values[at] = label
    return Line(tuple(values), mark)


def _hidden(items: Sequence[Item], columns: Sequence[Column], profile: Profile, by: str, look: Look) -> Line:
    """The line that stands for what is not shown. Modules overlap, so theirs has no figures."""
    label = f"{look.glyphs.cut} {counted(len(items), f'more {NAMED[by][0]}')}"
    line = labelled(label, together(items), columns, profile, "rest")
    if by != "module":
        return line
    return Line(tuple(v if isinstance(v, str) else "" for v in line.values), "rest")


def together(items: Sequence[Item]) -> Sum:
    """The sum of rows and of sums."""
    return add_up("", [row for item in items for row in ([item] if isinstance(item, Row) else item.rows)])


def heavy(items: Sequence[Item]) -> frozenset[int]:
    """Identities of the few items that count most; none where many count alike, and no module that contains others."""
    leaves = [
        item
        for item, after in zip(items, [*items, None][1:], strict=True)
        if isinstance(item, Row) or not isinstance(after, Sum) or after.depth <= item.depth
    ]
    counts = {id(item): item.count for item in leaves if isinstance(item.count, int) and item.count}
    most, few = sorted(counts.values(), reverse=True), (len(leaves) + 3) // 4
    least = max(most[min(HEAVIEST, few) - 1 :][:1] + [SHARE * count for count in most[:1]], default=0)
    chosen = frozenset(key for key, count in counts.items() if count >= least)
    return chosen if len(chosen) <= few else frozenset()


def mark(item: Item, heaviest: frozenset[int]) -> Mark:
    """What sets the line of an item apart."""
    rows = 1 if isinstance(item, Row) else len(item.rows)
    return "unknown" if item.unknown and item.unknown == rows else "heavy" if id(item) in heaviest else ""


def _relative(lines: Sequence[Line], items: Sequence[Item]) -> list[Line]:
    """The lines with short names: the path of a module without that of the module around it."""
    around: list[str] = []
    result: list[Line] = []
    for line, item in zip(lines, items, strict=True):
        depth = item.depth if isinstance(item, Sum) else 0
        del around[depth:]
        inner = within(item.name, around[-1]) if around else ""
        around.append(item.name)
        result.append(Line(line.values, line.mark, line.indent, inner))
    return result


def within(path: str, around: str) -> str:
    """A module's path as seen from the module around it.

    >>> within("layer1.0.conv1", "layer1.0")
    'conv1'
    """
    return path[len(around) + 1 :] if around and path.startswith(around + ".") else path


def _hint(choice: Choice, lines: int, unruled: bool) -> str:
    """How to go on: with a rule for an operator that has none, or with fewer lines."""
    if unruled:
        return "to count an operator without a rule: --rules FILE.py (flopwise profile --help)"
    if lines <= LONG or choice.top:
        return ""
    ways = ["--top 20", *(["--by op"] if choice.by != "op" else [])]
    ways.append("--by module --depth 2" if choice.by != "module" else "--depth 2")
    return f"to shorten this: {', '.join(ways)}"
