"""``flopwise profile``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.output import format_of, look_of, place, write
from flopwise.cli.progress import Progress
from flopwise.cli.run import arguments_of, run
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: Columns that only a training step has.
OF_TRAINING = ("backward", "backward%", "backward_%", "backward_macs", "backward_flops", "saved_bytes")

FORMATS = ("table", "tree", "markdown", "csv", "json", "latex", "html", "parquet")

#: Formats of which several reports do not make one file.
ALONE = ("html", "parquet")


@click.command("profile")
@options.model_in_batches
@options.counting
@options.masked
@options.training
@options.table
@options.units
@click.option("--netron", type=click.Path(), help="Also write the figures as an attachment that Netron opens (.json).")
@click.option(
    "--model-explorer", type=click.Path(), help="Also write the figures as node data for Model Explorer (.json)."
)
@options.output(*FORMATS)
def command(
    model: str, format_: str | None, strict: bool, netron: str | None, model_explorer: str | None, **given: Any
) -> int:
    """What MODEL costs, per layer and in total.

    Of a directory, every model in it is profiled.
    """
    from flopwise.report import render
    from flopwise.report.sheet.zeros import KEYS, with_zeros

    if not given["train"] and (missing := [key for key in given["columns"] or () if key in OF_TRAINING]):
        raise InputError(f"the column {missing[0]!r} is of a training step: ask for it with --train")
    format_ = format_ or format_of(given["output"], FORMATS)
    sizes: tuple[int, ...] = given.pop("batch_sizes") or ()
    given["batch_size"] = sizes[0] if sizes else None
    if len(sizes) > 1:
        return _in_batches(model, sizes, format_, strict, netron or model_explorer, given)
    asked = {"--netron": netron, "--model-explorer": model_explorer}
    overlays = {option: path for option, path in asked.items() if path is not None}
    _check_overlays(model, overlays, given["output"])
    if format_ in ALONE and os.path.isdir(model):
        raise InputError(f"{model}: is a directory; -f {format_} takes one model")
    if format_ == "parquet" and given["output"] is None:
        raise InputError("-f parquet: writes bytes and needs a file: give one with -o FILE.parquet")
    attachments: list[tuple[str, str]] = []
    tables: list[bytes] = []

    def report(profile: Profile) -> str:
        attachments.extend((_overlay(option, profile), path) for option, path in overlays.items())
        if format_ == "parquet":
            from flopwise.profiles.arrow import parquet

            tables.append(parquet(profile.to_dict()))
            return ""
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

    if KEYS.intersection([*(given["columns"] or ()), given["sort"]]):
        code = run(model, given, report, format_, strict, tables, before=with_zeros)
    else:
        code = run(model, given, report, format_, strict, tables)
    for text, path in attachments:
        write(text, path)
    return code


def _overlay(option: str, profile: Profile) -> str:
    """What a viewer of graphs shows beside the model."""
    if option == "--netron":
        from flopwise.report.viewers import netron

        return netron.render(profile)
    from flopwise.report.viewers import model_explorer

    return model_explorer.render(profile)


def _in_batches(
    model: str, sizes: Sequence[int], format_: str, strict: bool, netron: str | None, given: dict[str, Any]
) -> int:
    """The totals of one model in several batch sizes.

    Raises:
        InputError: MODEL is a directory, or something is asked for that is no total.
    """
    import flopwise
    from flopwise.report.commands.batches import FORMATS as KNOWN
    from flopwise.report.commands.batches import render_batches

    layers = {"--sort": "sort", "--top": "top", "--depth": "depth"}
    wrong = [option for option, key in layers.items() if given[key] is not None]
    wrong += ["--by"] if given["by"] != "layer" else []
    wrong += ["--netron"] if netron is not None else []
    wrong += [f"-f {format_}"] if format_ not in KNOWN else []
    if wrong:
        raise InputError(f"{wrong[0]}: of several batch sizes the totals are shown; compare -b shows layers")
    if os.path.isdir(model):
        raise InputError(f"{model}: is a directory; several batch sizes take one model")
    path, arguments = models.find(model)[0], arguments_of(given)
    with Progress() as progress:
        profiles = [flopwise.profile(path, progress=progress, **{**arguments, "batch_size": size}) for size in sizes]
    look = look_of(given["output"], given["human"], not given["no_header"])
    write(render_batches(profiles, sizes, format_, given["columns"], look), given["output"])
    return NO if strict and not all(p.exact for p in profiles) else 0


def _check_overlays(model: str, overlays: Mapping[str, str], output: str | None) -> None:
    """Refuse a place where an overlay would be of no use, or in the way.

    Raises:
        InputError: MODEL is a directory, the name does not end in .json, or another file is to be there.
    """
    taken = {os.path.realpath(model): "the model itself"}
    if output is not None:
        taken[os.path.realpath(output)] = "the file of -o"
    for option, path in overlays.items():
        if os.path.isdir(model):
            raise InputError(f"{model}: is a directory; {option} takes one model")
        if not path.lower().endswith(".json"):
            viewer = "Netron" if option == "--netron" else "Model Explorer"
            raise InputError(f"{path}: {viewer} takes only files that end in .json for attachments")
        if (place := os.path.realpath(path)) in taken:
            raise InputError(f"{path}: is {taken[place]}; give {option} a file of its own")
        taken[place] = f"the file of {option}"
