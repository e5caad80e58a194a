"""``flopwise check``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.output import Output, write, writes
from flopwise.cli.places import Model, Read
from flopwise.cli.run import arguments_of
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.budget import Verdict


@click.command(
    "check",
    cls=Command,
    examples=[
        "model.onnx --budget budget.toml",
        "models/ --budget budget.toml",
        "model.onnx --budget new.toml --update",
    ],
)
@click.argument("paths", metavar="MODEL...", nargs=-1, required=True, type=Model())
@option("--budget", type=Read(), metavar="FILE", required=True, help="TOML file with the limits.")
@option("--update", is_flag=True, help="Write the current figures into the budget; create it if there is none.")
@options.shapes
@options.convention(help="Convention of count; default: the one of the budget, else flops.")
@options.folding
@options.element_type
@options.rules
@options.units
@writes("sheet", "content")
def command(paths: tuple[str, ...], budget: str, update: bool, output: Output, **settings: object) -> int:
    """Check each MODEL against a budget: exit code 1 and a table of the limits that are exceeded, or 0.

    Of a directory, every model in it is checked.
    """
    from flopwise.report.commands.check import verdicts_report

    every = [path for model in paths for path in models.find(model)]
    if update and not os.path.exists(budget):
        return _make(every, budget, settings)
    verdicts, errors = _verdicts(every, budget, settings)
    if update and not errors:
        return _update(verdicts, budget)
    if verdicts:
        output.write(verdicts_report(verdicts))
    return models.exit_code(errors, not any(v.broken for v in verdicts))


def _verdicts(paths: Sequence[str], budget: str, settings: options.Values) -> tuple[list[Verdict], list[str]]:
    """The verdicts on all models, and the errors of those that could not be read."""
    from flopwise.analyses.budget import read_budget
    from flopwise.api.check import check

    limits = read_budget(budget)
    arguments = arguments_of(settings)
    for path in paths:
        limits.for_model(path)

    def work(path: str, step: models.Step, dims: dict[str, int]) -> list[Verdict]:
        return list(check(path, limits, progress=step, **{**arguments, "dims": dims}))

    results, errors = models.each(paths, work, arguments["dims"])
    return [verdict for verdicts in results.values() for verdict in verdicts], errors


def _update(verdicts: Sequence[Verdict], budget: str) -> int:
    from flopwise.analyses.budget import updated

    with open(budget, encoding="utf-8", newline="") as file:
        text = file.read()
    new = updated(text, verdicts, budget)
    write(new, budget)
    done = "unchanged" if new == text else "updated with today's figures"
    say(f"{budget}: {done}")
    for where in dict.fromkeys(".".join(v.limit.path) for v in verdicts if v.missing):
        say(f"{budget}: {where} is left as it is, because no layer has that name")
    return 0


def _make(paths: Sequence[str], budget: str, choices: options.Values) -> int:
    """A new budget with the figures of one model."""
    import flopwise
    from flopwise.analyses.budget import Settings, new_budget

    if len(paths) > 1:
        raise InputError(f"{budget}: no such file; a new budget is made from one model, not {len(paths)}")
    arguments = arguments_of(choices)
    convention = arguments.pop("convention")
    with Progress() as progress:
        profile = flopwise.profile(paths[0], convention=convention or "flops", progress=progress, **arguments)
    settings = Settings(convention, choices["batch_size"], list(choices["inputs"]), choices["dims"])
    write(new_budget(profile, settings), budget)
    say(f"{budget}: written with the figures of {paths[0]}")
    return 0
