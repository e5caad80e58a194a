"""JSON Schemas of the documents that flopwise writes."""

from __future__ import annotations

from flopwise._arguments import checked
from flopwise._results import Json
from flopwise.errors import InputError, did_you_mean
from flopwise.report.schemas.documents import DOCUMENTS
from flopwise.report.schemas.notation import Open, json_schema


@checked
def schema(name: str) -> Json:
    """The JSON Schema (draft 2020-12) of a document.

    Within a version of a document keys are added, and none is removed, renamed or given another meaning; then its
    number rises.

    Args:
        name: as it stands in the document's key "schema" ("flopwise.profile/1"), or without what is the same in all
            ("profile").

    Raises:
        InputError: there is no such document.

    >>> schema("profile")["title"], "layers" in schema("flopwise.profile/1")["properties"]
    ('flopwise.profile/1', True)
    """
    key = key_of(name)
    document, own = DOCUMENTS[key], f"flopwise.{key}/1"
    kind = document.kind
    members = kind.members if isinstance(kind, Open) else kind
    content = json_schema(members)
    if isinstance(kind, Open):
        content["additionalProperties"] = json_schema(kind.others)
    content["properties"] = {"schema": {"const": own}, **content["properties"]}
    content["required"].insert(0, "schema")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": own,
        "description": f"What flopwise {document.command} writes with -f json.",
        **content,
    }


def key_of(name: str) -> str:
    """The short name of a document.

    Raises:
        InputError: there is no such document.
    """
    key = name.removeprefix("flopwise.").removesuffix("/1")
    if key not in DOCUMENTS:
        raise InputError(f"no document {name!r}{did_you_mean(key, DOCUMENTS)}; documents: {', '.join(DOCUMENTS)}")
    return key
