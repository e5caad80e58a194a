"""The pytest plug-in, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import flopwise

TINY = Path(__file__).parents[1] / "examples" / "tiny_resnet.onnx"


def outcome(folder: Path, test: str, *args: str, budget: str = "") -> tuple[int, str]:
    """Exit code and output of pytest on one file of tests."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (folder / "test_it.py").write_text(f"MODEL = {str(TINY)!r}\n" + textwrap.dedent(test))
    if budget:
        (folder / "budget.toml").write_text(budget)
    source = str(Path(flopwise.__file__).parents[1])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "pytest", "-p", "flopwise.pytest_plugin", "-p", "no:cacheprovider", *args]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "test",
    [
        'def test_it(flopwise_budget): flopwise_budget(MODEL, params="44.37 k", unknown=0)',
        "def test_it(flopwise_budget): flopwise_budget(MODEL)",
        'def test_it(flopwise_budget): flopwise_budget(MODEL, "budget.toml")',
        'def test_it(flopwise_budget): flopwise_budget(MODEL, {"layers": {"*": {"macs": "1 M"}}})',
        'def test_it(flopwise_budget): flopwise_budget(MODEL, batch_size=2, macs="5 M")',
        """
        import pytest
        @pytest.mark.flopwise_budget(params=44370)
        def test_it(flopwise_budget): assert flopwise_budget(MODEL)[0].value == 44370
        """,
        """
        import pytest
        @pytest.mark.flopwise_budget("budget.toml")
        def test_it(flopwise_budget): flopwise_budget(MODEL)
        """,
    ],
)
def test_kept(tmp_path: Path, test: str) -> None:
    code, out = outcome(tmp_path, test, budget="[model]\nparams = 44370\n")
    assert code == 0, out


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("def test_it(flopwise_budget): flopwise_budget(MODEL, params=1)", "44,369 too many"),
        ("def test_it(flopwise_budget): flopwise_budget(MODEL)", "did you mean 'params'"),
        ('def test_it(flopwise_budget): flopwise_budget("none.onnx", params=1)', "none.onnx: no such file"),
        ('def test_it(flopwise_budget): flopwise_budget(MODEL, "b.toml", params=1)', "a budget or limits, not both"),
        (
            """
            import pytest
            @pytest.mark.flopwise_budget(params=1)
            def test_it(flopwise_budget): flopwise_budget(MODEL)
            """,
            "44,369 too many",
        ),
    ],
)
def test_broken(tmp_path: Path, test: str, message: str) -> None:
    code, out = outcome(tmp_path, test, budget="[model]\nparms = 1\n")
    assert code == 1
    assert message in out


def test_update(tmp_path: Path) -> None:
    test = "def test_it(flopwise_budget): flopwise_budget(MODEL)"
    code, out = outcome(tmp_path, test, "--flopwise-update", budget="[model]\nparams = 1 # trained\n")
    assert code == 0, out
    assert (tmp_path / "budget.toml").read_text() == "[model]\nparams = 44370 # trained\n"


def test_update_makes_a_budget(tmp_path: Path) -> None:
    test = "def test_it(flopwise_budget): flopwise_budget(MODEL)"
    code, out = outcome(tmp_path, test)
    assert code == 1
    assert "pytest --flopwise-update writes one" in out
    assert outcome(tmp_path, test, "--flopwise-update")[0] == 0
    assert (tmp_path / "budget.toml").read_text().startswith("[model]\nparams = 44370\n")
    assert outcome(tmp_path, test)[0] == 0


def test_a_limit_that_is_none_is_named(tmp_path: Path) -> None:
    test = "def test_it(flopwise_budget): flopwise_budget(MODEL, parms=1)"
    code, out = outcome(tmp_path, test)
    assert code == 1
    assert "no limit and no argument 'parms'; did you mean 'params'?" in out
    assert "Traceback" not in out
