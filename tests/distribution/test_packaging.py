"""What is published says the same in every place, and the action does what it promises in a repository of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
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


def test_no_folder_of_tests_has_the_name_of_a_distribution() -> None:
    """pytest imports ``tests/NAME/__init__.py`` as NAME, and whoever imports the distribution later gets our folder."""
    paths = [path for path in sys.path if path.endswith("-packages")]
    names = [folder.parent.name for folder in (ROOT / "tests").glob("*/__init__.py")]
    assert [name for name in names if PathFinder.find_spec(name, paths) is not None] == []


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


def test_every_extra_that_is_named_exists() -> None:
    """Hints in errors, README and docs: ``pip install 'flopwise[llm]'``, ``pip install '.[torch]'``."""
    extras, named = set(_toml()["optional-dependencies"]), set()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for path in (*(ROOT / "src").rglob("*.py"), *pages):
        for names in re.findall(r"(?:flopwise|'\.)\[([a-z0-9, ]+)[\],{]", path.read_text("utf-8")):
            named |= {name.strip() for name in names.split(",") if name.strip()}
    assert len(named) > 10
    assert named <= extras


def test_the_changelog_is_about_this_version() -> None:
    head = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert head is not None
    assert head[1] == flopwise.__version__


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
    for step in action["runs"]["steps"]:
        for name in re.findall(r"packaging/action/(\w+\.sh)", step.get("run", "")):
            text = (ROOT / "packaging/action" / name).read_text()
            taken = set(re.findall(r"\$\{?([A-Z_]+)", text))
            there = {"GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL"}
            assert taken <= {*step["env"], *there}, name
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


#: Stands for the token of the job.
TOKEN = "ghs_the-token-of-the-job"


def _act(work: Path, **inputs: str) -> tuple[int, str, str]:
    """The action's steps in a repository: status, summary and what ``gh`` was asked."""
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: str(told.get("default", "")) for name, told in action["inputs"].items()}
    given |= {"model": "net.onnx", "base": "HEAD~1", "comment": "false", "number": "7", **inputs}
    temporary, summary = work.parent / "temp", work.parent / "summary.md"
    table = given["table"] or f"{temporary}/flopwise/table.md"
    known = {
        **{f"inputs.{name}": value for name, value in given.items()},
        "github.token": TOKEN,
        "runner.temp": str(temporary),
        "inputs.table || format('{0}/flopwise/table.md', runner.temp)": table,
        "inputs.table == ''": not given["table"],
        "always() && inputs.comment == 'true' && inputs.number != ''": given["comment"] == "true" and given["number"],
    }

    def worked_out(text: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: str(known[match[1]]), text)

    status = 0
    for step in action["runs"]["steps"]:
        wanted = known[step["if"].removeprefix("${{ ").removesuffix(" }}")]
        if not wanted or "packaging/action" not in step.get("run", "") or (status and "always()" not in step["if"]):
            continue
        environment = {
            **{name: value for name, value in os.environ.items() if "TOKEN" not in name},
            "PATH": f"{work.parent / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": str(work.parent / "output.txt"),
            "GITHUB_REPOSITORY": "a/b",
            "GITHUB_SERVER_URL": "https://github.com",
            **{name: worked_out(value) for name, value in step["env"].items()},
        }
        status = subprocess.run(["bash", "-c", step["run"]], cwd=work, env=environment).returncode or status
    asked = work.parent / "gh.txt"
    return status, summary.read_text() if summary.exists() else "", asked.read_text() if asked.exists() else ""


def test_the_action_comments_the_table(repository: Path) -> None:
    status, summary, asked = _act(repository, comment="true")
    assert status == 0
    assert re.search(r"\| MACs \| 1,859,904 \| 1,860,224 \| 320 \|", summary), summary
    assert "base: net.onnx" in summary
    assert "--method POST repos/a/b/issues/7/comments" in asked
    assert subprocess.run(["git", "-C", repository, "worktree", "list"], capture_output=True).stdout.count(b"\n") == 1


def test_the_action_fails_when_a_condition_holds(repository: Path) -> None:
    status, summary, asked = _act(repository, **{"fail-on": "params>0"})
    assert (status, asked) == (1, "")
    assert "params>0: params 44,370 -> 44,700" in summary


