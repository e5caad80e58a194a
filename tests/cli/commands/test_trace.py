"""``flopwise trace``: a recorded training of a small classifier, on its layers and by itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import flopwise

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[3] / "examples"
TRACE = str(EXAMPLES / "classifier_trace.json.gz")
MODEL = [f"{EXAMPLES / 'classifier.py'}:Classifier", TRACE, "-i", "16x3x32x32"]


def test_layers_have_their_times_forward_and_backward(run: Run) -> None:
    code, out, err = run("trace", *MODEL)
    assert (code, err) == (0, "")
    assert "Classifier · kineto · CPU · ProfilerStep#3 of 3 steps" in out
    assert out.splitlines()[2].split()[:5] == ["layer", "op", "launches", "forward", "µs"]
    assert "matched                    8 of 8  layers, 100.0 % of matmul and convolution time" in out
    content = json.loads(run("trace", *MODEL, "-f", "json").out)
    totals, rows = content["totals"], content["rows"]
    assert totals["rows_ns"] + totals["segments_ns"] + totals["remainder_ns"] == totals["covered_ns"]
    assert [row["name"] for row in rows][::2] == [
        "stem.0",
        "stem.1",
        "stem.2",
        "body.0",
        "body.1",
        "body.2",
        "mean",
        "head",
    ]
    assert {row["phase"] for row in rows} == {"forward", "backward"}
    conv = next(row for row in rows if row["name"] == "body.0" and row["phase"] == "backward")
    assert conv["flops"] == 2 * 2 * 16 * 64 * 32 * 9 * 16 * 16 + 16 * 64 * 16 * 16  # both products, and the bias
    assert set(content["remainder"]) == {"gaps", "optimiser", "loss", "accumulate gradients"}


@pytest.mark.parametrize("by", ["layer", "op", "module", "kernel", "step"])
@pytest.mark.parametrize("format", ["table", "csv", "markdown", "latex"])
def test_every_grouping_in_every_format(run: Run, by: str, format: str) -> None:
    code, out, err = run("trace", TRACE, "--by", by, "-f", format)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) > 1


def test_one_pass_of_a_step_and_other_steps(run: Run) -> None:
    def total(*arguments: str) -> tuple[int, dict[str, int]]:
        content = json.loads(run("trace", *MODEL, "-f", "json", *arguments).out)
        return content["totals"]["rows_ns"], content["remainder"]

    both, _ = total()
    forward, rest = total("--phase", "forward")
    backward, _ = total("--phase", "backward")
    assert forward + backward == both == forward + rest["backward"]
    assert total("--step", "ProfilerStep#3")[0] == both
    assert total("--step", "all")[0] == sum(total("--step", str(number))[0] for number in range(3))


def test_a_device_gives_the_least_times(run: Run) -> None:
    out = run("trace", *MODEL, "--device", "a100", "-f", "json").out
    rows = [row for row in json.loads(out)["rows"] if row["op"] == "Conv"]
    assert all(0 < row["floor_ns"] < row["time_ns"] for row in rows)
    assert "the floor assumes" in run("trace", TRACE, "--device", "a100").out


def test_the_share_of_the_device_that_products_use(run: Run) -> None:
    """MFU by hand: the multiply-adds of a training step, at the peak that the note names, over the step's time."""
    arguments = [*MODEL, "--device", "a100", "-f", "json"]
    content = json.loads(run("trace", *arguments).out)
    profile = flopwise.profile(MODEL[0], (16, 3, 32, 32), train=True)
    products = sum((row.macs or 0) + (row.backward_macs or 0) for row in profile.rows)
    least = 1e9 * 2 * products / 156e12  # float32 as TF32, which the note says
    assert content["totals"]["mfu"] == pytest.approx(least / content["trace"]["window_ns"])
    assert "MFU" in run("trace", *MODEL, "--device", "a100").out
    steps = run("trace", *MODEL, "--device", "a100", "--by", "step", "-f", "csv").out.splitlines()
    assert steps[0].split(",")[-1].startswith("mfu")
    assert json.loads(run("trace", *MODEL, "-f", "json").out)["totals"]["mfu"] is None
    without = json.loads(run("trace", TRACE, "--device", "a100", "-f", "json").out)  # of backward passes, times alone
    assert without["totals"]["mfu"] is None
    assert [note for note in without["notes"] if note.startswith("no MFU")]


