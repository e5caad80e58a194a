"""A profile as a sheet: what it is about, its rows in lines, their total, the figures of the model and its notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from flopwise.errors import InputError, counted
from flopwise.graph import Tensor
from flopwise.operators.counts import FLOPS
from flopwise.report.sheet import Audience
from flopwise.report.sheet.columns import (
    COLUMNS,
    NAMED,
    TITLES,
    Column,
    Item,
    cell,
    count_title,
    defaults,
    head_of,
    order,
    select,
)
from flopwise.report.sheet.sheet import Figure, Line, Look, Mark, Sheet, bounded, figure, human
from flopwise.rows import Row, Sum, add_up

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: How rows can be grouped.
GROUPINGS = ("layer", "op", "module", "dtype")

#: Set apart as the heaviest are this many lines, if they are at most one in four and have this share of the first.
HEAVIEST, SHARE = 5, 0.1

#: What the lines below one with several modules show.
EACH = "a line such as 22 × Block has the figures of all 22, and the lines below it those of one"

#: A table of more lines than this says how to shorten it.
LONG = 60


class Choice(NamedTuple):
    """The part of a profile that a report shows."""

    by: str = "layer"
    depth: int | None = None
    columns: str | Sequence[str] | None = None
    sort: str | None = None
    top: int | None = None
    #: Words that choose layers (see ``structure.selection``); none choose all.
    only: Sequence[str] = ()
    #: Whether modules that repeat are one line.
    fold: bool = False

    def part_of(self, profile: Profile) -> Profile:
        """The profile with the chosen layers alone.

        Raises:
            InputError: a word fits no layer.
        """
        if not self.only:
            return profile
        from flopwise.report.structure import selected

        return replace(profile, rows=selected(profile, self.only))

    def groups_of(self, part: Profile) -> Sequence[tuple[Sum, int]]:
        """The groups of a part's layers, each with how often what is below it comes."""
        if self.fold:
            from flopwise.report.structure import folded

            return folded(part.graph, part.rows, self.depth)
        groups = part.by(self.by, self.depth)
        return [(group, 1) for group in groups if group.rows or not self.only]


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
    part = choice.part_of(profile)
    groups = [] if choice.by == "layer" else choice.groups_of(part)
    items: list[Item] = [group for group, _ in groups] or list(part.rows)
    by = sorting(choice)
    heaviest = heavy(items)
    if by is not None:
        items.sort(key=order(by, profile))
    shown, hidden = items[: choice.top], items[choice.top :] if choice.top else []
    relative = choice.by == "module" and by is None and not choice.fold
    names = _relative(shown) if relative else [""] * len(shown)
    lines = [
        line_of(item, columns, profile, heaviest, "  " * _depth(item) if by is None else "", name)
        for item, name in zip(shown, names, strict=True)
    ]
    if hidden:
        lines.append(_hidden(hidden, columns, profile, choice.by, look))
    if choice.only:
        lines.append(labelled(chosen_of(part, profile), part.sum, columns, profile, "rest"))
    hint = _hint(choice, len(lines), any(row.missing == "rule" for row in profile.rows))
    sheet = framed(profile, columns, lines, choice.by, hint, bool(choice.columns), look)
    repeats = any(times > 1 for _, times in groups)
    return sheet._replace(notes=(*([EACH] if repeats else []), *sheet.notes))


def chosen_of(part: Profile, profile: Profile) -> str:
    """The number of layers that are chosen, in words."""
    return f"{len(part.rows):,} of {counted(len(profile.rows), 'layer')}"


def _depth(item: Item) -> int:
    """The modules around a module, or the control flow around a layer."""
    return len(item.within) if isinstance(item, Row) else item.depth


def line_of(
    item: Item, columns: Sequence[Column], profile: Profile, heaviest: frozenset[int], indent: str, name: str
) -> Line:
    """The line of a row or of a sum, set apart if it has no count or is among the heaviest."""
    rows = 1 if isinstance(item, Row) else len(item.rows)
    unknown = item.unknown and item.unknown == rows
    mark: Mark = "unknown" if unknown else "heavy" if id(item) in heaviest else ""
    return Line(tuple(cell(column, item, profile) for column in columns), mark, indent, name)


def framed(
    profile: Profile, columns: Sequence[Column], lines: Sequence[Line], by: str, hint: str, chosen: bool, look: Look
) -> Sheet:
    """The lines of a profile between what they are about and their total, the model's figures and its notes."""
    return Sheet(
        heads=tuple(head_of(column, profile, by, look) for column in columns),
        lines=tuple(lines),
        total=labelled("Total", profile.sum, columns, profile),
        about=about(profile, look),
        summary=tuple(summary(profile, look)),
        notes=_notes(profile, "module" if by == "tree" else by, look),
        hint=hint,
        squeeze=chosen,
        skip_empty=not chosen,
    )


def _notes(profile: Profile, by: str, look: Look) -> tuple[str, ...]:
    """The profile's notes, after what the grouping has to say."""
    flat = by == "module" and profile.rows and not any(row.node.scope for row in profile.rows)
    own = ["the model has no module names; all layers are at the top level"] if flat else []
    own += [] if profile.rows else ["the model has no layers"]
    own += _uncalled(profile) if by == "module" else []
    return look.texts([*own, *profile.notes])