def test_the_action_on_a_new_model(repository: Path) -> None:
    shutil.copyfile(EXAMPLES / "tiny_resnet.onnx", repository / "new.onnx")
    status, summary, _ = _act(repository, model="new.onnx")
    assert status == 0
    assert "`new.onnx` is new" in summary


def test_a_failing_condition_is_commented_all_the_same(repository: Path) -> None:
    status, _, asked = _act(repository, comment="true", **{"fail-on": "params>0"})
    assert status == 1
    assert "--method POST repos/a/b/issues/7/comments" in asked


@pytest.mark.parametrize(
    "name",
    [
        "-x.onnx",
        "a b.onnx",
        "`@octocat`.onnx",
        "$(touch pwned).onnx",
        '") | env.GH_TOKEN | (".onnx',
        "--> <b>.onnx",
        "a\n# b.onnx",
    ],
)
def test_names_of_files_are_names_alone(repository: Path, name: str) -> None:
    """Models may come from a list of what a pull request changes."""
    shutil.copyfile(EXAMPLES / "tiny_resnet.onnx", repository / name)
    status, summary, asked = _act(repository, model=name, comment="true")
    assert status == 0
    assert "is new" in summary.splitlines()[0]
    assert summary.splitlines()[0].count("`") == 2
    assert "| Conv |" in summary
    assert '") | env' not in asked
    assert re.search(r'startswith\("<!-- flopwise: [\w._/:@+ -]* -->"\)\) \| \.id\]', asked)
    assert not (repository / "pwned").exists()


def test_options_on_several_lines(repository: Path) -> None:
    options = "-c macs\n-c fvcore  \n\n  -i 'image:f32:1x3x64x64'\n"
    status, summary, _ = _act(repository, options=options, model="net.onnx")
    assert (status, "compare one thing at a time" in summary) == (2, True), summary  # both conventions arrived
    status, summary, _ = _act(repository, options="-b 2\n--human\n")
    assert status == 0
    assert "3.72 M" in summary, summary
    assert _act(repository, options="-c 'macs")[0] != 0  # a quote that does not end takes no option away


#: A model as code that looks for the token: in its own environment, and in those of all processes that it may see.
SPY = """
import glob, os, torch
seen = [repr(dict(os.environ))]
for file in glob.glob("/proc/[0-9]*/environ"):
    try:
        seen.append(open(file, "rb").read().decode(errors="replace"))
    except OSError:
        pass
open(os.environ["SPY"], "a").write("\\n".join(seen))

def make():
    return torch.nn.Linear(4, 2)
"""


def test_no_step_that_runs_code_of_the_pull_request_has_the_token(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = repository.parent / "seen.txt"
    monkeypatch.setenv("SPY", str(seen))
    (repository / "net.py").write_text(SPY)
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(repository)]
    subprocess.run([*run, "add", "-A"], check=True)
    subprocess.run([*run, "commit", "-q", "-m", "a model as code"], check=True)
    status, summary, asked = _act(repository, model="net.py:make", base="HEAD", options="-i 1x4", comment="true")
    assert (status, "POST" in asked) == (0, True), summary
    assert "PATH" in seen.read_text()
    assert TOKEN not in seen.read_text()
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        assert name not in seen.read_text().partition("\n")[0]


def test_steps_with_the_token_run_no_flopwise() -> None:
    yaml = pytest.importorskip("yaml")
    with_token = []
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        if "github.token" in str(step.get("env", {})):
            (script,) = re.findall(r"^bash \"\$GITHUB_ACTION_PATH/(packaging/action/\w+\.sh)\"$", step["run"])
            code = re.sub(r"#.*", "", (ROOT / script).read_text())
            assert not re.search(r"\b(python3?|pip|source)\b|^\s*flopwise\b", code, re.MULTILINE), script
            with_token.append(script)
    assert sorted(with_token) == ["packaging/action/base.sh", "packaging/action/comment.sh"]


def test_a_table_of_another_job_is_commented_and_nothing_is_run(repository: Path) -> None:
    (repository / "table.md").write_text("| a | b |\n")
    status, summary, asked = _act(repository, table="table.md", comment="true", number="9")
    assert (status, summary) == (0, "")
    assert "--method POST repos/a/b/issues/9/comments" in asked
    os.symlink("/etc/passwd", repository / "link.md")
    (repository.parent / "gh.txt").unlink()
    assert _act(repository, table="link.md", comment="true") == (0, "", "")