def test_a_larger_model_is_noted(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "larger.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(EXAMPLES)!r})\nimport torch\nfrom classifier import Classifier\n"
        "class Larger(Classifier):\n"
        "    def forward(self, images):\n"
        "        return super().forward(images) @ torch.zeros(10, 400000)\n"
    )
    out = run("trace", f"{path}:Larger", *MODEL[1:]).out
    assert "MACs are in layers without time in the trace" in out
    assert run("trace", f"{path}:Larger", *MODEL[1:], "--strict").code == 1
    assert "without time" not in run("trace", *MODEL).out


def test_strict_asks_for_names(run: Run, tmp_path: Path) -> None:
    assert run("trace", *MODEL, "--strict").code == 0
    content = json.loads(gzip.decompress(Path(TRACE).read_bytes()))
    for event in content["traceEvents"]:
        if "atch_norm" in event["name"] and "ackward" not in event["name"]:
            event["name"] = "mine::work"
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content))
    assert run("trace", MODEL[0], str(path), *MODEL[2:], "--strict").code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([MODEL[0], TRACE, "-i", "4x3x32x32"], "the trace's batch is 16, the model's 4: -b 16"),
        ([MODEL[0], TRACE, "-i", "16x3x64x64"], "other input sizes: 16x3x32x32 where the model has 16x3x64x64"),
        (
            [str(EXAMPLES / "tiny_resnet.onnx"), TRACE],
            "the trace is of another model: none of its matmul",
        ),
        ([str(EXAMPLES / "tiny_resnet.onnx")], "it begins with neither [ nor {; a model goes before its trace"),
        ([TRACE, str(EXAMPLES / "tiny_resnet.onnx")], "a model goes before its trace"),
        ([], "Missing argument 'TRACE'"),
        ([TRACE, "--step", "ProfilerStep#9"], "the trace has no step 'ProfilerStep#9'; did you mean"),
        ([TRACE, "-b", "4"], "-b says how to read a model, and there is none"),
        ([TRACE, "-i", "4x3x32x32"], "-i says how to read a model, and there is none"),
        ([*MODEL, "--split", "macs"], "no segment has multiply-adds"),
        ([TRACE, "--columns", "tme"], "unknown column 'tme'; did you mean 'time'?"),
        ([TRACE, "--by", "step", "--sort", "time"], "lines by step have their own columns"),
        ([TRACE, "--by", "step", "--top", "1"], "lines by step are all of them, in their order: leave top out"),
        ([TRACE, "--by", "op", "--depth", "1"], "depth is of modules, not of lines by op"),
        ([TRACE, "--device", "h1000"], "unknown device 'h1000'; did you mean"),
        ([TRACE, "--beside", TRACE], "no CUDA graph was captured in it"),
        ([TRACE, "--beside", f"{EXAMPLES}/tiny_bert/config.json"], "neither a trace of a CUDA graph capture nor"),
        ([TRACE, "-f", "html", "--by", "op"], "the page has every layer, grouping and column: leave out --by"),
        ([TRACE, "-f", "html", "--top", "3"], "the page has every layer, grouping and column: leave out --top"),
        ([str(EXAMPLES), TRACE], "is a directory; trace takes one model"),
    ],
)
def test_what_cannot_be_answered_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run("trace", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_cut_off_is_one_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(Path(TRACE).read_bytes()[:9000])
    code, _, err = run("trace", str(path))
    assert code == 2
    assert "cut off: its packed data end early" in err
    assert len(err.splitlines()) == 1
