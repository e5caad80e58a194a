"""The documents that flopwise writes as JSON."""

from __future__ import annotations

from flopwise._results import Json
from flopwise.report.formats.json import render_content
from flopwise.report.report import Report
from flopwise.report.schemas.documents import DOCUMENTS
from flopwise.report.schemas.notation import members
from flopwise.report.sheet.sheet import Field, Head, Sheet


def documents_report() -> Report:
    """Every document, with the command that writes it."""
    fields: list[Field[str]] = [
        Field(Head("name", "name", "text", 0), lambda name: name),
        Field(Head("schema", "schema", "text", 1), lambda name: f"flopwise.{name}/1"),
        Field(Head("command", "written by", "text", 1), lambda name: f"flopwise {DOCUMENTS[name].command}"),
    ]
    sheet = Sheet.of(fields, sorted(DOCUMENTS), notes=("flopwise schema NAME prints the JSON Schema of one",))
    return Report(lambda format, look: [sheet])


def schema_report(name: str, schema: Json) -> Report:
    """A document's JSON Schema; in formats that are tables, its keys.

    Args:
        name: of the document.
        schema: its JSON Schema.
    """
    fields: list[Field[tuple[str, str, str]]] = [
        Field(Head("key", "key", "text", 0), lambda row: row[0]),
        Field(Head("type", "type", "text", 1), lambda row: row[1]),
        Field(Head("meaning", "meaning", "text", 2, prose=True), lambda row: row[2]),
    ]
    sheet = Sheet.of(fields, members(DOCUMENTS[name].kind))
    return Report(lambda format, look: [sheet], lambda: schema, own={"table": lambda look: render_content(schema)})
