"""The table that a tool prints, where it has columns of its own: data for the reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from flopwise.graph import Graph, Shape
from flopwise.rows import Row

#: A value of a column; None is unknown.
Value: TypeAlias = "int | float | str | Shape | None"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column: its key for programs, the title that the tool gives it, what it holds, and how to find a value.

    The sum over layers of a column of numbers or bytes is the figure of the model.
    """

    key: str
    title: str
    kind: Literal["text", "shape", "number", "bytes", "ratio"]
    #: Of a "ratio": the layer's part of the column of numbers that stands before it.
    value: Callable[[Row, Graph], Value]
    #: How the tool prints a value; None for flopwise's own way.
    show: Callable[[Any], str] | None = None
    #: How the tool prints a number in short.
    human: Callable[[int], str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """A figure of the model that the tool prints besides the lines of its table."""

    key: str
    title: str
    #: None: the sum of the column of that key.
    value: Callable[[Sequence[Row]], int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What a tool prints of a model."""

    columns: tuple[Column, ...]
    #: Title of the column of names.
    name: str = "layer"
    #: The layers that have a line; any other has one only where it is unknown or a rule of the user's counts it.
    lists: Callable[[Row], bool] = lambda row: True
    #: Figures of the model beside the table, in place of a line of totals.
    totals: tuple[Total, ...] = ()
    #: Whether the tool always prints a line for each layer.
    detailed: bool = False
    #: Layers that the tool's summary shows as one line: names of all layers -> for each line its name and how many
    #: consecutive layers it stands for.
    collapse: Callable[[Sequence[str]], list[tuple[str, int]]] | None = None
