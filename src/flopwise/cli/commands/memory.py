"""``flopwise memory``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.output import Output, write, writes
from flopwise.cli.run import in_batches, run
from flopwise.errors import InputError
from flopwise.memory.plan import ALIGNMENT

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.report.report import Report


@click.command(
    "memory",
    cls=Command,
    examples=["model.onnx", "model.onnx -b 1,8,64", "model.onnx --train --optimizer adam --device h100"],
)
@options.model_in_batches
@option("--inplace", is_flag=True, help="Let element-wise operators overwrite inputs that are not needed any more.")
@option("--align", type=int, default=ALIGNMENT, show_default=True, help="Alignment of the offsets in bytes.")
@options.training
@options.fitting
@options.element_type
@options.units
@writes("sheet", "content")
@options.also("--plan", help="Also write an offset for each activation in one block of memory (JSON).")
def command(model: str, plan: str | None, output: Output, **settings: Any) -> int:
    """Memory of MODEL: weights by type, activations, the most bytes alive at once, and the tensors alive then.

    Beside the peak stands the size of one block of memory (an arena) that holds all activations, planned so that
    tensors alive at the same time do not overlap. With --train: gradients, the optimizer's state and what is saved for
    the backward pass.
    """
    from flopwise.report.commands.memory import memory_of, memory_report

    sizes: tuple[int, ...] = settings.pop("batch_sizes") or ()
    settings["batch_size"] = sizes[0] if sizes else None
    if plan is not None:
        models.refuse_directory(model, "--plan takes one model")
    if len(sizes) > 1:
        if plan is not None:
            raise InputError("--plan takes one batch size")
        return _in_batches(model, sizes, output, settings)
    plans: list[str] = []
    keeping = (settings["inplace"], settings["align"], settings["device"])

    def report(profile: Profile) -> Report:
        memory = memory_of(profile, *keeping)
        if plan is not None:
            from flopwise.report.commands.memory import render_plan

            plans.append(render_plan(memory))
        return memory_report(memory)

    code = run(model, settings, report, output)
    for text in plans:
        write(text, plan)
    return code


def _in_batches(model: str, sizes: Sequence[int], output: Output, settings: options.Values) -> int:
    """The figures of one model in several batch sizes.

    Raises:
        InputError: MODEL is a directory.
    """
    from flopwise.report.commands.batches import memory_batches_report
    from flopwise.report.commands.memory import memory_of

    keeping = (settings["inplace"], settings["align"], settings["device"])
    memories = [memory_of(p, *keeping) for p in in_batches(model, sizes, settings)]
    output.write(memory_batches_report(memories, sizes))
    return 0
