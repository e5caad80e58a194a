"""The arguments and options that name files: what a command reads, and what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _File(click.types.StringParamType):
    """A path or what may be one, which shells complete to files."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Read(_File):
    """The type of an argument or option that names what is read: a model, a directory, a file of rules, inputs."""


class Model(Read):
    """The type of an argument that names a model of any format, or a directory of them."""


class Written(_File):
    """The type of an option that names a file to write."""


class WrittenFolder(_File):
    """The type of an option that names a directory for files that a command writes; ``endings`` are those of files."""

    def __init__(self, *endings: str) -> None:
        self.endings = endings


class Store(Written):
    """The type of an option that names the store of measured times: without it, the user's own."""

    @staticmethod
    def default() -> str:
        """The store where the option is not given."""
        from flopwise.analyses.timing.store import default_path

        return str(default_path())


#: The types of options that name what is written.
OUTPUTS = (Written, WrittenFolder)
