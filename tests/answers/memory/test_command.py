"""``flopwise memory``, and ``flopwise profile`` with several batch sizes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES, LIGHT, Run

import flopwise


@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
def test_every_format(run: Run, tiny: Path, format_: str) -> None:
    code, out, err = run("memory", tiny, "-f", format_)
    assert (code, err) == (0, "")
    assert out


def test_figures(run: Run, tiny: Path) -> None:
    found = json.loads(run("memory", tiny, "--train", "--optimizer", "adam", "-f", "json").out)
    profile = flopwise.profile(tiny)
    totals = found["totals"]
    assert found["schema"] == "flopwise.memory/1"
    assert totals["peak_activation_bytes"] == profile.peak_activation_bytes == max(s["bytes"] for s in found["steps"])
    assert totals["weight_bytes"] == sum(totals["weight_bytes_by_dtype"].values()) == 179720
    assert totals["peak_activation_bytes"] == sum(t["bytes"] for t in found["alive"])
    assert totals["arena_bytes"] >= totals["peak_activation_bytes"]
    training = totals["training"]
    assert training["gradient_bytes"] == 4 * 44370
    assert 0 <= training["state_bytes"] - 8 * 44370 < 1000  # two moments, and a count of steps for each tensor
    assert training["memory_bytes"] == sum(
        training[f"{part}_bytes"] for part in ("weight", "gradient", "state", "saved")
    )


def test_the_table_names_what_lives_at_the_peak(run: Run, tiny: Path) -> None:
    out = run("memory", tiny).out
    image = next(line for line in out.splitlines() if line.startswith("image"))
    assert image.split()[1:] == ["1×3×64×64", "float32", "49,152", "60.0", "(caller)", "/stem/conv/Conv"]
    assert "peak activation bytes" in out
    assert "arena bytes" in out


def test_csv(run: Run, tiny: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(run("memory", tiny, "-f", "csv").out)))
    assert sum(int(line["bytes"]) for line in lines) == 81920


def test_inplace_is_less(run: Run) -> None:
    model = LIGHT / "light_resnet50.onnx"
    plain, less = (
        json.loads(run("memory", model, "-f", "json", *args).out)["totals"]["peak_activation_bytes"]
        for args in ((), ("--inplace",))
    )
    assert (plain, less) == (9633792, 7225344)


def test_plan(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    code, out, _ = run("memory", LIGHT / "light_squeezenet.onnx", "--plan", place)
    assert code == 0
    assert "arena bytes" in out
    plan = json.loads(place.read_text())
    assert plan["schema"] == "flopwise.plan/1"
    assert plan["arena_bytes"] == plan["peak_activation_bytes"] == 6308352
    assert max(t["offset"] + t["bytes"] for t in plan["tensors"]) == plan["arena_bytes"]
    assert all(0 <= t["first"] <= t["last"] < len(plan["steps"]) for t in plan["tensors"])
    profile = flopwise.profile(LIGHT / "light_squeezenet.onnx")
    makers = {t.name: row.name for row in profile.rows for t in row.node.known_outputs}
    assert [t["made_by"] for t in plan["tensors"]] == [makers.get(t["name"]) for t in plan["tensors"]]
    for i, one in enumerate(plan["tensors"]):
        for other in plan["tensors"][:i]:
            if one["first"] <= other["last"] and other["first"] <= one["last"]:
                assert (
                    one["offset"] + one["bytes"] <= other["offset"] or other["offset"] + other["bytes"] <= one["offset"]
                )


def test_what_nobody_knows(run: Run, tmp_path: Path) -> None:
    model = EXAMPLES / "custom_op.onnx"
    graph = flopwise.read(model)
    code, out, _ = run("memory", model)
    assert code == 0
    if any(not t.sized for n in graph.nodes for t in n.known_outputs):
        assert "?" in out
        assert run("memory", model, "--plan", tmp_path / "plan.json").code == 2
        assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--align", 3), "not a power of two"),
        (("--plan", "tiny.onnx"), "--plan would overwrite the file that is read"),
        (("--plan", "no/such/folder.json"), "cannot be written"),
        (("--plan", "same", "-o", "same"), "--plan and --output name the same file"),
    ],
)
def test_bad_usage(
    run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(tiny.parent)
    before = tiny.read_bytes()
    code, _, err = run("memory", tiny, *args)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert [p.name for p in tiny.parent.iterdir()] == ["tiny.onnx"]
    assert tiny.read_bytes() == before


def test_a_directory(run: Run, tiny: Path) -> None:
    assert run("memory", tiny.parent).code == 0
    assert "--plan takes one model" in run("memory", tiny.parent, "--plan", tiny.parent / "p.json").err


def test_profile_in_batches(run: Run, tiny: Path) -> None:
    out = run("profile", tiny, "-b", "1,8,64", "-f", "csv").out
    lines = {line["figure"]: line for line in csv.DictReader(io.StringIO(out))}
    for size in (1, 8, 64):
        profile = flopwise.profile(tiny, batch_size=size)
        for figure in ("macs", "params", "weight_bytes", "output_bytes"):
            assert int(lines[figure][f"batch {size}"]) == profile.total(figure)
        assert int(lines["peak_activation_bytes"][f"batch {size}"]) == profile.peak_activation_bytes
    assert len(json.loads(run("profile", tiny, "-b", "1,8", "-f", "json").out)) == 2
    assert "batch 8" in run("profile", tiny, "-b", "1,8", "--columns", "macs,params").out
    assert run("profile", tiny, "-b", "8,8").out == run("profile", tiny, "-b", "8").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-b", "1,x"), "not a list of whole numbers"),
        (("-b", "1,,2"), "not a list of whole numbers"),
        (("-b", "0"), "not a list of whole numbers"),
        (("-b", "1,8", "--top", "3"), "--top"),
        (("-b", "1,8", "--by", "op"), "--by"),
        (("-b", "1,8", "-f", "tree"), "-f tree"),
        (("-b", "1,8", "--columns", "name"), "has no total"),
    ],
)
def test_batches_that_make_no_sense(run: Run, tiny: Path, args: tuple[str, ...], message: str) -> None:
    code, out, err = run("profile", tiny, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_memory_in_batches(run: Run, tiny: Path) -> None:
    found = json.loads(run("memory", tiny, "-b", "1,8", "--train", "-f", "json").out)
    alone = [json.loads(run("memory", tiny, "-b", size, "--train", "-f", "json").out) for size in (1, 8)]
    assert found == alone
    lines = list(csv.DictReader(io.StringIO(run("memory", tiny, "-b", "1,8", "-f", "csv").out)))
    for line in lines:
        assert [int(line["batch 1"]), int(line["batch 8"])] == [each["totals"][line["figure"]] for each in alone]
    assert [line["figure"] for line in lines] == [
        *("weight_bytes", "output_bytes"),
        *("peak_activation_bytes", "arena_bytes"),
    ]
    out = run("memory", tiny, "-b", "1,8", "--human").out
    assert "peak activation bytes  81.9 kB   655 kB" in out


@pytest.mark.parametrize(
    ("args", "message"), [(("--plan", "p.json"), "--plan takes one batch size"), (("-b", "1,x"), "1,8,64")]
)
def test_memory_in_batches_that_make_no_sense(run: Run, tiny: Path, args: tuple[str, ...], message: str) -> None:
    code, out, err = run("memory", tiny, "-b", "1,8", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_memory_of_a_directory_in_batches(run: Run, tiny: Path) -> None:
    assert "several batch sizes take one model" in run("memory", tiny.parent, "-b", "1,8").err


def test_what_fits_a_device_is_said_first_and_in_json(run: Run, tiny: Path) -> None:
    code, out, err = run("memory", tiny, "--device", "RTX 4090")
    assert (code, err) == (0, "")
    assert out.startswith("fits: NVIDIA GeForce RTX 4090, 180 kB of weights and 82 kB of peak activations in 26 GB;")
    code, out, err = run("profile", tiny, "--train", "--device", "t4", "-b", "999999", "-f", "json")
    assert (code, err) == (0, "")
    answer = json.loads(out)["device"]
    assert answer["fits"] is False
    assert answer["left_over_bytes"] == answer["memory_bytes"] - answer["must_fit_bytes"] < 0
    assert set(flopwise.schema("profile")["properties"]["device"]["required"]) == answer.keys()
    out = run("memory", tiny, "--device", "t4", "-b", "1,8", "-f", "csv").out
    assert out.splitlines()[-1].startswith("left_over_bytes,")


@pytest.mark.parametrize(("name", "told"), [("2xh100", "flopwise llm divides"), ("h1oo", "did you mean")])
def test_no_device(run: Run, tiny: Path, name: str, told: str) -> None:
    code, out, err = run("memory", tiny, "--device", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
