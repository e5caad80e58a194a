"""``flopwise zoo published``."""

from __future__ import annotations

import click

from flopwise.cli import NO
from flopwise.cli.command import Command, option
from flopwise.cli.output import Output, writes
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError


@click.command(
    "published",
    cls=Command,
    examples=["", "--source torchvision --model 'resnet*'", "--model resnet50 --check"],
)
@option("--source", metavar="NAME", help="Only the figures of this source.")
@option("--model", "models", metavar="PATTERN", multiple=True, help="Only models with such a name. Repeatable.")
@option("--missing", is_flag=True, help="Only figures that are not reproduced, with the reason.")
@option("--check", is_flag=True, help="Count them now (needs the packages that define the models); 1 if one differs.")
@writes("sheet", "content")
def command(source: str | None, models: tuple[str, ...], missing: bool, check: bool, output: Output) -> int:
    """Costs as papers, tools and model zoos publish them, and the convention under which each is reproduced.

    Each figure has the public page that it stands on, its input size, what flopwise counts under which convention, or
    why it comes to another number. A figure is reproduced when the count rounds to what is printed.
    """
    from flopwise.analyses.zoo.published.figures import figures, sources
    from flopwise.report.commands.published import published_report

    chosen = figures(source, models)
    if missing:
        chosen = [figure for figure in chosen if not figure.reproduced]
    changed: list[str] = []
    if check:
        from flopwise.api.published import check as count_now

        with Progress() as progress:
            results = list(count_now(chosen, progress))
        chosen = [result.now for result in results]
        changed = [
            f"{r.figure.source}: {r.figure.model}: recorded {r.figure.count} ({r.figure.way or 'not reproduced'}), "
            f"now {r.now.count} ({r.now.way or 'not reproduced'})"
            for r in results
            if not r.same
        ]
        obstacles = [result.obstacle for result in results if result.obstacle]
        for obstacle in dict.fromkeys(obstacles):
            say(f"not counted: {obstacle}")
        if obstacles and all(result.obstacle or not result.figure.build for result in results):
            raise InputError("nothing could be counted; without --check the recorded figures are shown")
    if chosen:
        output.write(
            published_report(chosen, not (source or models or missing), {k: s.versions for k, s in sources().items()})
        )
    else:
        say("every figure is reproduced")
    for line in changed:
        say(line)
    return NO if changed else 0
