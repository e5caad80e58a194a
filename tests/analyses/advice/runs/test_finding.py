"""Rules of a run: each speaks above its threshold and not below, on steps made by hand and on recorded ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.analyses.traces.nets import made_up
from tests.analyses.traces.test_whatif import recorded
from tests.docs.blocks import ROOT

import flopwise
from flopwise.analyses.advice.advice import suggestions_of_run
from flopwise.analyses.advice.runs import Run
from flopwise.analyses.timing import catalog
from flopwise.analyses.traces.trace import Matched, Moment, TimedRow, Trace

WINDOW = 1_000_000


def _row(time: int, name: str = "a", op: str = "MatMul", **settings: Any) -> TimedRow:
    return TimedRow(name, op, "forward", time, 1, None, None, "matched", **settings)


def _step(rows: tuple[TimedRow, ...] = (), remainder: Mapping[str, int] | None = None, **settings: Any) -> Trace:
    named = dict(remainder or {})
    at_work = sum(row.time_ns or 0 for row in rows) + sum(time for name, time in named.items() if name != "gaps")
    named["gaps"] = named.get("gaps", 0)
    covered = at_work + named["gaps"]
    return Trace(
        "net",
        "kineto",
        "NVIDIA A100",
        ("1",),
        "1",
        WINDOW,
        rows,
        (),
        named,
        covered,
        at_work,
        at_work,
        Matched(),
        (),
        **settings,
    )


def _moments(spans: list[tuple[str, int, int]]) -> tuple[Moment, ...]:
    return tuple(Moment(where, "forward", "kernel", where, start, end, None) for where, start, end in spans)


def _short(count: int) -> tuple[Moment, ...]:
    return _moments([("a", 10_000 * i, 10_000 * i + 4_000) for i in range(count)])


#: Rule -> a step that it is about, the nanoseconds that it names, and the same step below its threshold.
STEPS: dict[str, tuple[Trace, float, Trace]] = {
    "idle": (_step(remainder={"gaps": 151_000}), 151_000, _step(remainder={"gaps": 149_000})),
    "data-loading": (_step(remainder={"data loading": 51_000}), 51_000, _step(remainder={"data loading": 49_000})),
    "copies": (_step(remainder={"copies": 51_000}), 51_000, _step(remainder={"copies": 49_000})),
    "launch-bound": (
        _step((_row(399_000),), timeline=_short(20)),
        80_000,
        _step((_row(399_000),), timeline=_short(19)),
    ),
    "communication": (
        _step(timeline=_moments([("communication", 0, 100_000), ("a", 51_000, 200_000)]), remainder={"a": 900_000}),
        51_000,
        _step(timeline=_moments([("communication", 0, 100_000), ("a", 49_000, 200_000)]), remainder={"a": 900_000}),
    ),
    "transposes": (
        _step((_row(100_000, op="Conv"), _row(11_000, "t", "Transpose"))),
        11_000,
        _step((_row(100_000, op="Conv"), _row(9_000, "t", "Transpose"))),
    ),
    "far-from-roof": (
        _step((_row(110_000, floor_ns=30_000), _row(890_000, "b"))),
        70_000,
        _step((_row(90_000, floor_ns=30_000), _row(910_000, "b"))),
    ),
    "tensor-cores": (
        _step((_row(WINDOW),), kernels={("a", "forward", "ampere_sgemm_128x64_tn"): 60_000}),
        60_000 * (1 - 19.5 / 312),
        _step((_row(WINDOW),), kernels={("a", "forward", "ampere_sgemm_128x64_tn"): 40_000}),
    ),
    "variance": (
        _step((_row(100_000, times_ns=tuple(80_000 + 4_000 * i for i in range(11))),)),
        20_000,
        _step((_row(100_000, times_ns=tuple(98_000 + 200 * i for i in range(11))),)),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_above_its_threshold_and_not_below(name: str) -> None:
    above, ns, below = STEPS[name]
    device = catalog.find("a100")
    found = {each.rule.name: each for each in suggestions_of_run(Run(above, device))}
    assert found[name].kind == "run"
    assert found[name].saved.ns == pytest.approx(ns, rel=1e-3)
    assert found[name].time_share == pytest.approx(ns / WINDOW, rel=1e-3)
    assert name not in {each.rule.name for each in suggestions_of_run(Run(below, device))}


@pytest.mark.parametrize(
    ("trace", "rules"),
    [
        ("kineto_bert_small_h100", {"idle", "launch-bound", "far-from-roof"}),
        ("kineto_alexnet_a100", {"idle", "tensor-cores"}),
        ("kineto_compile_triton", {"far-from-roof"}),
        ("kineto_cpu_only", {"idle", "copies"}),
    ],
)
def test_recorded_steps(trace: str, rules: set[str]) -> None:
    step = flopwise.trace(None, recorded(trace))
    known = step.device != "CPU"
    found = suggestions_of_run(Run(step, catalog.nearest_gpu(step.device, 0) if known else None))
    assert {each.rule.name for each in found} == rules


def test_a_model_with_its_trace(tmp_path: Path) -> None:
    model = ROOT / "examples" / "tiny_resnet.onnx"
    path = tmp_path / "profile.json"
    path.write_text(made_up(flopwise.profile(model)))
    advice = flopwise.advise(model, trace=path, device="h100")
    assert any("of the run" in note for note in advice.notes)
    assert {each.kind for each in advice.suggestions} == {"same", "other"}
    idle = flopwise.advise(model, trace=STEPS["idle"][0])
    assert idle.environment["device"].startswith("NVIDIA A100")
    assert {each.kind for each in idle.suggestions} == {"same", "other", "run"}


def test_a_run_that_trains_is_not_advised_as_an_inference() -> None:
    pytest.importorskip("torch")
    model, trace = (ROOT / "examples" / name for name in ("classifier.py:Classifier", "classifier_trace.json.gz"))
    inference = flopwise.advise(str(model), (16, 3, 32, 32))
    training = flopwise.advise(str(model), (16, 3, 32, 32), trace=trace)
    assert {each.rule.name for each in inference.suggestions} == {"batch-norm", "separable"}
    assert {each.rule.name for each in training.suggestions} == {"separable"}
