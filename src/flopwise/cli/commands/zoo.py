"""``flopwise zoo``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import NO, options
from flopwise.cli.command import Choice, Command, option
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Read
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.zoo.published.figures import Figure


@click.group("zoo")
def command() -> None:
    """Many models as one data set: build it, ask it in SQL, look at it."""


@command.command(
    "build",
    cls=Command,
    examples=[
        "models/ -o zoo",
        "'torchvision:squeezenet*' -o zoo -j 2",
        "models/ -o zoo --dim batch=1",
    ],
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=Read())
@option("-o", "--output", "folder", required=True, metavar="DIR", help="The data set: a folder, or a URL (s3://...).")
@option("-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Worker processes.")
@option(
    "--engine",
    type=Choice(["processes", "dask"]),
    default="processes",
    show_default=True,
    help="What runs the workers.",
)
@option("--address", metavar="URL", help="A running Dask cluster; default: start one on this machine.")
@option("--time", "seconds", type=float, default=600, show_default=True, help="Seconds for each model.")
@option("--memory", default="1 GiB", show_default=True, metavar="BYTES", help="Memory of each worker.")
@options.sizes_of_many
@option("--retry", is_flag=True, help="Try models that failed before again.")
@option("--trust-code", is_flag=True, help="Let lists name callables, and programs in files run (TorchScript).")
@option("--strict", is_flag=True, help="Exit with 1 when a model failed.")
def build(sources: tuple[str, ...], folder: str, memory: str, strict: bool, **settings: Any) -> int:
    """Profile the models of each SOURCE into Parquet files, a row for each model and for each layer.

    A SOURCE is a directory, a glob, a file that lists models (.txt: one in a line, with its -i and --arg), a catalogue
    (torchvision:*, timm:resnet*, transformers:*), or a model. What is in DIR already is kept; an interrupted build goes
    on where it stopped. A model that hangs, grows or dies costs one row with its error.
    """
    from flopwise.analyses.quantities import quantity
    from flopwise.api import zoo

    try:
        with Progress() as progress:
            size = int(quantity(memory, bytes_=True))
            built = zoo.build(*sources, output=folder, memory=size, progress=progress, **settings)
    except KeyboardInterrupt:
        say(f"what is finished is in {folder}; the same command goes on from there")
        raise
    first, *failures = zoo.summary(built)
    print(first)
    for line in failures:
        say(line)
    return 1 if strict and failures else 0


@command.command(
    "query",
    cls=Command,
    examples=[
        'zoo "SELECT name, macs FROM models ORDER BY macs DESC"',
        'zoo "FROM unique_layers LIMIT 20"',
        'zoo "FROM chains WHERE length = 3" -f csv',
    ],
)
@click.argument("folder", metavar="DIR", type=Read())
@click.argument("sql")
@writes("sheet", "content")
def query(folder: str, sql: str, output: Output) -> int:
    """Query the data set in DIR in SQL (DuckDB's).

    Views: models, layers, unique_layers (same operator, attributes, shapes and types, with how often), chains
    (sequences of layers that could be fused; chains_of(8) has longer ones), census (operators by family and year),
    failures, all_models.
    """
    from flopwise.api import zoo
    from flopwise.report.commands.zoo import query_report

    if not sql.strip():
        raise InputError("the query is empty")
    columns, rows = zoo.query(folder, sql)
    output.write(query_report(columns, rows))
    return 0


@command.command("report", cls=Command, examples=["zoo -o zoo.html", "zoo -o zoo.md", "zoo -f csv"])
@click.argument("folder", metavar="DIR", type=Read())
@writes("sheet", "zoo")
def report(folder: str, output: Output) -> int:
    """Show the data set in DIR: its models, and as a page (-o zoo.html) cost against size, operators, unique layers."""
    from flopwise.api import zoo

    with Progress() as progress:
        progress("asking the data set")
        document = zoo.report(folder)
    output.write(document)
    return 0


@command.command(
    "published",
    cls=Command,
    examples=["", "--source torchvision --model 'resnet*'", "--model resnet50 --check"],
)
@option("--source", help="Only the figures of this source.")
@option("--model", "models", metavar="PATTERN", multiple=True, help="Only models with such a name. Repeatable.")
@option("--missing", is_flag=True, help="Only figures that are not reproduced, with the reason.")
@option("--check", is_flag=True, help="Count them now (needs the packages that define the models); 1 if one differs.")
@writes("sheet", "content")
def published(source: str | None, models: tuple[str, ...], missing: bool, check: bool, output: Output) -> int:
    """Costs as papers, tools and model zoos publish them, and the convention under which each is reproduced.

    Each figure has the public page that it stands on, its input size, what flopwise counts under which convention, or
    why it comes to another number. A figure is reproduced when the count rounds to what is printed.
    """
    from flopwise.analyses.zoo.published.figures import figures, sources
    from flopwise.report.commands.published import published_report

    chosen = figures(source, models)
    if missing:
        chosen = [figure for figure in chosen if not figure.reproduced]
    chosen, changed = _counted_now(chosen) if check else (chosen, [])
    if chosen:
        versions = {name: s.versions for name, s in sources().items()}
        output.write(published_report(chosen, not (source or models or missing), versions))
    else:
        say("every figure is reproduced")
    for line in changed:
        say(line)
    return NO if changed else 0


def _counted_now(figures: Sequence[Figure]) -> tuple[list[Figure], list[str]]:
    """The figures as they are counted now, and a line for each that differs from what is recorded."""
    from flopwise.api.published import check

    with Progress() as progress:
        results = list(check(figures, progress))
    obstacles = [result.obstacle for result in results if result.obstacle]
    for obstacle in dict.fromkeys(obstacles):
        say(f"not counted: {obstacle}")
    if obstacles and all(result.obstacle or not result.figure.build for result in results):
        raise InputError("nothing could be counted; without --check the recorded figures are shown")
    return [result.now for result in results], [
        f"{r.figure.source}: {r.figure.model}: recorded {r.figure.count} ({r.figure.way or 'not reproduced'}), "
        f"now {r.now.count} ({r.now.way or 'not reproduced'})"
        for r in results
        if not r.same
    ]
