"""``flopwise bound`` and ``flopwise devices``."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from flopwise.analyses.timing.catalog import devices

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine has measured does not matter here."""
    monkeypatch.setenv("FLOPWISE_STORE", str(tmp_path / "times.sqlite"))


def test_a_table(run: Run, tiny: Path) -> None:
    result = run("bound", tiny, "--device", "tpu-v4")
    assert result.code == 0
    assert "Google TPU v4 (chip)" in result.out
    assert "physical floor" in result.out
    assert "minimum memory traffic" in result.out


def test_json(run: Run, tiny: Path) -> None:
    found = json.loads(run("bound", tiny, "--device", "h100", "-f", "json").out)
    assert found["schema"] == "flopwise.bound/1"
    assert list(found) == [
        "schema",
        "model",
        "environment",
        "floors",
        "measured_ns",
        "noise",
        "coverage",
        "verdict",
        "rows",
        "notes",
    ]
    assert found["verdict"] == "roofline"
    assert found["floors"]["engine_ns"] is None
    assert isinstance(found["floors"]["physical_ns"], int)
    assert list(found["rows"][0])[:7] == ["name", "op", "time_ns", "floor_ns", "physical_ns", "roof", "status"]
    assert found["environment"]["device"]["id"] == "h100-sxm"
    assert all(peak["source"] for peak in found["environment"]["peaks"])


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "latex"])
def test_formats(run: Run, tiny: Path, format: str) -> None:
    result = run("bound", tiny, "--device", "h100", "-f", format, "--by", "op")
    assert result.code == 0
    assert "Conv" in result.out


def test_columns_order_and_the_slowest(run: Run, tiny: Path) -> None:
    args = ("bound", tiny, "--device", "h100", "-f", "csv", "--columns", "name,roofline", "--sort", "roofline")
    lines = run(*args, "--top", "3").out.splitlines()
    assert lines[0] == "name,roofline"
    times = [float(line.split(",")[1]) for line in lines[1:]]
    assert len(times) == 3
    assert times == sorted(times, reverse=True)


def test_this_machine(run: Run, tiny: Path) -> None:
    assert run("bound", tiny).code == 0
    assert run("devices", "cpu").code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--device", "h10"), "unknown device 'h10'; did you mean 'h100'"),
        (("--device", "h100", "--columns", "speed"), "unknown column 'speed'; did you mean 'streamed'? known: name"),
        (("--device", "h100", "--dtype", "float7"), "unknown element type 'float7'"),
        (("--device", "epyc-9654", "--threads", "200"), "200 threads: AMD EPYC 9654 has 96 cores"),
    ],
)
def test_wrong_input_is_one_line(run: Run, tiny: Path, args: tuple[str, ...], message: str) -> None:
    result = run("bound", tiny, *args)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_strict(run: Run, tmp_path: Path) -> None:
    custom = Path(__file__).parents[3] / "examples" / "custom_op.onnx"
    assert run("bound", custom, "--device", "h100").code == 0
    assert run("bound", custom, "--device", "h100", "--strict").code == 1


def test_devices(run: Run) -> None:
    result = run("devices", "-f", "csv")
    assert result.code == 0
    assert sum(line.startswith("h100-sxm,") for line in result.out.splitlines()) == 1
    stated = {device.id: {peak.dtype for peak in device.peaks} for device in devices()}
    heads, *rows = csv.reader(result.out.splitlines())
    for row in rows:
        shown = {dtype for dtype, figure in zip(heads[2:7], row[2:7], strict=True) if figure}
        assert shown <= stated.get(row[0], shown), "what another type does is not shown as this one's"
    one = run("devices", "h100")
    assert "[1] NVIDIA H100 Tensor Core GPU " in one.out
    assert one.out.count("NVIDIA H100 Tensor Core GPU datasheet") == 1, "a figure has the number of its document"
    assert " sparse " in one.out
    table = [*csv.DictReader(run("devices", "h100", "-f", "csv").out.splitlines())]
    assert {row["unit"] for row in table} >= {"FLOP/s", "B/s"}
    assert not re.search(r"FLOP/s +FLOP/s", one.out), "a unit stands once"
    found = json.loads(run("devices", "mi300x", "-f", "json").out)["devices"][0]
    assert found["id"] == "mi300x"
    assert all(figure["source"] and figure["unit"] for figure in found["figures"])
    assert run("devices", "abacus").code == 2


def test_this_machine_by_name_is_this_machine(run: Run, tiny: Path) -> None:
    assert run("bound", tiny, "--device", "cpu", "-f", "json").out == run("bound", tiny, "-f", "json").out


def test_a_measured_time_is_a_share_of_the_peak_and_of_the_floors(run: Run, tiny: Path) -> None:
    """MFU as Chowdhery et al. 2022 define it: operations a second over the peak, here of products."""
    args = ("bound", tiny, "--device", "h100", "--dtype", "bf16", "-b", "64", "--measured", "35us")
    found = json.loads(run(*args, "-f", "json").out)
    macs = sum(row["macs"] for row in found["rows"])
    h100 = next(device for device in devices() if device.id == "h100-sxm")
    peak = next(
        p.value for p in h100.peaks if p.dtype == "bfloat16" and p.what == "matrix" and p.above_rated_mhz is None
    )
    assert found["run"]["measured_ns"] == 35_000
    assert found["run"]["mfu"] == pytest.approx(2 * macs / 35e-6 / peak)
    assert found["run"]["floor_share"] == pytest.approx(found["floors"]["physical_ns"] / 35_000, rel=1e-2)
    assert f"{100 * found['run']['mfu']:.1f} %" in run(*args).out
    assert "is below the floor" in run(*args[:-1], "1ns").out


@pytest.mark.parametrize("time", ["35m", "0ms", "-3ms", "fast", ""])
def test_what_is_no_time(run: Run, tiny: Path, time: str) -> None:
    code, out, err = run("bound", tiny, "--device", "h100", "--measured", time)
    assert (code, out) == (2, "")
    assert "is no time; write for example 35ms" in err
