"""Twenty steps of a real trainer of Ultralytics', whose results are read back."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tests.torch_vision")
ultralytics = pytest.importorskip("ultralytics")

from PIL import Image  # noqa: E402
from tests.integrations.nets import RATES  # noqa: E402

import flopwise  # noqa: E402
from flopwise.integrations import ultralytics as integration  # noqa: E402


def data(folder: Path) -> Path:
    """A data set of 20 images with one box each."""
    for part in ("images", "labels"):
        (folder / part).mkdir()
    for i in range(20):
        Image.new("RGB", (64, 64), (i, 10 * i, 90)).save(folder / "images" / f"{i}.png")
        (folder / "labels" / f"{i}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
    text = f"path: {folder}\ntrain: images\nval: images\nnames: {{0: thing}}\n"
    (folder / "data.yaml").write_text(text)
    return folder / "data.yaml"


def test_twenty_steps(tmp_path: Path) -> None:
    model = ultralytics.YOLO("yolo11n.yaml", verbose=False)
    integration.attach(model, keep=False)
    nets: list[Any] = []
    model.add_callback("on_train_start", lambda trainer: nets.append(trainer.model))
    model.train(
        data=str(data(tmp_path)), imgsz=32, batch=2, epochs=2, workers=0, device="cpu", plots=False, amp=False,
        mosaic=0.0, save=False, project=str(tmp_path), name="run", verbose=False,
    )  # fmt: skip
    profile = flopwise.profile(nets[0], torch.rand(2, 3, 32, 32), train=True)
    (results,) = tmp_path.rglob("results.csv")
    lines = [{key.strip(): value for key, value in line.items()} for line in csv.DictReader(results.open())]
    assert len(lines) == 2
    for line in lines:
        whole = profile.total("flops") + profile.total("backward_flops")
        assert float(line["flops"]) == pytest.approx(whole, rel=1e-5)  # the file has six digits
        assert set(line) >= RATES
        assert float(line["samples_per_s"]) == pytest.approx(2 / float(line["step_s"]), rel=1e-4)
    assert not nets[0]._forward_pre_hooks


def test_the_exact_count_stands_below_the_summary(caplog: pytest.LogCaptureFixture) -> None:
    model = ultralytics.YOLO("yolo11n.yaml", verbose=False)
    layers, parameters, gradients, flops = integration.model_info(model, imgsz=640)
    assert (layers, parameters, gradients) == ultralytics.utils.torch_utils.model_info(model.model)[:3]
    model.model.eval()
    assert flops == flopwise.profile(model.model, torch.rand(1, 3, 640, 640)).total("flops") / 1e9
    assert "6.65 GFLOPs, 3.27 GMACs" in caplog.text
