"""A command whose help groups its options and ends with examples, and which never writes over what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from flopwise.cli import places

F = TypeVar("F", bound=Callable[..., Any])

#: The groups of options in a help text, in order: those of the command itself first, and groups of other names last.
GROUPS = (
    "Options",
    "Inputs",
    "What to count",
    "What to show",
    "Output",
    "ONNX",
    "PyTorch",
    "Caffe",
)


class Option(click.Option):
    """An option that belongs to a group of the help text."""

    def __init__(self, *args: Any, group: str = GROUPS[0], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group


def option(*names: str, group: str = GROUPS[0], **settings: Any) -> Callable[[F], F]:
    """An option of a command, in a group of its help text."""
    return click.option(*names, cls=Option, group=group, **settings)


class Command(click.Command):
    """A command; ``examples`` are command lines that its help ends with."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the command does, and what a model is."""
        super().format_help_text(ctx, formatter)
        if any(isinstance(p.type, places.Model) for p in self.params):
            from flopwise.readers.formats import endings

            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(
                    f"A model is the path or URL of a file that ends in {', '.join(endings())}, a directory with such "
                    "files, or package.module:callable or file.py:callable, which makes a PyTorch module."
                )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups.setdefault(getattr(param, "group", GROUPS[0]), []).append(record)
        help_option = groups[GROUPS[0]].pop()
        groups["Output"].append(help_option)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one command line each."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write_text(f"flopwise {self.name} {example}")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, once it is clear that it writes over nothing that it reads."""
        written = {
            name: str(ctx.params[param.name])
            for param in self.params
            if isinstance(param.type, places.Written) and param.name and ctx.params.get(param.name) is not None
            for name in [max(param.opts, key=len)]
        }
        read = [
            str(value)
            for param in self.params
            if isinstance(param.type, places.Read) and param.name
            for value in _values(ctx.params.get(param.name))
        ]
        places.check(written, read)
        return super().invoke(ctx)


def _values(value: Any) -> Sequence[Any]:
    return () if value is None else value if isinstance(value, list | tuple) else (value,)
