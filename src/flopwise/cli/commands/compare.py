"""``flopwise compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Command, option, shows
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model
from flopwise.cli.run import reading_of
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.compare.comparison import Comparison
    from flopwise.profiles.profile import Profile


@click.command(
    "compare",
    cls=Command,
    examples=["a.onnx b.onnx", "a.onnx -b 1,8", 'a.onnx b.onnx --fail-on "macs>+1%,params>0" -o compare.html'],
)
@click.argument("paths", metavar="A [B]...", nargs=-1, required=True, type=Model())
@option(
    "--fail-on",
    metavar="CONDITION,...",
    help="Exit with 1 when a total differs from A's by that much, or is not known: 'macs>+1%,params>0'.",
)
@options.shapes_in_batches
@options.element_type
@options.convention("conventions", multiple=True, help="Counting convention; several to compare them on A.")
@options.folding
@options.rules
@options.by(
    *("all", "total", "op", "layer"),
    help="Which tables; CSV and Parquet hold one, the layers unless this says otherwise.",
)
@shows(
    "--columns",
    metavar="NAME,...",
    callback=options.names,
    help="Figures of operators and layers: count, macs, flops, params, weight_bytes, output_bytes ...",
)
@shows("--full", is_flag=True, help="Show layers that are the same in all models too.")
@options.units
@writes("sheet", "content", "comparison")
def command(paths: tuple[str, ...], fail_on: str | None, output: Output, **settings: Any) -> int:
    """Models side by side: totals, operators, and layers matched by name and structure, with differences to A.

    With A alone: several conventions (-c flops -c macs), batch sizes (-b 1,8), or input sizes, which | sets apart
    (-i "x:f32:1x3x224x224|1x3x320x320").
    """
    from flopwise.analyses.compare.comparison import broken, conditions
    from flopwise.report.commands.compare import breaks_text, comparison_report

    unwanted = conditions(fail_on) if fail_on is not None else []
    compared = _compared(paths, settings)
    part = output.part(comparison_report(compared, settings["by"], settings["columns"], settings["full"]))
    breaks = list(broken(compared, unwanted))
    output.write_all([("", part)])
    for line in breaks_text(breaks):
        say(line, prefix="")
    return NO if breaks else 0


def _compared(paths: Sequence[str], settings: options.Values) -> Comparison:
    """The comparison that the command line asks for.

    Raises:
        InputError: there is nothing to compare, or more than one thing differs.
    """
    from flopwise.api.compare import comparison

    for path in paths:
        models.refuse_directory(path, "compare takes models")
    conventions = tuple(dict.fromkeys(settings["conventions"])) or ("flops",)
    sizes = settings["batch_sizes"] or (None,)
    inputs = variants(settings["inputs"])
    ways = {"models": len(paths), "-c": len(conventions), "-b": len(sizes), "-i": len(inputs)}
    several = [name for name, count in ways.items() if count > 1]
    if len(several) > 1:
        raise InputError(f"compare one thing at a time, not several of {' and '.join(several)}")
    if not several:
        raise InputError(f"{paths[0]}: give a second model, or several of -c, -b or -i (sizes with | between them)")
    labels = {"-b": [f"batch {size}" for size in sizes], "-i": [", ".join(texts) for texts in inputs]}.get(several[0])
    with Progress() as progress:
        result = _profiles(paths, conventions, sizes, inputs, settings, progress)
        return comparison(list(result), labels)


def _profiles(
    paths: Sequence[str],
    conventions: Sequence[str],
    sizes: Sequence[int | None],
    inputs: Sequence[Sequence[str]],
    settings: options.Values,
    progress: models.Step,
) -> Iterator[Profile]:
    """A profile for each model, convention, batch size or input size; a model is read once for all conventions."""
    import flopwise
    from flopwise.conventions import get

    state = {key: value for key, value in reading_of(settings).items() if key not in ("inputs", "batch_size")}
    rules, fold = models.load_rules(settings["rules"]), settings["folding"]
    chosen = [get(name) for name in conventions]
    for path in paths:
        for size in sizes:
            for texts in inputs:
                graph = flopwise.read(path, list(texts) or None, batch_size=size, progress=progress, **state)
                for convention in chosen:
                    yield flopwise.profile(graph, convention=convention, rules=rules, fold=fold, progress=progress)


def variants(inputs: Sequence[str]) -> list[list[str]]:
    """The inputs of each variant: | sets sizes apart, and a later size may leave out the name and the type.

    Raises:
        InputError: two inputs have different numbers of sizes.

    >>> variants(["x:f32:1x3x8x8|1x3x16x16"])
    [['x:f32:1x3x8x8'], ['x:f32:1x3x16x16']]
    """
    texts = [_sizes(text) for text in inputs]
    counts = {len(sizes) for sizes in texts if len(sizes) > 1}
    if len(counts) > 1:
        raise InputError(f"every -i needs the same number of sizes, or one; these have {sorted(counts)}")
    count = max(counts, default=1)
    return [[sizes[variant if len(sizes) > 1 else 0] for sizes in texts] for variant in range(count)]


def _sizes(text: str) -> list[str]:
    first, *others = text.split("|")
    front = first.rpartition(":")[:2]
    return [first, *(size if ":" in size else "".join((*front, size)) for size in others)]
