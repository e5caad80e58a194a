"""Budgets of time: rooflines on a named device, and the measured time over the engine's floor."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analyses.timing.models import chain
from tests.analyses.timing.test_store import made
from tests.cli.conftest import Run, run

import flopwise
from flopwise.analyses.budget import budget_from_mapping, read_budget
from flopwise.analyses.timing.store import Store
from flopwise.api.bound import digests, engine_options, this_environment
from flopwise.errors import InputError

__all__ = ["run"]  # a fixture


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "times.sqlite"
    monkeypatch.setenv("FLOPWISE_STORE", str(path))
    return path


def test_rooflines_on_named_devices() -> None:
    slow, fast = flopwise.bound(chain(), device="t4").roofline_ns, flopwise.bound(chain(), device="h100").roofline_ns
    budget = {"model": {"roofline_us": {"t4": slow / 1e3 + 1, "h100": 0}}}
    found = flopwise.check(chain(), budget)
    assert [(v.limit.device, v.broken, v.unit) for v in found] == [("t4", False, "µs"), ("h100-sxm", True, "µs")]
    assert found[1].value == -(-fast // 1e3)
    assert found[1].why == "too slow"


def test_the_measured_time_over_the_floor(store: Path) -> None:
    pytest.importorskip("onnxruntime")
    budget = {"model": {"max_time_ratio": 1.25}}
    (unmeasured,) = flopwise.check(chain(), budget)
    assert (unmeasured.broken, unmeasured.why) == (True, "nothing was measured: flopwise bench")
    counted = flopwise.profile(chain())
    environment = this_environment("onnxruntime", engine_options("onnxruntime", "all", 1))
    for whole, value, broken in ((120.0, 1200, False), (110.0, 1100, False)):
        import dataclasses

        session = dataclasses.replace(made(100.0, whole=whole), environment=environment.facts)
        model, inputs = digests(counted)
        with Store(store) as kept:
            kept.put(dataclasses.replace(session, model=model, inputs=inputs))
        (found,) = flopwise.check(chain(), budget)
        assert (found.value, found.broken, found.unit) == (value, broken, "‰ of the floor")
    assert flopwise.check(chain(), {"model": {"max_time_ratio": 1.05}})[0].broken


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"roofline_us": 5}, r"\[model.roofline_us\] is not a table"),
        ({"roofline_us": {"h10": 5}}, "unknown device 'h10'; did you mean 'h100'"),
        ({"max_time_ratio": 0.5}, r"\[model\] max_time_ratio: 0.5 is not a ratio of at least 1, such as 1.25"),
        ({"max_time_ratio": "fast"}, "'fast' is not a ratio"),
    ],
)
def test_limits_that_are_none(model: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        budget_from_mapping({"model": model})


def test_layers_have_no_limits_of_time() -> None:
    with pytest.raises(InputError, match="unknown key 'roofline_us'"):
        budget_from_mapping({"layers": {"*": {"roofline_us": {"h100": 1}}}})


def test_on_the_command_line(tmp_path: Path, run: Run) -> None:
    model, budget = tmp_path / "chain.onnx", tmp_path / "budget.toml"
    model.write_bytes(chain())
    budget.write_text("# kept\n[model]\nroofline_us = { h100 = 0, t4 = 1000 }\n")
    result = run("check", model, "--budget", budget)
    assert result.code == 1
    assert "roofline_us.h100-sxm" in result.out
    assert run("check", model, "--budget", budget, "--update").code == 0
    assert budget.read_text().startswith("# kept\n")
    assert {limit.most for limit in read_budget(budget).limits} != {0, 1000}
    assert run("check", model, "--budget", budget).code == 0
