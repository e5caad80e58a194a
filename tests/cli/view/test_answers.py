"""The answers of the page are what the command line prints, and nothing can be asked for that is no option of a tab."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import data_of

from flopwise import cli
from flopwise.cli.view.answers import kind, respond
from flopwise.cli.view.tabs import TABS

RESNET = "examples/tiny_resnet.onnx"


def ask(tab: str, *files: str, format: str = "json", **options: Any) -> Any:
    return respond({"tab": tab, "files": list(files), "options": options, "format": format})


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            ["profile", RESNET, "-b", "8", "-c", "fvcore"],
            lambda: ask("profile", RESNET, batch="8", convention="fvcore"),
        ),
        (["memory", RESNET, "--train"], lambda: ask("memory", RESNET, train="yes")),
        (["bound", RESNET, "--device", "t4"], lambda: ask("bound", RESNET, device="t4")),
        (["weights", RESNET, "--by", "tensor"], lambda: ask("weights", RESNET, by="tensor")),
        (["advise", RESNET, "--keep-network"], lambda: ask("advise", RESNET, same="yes")),
        (["compare", RESNET, RESNET], lambda: ask("compare", RESNET, RESNET)),
        (["trace", "examples/classifier_trace.json.gz"], lambda: ask("trace", "examples/classifier_trace.json.gz")),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_document_is_that_of_the_command_line(words: list[str], answer: Any, capsys: Any) -> None:
    assert cli.main([*words, "-f", "json"]) == 0
    expected = capsys.readouterr().out
    given = answer()
    assert given["code"] == 0
    assert given["text"] == expected
    assert cli.main(given["command"].split()[1:]) == 0
    assert capsys.readouterr().out == expected


def test_every_tab_of_a_model_is_a_page() -> None:
    for name, tab in TABS.items():
        if "model" in tab.alone:
            inputs = {"inputs": "image:f32:N,3,64,64"} if name == "formula" else {}
            answer = ask(name, RESNET, format="html", **inputs, **({"device": "t4"} if name == "bound" else {}))
            assert answer["text"].startswith("<!doctype html>"), answer


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"tab": "zoo"}, "no such tab"),
        ({"tab": "profile", "format": "parquet"}, "no such tab"),
        ({"options": {"rules": "mine.py"}}, "no option 'rules'"),
        ({"options": {"batch": 8}}, "no option 'batch'"),
        ({"options": {"convention": "own.py"}}, "no 'own.py'"),
        ({"options": {"inputs": "x:f32:2:@/etc/passwd"}}, "neither names of files"),
        ({"options": {"dims": "N" * 5000}}, "more than 2,000"),
        ({"options": {"batch": "8 --rules=x"}}, "'8 --rules=x' is not a list of whole numbers"),
        ({"options": {"inputs": "--output=gone;x"}}, "'--output=gone'"),
        ({"files": ["--output=gone"]}, "--output=gone: no such file"),
        ({"files": ["examples/README.md"]}, "README.md"),
        ({"files": 3}, "not iterable"),
        ({"options": None}, "NoneType"),
    ],
)
def test_what_is_no_question_of_the_page_is_one_line(request_: Any, words: str) -> None:
    answer = respond({"tab": "profile", "files": [RESNET], "options": {}, "format": "json", **request_})
    assert answer["code"] == 2
    assert words in answer["error"]
    assert "\n" not in answer["error"]
    assert answer["text"] == ""


def test_kinds_of_files() -> None:
    kinds = {
        RESNET: "model",
        "examples/alexnet.prototxt": "model",
        "examples/tiny_llama/config.json": "language",
        "examples/classifier_trace.json.gz": "trace",
        "examples/README.md": "",
        "examples/classifier.py": "",
        "nowhere.onnx": "model",
        "nowhere.safetensors": "weights",
    }
    assert {name: kind(name) for name in kinds} == kinds


def test_a_document_of_another_machine_is_tables_again(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.json"
    document = ask("profile", RESNET)["text"]
    path.write_text(document)
    assert kind(str(path)) == "report"
    assert json.loads(ask("report", str(path))["text"]) == json.loads(document)
    first, *others = data_of(ask("report", str(path), format="html")["text"])["sheets"]
    figures = {title: exact for title, exact, _ in first["summary"]}
    assert figures["totals: macs"] == "1,859,904"
    assert figures["convention: name"] == "flops"
    (layers,) = (sheet for sheet in others if sheet["about"] == ["layers"])
    assert [cells[0] for cells, *_ in layers["lines"]] == [layer["name"] for layer in json.loads(document)["layers"]]
    path.write_text('{"schema": "flopwise.profile/1", "layers": [')
    assert ask("report", str(path))["error"].startswith(f"{path}: no JSON")
    path.write_text(
        '{"schema": "flopwise.profile/1", "layers": [1, {"a": [1, 2]}, null], "notes": "x", "inputs": {"a": null}}'
    )
    assert ask("report", str(path), format="html")["code"] == 0


def test_items_without_a_key_in_common_are_lines_of_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "wide.json"
    path.write_text(json.dumps({"schema": "flopwise.x/1", "a": [{str(i): i} for i in range(2000)]}))
    (_, sheet) = data_of(ask("report", str(path), format="html")["text"])["sheets"]
    assert [cells for cells, *_ in sheet["lines"]][:2] == [['{"0": 0}'], ['{"1": 1}']]
    path.write_text('{"schema": "flopwise.x/1", "a": ' + '{"a":' * 900 + "1" + "}" * 900 + "}")
    for format in ("html", "json", "csv"):
        answer = ask("report", str(path), format=format)
        assert answer["code"] == 0 or "nested too deeply" in answer["error"]


#: Asks questions where no package but click can be imported.
ALONE = """
import json, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "ml_dtypes", "rich", "onnx", "google", "urllib3", "torch", "sympy"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Finder())
from flopwise.cli.view.answers import respond
print(json.dumps([respond(question) for question in json.loads(sys.argv[1])]))
"""


def test_what_runs_in_a_browser_needs_no_package_but_click(tmp_path: Path) -> None:
    safetensors = tmp_path / "x.safetensors"
    header = json.dumps({"w": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}}).encode()
    safetensors.write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))
    models = [RESNET, "examples/alexnet.prototxt", str(safetensors)]
    options = {"bound": {"device": "t4"}}
    questions = [
        {"tab": tab, "files": [model], "options": options.get(tab, {}), "format": format}
        for model in models
        for tab in ("profile", "memory", "bound", "advise")
        for format in ("html", "json")
    ]
    questions.append({"tab": "trace", "files": ["examples/classifier_trace.json.gz"], "options": {}, "format": "html"})
    questions.append({"tab": "compare", "files": models[:2], "options": {}, "format": "html"})
    line = [sys.executable, "-c", ALONE, json.dumps(questions)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    for question, answer in zip(questions, json.loads(done.stdout), strict=True):
        assert (answer["code"], answer["error"]) == (0, ""), question
        assert answer["text"] == respond(question)["text"]


def test_an_error_that_asks_for_a_package_says_what_can_be_done_in_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    needs = (1, "", "config.json: a bert needs PyTorch and transformers: pip install 'flopwise[llm]'")
    monkeypatch.setattr("flopwise.cli.view.answers.printed", lambda words: needs)
    assert ask("llm", str(path))["error"] == needs[2]
    monkeypatch.setattr(sys, "platform", "emscripten")
    assert ask("llm", str(path))["error"].endswith("run the flopwise command on your own machine")
