"""``flopwise memory``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.run import run
from flopwise.errors import InputError
from flopwise.memory import ALIGNMENT

if TYPE_CHECKING:
    from flopwise.profiles import Profile

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("memory")
@options.model
@click.option("--inplace", is_flag=True, help="Let element-wise operators overwrite inputs that nobody needs any more.")
@click.option("--plan", type=click.Path(), help="Also write where each activation can lie in one block (JSON).")
@click.option(
    "--align", type=int, default=ALIGNMENT, show_default=True, help="Bytes that offsets in the plan are multiples of."
)
@options.training
@options.units
@options.output(*FORMATS)
def command(model: str, format_: str | None, plan: str | None, **given: Any) -> int:
    """Memory of MODEL: weights by type, activations, how many bytes are alive at once, and the tensors alive then.

    Beside the peak stands the size of one block of memory that holds all activations, planned so that nothing that is
    alive at once overlaps. With --train: gradients, the optimizer's state and what is saved for the backward pass.
    """
    from flopwise.report.memory import memory_of, render_memory

    place, format_ = given["output"], format_ or format_of(given["output"], FORMATS)
    if plan is not None:
        _check_plan(model, plan, place)
    plans: list[str] = []

    def report(profile: Profile) -> str:
        memory = memory_of(profile, given["inplace"], given["align"])
        if plan is not None:
            from flopwise.report.plan import render_plan

            plans.append(render_plan(memory))
        return render_memory(memory, format_, look_of(place, given["human"], not given["no_header"]))

    code = run(model, given, report, format_)
    for text in plans:
        write(text, plan)
    return code


def _check_plan(model: str, plan: str, output: str | None) -> None:
    """Refuse a place where a plan would be in the way.

    Raises:
        InputError: MODEL is a directory, or another file is to be there.
    """
    if os.path.isdir(model):
        raise InputError(f"{model}: is a directory; --plan takes one model")
    for other, what in ((model, "the model itself"), (output, "the file of -o")):
        if other is not None and os.path.realpath(other) == os.path.realpath(plan):
            raise InputError(f"{plan}: is {what}; give --plan a file of its own")
