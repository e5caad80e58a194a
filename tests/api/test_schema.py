"""JSON Schemas of documents: valid ones, that refuse what is no such document and know every key."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.graphs import sketch

import flopwise
from flopwise.cli import main
from flopwise.errors import InputError
from flopwise.report.schemas.documents import DOCUMENTS
from flopwise.report.schemas.notation import members

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[2]

#: Documents that only flopwise's own pages and files read.
INTERNAL = {"html", "html-compare", "html-trace", "html-traces", "meter"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_one(name: str) -> None:
    schema = flopwise.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == flopwise.schema(schema["title"])
    assert all(words for _, _, words in members(DOCUMENTS[name].kind))


def test_every_document_has_a_schema() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py") if "schemas" not in path.parts)
    assert set(re.findall(r"flopwise\.([a-z-]+)/1\"", source)) - INTERNAL == set(DOCUMENTS)


def test_what_is_no_such_document() -> None:
    document = flopwise.profile(ROOT / "examples/tiny_resnet.onnx").to_dict()
    jsonschema.validate(document, flopwise.schema("profile"))
    for wrong in ({**document, "new": 1}, {**document, "notes": None}, {**document, "schema": "flopwise.llm/1"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, flopwise.schema("profile"))


def test_the_memory_of_what_has_no_shape() -> None:
    model = sketch({"x": (2, 4), "w": None, "y": (2, 8)}, x="input", w="weight")
    model.node("MatMul", "x w", "y")
    document = flopwise.memory(model.graph(), train=True, optimizer="adam").to_dict()
    assert document["totals"]["weight_bytes_by_dtype"] == {"float32": None}
    jsonschema.validate(document, flopwise.schema("memory"))


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "flopwise.check/1"]) == 0
    assert json.loads(capsys.readouterr().out) == flopwise.schema("check")
    assert main(["schema"]) == 0
    assert "flopwise.trace-comparison/1" in capsys.readouterr().out
    assert main(["schema", "check", "-f", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["key,type,meaning", "ok,flag,whether no limit is broken"]
    assert main(["schema", "profil"]) == 2
    assert "did you mean 'profile'?" in capsys.readouterr().err
    with pytest.raises(InputError):
        flopwise.schema("nothing")