def _uncalled(profile: Profile) -> list[str]:
    """The modules that were not called, the outermost of each branch, in one line."""
    program = profile.graph.program
    called = {call.path for call in program.calls} | program.in_scripts
    around = {path[: at + 1] for path in called for at, character in enumerate(path) if character == "."}
    idle = [m.path for m in program.modules if m.path not in called and f"{m.path}." not in around]
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
    line = labelled(label, sum_of(items), columns, profile, "rest")
    if by != "module":
        return line
    return Line(tuple(v if isinstance(v, str) else "" for v in line.values), "rest")


def sum_of(items: Sequence[Item]) -> Sum:
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
    most, limit = sorted(counts.values(), reverse=True), (len(leaves) + 3) // 4
    least = max(most[min(HEAVIEST, limit) - 1 :][:1] + [SHARE * count for count in most[:1]], default=0)
    chosen = frozenset(key for key, count in counts.items() if count >= least)
    return chosen if len(chosen) <= limit else frozenset()


def _relative(items: Sequence[Item]) -> Iterator[str]:
    """Short names: the path of each module without that of the module around it."""
    around: list[str] = []
    for item in items:
        del around[_depth(item) :]
        yield relative_path(item.name, around[-1]) if around else ""
        around.append(item.name)


def relative_path(path: str, around: str) -> str:
    """A module's path as seen from the module around it.

    >>> relative_path("layer1.0.conv1", "layer1.0")
    'conv1'
    """
    return path[len(around) + 1 :] if around and path.startswith(around + ".") else path


def _hint(choice: Choice, lines: int, unruled: bool) -> str:
    """Advice: a rule for an operator that has none, or fewer lines."""
    if unruled:
        return "to count an operator without a rule: --rules FILE.py (flopwise profile --help)"
    if lines <= LONG or choice.top:
        return ""
    ways = ["--top 20", *(["--by op"] if choice.by != "op" else [])]
    ways.append("--by module --depth 2" if choice.by != "module" else "--depth 2")
    return f"to shorten this: {', '.join(ways)}"


def about(profile: Profile, look: Look, counted: bool = True) -> tuple[str, ...]:
    """The model, its inputs and, where figures are given, the convention and its unit."""
    graph, convention = profile.graph, profile.convention
    inputs = [_input(tensor, look) for tensor in graph.inputs if tensor.kind != "state"] or ["no inputs"]
    states = [tensor for tensor in graph.inputs if tensor.kind == "state"]
    if states:
        size, tensors = human(profile.state_bytes, "B"), f"{len(states)} tensor{'s' if len(states) > 1 else ''}"
        inputs.append(f"state of {tensors}, {size}, such as {_input(states[0], look)}")
    estimate = f": an estimate, as {convention.name} counts PyTorch programs and this is a file"
    unit = f"convention {convention.name}, unit {convention.unit}{estimate if profile.estimated else ''}"
    return (model_name(profile, look), *inputs, *look.texts([unit] if counted else []))


def model_name(profile: Profile, look: Look) -> str:
    """Where the model came from, and its name if that says more."""
    return look.text(name_of(profile.graph.name, profile.graph.source))


def name_of(name: str, source: str) -> str:
    """Where a model of that name came from, and its name if that says more."""
    if not source or source.startswith("<"):
        return name or "model"
    return source if name in source else f"{name} ({source})"


def _input(tensor: Tensor, look: Look) -> str:
    return f"{look.text(tensor.name)} {look.text(tensor.dtype or '?')} {look.shape(tensor.shape)}"


#: What the summary names beside the count: key of the column, unit.
_SUMMARY = {"macs": "MAC", "flops": "FLOP", "params": "", "buffers": "", "weight_bytes": "B", "activations": ""}


def summary(profile: Profile, look: Look) -> Iterator[Figure]:
    """The model's totals."""
    convention = profile.convention
    count = cell(COLUMNS["count"], profile.sum, profile)
    title = count_title(convention.unit, convention.name)
    yield figure(title, count, convention.unit, look, convention.display.human)
    for key, unit in _SUMMARY.items():
        if key != convention.name:  # flops counts FLOPs and macs MACs: once is enough
            yield figure(TITLES[key], cell(COLUMNS[key], profile.sum, profile), unit, look)
    yield figure(TITLES["peak_activation_bytes"], profile.peak_activation_bytes, "B", look)
    yield from _training(profile, look)


def _training(profile: Profile, look: Look) -> Iterator[Figure]:
    """The figures of a training step, where one was counted."""
    training = profile.training
    if training is None:
        return
    for key, title, unit in (("backward_macs", "backward MACs", "MAC"), ("backward_flops", "backward FLOPs", "FLOP")):
        yield figure(title, cell(COLUMNS[key], profile.sum, profile), unit, look)
    if training.optimizer is not None:
        update = None if training.update is None else training.update.dot(FLOPS)
        yield figure(f"{training.optimizer.name} FLOPs", update, "FLOP", look)
    yield figure("gradient bytes", training.gradient_bytes, "B", look)
    if training.optimizer is not None:
        yield figure("optimizer state bytes", training.state_bytes, "B", look)
    for title, value in (("saved bytes", training.saved_bytes), ("training memory bytes", training.memory_bytes)):
        yield figure(title, bounded(value, training.exact), "B", look)
