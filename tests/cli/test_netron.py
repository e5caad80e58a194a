"""``flopwise profile --netron``: an attachment beside the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import EXAMPLES, Run


def test_beside_a_report(run: Run, tiny: Path, tmp_path: Path) -> None:
    attachment, report = tmp_path / "netron.json", tmp_path / "report.csv"
    code, out, err = run("profile", tiny, "--netron", attachment, "-o", report)
    assert (code, out, err) == (0, "", "")
    assert json.loads(attachment.read_text())["signature"] == "netron:attachment"
    assert report.read_text() == run("profile", tiny, "-f", "csv").out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["netron.json", "report.csv", "tiny.onnx"]


def test_in_any_convention_and_format(run: Run, tiny: Path, tmp_path: Path) -> None:
    attachment = tmp_path / "netron.json"
    code, out, _ = run("profile", tiny, "--netron", attachment, "-f", "json", "-c", "benanza")
    assert code == 0
    count = json.loads(out)["totals"]["count"]
    told = {item["name"]: item["value"] for item in json.loads(attachment.read_text())["metrics"][:10]}
    assert str(count) in str(told["FLOPs (benanza)"]).replace(",", "")


@pytest.mark.parametrize("name", ["netron.txt", "json", "netron.json.bak"])
def test_netron_takes_json_alone(run: Run, tiny: Path, tmp_path: Path, name: str) -> None:
    code, out, err = run("profile", tiny, "--netron", tmp_path / name)
    assert (code, out) == (2, "")
    assert "Netron takes only files that end in .json" in err
    assert err.count("\n") == 1
    assert not (tmp_path / name).exists()


def test_one_model_at_a_time(run: Run, tmp_path: Path) -> None:
    code, _, err = run("profile", EXAMPLES, "--netron", tmp_path / "netron.json")
    assert code == 2
    assert "--netron takes one model" in err


def test_a_file_of_its_own(run: Run, tiny: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.json"
    code, _, err = run("profile", tiny, "--netron", same, "-o", same)
    assert (code, same.exists()) == (2, False)
    assert "--netron and --output name the same file" in err


def test_nothing_is_written_for_what_cannot_be_read(run: Run, tmp_path: Path) -> None:
    attachment = tmp_path / "netron.json"
    attachment.write_text("before")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\xff" * 64)
    assert run("profile", broken, "--netron", attachment).code == 2
    assert attachment.read_text() == "before"
    code, _, err = run("profile", EXAMPLES / "tiny_resnet.onnx", "--netron", tmp_path / "no" / "netron.json")
    assert code == 2
    assert "cannot be written" in err
    assert err.count("\n") == 1
