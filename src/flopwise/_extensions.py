"""Entry points by which other installed packages add to flopwise's tables.

The tables stay literals; a table asks here only where it knows no answer itself, or when it lists everything. Packages
are looked for where Python has installed them, never in the current folder.
"""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from flopwise._current_folder import import_path
from flopwise.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

#: A table that other packages may add to: ``flopwise.GROUP`` is the name of the group of entry points.
Group: TypeAlias = Literal["formats", "conventions", "report_formats", "commands"]


def names(group: Group) -> tuple[str, ...]:
    """The names that installed packages add to a table, sorted."""
    return tuple(sorted(_entry_points()[group]))


def load(group: Group, name: str, kind: type[T]) -> T:
    """The entry that an installed package adds to a table under a name.

    Raises:
        InputError: it cannot be imported, or is not of this kind.
    """
    point = _entry_points()[group][name]
    source = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    try:
        value = point.load()
    except Exception as error:  # the package's own code, which may raise anything
        raise InputError(f"{name}: {source} adds it to flopwise.{group}, but {point.value} fails: {error}") from error
    if not isinstance(value, kind):
        raise InputError(f"{name}: {source} adds {point.value} to flopwise.{group}, which is no {kind.__name__}")
    return value


def loaded(group: Group, kind: type[T]) -> Iterator[T]:
    """All that installed packages add to a table.

    Raises:
        InputError: as ``load``.
    """
    return (load(group, name, kind) for name in names(group))


@functools.cache
def _entry_points() -> dict[Group, dict[str, EntryPoint]]:
    """Group -> name -> entry point; of two packages with one name the first on the path has it."""
    groups: dict[Group, dict[str, EntryPoint]] = {
        "formats": {},
        "conventions": {},
        "report_formats": {},
        "commands": {},
    }
    folders = [folder for folder in import_path() if _may_add(folder)]
    if not folders:
        return groups
    from importlib.metadata import distributions

    for distribution in distributions(path=folders):
        if distribution.metadata["Name"] == "flopwise":
            continue
        for point in distribution.entry_points:
            for group, points in groups.items():
                if point.group == f"flopwise.{group}":
                    points.setdefault(point.name, point)
    return groups


def _may_add(folder: str) -> bool:
    """True where a package in a folder, or in an archive, may have such entry points.

    Most have none, which a look at their files tells at a fraction of the cost of ``importlib.metadata``.
    """
    if os.path.isfile(folder):
        return True
    files = glob.iglob(os.path.join(glob.escape(folder or "."), "*-info", "entry_points.txt"))
    return any("[flopwise." in _text(file).replace(" ", "") for file in files)


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""
