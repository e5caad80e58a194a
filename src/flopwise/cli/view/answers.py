"""A JSON document that flopwise has written, here or on another machine, as tables again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from flopwise import cli
from flopwise._child import Parent
from flopwise._results import Json
from flopwise.cli.view.drops import located
from flopwise.cli.view.tabs import TABS
from flopwise.errors import FlopwiseError, InputError, ModelError, one_line
from flopwise.formats.sources.source import head
from flopwise.formats.sources.text import text_of_file
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, Value, figure

#: Cells of a table for each value that it shows, at most, and cells that any table may have.
_SPARSE, _FEW = 16, 1 << 16


def document_report(document: Json, name: str) -> Report:
    """The document: its single figures, and a table for each of its lists.

    Args:
        document: plain values, with the key ``schema``.
        name: what to call it.
    """
    return Report(lambda format, look: _sheets(document, name, look), lambda: document)


def _sheets(document: Json, name: str, look: Look) -> list[Sheet]:
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    figures = tuple(_figures({key: value for key, value in document.items() if key not in lists}, look))
    notes = tuple(look.text(str(note)) for note in lists.pop("notes", ()))
    first = Sheet((), (), about=(look.text(name), look.text(str(document["schema"]))), summary=figures, notes=notes)
    return [first, *(_table(key, items, look) for key, items in lists.items() if items)]


def _figures(values: Json, look: Look, around: str = "") -> Iterator[Figure]:
    """Each single value with its key, and the keys around it."""
    for key, value in values.items():
        title = f"{around}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from _figures(value, look, f"{title}: ")
        else:
            plain = isinstance(value, int) and not isinstance(value, bool)
            yield figure(title, value if plain or value is None else _text(value), "", look)


def _table(key: str, items: Sequence[object], look: Look) -> Sheet:
    """A line for each item of a list; an item that is no object is a line of one cell."""
    lines = [item if isinstance(item, dict) else {key: item} for item in items]
    keys = dict.fromkeys(key for line in lines for key in line)
    if len(keys) * len(lines) > _SPARSE * sum(map(len, lines)) + _FEW:  # hardly any item has the keys of another
        lines, keys = [{key: _text(item)} for item in items], {key: None}
    heads = tuple(Head(key, key.replace("_", " "), "number" if _numbers(lines, key) else "text") for key in keys)
    rows = (tuple(_cell(line.get(head.key), head, look) for head in heads) for line in lines)
    return Sheet(heads, tuple(map(Line, rows)), about=(look.text(key.replace("_", " ")),))


def _numbers(lines: Sequence[Json], key: str) -> bool:
    """True where every value of a column is a number or unknown."""
    values = [line.get(key) for line in lines]
    return all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values)


def _cell(value: Any, head: Head, look: Look) -> Value:
    return value if head.right else "" if value is None else look.text(_text(value))


def _text(value: object) -> str:
    """A value that is no number: a shape as in the reports, other lists and objects as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(size, int) for size in value):
        return "x".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)


# The answer to a request of the page: what the command line prints, from a function without a server or a browser.
#
# A server asks it in a child process (``serve``), the page that runs without an installation asks it in the browser.


#: What an answer may be written as.
FORMATS = ("html", "json", "csv")

#: The kind of a document that flopwise has written, and how it begins.
REPORT, _BEGINNING = "report", re.compile(rb'\s*\{\s*"schema": *"flopwise\.')

#: What follows an error that asks for an installation, where flopwise itself runs in a browser.
NOT_IN_A_BROWSER = "; a browser cannot install that: run the flopwise command on your own machine"


def respond(request: Json) -> Json:
    """The answer to a request.

    ``{"kinds": names}`` asks for the kind of each file: {"kinds": [...]}. ``{"tab": command, "files": names,
    "options": {key: text}, "format": name}`` asks for a report: {"code", "text", "error", "command"}, where ``code`` is
    the exit code of the command line ``command``, ``text`` what it prints and ``error`` its last line on stderr.

    Args:
        request: the request, whatever it is; names of files are as they lie in the current folder.
    """
    try:
        if "kinds" in request:
            return {"kinds": [kind(name) for name in request["kinds"]]}
        if request["tab"] == REPORT:
            (name,) = request["files"]
            return {"code": 0, "text": reopened(name, request["format"]), "error": "", "command": ""}
        words = words_of(request)
    except (FlopwiseError, KeyError, TypeError, AttributeError) as error:
        return {"code": cli.BAD, "text": "", "error": one_line(error), "command": ""}
    code, text, error_line = printed(words)
    if sys.platform == "emscripten" and "pip install" in error_line:
        error_line += NOT_IN_A_BROWSER
    return {"code": code, "text": text, "error": error_line, "command": shlex.join(["flopwise", *words])}


def words_of(request: Json) -> list[str]:
    """The words of the command line that a request stands for.

    Raises:
        InputError: it asks for what is no tab, option or format of the page.
    """
    if request["tab"] not in TABS or request["format"] not in FORMATS:
        raise InputError("the page has no such tab or format")
    options = TABS[request["tab"]].words(request["options"])
    files = request["files"]
    apart = ["--"] if any(file.startswith("-") for file in files) else []
    return [request["tab"], *options, "-f", request["format"], *apart, *files]


def printed(words: Sequence[str]) -> tuple[int, str, str]:
    """The exit code of a command line, what it prints, and the last line that it says on standard error."""
    out, said = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = cli.main(words)
    lines = said.getvalue().splitlines()
    return code, out.buffer.getvalue().decode(), lines[-1].removeprefix("flopwise: ") if lines else ""


def reopened(name: str, format: str) -> str:
    """A document that flopwise has written, in a format.

    Raises:
        ModelError: it is no JSON, or too large.
        InputError: there is no such format.
    """
    from flopwise.report.report import as_text

    try:
        document = json.loads(text_of_file(name))
        if not isinstance(document, dict) or "schema" not in document:
            raise ModelError(f"{name}: no document that flopwise has written")
        return as_text(document_report(document, name), format)
    except RecursionError:
        raise ModelError(f"{name}: no document that flopwise has written: it is nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{name}: no JSON ({error})") from error


def kind(name: str) -> str:
    """The kind of a file: "model", "language" (a configuration; a GGUF file whose architecture is known), "weights",
    "trace", "report" (a document that flopwise has written); "" for any other.
    """
    from flopwise.analyses.traces.format import is_trace
    from flopwise.formats.language.read import in_table
    from flopwise.formats.table import endings, format_of

    try:
        if name.endswith(".json") and _BEGINNING.match(head(name, 100)):
            return REPORT
        if is_trace(name):
            return "trace"
        format = format_of(name)
        if format.name in ("config", "gguf"):
            return "language" if format.name == "config" or in_table(name) else "weights"
        if not format.has_graph:
            return "weights"
        return "model" if name.lower().endswith(endings()) else ""
    except (FlopwiseError, OSError):
        return ""


def respond_in(root: str, question: Json) -> Json:
    """The answer to a question of the page whose files lie in a folder as ``drops.located`` says.

    Args:
        root: the folder.
        question: as for ``respond``, with files as ``{"drop": N, "name": NAME}``.
    """
    key = "kinds" if "kinds" in question else "files"
    folder, names = located(question[key])
    os.chdir(os.path.join(root, folder))
    return respond({**question, key: names})


def serve() -> None:
    """Answer the requests of the parent process, each in the folder that it names."""
    parent = Parent()
    for request in parent.requests():
        os.chdir(request.pop("folder"))
        parent.tell(respond(request))
