"""The way of a command over one model or a directory of them: profile each, report each, say what failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise.cli import BAD, NO, models
from flopwise.cli.output import write

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: Profile -> report.
Renderer = Callable[["Profile"], str]


def run(
    model: str,
    given: Mapping[str, Any],
    render: Renderer,
    format_: str,
    strict: bool = False,
    files: Sequence[bytes] = (),
    before: Callable[[Profile, models.Step], Profile] = lambda profile, step: profile,
) -> int:
    """Profile MODEL (or every model in it), write the reports, and return the exit code.

    Args:
        model: MODEL.
        given: the options of the command line by name.
        render: profile -> report.
        format_: the format that ``render`` writes, which decides how several reports are put together.
        strict: whether an inexact profile means exit code 1.
        files: where ``render`` puts the report if it is no text.
        before: gives the profile to report on, and may take its time.
    """
    import flopwise

    arguments = arguments_of(given)

    def work(path: str, step: models.Step) -> tuple[str, str, bool]:
        profile = before(flopwise.profile(path, progress=step, **arguments), step)
        step("writing the report")
        return path, render(profile), profile.exact

    results, errors = models.each(models.find(model), work)
    if results:
        reports = [(path, text) for path, text, _ in results]
        text = together(reports, format_, header=not given["no_header"])
        write(files[0] if files else text, given["output"])
    for error in errors:
        print(f"flopwise: {error}", file=sys.stderr)
    if errors:
        return BAD
    return NO if strict and not all(exact for _, _, exact in results) else 0


def arguments_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``flopwise.profile`` that the options of the command line ask for."""
    named = (
        "dims",
        "batch_size",
        "trips",
        "phase",
        "stages",
        "level",
        "weights",
        "train",
        "optimizer",
        "mode",
        "masked",
    )
    arguments = {key: given[key] for key in named if key in given}
    arguments["arguments"] = given.get("arguments") or None
    arguments["inputs"] = list(given["inputs"]) or None
    arguments["convention"] = given.get("convention", "flops")
    arguments["rules"] = models.load_rules(given.get("rules"))
    arguments["fold"] = False if given.get("no_fold") else None
    return arguments


def together(reports: Sequence[tuple[str, str]], format_: str, header: bool) -> str:
    """Several reports as one text of the same format; a single one as it is."""
    texts = [text.rstrip("\n") for _, text in reports]
    if len(texts) == 1:
        return texts[0]
    if format_ == "json":
        return "[\n" + ",\n".join(texts) + "\n]"
    if format_ == "csv":
        import csv
        import io

        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for number, (path, text) in enumerate(reports):
            rows = list(csv.reader(io.StringIO(text)))
            if header:
                keys = rows.pop(0)
                writer.writerows([] if number else [["model", *keys]])
            writer.writerows([path, *row] for row in rows)
        return out.getvalue()
    return "\n\n\n".join(texts)
