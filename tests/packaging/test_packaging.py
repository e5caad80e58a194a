"""What is published says the same in every place, and the action does what it promises in a repository of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.stage import EXAMPLES, FILES

import flopwise

ROOT = Path(__file__).parents[2]


def _toml() -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version_everywhere() -> None:
    assert f"\nversion: {flopwise.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'set version = "{flopwise.__version__}"' in (ROOT / "packaging/conda/meta.yaml").read_text()


def test_conda_asks_for_what_the_package_asks_for() -> None:
    recipe = (ROOT / "packaging/conda/meta.yaml").read_text().partition("  run:")[2].partition("\ntest:")[0]
    asked = {
        " ".join(re.split(r"(?=[<>=])", line.split(";")[0].strip(), maxsplit=1)) for line in _toml()["dependencies"]
    }
    assert set(re.findall(r"- (.+)", recipe)) == asked | {f"python {_toml()['requires-python']}"}


def test_every_package_of_the_tests_has_its_version_in_the_constraints() -> None:
    asked = [*_toml()["dependencies"], *_toml()["optional-dependencies"]["test"]]
    names = {re.split(r"[\s<>=!~;\[]", line)[0].replace("_", "-").lower() for line in asked}
    pinned = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert names - pinned <= {"tomli"}, "python packaging/constraints.py writes them"  # tomli: of Python 3.10 alone


def test_the_image_has_what_the_build_needs() -> None:
    text = (ROOT / "Dockerfile").read_text()
    extras = re.search(r"ARG EXTRAS=(.+)", text)
    assert extras
    assert set(extras[1].split(",")) <= set(_toml()["optional-dependencies"])
    for name in ("pyproject.toml", _toml()["readme"], "LICENSE", "src"):
        assert re.search(rf"^COPY .*\b{re.escape(name)}\b", text, re.MULTILINE)


def test_workflows_and_the_action_are_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = action["runs"]["steps"][-1]
    assert set(re.findall(r"\$\{?([A-Z_]+)", (ROOT / "packaging/action/compare.sh").read_text())) <= {
        *script["env"],
        *("GITHUB_STEP_SUMMARY", "GITHUB_REPOSITORY"),
    }
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}, path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose second commit has a wider model, with a ``gh`` that writes down what it is asked."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    work, tools = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    tools.mkdir()
    (tools / "flopwise").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flopwise "$@"\n')
    (tools / "gh").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/gh.txt\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(work)]
    subprocess.run([*run, "init", "-q"], check=True)
    shutil.copyfile(EXAMPLES / "tiny_resnet.onnx", work / "net.onnx")
    for message in ("first", "second"):
        subprocess.run([*run, "add", "-A"], check=True)
        subprocess.run([*run, "commit", "-q", "-m", message], check=True)
        if message == "first":
            FILES["branch.onnx"](work / "net.onnx")
    return work


def _act(work: Path, **changes: str) -> tuple[int, str, str]:
    """Status, summary and what ``gh`` was asked."""
    summary = work.parent / "summary.md"
    environment = {
        **os.environ,
        "PATH": f"{work.parent / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "MODEL": "net.onnx",
        "BASE": "HEAD~1",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_REPOSITORY": "a/b",
        **changes,
    }
    script = ROOT / "packaging/action/compare.sh"
    status = subprocess.run(["bash", str(script)], cwd=work, env=environment).returncode
    asked = work.parent / "gh.txt"
    return status, summary.read_text(), asked.read_text() if asked.exists() else ""


def test_the_action_comments_the_table(repository: Path) -> None:
    status, summary, asked = _act(repository, COMMENT="true", NUMBER="7")
    assert status == 0
    assert re.search(r"\| MACs \| 1,859,904 \| 1,860,224 \| 320 \|", summary), summary
    assert "base: net.onnx" in summary
    assert "--method POST repos/a/b/issues/7/comments" in asked
    assert subprocess.run(["git", "-C", repository, "worktree", "list"], capture_output=True).stdout.count(b"\n") == 1


def test_the_action_fails_when_a_condition_holds(repository: Path) -> None:
    status, summary, asked = _act(repository, FAIL_ON="params>0")
    assert (status, asked) == (1, "")
    assert "params>0: params 44,370 -> 44,700" in summary


def test_the_action_on_a_new_model(repository: Path) -> None:
    shutil.copyfile(EXAMPLES / "tiny_resnet.onnx", repository / "new.onnx")
    status, summary, _ = _act(repository, MODEL="new.onnx")
    assert status == 0
    assert "`new.onnx` is new" in summary
