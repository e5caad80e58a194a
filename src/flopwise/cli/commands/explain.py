"""``flopwise explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, counts
from flopwise.cli.completion import OPERATOR
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model
from flopwise.cli.run import reading_of
from flopwise.cli.streams import Progress, say
from flopwise.errors import FlopwiseError, InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from flopwise.profiles.profile import Profile


class _OperatorOrModel(Model):
    """An operator, which shells complete when a name begins so, or a model."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The operators and the paths that begin with what is typed; without operators, what the shell completes."""
        from glob import escape, glob

        from click.shell_completion import CompletionItem

        names = OPERATOR.shell_complete(ctx, param, incomplete) if incomplete else []
        paths = [CompletionItem(path) for path in sorted(glob(escape(incomplete) + "*"))]  # bash takes names or files
        return [*names, *paths] if names else super().shell_complete(ctx, param, incomplete)


@click.command(
    "explain",
    cls=Command,
    examples=[
        "Conv",
        "torchvision:vit_b_16 -c fvcore -c thop",
        "model.onnx --all",
    ],
)
@click.argument("what", metavar="OPERATOR|MODEL", type=_OperatorOrModel())
@options.convention(
    "conventions",
    multiple=True,
    help="With MODEL: conventions to compare; default: flops and macs. With OPERATOR: those to show. Repeatable.",
)
@counts(
    "--all",
    "every",
    is_flag=True,
    help="With MODEL: all conventions at once, beside that of -c (default: flops).",
)
@options.shapes
@options.element_type
@options.by("cause", "op", "layer", help="One line for each cause in words, operator or layer.")
@options.units
@writes("sheet", "content")
def command(what: str, conventions: tuple[str, ...], every: bool, by: str, output: Output, **settings: object) -> int:
    """The formula of an OPERATOR and what each convention makes of it.

    With a MODEL: why two conventions differ on it, cause by cause, and by how much. Where one counts FLOPs and the
    other MACs, the factor of two is a cause of its own, and the first.
    """
    from flopwise.formats.table import is_model

    if not is_model(what):
        from flopwise.report.commands.explain import operator_report

        output.write(operator_report(what, () if every else conventions))
        return 0
    from flopwise.report.commands.differences import difference_report, overview_report

    if every:
        output.write(overview_report(_profiles(what, _all_from(conventions), settings, lenient=True)))
    else:
        output.write(difference_report(_profiles(what, conventions or ("flops", "macs"), settings), by))
    return 0


def _all_from(conventions: tuple[str, ...]) -> tuple[str, ...]:
    """Every convention, the one that the others are compared with first.

    Raises:
        InputError: several are named.
    """
    from flopwise.conventions import CONVENTIONS

    if len(conventions) > 1:
        raise InputError("--all compares all conventions with one: give -c once")
    return (*(conventions or ("flops",)), *CONVENTIONS)


def _profiles(
    path: str, conventions: tuple[str, ...], settings: options.Values, lenient: bool = False
) -> list[Profile]:
    """The model in each convention; it is read once.

    Args:
        path: the model.
        conventions: names, the one that others are compared with first.
        settings: the options of the command line.
        lenient: whether a convention besides the first that refuses the model is left out, which a line says.
    """
    import flopwise
    from flopwise.api.profile import of_pytorch
    from flopwise.conventions import get

    chosen = [get(name) for name in dict.fromkeys(conventions)]
    if len(chosen) < 2:
        raise InputError(
            f"-c {chosen[0].name} is given {len(conventions)} times: comparing takes two different conventions"
            if len(conventions) > 1
            else "give -c twice: comparing takes two conventions"
        )
    models.refuse_directory(path, "explain compares conventions on one model")
    with Progress() as progress:
        reading = reading_of(settings)
        if any(one.sees == "programs" for one in chosen) and of_pytorch(path):
            reading["program"] = True
        graph = flopwise.read(path, progress=progress, **reading)
        profiles = [flopwise.profile(graph, convention=chosen[0])]
        for convention in chosen[1:]:
            try:
                profiles.append(flopwise.profile(graph, convention=convention))
            except FlopwiseError as error:
                if not lenient:
                    raise
                say(f"{convention.name} is left out: {error}")
        return profiles
