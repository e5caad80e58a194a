"""``flopwise formula``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Choice, Command, option, shows
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Written
from flopwise.cli.run import arguments_of
from flopwise.cli.streams import Progress
from flopwise.errors import InputError


@click.command(
    "formula",
    cls=Command,
    examples=[
        "model.onnx -i x:f32:N,3,H,W --by layer",
        'model.onnx -i x:f32:N,3,H,W --at "N=1,8 H=224 W=224"',
        'model.onnx -i x:f32:N,3,224,224 --solve "macs <= 1G for N"',
    ],
)
@options.model
@option(
    "--at",
    metavar="SIZES",
    multiple=True,
    help='Evaluate instead: "batch=1,2,4 seq=128:4096:128" gives a line for each combination. Repeatable.',
)
@option(
    "--solve",
    metavar="CONDITION",
    help="The largest size of a symbol within a budget, such as 'macs <= 10G for H', or the largest batch in a memory: "
    "'weight_bytes + peak_activation_bytes <= 24G for N'; --at gives the sizes of the others.",
)
@option(
    "--source",
    type=Choice(["python", "c", "javascript"]),
    help="Write functions of the symbols in that language.",
)
@option("--train", is_flag=True, help="The backward pass too: columns backward_macs, backward_flops, saved_bytes.")
@option(
    "--plot",
    type=Written(),
    metavar="FILE",
    help="Draw the figures against the symbol of --at that has several values.",
)
@options.counting
@options.element_type
@options.by(
    *("op", "layer", "module", "block", "formula"),
    help="Grouping; formula puts layers with the same formula together, block modules alike: 24 x (...).",
)
@shows(
    "--largest-at",
    metavar="SIZES",
    help='Sizes, such as "N=1 H=224 W=224", at which the larger of two summands, and of two lines, stands first.',
)
@options.depth
@options.top("Show the N most expensive lines; the rest becomes one line.")
@shows(
    "--columns",
    metavar="NAME,...",
    callback=options.names,
    help="Figures to show: count, macs, flops, params, activations, output_bytes ...",
)
@options.units
@writes("sheet", "content", plain=("source", (".c", ".h", ".js", ".mjs", ".py")))
def command(
    model: str,
    at: tuple[str, ...],
    solve: str | None,
    source: str | None,
    plot: str | None,
    largest_at: str | None,
    strict: bool,
    output: Output,
    **settings: Any,
) -> int:
    """The cost of MODEL as closed formulas in its open dimensions.

    Dimensions that the file fixes become symbols with -i, such as -i x:f32:N,3,H,W; --dim fixes a symbol. Each formula
    is compared with profiles at several sizes before it is printed, and the report says where it holds.
    """
    import flopwise
    from flopwise.analyses.formula.expressions import load_sympy
    from flopwise.analyses.formula.extras.solve import budget, grid
    from flopwise.report.commands.formula import formula_report, plotted, solution_report, source_report, values_report

    limit = budget(solve) if solve is not None else None
    if sum(chosen is not None for chosen in (solve, source, plot)) > 1:
        raise InputError("give only one of --solve, --source and --plot")
    points = list(grid(at))
    weighed = list(grid([largest_at])) if largest_at is not None else [None]
    if len(weighed) > 1:
        raise InputError("--largest-at takes one size of each symbol")
    models.refuse_directory(model, "formula takes one model")
    arguments = arguments_of(settings)
    load_sympy()  # says how to get it before the work, not after
    remarks: list[str] = []
    with Progress() as progress:
        formula = flopwise.formula(
            model,
            progress=progress,
            **arguments,
        )
        progress("writing the report")
        if limit is not None:
            report = solution_report(formula, limit, points)
        elif source is not None:
            report = source_report(formula, source, settings["columns"])
            if missing := formula.without_formula(settings["columns"]):
                remarks.append(f"left out, as some layer has no formula: {', '.join(missing)}")
            if bounds := formula.at_least(settings["columns"]):
                remarks.append(f"lower bounds, as some layer has no formula: {', '.join(bounds)}")
        elif plot is not None:
            plotted(formula, points, settings["columns"], plot)
            return 0
        elif at:
            report = values_report(formula, points, settings["columns"])
        else:
            report = formula_report(
                formula, settings["by"], settings["depth"], settings["columns"], settings["top"], largest_at=weighed[0]
            )
        part = output.part(report)
    output.write_all([("", part)])
    for remark in remarks:
        click.echo(f"flopwise: note: {remark}", err=True)
    return NO if strict and not formula.exact else 0
