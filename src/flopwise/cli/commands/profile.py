"""``flopwise profile``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Command, shows
from flopwise.cli.output import Output, write, writes
from flopwise.cli.run import arguments_of, in_batches, run
from flopwise.errors import InputError
from flopwise.formats.table import format_of

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.report.report import Report
    from flopwise.report.sheet.listing import Choice

#: Columns that only a training step has.
OF_TRAINING = (
    "backward",
    "backward%",
    "backward_%",
    "backward_macs",
    "backward_macs%",
    "backward_flops",
    "saved_bytes",
)

#: Options that write a file beside the report, and the program that opens it.
VIEWERS = {"--netron": "Netron", "--model-explorer": "Model Explorer"}


@click.command(
    "profile",
    cls=Command,
    examples=[
        "model.onnx",
        "torchvision.models:resnet50 -i 1x3x224x224 --top 10",
        "model.onnx --by module --depth 2 -o report.html",
    ],
)
@options.model_in_batches
@options.counting
@options.masked
@options.element_type
@options.training
@options.fitting
@options.table
@shows(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Only layers of an operator, module or kind of work: attention, Conv, 'layer3.*'. Repeatable.",
)
@shows("--fold", is_flag=True, help="By module, with modules that repeat as one line: 22 × LlamaDecoderLayer.")
@shows(
    "--each",
    is_flag=True,
    help="For a directory: the layers of every model, not one line per model; --by and --depth imply it.",
)
@options.units
@writes("sheet", "content", "profile")
@options.also("--netron", help="Also write the figures as an attachment that Netron opens (.json).")
@options.also("--model-explorer", help="Also write the figures as node data for Model Explorer (.json).")
def command(
    model: str,
    strict: bool,
    each: bool,
    netron: str | None,
    model_explorer: str | None,
    output: Output,
    **settings: Any,
) -> int:
    """The cost of MODEL, per layer and in total.

    Of a directory: a line for each model in it, and their total; with --each the layers of all.
    """
    from flopwise.report.commands.profile import profile_report

    if not settings["train"] and (missing := [key for key in settings["columns"] or () if key in OF_TRAINING]):
        raise InputError(f"the column {missing[0]!r} belongs to a training step: add --train")
    sizes: tuple[int, ...] = settings.pop("batch_sizes") or ()
    settings["batch_size"] = sizes[0] if sizes else None
    overlays = {o: path for o, path in {"--netron": netron, "--model-explorer": model_explorer}.items() if path}
    _check_overlays(model, overlays)
    if len(sizes) > 1:
        return _in_batches(model, sizes, strict, overlays, output, settings)
    choice = _choice(settings, output)
    whole = choice.by == "layer" and not choice.only and settings["device"] is None
    if models.is_collection(model) and not each and whole and {"sheet", "content"} & set(output.format.kinds):
        paths = models.find(model)
        if len(paths) > 1 or format_of(paths[0]).has_graph:  # else it is the directory of one model
            return _in_lines(model, paths, strict, choice, output, settings)
    attachments: list[tuple[str, str]] = []

    def report(profile: Profile) -> Report:
        attachments.extend((_overlay(name, profile), path) for name, path in overlays.items())
        return profile_report(profile, choice, settings["device"])

    code = run(model, settings, report, output, strict, _reading(settings))
    for text, path in attachments:
        write(text, path)
    return code


def _choice(settings: options.Values, output: Output) -> Choice:
    """The part of a profile that the options ask for.

    Raises:
        InputError: an option is of no use with the format or the grouping.
    """
    from flopwise.report.sheet.listing import Choice

    by, fold, only = settings["by"], settings["fold"], settings["only"]
    if fold and by not in ("layer", "module"):
        raise InputError(f"--fold: shows modules; drop --by {by}")
    if output.format.name in ("html", "parquet") and (only or fold):
        option = "--only" if only else "--fold"
        raise InputError(f"{option}: {output.format.name} has all layers; choose table, json, csv, markdown or latex")
    if fold and output.format.name == "tree":
        raise InputError("--fold: a tree has every module; choose table, json, csv, markdown or latex")
    by = "module" if by == "layer" and (fold or settings["depth"] is not None) else by
    return Choice(by, settings["depth"], settings["columns"], settings["sort"], settings["top"], only, fold)


def _in_lines(
    folder: str, paths: Sequence[str], strict: bool, choice: Choice, output: Output, settings: options.Values
) -> int:
    """A line for each model of a directory, and their total."""
    import flopwise
    from flopwise.report.commands.directory import Model, columns_of, directory_report, model_of

    columns = columns_of(settings["columns"], settings["train"])
    read, arguments = _reading(settings), arguments_of(settings)

    def work(path: str, step: models.Step, dims: dict[str, int]) -> Model:
        profile = flopwise.profile(path, progress=step, **{**arguments, "dims": dims})
        return model_of(path, read(profile, step), columns)

    results, errors = models.each(paths, work, arguments["dims"])
    lines = list(results.values())
    if lines:
        output.write(
            directory_report(folder, lines, errors, columns, bool(settings["columns"]), choice.sort, choice.top)
        )
    return models.exit_code(errors, not strict or all(line.exact for line in lines))


def _reading(settings: options.Values) -> Callable[[Profile, models.Step], Profile]:
    """The reading of a profile's weights if a column tells of their zeros, else nothing."""
    from flopwise.report.sheet.zeros import KEYS, with_zeros

    asked = KEYS.intersection([*(settings["columns"] or ()), settings["sort"]])
    return with_zeros if asked else lambda profile, step: profile


def _overlay(name: str, profile: Profile) -> str:
    """The file for a viewer of graphs that shows the figures beside the model."""
    if name == "--netron":
        from flopwise.report.viewers import netron

        return netron.render(profile)
    from flopwise.report.viewers import model_explorer

    return model_explorer.render(profile)


def _in_batches(
    model: str,
    sizes: Sequence[int],
    strict: bool,
    overlays: Mapping[str, str],
    output: Output,
    settings: options.Values,
) -> int:
    """The totals of one model in several batch sizes.

    Raises:
        InputError: MODEL is a directory, or something is asked for that has no total.
    """
    from flopwise.report.commands.batches import batches_report

    layers = {
        "--sort": "sort",
        "--top": "top",
        "--depth": "depth",
        "--only": "only",
        "--fold": "fold",
        "--device": "device",
    }
    wrong = [name for name, key in layers.items() if settings[key] not in (None, (), False)]
    wrong += ["--by"] if settings["by"] != "layer" else []
    wrong += overlays
    wrong += [] if {"sheet", "content"} & set(output.format.kinds) else [f"-f {output.format.name}"]
    if wrong:
        raise InputError(
            f"{wrong[0]}: several batch sizes show the totals alone; compare -b shows layers, memory -b what fits"
        )
    profiles = in_batches(model, sizes, settings)
    output.write(batches_report(profiles, sizes, settings["columns"]))
    return NO if strict and not all(p.exact for p in profiles) else 0


def _check_overlays(model: str, overlays: Mapping[str, str]) -> None:
    """Refuse an overlay that would be of no use.

    Raises:
        InputError: MODEL is a directory, or the name does not end in .json.
    """
    for name, path in overlays.items():
        models.refuse_directory(model, f"{name} takes one model")
        if not path.lower().endswith(".json"):
            raise InputError(f"{path}: {VIEWERS[name]} takes only files that end in .json for attachments")
