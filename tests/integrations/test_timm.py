"""Twenty steps as timm's training script makes them, whose summary is read back."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tests.torch_vision")
timm = pytest.importorskip("timm")

from tests.integrations.nets import RATES  # noqa: E402
from timm.optim import create_optimizer_v2  # noqa: E402
from timm.utils import AverageMeter  # noqa: E402

import flopwise  # noqa: E402
from flopwise.integrations import timm as integration  # noqa: E402


def train_one_epoch(model: Any, optimizer: Any) -> dict[str, float]:
    losses = AverageMeter()
    for _ in range(10):
        images, labels = torch.rand(2, 3, 32, 32), torch.randint(5, (2,))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), 2)
    return {"loss": losses.avg}


@pytest.mark.upstream
def test_twenty_steps(tmp_path: Path) -> None:
    model = timm.create_model("test_byobnet", num_classes=5)
    optimizer = create_optimizer_v2(model, "sgd", lr=1e-4)
    own = timm.utils.update_summary
    steps = integration.attach(model, keep=False)
    summary = tmp_path / "summary.csv"
    for epoch in range(2):
        train_metrics = train_one_epoch(model, optimizer)
        with torch.no_grad():
            model(torch.rand(4, 3, 32, 32))
        timm.utils.update_summary(epoch, train_metrics, {"top1": 0.0}, filename=str(summary), write_header=epoch == 0)
    profile = flopwise.profile(model, torch.rand(2, 3, 32, 32), train=True)
    lines = [*csv.DictReader(summary.open())]
    assert len(lines) == 2
    for line in lines:
        assert float(line["train_flops"]) == profile.total("flops") + profile.total("backward_flops")
        assert set(line) >= {f"train_{name}" for name in RATES}
        assert float(line["train_samples_per_s"]) == pytest.approx(2 / float(line["train_step_s"]))
    steps.stop()
    assert timm.utils.update_summary is own
    assert not model._forward_pre_hooks
