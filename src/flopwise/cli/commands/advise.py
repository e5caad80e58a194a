"""``flopwise advise``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import ADVISE_COLUMNS, DEVICE
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model, Read
from flopwise.cli.run import reading_of, run_each
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.advice.rule import Rule
    from flopwise.analyses.advice.runs import RunRule
    from flopwise.report.report import Report

#: Ending of -o that asks for a model instead of a report.
MODEL = ".onnx"


@click.command(
    "advise",
    cls=Command,
    examples=[
        "model.onnx --level all",
        "model.onnx profile.json",
        "torchvision.models:resnet50 -i 1x3x224x224 --device h100",
    ],
)
@options.engine_level
@click.argument("model", metavar="[MODEL]", required=False, type=Model())
@click.argument("file", metavar="[TRACE]", required=False, type=Read())
@options.shapes
@option("--device", type=DEVICE, help="A device of flopwise devices, for times; with --level: this CPU.")
@option("--threads", type=click.IntRange(1), help="Cores of a CPU in use; default: all, with --level 1.")
@option("--keep-network", is_flag=True, help="Only changes after which the result is the same.")
@option("--measure", is_flag=True, help="Run the largest same-result change of each rule, before and after, here.")
@option("--train", is_flag=True, help="About a training step: both passes, and what is kept for the backward pass.")
@options.element_type
@option("--rules", is_flag=True, help="List the rules with their sources, and look at no model.")
@option("--rule", type=Read(), metavar="FILE.py", multiple=True, help="Your own rule: RULE of a file, which is run.")
@option("--show", type=click.IntRange(1), help="Show the operators of the change in line N of --by place.")
@options.by("rule", "place", help="One line for each rule or place.")
@options.columns_of(ADVISE_COLUMNS)
@options.top("Show the N changes that save most, or the first N rules.")
@writes("sheet", "content", models=(MODEL,))
def command(
    model: str | None, file: str | None, rules: bool, output: Output | None, path: str | None = None, **settings: Any
) -> int:
    """Changes to MODEL that save work, and how much each saves: multiply-adds, bytes, and time on a device.

    "Same result" changes give the same outputs up to rounding; "other network" ones need training. With --level, same
    results are looked for in the graph that onnxruntime executes at that level: what it does by itself is left out.
    With TRACE, as of flopwise trace, also what the run itself wastes: idle time, copies, short kernels ... With -o
    FILE.onnx: write MODEL with the changes of the same result, if its outputs in onnxruntime stay the same.
    """
    import flopwise
    from flopwise.report.commands.advise import advise_report, change_report, rules_report

    own = own_rules(settings["rule"])
    if rules:
        from flopwise.analyses.advice.rules import RULES
        from flopwise.analyses.advice.runs import RUN_RULES

        if model is not None:
            raise InputError("--rules lists the rules and looks at no model: leave MODEL out")
        if output is None:
            raise InputError("--rules writes no model: leave -o out")
        listed: list[Rule | RunRule] = [*RULES, *own, *RUN_RULES]
        output.write(rules_report(listed[: settings["top"]]))
        return 0
    if model is None:
        raise InputError("give a MODEL, or --rules for the list of rules")
    reading = reading_of(settings)
    level = reading.pop("level", None)
    if file is not None:
        models.refuse_directory(model, "a trace is of one model")
        reading["trace"] = file
    keys = ("device", "threads", "keep_network", "measure", "train")
    if output is None:
        models.refuse_directory(model, "a model is written from one model")
        for name in ("measure", "show"):
            if settings[name]:
                raise InputError(f"--{name} is about a report, and -o {path} writes a model: leave one out")
        with Progress() as progress:
            arguments = {**reading, **{key: settings[key] for key in keys}, "rules": own}
            advice = flopwise.advise(model, optimization=level, output=path, progress=progress, **arguments)
        for note in advice.notes:
            if note.startswith(str(path)) or "left as they are" in note:
                say(note)
        return 0

    def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
        arguments = {**reading, "dims": dims, **{key: settings[key] for key in keys}, "rules": own}
        advice = flopwise.advise(path, optimization=level, progress=step, **arguments)
        if settings["show"] is not None:
            return change_report(advice, settings["show"]), True
        return advise_report(advice, settings["by"], settings["columns"], settings["top"]), True

    return run_each(model, work, output, dims=reading["dims"])


def own_rules(paths: Sequence[str]) -> list[Rule]:
    """The user's own rules: the RULE of each Python file, which is executed.

    Raises:
        InputError: a file is not there, fails, or has no RULE.
    """
    from flopwise.analyses.advice.rule import Rule

    rules = []
    for path in paths:
        rule = models.executed_file(path).get("RULE")
        if not isinstance(rule, Rule):
            raise InputError(f"{path}: defines no RULE = flopwise.analyses.advice.rule.Rule(...)")
        rules.append(rule)
    return rules
