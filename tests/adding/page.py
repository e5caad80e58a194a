"""What ``docs/contributing/adding.md`` shows, done: its files written into a copy of the package, its commands run.

A block of Python belongs to the file that the text before it names in backticks (``src/flopwise/...``). A file that is
not there is written; in one that is there, the block goes to the beginning of the table that the text names behind it
(`` `src/flopwise/cli/__init__.py`, in `COMMANDS` ``), and its imports to the others. A block ``console`` holds commands
(``$ flopwise ...``) and all that they print.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import flopwise

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing" / "adding.md"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(r"`src/flopwise/([\w/.]+\.\w+)`(?:,? in `(\w+)`)?")


class Block(NamedTuple):
    """A block of the page: its language, its text, the file that it belongs to and the table in it."""

    language: str
    text: str
    file: str
    table: str


def blocks(title: str) -> list[Block]:
    """The blocks of the section with this title."""
    text = PAGE.read_text("utf-8")
    sections = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    section = sections[sections.index(title) + 1]
    return list(_blocks(section))


def _blocks(section: str) -> Iterator[Block]:
    start = 0
    for match in _BLOCK.finditer(section):
        places = _PLACE.findall(section[start : match.start()])
        file, table = places[-1] if places else ("", "")
        yield Block(match[1], match[2], file, table)
        start = match.end()


def built(title: str, folder: Path) -> Path:
    """A copy of the package with what a section adds, in a folder."""
    package = folder / "flopwise"
    shutil.copytree(Path(flopwise.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for block in blocks(title):
        if block.language != "python" or not block.file:
            continue
        path = package / block.file
        if path.exists():
            _insert(path, block)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
    return folder


def _insert(path: Path, block: Block) -> None:
    """Put a block at the beginning of a table in a file."""
    assert block.table, f"{block.file} is there already: name the table that the lines go into"
    text = path.read_text("utf-8")
    table = re.search(rf"^{block.table}\b.*[\[({{]$", text, re.MULTILINE)
    assert table is not None, f"{block.file} has no table {block.table}"
    lines = block.text.rstrip().removesuffix(",").splitlines()
    imports = "".join(f"{line}\n" for line in lines if line.startswith("from "))
    entry = "\n".join(f"    {line}" for line in lines if line and not line.startswith("from ")) + ",\n"
    text = f"{text[: table.end()]}\n{entry}{text[table.end() + 1 :]}"
    path.write_text(re.sub(r"^from flopwise", f"{imports}from flopwise", text, count=1, flags=re.MULTILINE), "utf-8")


def check_commands(title: str, package: Path) -> None:
    """Run the commands of a section with a package, and compare what they print with the page."""
    runs = [run for block in blocks(title) if block.language == "console" for run in _runs(block.text)]
    assert runs, "show how it is used from the command line"
    environment = {**os.environ, "PYTHONPATH": str(package), "COLUMNS": "100"}
    for command, expected in runs:
        arguments = shlex.split(command)
        assert arguments[0] == "flopwise"
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        printed = "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())
        assert printed == expected, f"{command}\n{printed}"


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console, and what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output
