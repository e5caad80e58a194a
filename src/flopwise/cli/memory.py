"""``flopwise memory``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.progress import Progress
from flopwise.cli.run import arguments_of, run
from flopwise.errors import InputError
from flopwise.memory import ALIGNMENT

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("memory")
@options.model_in_batches
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
    from flopwise.report.commands.memory import memory_of, render_memory

    place, format_ = given["output"], format_ or format_of(given["output"], FORMATS)
    sizes: tuple[int, ...] = given.pop("batch_sizes") or ()
    given["batch_size"] = sizes[0] if sizes else None
    if plan is not None:
        _check_plan(model, plan, place)
    if len(sizes) > 1:
        return _in_batches(model, sizes, format_, plan, given)
    plans: list[str] = []

    def report(profile: Profile) -> str:
        memory = memory_of(profile, given["inplace"], given["align"])
        if plan is not None:
            from flopwise.report.commands.memory_plan import render_plan

            plans.append(render_plan(memory))
        return render_memory(memory, format_, look_of(place, given["human"], not given["no_header"]))

    code = run(model, given, report, format_)
    for text in plans:
        write(text, plan)
    return code


def _in_batches(model: str, sizes: Sequence[int], format_: str, plan: str | None, given: dict[str, Any]) -> int:
    """The figures of one model in several batch sizes.

    Raises:
        InputError: MODEL is a directory, or a plan is asked for.
    """
    import flopwise
    from flopwise.report.commands.batches import render_memory_batches
    from flopwise.report.commands.memory import memory_of

    if plan is not None:
        raise InputError("--plan takes one batch size")
    if os.path.isdir(model):
        raise InputError(f"{model}: is a directory; several batch sizes take one model")
    path, arguments = models.find(model)[0], arguments_of(given)
    with Progress() as progress:
        profiles = [flopwise.profile(path, progress=progress, **{**arguments, "batch_size": size}) for size in sizes]
    found = [memory_of(profile, given["inplace"], given["align"]) for profile in profiles]
    look = look_of(given["output"], given["human"], not given["no_header"])
    write(render_memory_batches(found, sizes, format_, look), given["output"])
    return 0


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
