"""Measured figures of this machine: what they are of, and where they go; no test asks how high they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run

from flopwise.analyses.timing import peaks
from flopwise.analyses.timing.device import Cache
from flopwise.analyses.timing.machine import environment, this_cpu

__all__ = ["run"]  # a fixture


def test_every_figure_has_a_kind_a_unit_and_a_source() -> None:
    found = list(peaks.measured_peaks(seconds=0.002))
    assert {"vector", "dram"} <= {p.what for p in found}
    assert {p.dtype for p in found if p.what == "vector"} >= {"float32", "float64"}
    for peak in found:
        assert peak.value > 0
        assert peak.kind == "measured"
        assert peak.source
        assert peak.unit == ("FLOP/s" if peak.dtype else "s" if peak.what == "launch" else "B/s")
        if peak.core is not None:
            assert peak.value >= peak.core


def test_memory_is_read_where_a_cache_holds_every_set(monkeypatch: pytest.MonkeyPatch) -> None:
    here = replace(this_cpu(), caches=(Cache("l1", 1 << 15), Cache("llc", 1 << 20)))
    monkeypatch.setattr("flopwise.analyses.timing.machine.this_cpu", lambda: here)
    monkeypatch.setattr(peaks, "EDGES", (32,))
    monkeypatch.setattr(peaks, "SETS", (1 << 14, 1 << 20))
    levels = [peak.what for peak in peaks.measured_peaks(seconds=0.001) if peak.unit == "B/s"]
    assert levels == ["l1", "llc", "dram"]


def test_no_derived_figure_is_below_what_was_measured() -> None:
    cpu = this_cpu()
    for peak in peaks.measured_peaks(seconds=0.01):
        derived = cpu.flops(peak.dtype) if peak.dtype else None
        if derived is not None and derived.dtype == peak.dtype and peak.core and derived.core:
            assert peak.core <= derived.core, f"{peak.source}: {peak.core:g} above {derived.source}"


def test_the_fastest_stored_benchmark_is_a_figure() -> None:
    (found,) = peaks.reached({"float32": (5e9, "Conv")}, 4)
    assert (found.core, found.value, found.source) == (5e9, 2e10, "Conv, a stored benchmark, one core x 4")
    assert peaks.reached({}, 4) == []


def test_environments_of_this_machine() -> None:
    here = environment({"name": "onnxruntime"})
    assert peaks.is_here(here, peaks.machine_id())
    assert not peaks.is_here(here, "elsewhere")


def test_on_the_command_line(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "EDGES", (32,))
    monkeypatch.setattr(peaks, "SETS", (1 << 14, 1 << 24))
    store = tmp_path / "times.sqlite"
    result = run("devices", "--measure", "--store", store, "-f", "json")
    assert result.code == 0
    kinds = {figure["kind"] for figure in json.loads(result.out)["devices"][0]["figures"]}
    assert "measured" in kinds
    assert json.loads(run("devices", "cpu", "--store", store, "-f", "json").out) == json.loads(result.out)
    wrong = run("devices", "h100", "--measure")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
