"""``flopwise profile``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, place, write
from flopwise.cli.run import run
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.profiles import Profile

FORMATS = ("table", "tree", "markdown", "csv", "json", "latex")


@click.command("profile")
@options.model
@options.counting
@options.table
@options.units
@click.option("--netron", type=click.Path(), help="Also write the figures as an attachment that Netron opens (.json).")
@options.output(*FORMATS)
def command(model: str, format_: str | None, strict: bool, netron: str | None, **given: Any) -> int:
    """What MODEL costs, per layer and in total.

    MODEL is an ONNX file, or a directory: then every model in it is profiled.
    """
    from flopwise.report import render

    format_ = format_ or format_of(given["output"], FORMATS)
    if netron is not None:
        _check_attachment(model, netron, given["output"])
    attachments: list[str] = []

    def report(profile: Profile) -> str:
        if netron is not None:
            from flopwise.report import netron as attachment

            attachments.append(attachment.render(profile))
        return render(
            profile,
            format=format_,
            by="module" if given["depth"] is not None and given["by"] == "layer" else given["by"],
            depth=given["depth"],
            columns=given["columns"],
            sort=given["sort"],
            top=given["top"],
            human=given["human"],
            header=not given["no_header"],
            **place(given["output"]),
        )

    code = run(model, given, report, format_, strict)
    for text in attachments:
        write(text, netron)
    return code


def _check_attachment(model: str, netron: str, output: str | None) -> None:
    """Refuse a place where an attachment would be of no use, or in the way.

    Raises:
        InputError: MODEL is a directory, the name does not end in .json, or another file is to be there.
    """
    from flopwise.report.netron import ENDING

    if os.path.isdir(model):
        raise InputError(f"{model}: is a directory; --netron takes one model")
    if not netron.lower().endswith(ENDING):
        raise InputError(f"{netron}: Netron takes only files that end in {ENDING} for attachments")
    for other, what in ((model, "the model itself"), (output, "the file of -o")):
        if other is not None and os.path.realpath(other) == os.path.realpath(netron):
            raise InputError(f"{netron}: is {what}; give --netron a file of its own")
