"""``flopwise check`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy
import pytest
from tests.cli.conftest import EXAMPLES, Run


@pytest.fixture
def budget(tmp_path: Path) -> Path:
    """A budget that the example network keeps to, with a place for one more limit."""
    path = tmp_path / "budget.toml"
    path.write_text("[model]\nparams = 44370 # all of them\nunknown = 0\n")
    return path


def test_kept(run: Run, tiny: Path, budget: Path) -> None:
    code, out, err = run("check", tiny, "--budget", budget)
    assert (code, err) == (0, "")
    assert "all 2 limits are met" in out


def test_broken(run: Run, tiny: Path, budget: Path) -> None:
    budget.write_text('[model]\nparams = 44369\nunknown = 0\n[layers."*conv1*"]\nmacs = 1\n')
    code, out, err = run("check", tiny, "--budget", budget)
    assert (code, err) == (1, "")
    assert "2 of 3 limits are exceeded" in out
    assert "1 too many" in out
    assert "unknown" not in out  # what held is not in the way
    found = json.loads(run("check", tiny, "--budget", budget, "-f", "json").out)
    assert (found["schema"], found["ok"]) == ("flopwise.check/1", False)
    assert [limit["broken"] for limit in found["limits"]] == [True, False, True]


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
def test_every_format(run: Run, tiny: Path, budget: Path, format_: str) -> None:
    assert run("check", tiny, "--budget", budget, "-f", format_).code == 0


def test_several_models(run: Run, tiny: Path, budget: Path) -> None:
    code, out, _ = run("check", tiny, EXAMPLES / "custom_op.onnx", "--budget", budget, "-f", "csv")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert code == 1
    assert [line["broken"] for line in lines] == ["no", "no", "no", "yes"]


def test_update(run: Run, tiny: Path, budget: Path) -> None:
    budget.write_text("[model]\nparams = 1 # all of them\nunknown = 7\n")
    code, out, err = run("check", tiny, "--budget", budget, "--update")
    assert (code, out) == (0, "")
    assert "updated with today's figures" in err
    assert budget.read_text() == "[model]\nparams = 44370 # all of them\nunknown = 0\n"
    assert "unchanged" in run("check", tiny, "--budget", budget, "--update").err


def test_update_makes_a_budget(run: Run, tmp_path: Path) -> None:
    new, block = tmp_path / "new.toml", EXAMPLES / "transformer_block.onnx"
    assert run("check", block, "-b", 2, "--dim", "sequence=16", "--budget", new, "--update").code == 0
    assert new.read_text().startswith('batch_size = 2\ndims = { "sequence" = 16 }\n\n[model]\nparams = ')
    assert run("check", block, "--budget", new).code == 0
    assert run("check", block, "-b", 3, "--budget", new).code == 1


def test_a_new_budget_leaves_out_what_nobody_knows(run: Run, tmp_path: Path) -> None:
    numpy.savez(tmp_path / "w.npz", a=numpy.ones((3, 4)))
    new = tmp_path / "new.toml"
    assert run("check", tmp_path / "w.npz", "--budget", new, "--update").code == 0
    assert new.read_text() == "[model]\nparams = 12\nweight_bytes = 96\nunknown = 1\n"
    assert run("check", tmp_path / "w.npz", "--budget", new).code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nparms = 1\n", "unknown key 'parms'; did you mean 'params'?"),
        ("[model\n", "is not TOML"),
        ('[models."other*"]\nparams = 1\n', "sets no limit for"),
        (None, "no such file; --update"),
    ],
)
def test_bad_budgets(run: Run, tiny: Path, budget: Path, text: str | None, message: str) -> None:
    if text is None:
        budget.unlink()
    else:
        budget.write_text(text)
    code, out, err = run("check", tiny, "--budget", budget)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_model_that_is_not_there(run: Run, tiny: Path, budget: Path, tmp_path: Path) -> None:
    code, out, err = run("check", tmp_path / "none.onnx", "--budget", budget)
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, out, err = run("check", tiny, tmp_path / "none.onnx", "--budget", budget)
    assert (code, err.count("\n")) == (2, 1)
    assert "limits are met" in out
    before = budget.read_text()
    assert run("check", tiny, tmp_path / "none.onnx", "--budget", budget, "--update").code == 2
    assert budget.read_text() == before


def test_nothing_is_half_written(run: Run, tiny: Path, tmp_path: Path) -> None:
    place = tmp_path / "no" / "such" / "folder.toml"
    code, out, err = run("check", tiny, "--budget", place, "--update")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot be written" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tiny.onnx"]


def test_update_says_what_it_leaves(run: Run, tiny: Path, tmp_path: Path) -> None:
    budget = tmp_path / "b.toml"
    budget.write_text('[model]\nparams = 1\n[layers."nothing"]\nmacs = 1\n')
    code, out, err = run("check", tiny, "--budget", budget, "--update")
    assert (code, out) == (0, "")
    assert "layers.nothing.macs is left as it is, because no layer has that name" in err
    assert budget.read_text() == '[model]\nparams = 44370\n[layers."nothing"]\nmacs = 1\n'


def test_a_new_budget_leaves_out_lower_bounds(run: Run, tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    assert run("check", EXAMPLES / "custom_op.onnx", "--budget", new, "--update").code == 0
    assert "macs" not in new.read_text()
    assert run("check", EXAMPLES / "custom_op.onnx", "--budget", new).code == 0
