"""``flopwise advise``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import ADVISE_COLUMNS, DEVICE
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model
from flopwise.cli.run import reading_of, run_each
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.report.report import Report


@click.command(
    "advise",
    cls=Command,
    examples=["model.onnx", "model.onnx --level all", "torchvision.models:resnet50 -i 1x3x224x224 --device h100"],
)
@options.engine_level
@click.argument("model", metavar="[MODEL]", required=False, type=Model())
@options.shapes
@option(
    "--device", metavar="NAME", type=DEVICE, help="A device of flopwise devices, for times; with --level: this CPU."
)
@option("--threads", type=click.IntRange(1), metavar="N", help="Cores of a CPU in use; default: all, with --level 1.")
@option("--keep-network", is_flag=True, help="Only changes after which the result is the same.")
@option("--rules", is_flag=True, help="List the rules with their sources, and look at no model.")
@options.by("rule", "place", help="One line for each rule or place.")
@options.columns_of(ADVISE_COLUMNS)
@options.top("Show the N changes that save most.")
@writes("sheet", "content")
def command(model: str | None, rules: bool, output: Output, **settings: Any) -> int:
    """What to change in MODEL, and what each change saves: multiply-adds, bytes, and time on a device.

    "Same result" changes give the same outputs up to rounding; "other network" ones need training. With --level, same
    results are looked for in the graph that onnxruntime executes at that level: what it does by itself is left out.
    """
    import flopwise
    from flopwise.report.commands.advise.report import advise_report
    from flopwise.report.commands.advise.rules import rules_report

    if rules:
        from flopwise.analyses.advice.rules import rules as all_rules

        if model is not None:
            raise InputError("--rules lists the rules and looks at no model: leave MODEL out")
        output.write(rules_report(all_rules()))
        return 0
    if model is None:
        raise InputError("give a MODEL, or --rules for the list of rules")
    reading = reading_of(settings)
    level = reading.pop("level")
    keys = ("device", "threads", "keep_network")

    def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
        arguments = {**reading, "dims": dims, **{key: settings[key] for key in keys}}
        advice = flopwise.advise(path, optimization=level, progress=step, **arguments)
        return advise_report(advice, settings["by"], settings["columns"], settings["top"]), True

    return run_each(model, work, output, dims=reading["dims"])
