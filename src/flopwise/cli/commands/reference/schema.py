"""``flopwise schema``."""

from __future__ import annotations

import click

from flopwise.cli.command import Command
from flopwise.cli.output import Output, writes


@click.command("schema", cls=Command, examples=["", "profile", "flopwise.llm/1 -o llm.schema.json"])
@click.argument("name", required=False)
@writes("sheet", "content")
def command(name: str | None, output: Output) -> int:
    """The JSON Schema (draft 2020-12) of the document NAME; without NAME, the documents that -f json writes."""
    from flopwise.api.schema import key_of, schema
    from flopwise.report.commands.schema import documents_report, schema_report

    output.write(documents_report() if name is None else schema_report(key_of(name), schema(name)))
    return 0
