"""Commands on one model or a directory of them: profile each, report each, say what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flopwise.cli import models
from flopwise.cli.options import ONNX, Values
from flopwise.cli.output import Output
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError
from flopwise.formats.options import is_given

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.report.report import Part, Report


def run(
    model: str,
    settings: Values,
    report: Callable[[Profile], Report],
    output: Output,
    strict: bool = False,
    before: Callable[[Profile, models.Step], Profile] = lambda profile, step: profile,
) -> int:
    """Profile MODEL (or every model in it), write the reports, and return the exit code.

    Args:
        model: MODEL.
        settings: the options of the command line by name.
        report: profile -> report.
        output: where the report goes and in what format.
        strict: whether an inexact profile means exit code 1.
        before: what happens to a profile before its report; may take its time.
    """
    import flopwise

    arguments = arguments_of(settings)
    operators: set[str] = set()

    def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
        profile = before(flopwise.profile(path, progress=step, **{**arguments, "dims": dims}), step)
        operators.update(node.op for node in profile.graph.nodes)
        return report(profile), profile.exact

    code = run_each(model, work, output, strict, arguments["dims"])
    if operators:
        for note in models.idle_rules(settings.get("rules"), arguments["rules"], operators):
            say(note)
    return code


def run_each(
    model: str,
    work: Callable[[str, models.Step, Mapping[str, int]], tuple[Report, bool]],
    output: Output,
    strict: bool = False,
    dims: Mapping[str, int] | None = None,
    paths: Sequence[str] | None = None,
) -> int:
    """Report on MODEL, or on every model in it, and return the exit code.

    Args:
        model: MODEL.
        work: path of a model, and the sizes of ``--dim`` that it takes -> its report, and whether it is exact.
        output: where the reports go and in what format.
        strict: whether an inexact report means exit code 1.
        dims: the sizes of ``--dim``; each model takes those of the dimensions that it has.
        paths: the models; None for those that MODEL names.

    Raises:
        InputError: MODEL is a directory, and the format takes one model.
    """
    paths = models.find(model) if paths is None else paths
    if not output.format.several and len(paths) > 1:
        raise InputError(f"{model}: holds several models; -f {output.format.name} takes one")

    def reported(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[str, Part, bool]:
        report, exact = work(path, step, dims)
        step("writing the report")
        return path, output.part(report), exact

    results, errors = models.each(paths, reported, dims)
    if results:
        output.write_all([(path, part) for path, part, _ in results.values()])
    return models.exit_code(errors, not strict or all(exact for _, _, exact in results.values()))


def in_batches(model: str, sizes: Sequence[int], settings: Values) -> list[Profile]:
    """A profile of one model for each batch size.

    Raises:
        InputError: MODEL is a directory.
    """
    import flopwise

    models.refuse_directory(model, "several batch sizes take one model")
    arguments = arguments_of(settings)
    with Progress() as progress:
        return [flopwise.profile(model, progress=progress, **{**arguments, "batch_size": size}) for size in sizes]


def reading_of(settings: Values) -> Values:
    """The arguments of ``flopwise.read`` that were given on the command line; ``dims`` in any case."""
    formats = ("phase", "stages", "level", "weights", "mode", "past", "new", "trust_code", "element_type", "per_device")
    arguments = {key: settings[key] for key in ("batch_size", *ONNX, *formats, "arguments") if key in settings}
    arguments["inputs"] = list(settings["inputs"])
    return {"dims": settings["dims"], **{key: value for key, value in arguments.items() if is_given(value)}}


def arguments_of(settings: Values) -> Values:
    """The arguments of ``flopwise.profile`` that the options of the command line ask for."""
    counting = ("train", "optimizer", "attention", "lora", "masked")
    arguments = {**reading_of(settings), **{key: settings[key] for key in counting if is_given(settings.get(key))}}
    arguments["convention"] = settings.get("convention", "flops")
    arguments["rules"] = models.load_rules(settings.get("rules"))
    arguments["fold"] = settings.get("folding")
    return arguments
