"""The destination and the format of a report: the terminal, a pipe, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from flopwise import _extensions
from flopwise.cli import places
from flopwise.cli.command import output as place
from flopwise.cli.streams import emit
from flopwise.errors import InputError, did_you_mean
from flopwise.report.formats.format import (
    ALIASES,
    Format,
    Kind,
    aliases_of,
    endings_of,
    format_for_path,
    format_named,
    formats_of,
)

if TYPE_CHECKING:
    from flopwise.report.report import Part, Report
    from flopwise.report.sheet.sheet import Look

F = TypeVar("F", bound=Callable[..., object])


class Output(NamedTuple):
    """The options ``-f``, ``-o``, ``--no-header`` and ``--human``."""

    format: Format
    path: str | None
    header: bool = True
    human: bool = False

    @property
    def look(self) -> Look:
        """The look of a report at its destination.

        A terminal has a width; colour needs one that is not dumb and a user who does not mind: https://no-color.org.
        """
        from flopwise.report.sheet.sheet import Look

        if self.path is not None:
            return Look(self.human, self.header)
        if sys.stdout is None:
            return Look(self.human, self.header)
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "").replace("_", "")
        ascii = encoding not in ("utf8", "utf16", "utf32")
        if not sys.stdout.isatty():
            return Look(self.human, self.header, ascii=ascii)
        import shutil

        color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return Look(self.human, self.header, shutil.get_terminal_size().columns, color, ascii)

    def write(self, report: Report) -> None:
        """Print a report, or write it into its file.

        Raises:
            InputError: the file cannot be written.
        """
        self.write_all([("", self.part(report))])

    def part(self, report: Report) -> Part:
        """The report of one of several models, to be written with those of the others."""
        from flopwise.report.report import part

        return part(report, self.format, self.look)

    def write_all(self, parts: Sequence[tuple[str, Part]]) -> None:
        """Print the reports of several models, or write them into one file.

        Args:
            parts: the path of each model, and its report.

        Raises:
            InputError: the file cannot be written.
        """
        from flopwise.report.report import combined

        write(combined(parts, self.format, self.look), self.path)


def writes(
    *kinds: Kind, models: Sequence[str] = (), plain: tuple[str, tuple[str, ...]] | None = None
) -> Callable[[F], F]:
    """The options that say where a report of these kinds goes and in what format; the command takes ``output``.

    Args:
        kinds: what the command's report can be written as.
        models: endings of ``-o`` that ask for a model instead of a report; then ``output`` is None, and ``path`` given.
        plain: an option with which the report is plain text, and the endings of files for that.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def call(*args: object, format_: str | None, output: str | None, no_header: bool, **settings: Any) -> Any:
            if output is not None and output.lower().endswith(tuple(models)) and models:
                if format_ is not None:
                    ending = os.path.splitext(output)[1]
                    raise InputError(f"{output}: -f {format_} writes a report, not a model ({ending}); drop one")
                return command(*args, output=None, path=output, **settings)
            if format_ is None and plain is not None and settings[plain[0]] and output is not None:
                format_ = "table" if output.lower().endswith(plain[1]) else None
            if format_ is None and output is not None and not os.path.splitext(output)[1] and not _is_device(output):
                choices = ", ".join((*models, *endings_of(kinds)))
                raise InputError(f"{output}: has no ending to say the format; known: {choices}; or add -f FORMAT")
            format = format_named(format_, kinds) if format_ else format_for_path(output or "", kinds, models)
            if format.binary and output is None:
                raise InputError(f"-f {format.name} is not text; give it a file with -o FILE{format.endings[0]}")
            return command(
                *args, output=Output(format, output, not no_header, settings.get("human", False)), **settings
            )

        decorated: Any = call
        for each in (
            place("--no-header", is_flag=True, help="Leave out the lines above the figures."),
            place(
                "-o",
                "--output",
                type=places.Written(),
                metavar="FILE",
                help=f"Write to FILE; its ending decides the format ({', '.join([*models, *endings_of(kinds)])}).",
            ),
            place("-f", "--format", "format_", type=_FormatName(kinds), help="Format; default: table."),
        ):
            decorated = each(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _is_device(path: str) -> bool:
    """True where a path exists and is no ordinary file: /dev/stdout, a pipe."""
    return os.path.exists(path) and not os.path.isfile(path)


class _FormatName(click.Choice[str]):
    """The name of a format that writes one of these kinds, or an ending that asks for it."""

    def __init__(self, kinds: Collection[Kind]) -> None:
        super().__init__([format.name for format in formats_of(kinds)])
        self._kinds = kinds

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(ALIASES.get(str(value).lower(), value), param, ctx)
        except click.BadParameter as error:
            if str(value) in _extensions.names("report_formats"):
                return format_named(str(value), self._kinds).name
            near = did_you_mean(str(value).lower(), [*self.choices, *aliases_of(self.choices)])
            raise click.BadParameter(f"{error.message.rstrip('.')}{near}", ctx, param) from None


def write(content: str | bytes, path: str | None) -> None:
    """Print a text, or write text or bytes to a file that appears only when it is complete.

    Raises:
        InputError: the file cannot be written.
    """
    if isinstance(content, str) and not content.endswith("\n"):
        content += "\n"
    if path is None:
        emit(str(content))
        return
    data = content.encode() if isinstance(content, str) else content
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb") as device:  # a device or a pipe cannot be replaced
                device.write(data)
            return
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    from flopwise.api.places import check_code
    from flopwise.writers import atomic

    check_code("--output", path)
    atomic.write(data, path)
