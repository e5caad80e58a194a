"""A sheet: what a report says before it is decided how it is written; a format turns it, or a profile, into text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from flopwise.errors import printable
from flopwise.graph import Shape, Tensor
from flopwise.operators.counts import FLOPS
from flopwise.report.sheet import units
from flopwise.report.sheet.columns import COLUMNS, AtLeast, Column, Kind, Value, bounded, cell
from flopwise.report.sheet.text import ASCII, UNICODE, Glyphs, ascii_only

if TYPE_CHECKING:
    from flopwise.conventions import Convention
    from flopwise.profiles.profile import Profile

T = TypeVar("T")

#: What sets a line apart: it is among the heaviest, it has no count, or it stands for lines that are not shown.
Mark: TypeAlias = Literal["", "heavy", "unknown", "rest"]

#: A table shows this many shapes of a cell, and how many more there are; more of them in a wide table.
FEW, MANY, WIDE = 1, 2, 120


class Look(NamedTuple):
    """How a report should look, independent of its content."""

    #: Three digits and an SI prefix instead of every digit.
    human: bool = False
    #: Whether the model and the titles of the columns are named above the lines.
    header: bool = True
    #: Terminal cells in a line; None when there is no terminal, and lines may be as long as they like.
    width: int | None = None
    color: bool = False
    #: Draw and write with ASCII characters only.
    ascii: bool = False

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return ASCII if self.ascii else UNICODE

    def text(self, text: str) -> str:
        """A name or a note, safe to print."""
        return ascii_only(printable(text)) if self.ascii else printable(text)


class Head(NamedTuple):
    """A column of a sheet."""

    key: str
    title: str
    kind: Kind
    rank: int = 9
    #: How the convention prints a number for people.
    human: Callable[[int], str] | None = None
    #: Whether the cells are sentences or formulas, which must not be cut.
    prose: bool = False
    #: What the column is called where its title says too little: away from the columns beside it.
    alone: str = ""

    @property
    def right(self) -> bool:
        """Whether the cells are numbers, which stand at the right."""
        return self.kind in ("number", "bytes", "percent", "ratio")


class Line(NamedTuple):
    """A line of a sheet: one value for each column."""

    values: tuple[Value, ...]
    mark: Mark = ""
    #: In front of the first cell where lines are nested: spaces, or the branches of a tree.
    indent: str = ""
    #: The first cell where lines are nested and the ones above say the rest.
    short: str = ""


#: Grouping -> what a line is, and what it is one of; a tree has modules and layers.
NAMED = {
    "layer": ("layer", "op"),
    "op": ("operator", "in PyTorch"),
    "module": ("module", "class"),
    "dtype": ("precision", "op"),
    "tree": ("layer", "type"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Field(Generic[T]):
    """A column of a sheet, and its value for a line."""

    head: Head
    value: Callable[[T], Value]


class Figure(NamedTuple):
    """A figure of the whole model: its title, with every digit, and in short."""

    title: str
    exact: str
    short: str


class Sheet(NamedTuple):
    """Columns, lines, a total line, and what stands above and below them."""

    heads: tuple[Head, ...]
    lines: tuple[Line, ...]
    total: Line | None = None
    #: What the figures are about: the model, its inputs, the convention and its unit.
    about: tuple[str, ...] = ()
    #: Figures of the whole model.
    summary: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    #: Shown after a long table on a terminal.
    hint: str = ""
    #: Whether to say which columns are left out for want of width.
    complete: bool = False
    #: Whether names are shortened as far as they go before a column is left out; then that is said, too.
    squeeze: bool = False

    @classmethod
    def of(
        cls, fields: Sequence[Field[T]], items: Iterable[T], mark: Callable[[T], Mark] | None = None, **parts: Any
    ) -> Sheet:
        """A sheet with a line for each item.

        Args:
            fields: the columns.
            items: what the lines are about.
            mark: what sets the line of an item apart.
            parts: the other parts of the sheet, by name.
        """
        lines = (Line(tuple(f.value(item) for f in fields), mark(item) if mark else "") for item in items)
        return cls(tuple(field.head for field in fields), tuple(lines), **parts)


def data_sheet(keys: Sequence[str], texts: Collection[str], lines: Iterable[tuple[Value, ...]]) -> Sheet:
    """A sheet for programs: columns that are called by their keys, of text or of numbers."""
    return Sheet(tuple(Head(key, key, "text" if key in texts else "number") for key in keys), tuple(map(Line, lines)))


def head(column: Column, profile: Profile, by: str, look: Look) -> Head:
    """The head of a column, its title filled in."""
    whole = head_of_model(column, profile.convention, *NAMED[by])
    figure = COLUMNS.get(column.key.removesuffix("%"), column)
    part = " of known" if column.kind == "percent" and isinstance(cell(figure, profile.sum, profile), AtLeast) else ""
    return whole._replace(title=look.text(whole.title + part))


def head_of_model(column: Column, convention: Convention, one: str = "", kind: str = "") -> Head:
    """The head of a column whose lines are models, or what is named."""
    title = column.title.format(count=units.count_title(convention.unit, convention.name), one=one, kind=kind)
    human = convention.display.human if column.key == "count" else None
    return Head(column.key, title, column.kind, column.rank, human)


def without_empty(sheet: Sheet) -> Sheet:
    """The sheet without columns that are empty in every line, such as the class of modules without classes.

    The first stays: it names the lines, and the total.
    """
    kept = [not i or h.right or any(line.values[i] for line in sheet.lines) for i, h in enumerate(sheet.heads)]
    return only(sheet, [i for i, filled in enumerate(kept) if filled])


def only(sheet: Sheet, keep: Sequence[int]) -> Sheet:
    """The sheet with these columns, by index."""

    def lean(line: Line) -> Line:
        return line._replace(values=tuple(line.values[i] for i in keep))

    return sheet._replace(
        heads=tuple(sheet.heads[i] for i in keep),
        lines=tuple(lean(line) for line in sheet.lines),
        total=lean(sheet.total) if sheet.total else None,
    )


def is_gap(note: str) -> bool:
    """Whether a note says that figures are missing."""
    return note.startswith(("unknown", "uncounted", "unresolved"))


def gaps_of(models: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """What is missing in each model, taken from its notes."""
    pairs = ((name, note) for name, notes in models for note in notes if is_gap(note))
    return tuple(f"unknown in {name}: {note.removeprefix('unknown: ')}" for name, note in pairs)


def shape_text(shape: Shape | None, look: Look) -> str:
    """A shape such as 1×3×224×224; ? when it is unknown, "scalar" without dimensions."""
    if shape is None:
        return "?"
    return look.glyphs.times.join(look.text(str(d)) for d in shape) or "scalar"


def shapes_of(tensor: Tensor) -> tuple[Shape | None, ...]:
    """The shape of a tensor, or the shapes of a list of tensors."""
    return (tensor.shape,) if tensor.items is None else tuple(t.shape for t in tensor.items)


def plain_shape(tensor: Tensor) -> list[Any] | None:
    """The shape of a tensor for JSON: integers, and texts for what is symbolic; None where it is unknown."""
    return None if tensor.shape is None else [d if isinstance(d, int) else str(d) for d in tensor.shape]


def show(value: Value, head: Head, look: Look) -> str:
    """A value as people read it."""
    if isinstance(value, tuple):
        most = MANY if look.width is None or look.width >= WIDE else FEW
        more = [f"+{len(value) - most}"] if len(value) > most else []
        return " ".join([", ".join(shape_text(shape, look) for shape in value[:most]), *more])
    if value is None:
        return "" if head.kind == "text" else "?"
    if isinstance(value, float):
        return units.ratio(value) if head.kind == "ratio" else units.percent(value)
    if isinstance(value, int):
        return (look.glyphs.at_least if isinstance(value, AtLeast) else "") + _number(value, head, look)
    return look.text(str(value))


def _number(value: int, head: Head, look: Look) -> str:
    if not look.human:
        return units.exact(value)
    return head.human(value) if head.human else units.human(value, "B" if head.kind == "bytes" else "")


def about(profile: Profile, look: Look, counted: bool = True) -> tuple[str, ...]:
    """The model, its inputs and, where figures are given, the convention and its unit."""
    graph, convention = profile.graph, profile.convention
    inputs = [_input(tensor, look) for tensor in graph.inputs if tensor.kind != "state"] or ["no inputs"]
    states = [tensor for tensor in graph.inputs if tensor.kind == "state"]
    if states:
        size = units.human(profile.state_bytes, "B")
        inputs.append(
            f"state of {len(states)} tensor{'s' if len(states) > 1 else ''}, {size}, such as {_input(states[0], look)}"
        )
    estimate = f": an estimate, as {convention.name} counts PyTorch programs and this is a file"
    unit = f"convention {convention.name}, unit {convention.unit}{estimate if profile.estimated else ''}"
    counts = [unit] if counted else []
    return (model_name(profile, look), *inputs, *(look.text(text) for text in counts))


def model_name(profile: Profile, look: Look) -> str:
    """Where the model came from, and its name if that says more."""
    return look.text(name_of(profile.graph.name, profile.graph.source))


def name_of(name: str, source: str) -> str:
    """Where a model of that name came from, and its name if that says more."""
    if not source or source.startswith("<"):
        return name or "model"
    return source if name in source else f"{name} ({source})"


def _input(tensor: Tensor, look: Look) -> str:
    return f"{look.text(tensor.name)} {look.text(tensor.dtype or '?')} {shape_text(tensor.shape, look)}"


#: What the summary names beside the count: key of the column, unit.
_SUMMARY = {"macs": "MAC", "flops": "FLOP", "params": "", "buffers": "", "weight_bytes": "B", "activations": ""}


def summary(profile: Profile, look: Look) -> tuple[Figure, ...]:
    """The model's totals."""
    convention = profile.convention
    titles = {**units.TITLES, "count": units.count_title(convention.unit, convention.name)}
    figures = []
    for key, unit in {"count": convention.unit, **_SUMMARY}.items():
        if key == convention.name:  # flops counts FLOPs and macs MACs: once is enough
            continue
        value = cell(COLUMNS[key], profile.sum, profile)
        figures.append(figure(titles[key], value, unit, look, convention.display.human if key == "count" else None))
    figures.append(figure("peak activation bytes", profile.peak_activation_bytes, "B", look))
    return (*figures, *_training(profile, look))


def _training(profile: Profile, look: Look) -> Iterator[Figure]:
    """What a training step takes, where one was counted."""
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


def figure(title: str, value: Value, unit: str, look: Look, human: Callable[[int], str] | None = None) -> Figure:
    """A figure of the whole model, with every digit and in short; ? when it is unknown."""
    if not isinstance(value, int):
        return Figure(look.text(title), "?" if value is None else look.text(str(value)), "")
    bound = look.glyphs.at_least if isinstance(value, AtLeast) else ""
    short = human(value) if human else units.human(value, unit)
    return Figure(look.text(title), bound + units.exact(value), bound + short)
