"""Every command and every piece of Python in README and docs runs, and prints what stands below it."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tests.docs.stage import stage

from flopwise.cli import main

#: Pages whose blocks another test runs.
ELSEWHERE = {"docs/contributing/adding.md": "tests/adding", "docs/contributing/fuzzing.md": "tests/fuzzing"}

#: What a shell has to interpret.
_SHELL = re.compile(r"[|;<>`*]|\$\(|^for |&&")


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``flopwise`` and ``python`` are those of the tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("flopwise", f'"{sys.executable}" -m flopwise'), ("python", f'"{sys.executable}"')):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        script.chmod(0o755)
    paths = [str(ROOT / "src"), *(p for p in sys.path if p)]
    return {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": ":".join(paths), "HOME": str(tmp_path)}


#: Pages whose blocks run here.
HERE = [str(page.relative_to(ROOT)) for page in PAGES if str(page.relative_to(ROOT)) not in ELSEWHERE]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.upstream] * (name == "README.md")) for name in HERE]
)
@pytest.mark.filterwarnings("ignore")
def test_page(
    name: str,
    tmp_path: Path,
    shell: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = ROOT / name
    work = tmp_path / "work"
    work.mkdir()
    stage(work, page.read_text(encoding="utf-8"))
    if importlib.util.find_spec("torchvision"):
        from tests import torch_vision  # noqa: F401
    monkeypatch.chdir(work / "examples" if page.parent.name == "examples" else work)
    monkeypatch.setenv("COLUMNS", "200")
    if os.environ.get("UPDATE_DOCS"):
        _update(page, run_page(page, work, shell, capsys))
    wrong = [answer for answer in run_page(page, work, shell, capsys) if not answer.same]
    assert not wrong, "\n".join(map(str, wrong))


@dataclass(frozen=True)
class Answer:
    """What a command printed, and what stands below it."""

    block: Block
    command: str
    printed: str
    expected: str | None
    failed: bool = False

    @property
    def same(self) -> bool:
        """The expected text; in it a line ``...`` stands for any lines, and in a line for any words."""
        if self.failed or self.expected is None:
            return not self.failed
        pattern = re.escape(_plain(self.expected)).replace(r"\.\.\.", ".*?")
        return re.fullmatch(pattern, _plain(self.printed), re.DOTALL) is not None

    def __str__(self) -> str:
        return f"{self.block}: $ {self.command}\n{self.printed}"


def run_page(page: Path, work: Path, shell: dict[str, str], capsys: pytest.CaptureFixture[str]) -> list[Answer]:
    """What each command of a page answers; its Python is run, in one namespace."""
    names: dict[str, Any] = {"__name__": "page"}
    answers: list[Answer] = []
    for block in blocks(page):
        if block.not_run:
            continue
        if block.language == "python":
            try:
                exec(compile(block.text, str(block), "exec"), names)
            except Exception as error:
                answers.append(Answer(block, "python", f"{type(error).__name__}: {error}", None, failed=True))
        elif block.language == "toml":
            _write(work, block)
        elif block.language == "sh" or block.transcript:
            for command, expected in block.commands:
                printed, failed = _run(command, shell, capsys)
                failed = failed and not (expected or "").startswith("flopwise: ")  # an error that the page shows
                answers.append(Answer(block, command, printed, expected, failed))
    return answers


def _write(folder: Path, block: Block) -> None:
    """A file whose name stands in its first line."""
    first = re.match(r"# (\S+)$", block.text.splitlines()[0])
    if first:
        (folder / first[1]).write_text(block.text + "\n")


def _run(command: str, shell: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[str, bool]:
    """What a command prints on stdout and stderr, and whether it failed."""
    command = command.strip()
    if re.match(r"(python3? -m )?pip install|git clone|python3? -m venv", command):
        return "", False  # the environment of the tests is what they make
    words = shlex.split(command, comments=True)
    if words[:1] == ["flopwise"] and not _SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", command)):
        capsys.readouterr()
        status = main(words[1:])
        printed = "".join(capsys.readouterr())
    else:
        if missing := [tool for tool in ("jq",) if f" {tool} " in command and shutil.which(tool) is None]:
            pytest.skip(f"needs {missing[0]}: apt install {missing[0]}")
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=shell, timeout=300)
        status, printed = result.returncode, result.stdout + result.stderr
    answers_no = re.search(r"--fail-on|--budget|--strict|flopwise check", command)
    return printed, status != 0 and not (status == 1 and answers_no)


def _plain(text: str) -> str:
    """Without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _update(page: Path, answers: list[Answer]) -> None:
    """The page with what its commands print now; UPDATE_DOCS=1 asks for it."""
    text = page.read_text(encoding="utf-8")
    for answer in answers:
        stale = not answer.same and not answer.failed and answer.expected is not None
        if stale and "..." not in (answer.expected or ""):
            old, new = (f"$ {answer.command}\n{output}" for output in (answer.expected, _plain(answer.printed)))
            assert old in text, f"{answer.block}: a command over several lines is not updated"
            text = text.replace(old, new, 1)
    page.write_text(text, encoding="utf-8")


def test_what_is_not_run_says_why() -> None:
    reasons = {str(block): block.not_run for page in PAGES for block in blocks(page) if block.not_run}
    assert all(len(reason) > 8 for reason in reasons.values())
    assert len(reasons) < 30
