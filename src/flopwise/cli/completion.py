"""Completion in a shell: names of conventions, columns and devices, one or several with commas between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Name(click.ParamType):  # type: ignore[type-arg] # generic in newer versions of click only
    """One of many names, which the shell completes and the command checks.

    Args:
        name: what it is the name of.
        names: the names, and what each stands for.
        several: whether it may be a list with commas.
    """

    def __init__(self, name: str, names: Callable[[], Iterable[tuple[str, str]]], several: bool = False) -> None:
        self.name = name
        self.names = names
        self.several = several

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The value as it is."""
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin with what is typed, after the last comma."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",") if self.several else ("", "", incomplete)
        return [
            CompletionItem(f"{before}{comma}{name}", help=about)
            for name, about in self.names()
            if name.startswith(last)
        ]


def _conventions() -> Iterable[tuple[str, str]]:
    from flopwise.conventions import CONVENTIONS

    return [(c.name, c.summary) for c in CONVENTIONS.values()]


def _operators() -> Iterable[tuple[str, str]]:
    from flopwise.operators.tables import OPERATORS

    return [(name, "") for name in OPERATORS if "::" not in name]


def _columns() -> Iterable[tuple[str, str]]:
    from flopwise.report.sheet.columns import COLUMNS

    return [(column.key, column.about) for column in COLUMNS.values()]


def _columns_of(command: str) -> Iterable[tuple[str, str]]:
    columns = import_module(f"flopwise.report.commands.{command}").COLUMNS
    return [(key, getattr(column, "about", "")) for key, column in columns.items()]


def _devices() -> Iterable[tuple[str, str]]:
    from flopwise.analyses.timing.catalog import devices

    return [("cpu", "this machine"), *((device.id, device.name) for device in devices())]


CONVENTION = Name("convention", _conventions)
OPERATOR = Name("operator", _operators)
COLUMN = Name("column", _columns)
COLUMNS = Name("columns", _columns, several=True)
WEIGHTS_COLUMNS = Name("columns", lambda: _columns_of("weights"), several=True)
BOUND_COLUMNS = Name("columns", lambda: _columns_of("bound"), several=True)
ADVISE_COLUMNS = Name("columns", lambda: _columns_of("advise"), several=True)
TRACE_COLUMNS = Name("columns", lambda: _columns_of("trace"), several=True)
DEVICE = Name("device", _devices)
