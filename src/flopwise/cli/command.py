"""A command whose help groups its options and ends with examples, and which never writes over what it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flopwise.cli import elsewhere, places, streams
from flopwise.errors import did_you_mean

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

F = TypeVar("F", bound=Callable[..., object])


class Choice(click.Choice[str]):
    """One of a few words; the error for any other suggests the nearest."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(str(value).lower(), self.choices)
            raise click.BadParameter(f"{error.message.rstrip('.')}{near}", ctx, param) from None


#: The type of an option -> what its value is called in the help, unless the option says it.
VALUES = {
    **dict.fromkeys(("integer", "integer range"), "N"),
    **dict.fromkeys(("float", "float range"), "X"),
    **dict.fromkeys(("text", "column", "device", "convention"), "NAME"),
}


class Option(click.Option):
    """An option that belongs to a group of the help text."""

    def __init__(self, *args: Any, group: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group
        if self.metavar is None and not self.is_flag:
            self.metavar = VALUES.get(self.type.name)

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """The brackets behind the help; the range of a number stands in its metavar instead."""
        extra = super().get_help_extra(ctx)
        if "range" in extra:
            extra["range"] = extra["range"].replace("x", self.metavar or "x")
        return extra


class Group:
    """A group of the help text, which makes the options in it."""

    def __init__(self, title: str) -> None:
        self.title = title

    def __call__(self, *names: str, **settings: Any) -> Callable[[F], F]:
        """An option of a command, in this group."""
        return click.option(*names, cls=Option, group=self.title, **settings)


option = Group("Options")
devices = Group("Devices")
training = Group("Training")
media = Group("Images and sound")
pipelines = Group("Diffusion pipelines")
inputs = Group("Inputs")
counts = Group("What to count")
shows = Group("What to show")
output = Group("Output")
onnx = Group("ONNX")
pytorch = Group("PyTorch")
jax = Group("JAX")
caffe = Group("Caffe")
language = Group("Language models")

#: The titles of the groups in the order of a help text: those of the command itself first.
GROUPS = tuple(
    group.title
    for group in (
        option,
        devices,
        training,
        media,
        pipelines,
        inputs,
        counts,
        shows,
        output,
        onnx,
        pytorch,
        jax,
        caffe,
        language,
    )
)

#: What the help of a command says of its MODEL; that of ``flopwise`` has all forms.
MODEL = (
    "A MODEL is a file, a URL, a directory, config.json, timm:resnet50 or package.module:callable; 'flopwise --help' "
    "lists all forms."
)


class Command(click.Command):
    """A command; ``examples`` are command lines that its help ends with."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; names of options that people bring from other tools are understood."""
        own = [name for param in self.params if isinstance(param, click.Option) for name in param.opts]
        model = any(isinstance(param.type, places.Model) for param in self.params if isinstance(param, click.Argument))
        return super().parse_args(ctx, elsewhere.translated(args, own, model))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's help, and the forms that a model may take."""
        super().format_help_text(ctx, formatter)
        if any(isinstance(p.type, places.Model) for p in self.params):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(MODEL)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups.setdefault(getattr(param, "group", GROUPS[0]), []).append(record)
        help_option = groups[GROUPS[0]].pop()
        groups["Output" if groups["Output"] else GROUPS[0]].append(help_option)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one command line each."""
        if self.examples:
            with formatter.section("Examples"):
                _, _, path = ctx.command_path.partition(" ")
                for example in self.examples:
                    formatter.write_text(f"flopwise {path} {example}")

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, once it is clear that it writes over nothing that it reads."""
        values = {param: ctx.params.get(param.name or "") for param in self.params}
        read = [value for param, value in values.items() if isinstance(param.type, places.Read)]
        if any(isinstance(param.type, places.Store) and value is None for param, value in values.items()):
            read.append(places.Store.default())
        written = {p: value for p, value in values.items() if isinstance(p.type, places.OUTPUTS) and value is not None}
        if written or streams.is_file():
            _check(written, read)
        return super().invoke(ctx)


def _check(written: Mapping[click.Parameter, str], read: Sequence[object]) -> None:
    """Refuse outputs that are inputs.

    Raises:
        InputError: one is.
    """
    from flopwise.api.places import check, check_folder, check_redirection

    check({_name(param): path for param, path in written.items() if isinstance(param.type, places.Written)}, *read)
    check_redirection(*read)
    for param, path in written.items():
        if isinstance(param.type, places.WrittenFolder):
            check_folder(_name(param), path, param.type.endings, *read)


def _name(param: click.Parameter) -> str:
    """An option as messages call it."""
    return max(param.opts, key=len)
