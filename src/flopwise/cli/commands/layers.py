"""``flopwise layers``."""

from __future__ import annotations

import click

from flopwise.cli import options
from flopwise.cli.command import Command
from flopwise.cli.output import Output, writes
from flopwise.cli.run import run


@click.command("layers", cls=Command, examples=["model.onnx", "model.onnx -f json", "model.onnx -o graph.dot"])
@options.model
@options.names_of
@options.folding
@options.element_type
@writes("sheet", "content", "layers")
def command(model: str, output: Output, **settings: object) -> int:
    """Layers of MODEL: name, operator, input and output names and shapes.

    With -f dot: the graph, for Graphviz.
    """
    from flopwise.report.commands.shapes import layers_report

    settings["convention"] = settings["convention"] or "flops"
    return run(model, settings, layers_report, output)
