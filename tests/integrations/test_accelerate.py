"""Twenty steps of a loop with Accelerate, whose tracker is read back."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

from accelerate.tracking import GeneralTracker  # noqa: E402
from tests.integrations.nets import RATES, Net, flops  # noqa: E402

from flopwise.integrations import accelerate as integration  # noqa: E402


class Tracker(GeneralTracker):  # type: ignore[misc]
    name = "lines"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    @property
    def tracker(self) -> Any:
        return self.lines

    def store_init_configuration(self, values: Any) -> None:
        pass

    def log(self, values: dict[str, Any], step: int | None = None, **named: Any) -> None:
        self.lines.append(values)


def test_twenty_steps_of_two_batches() -> None:
    tracker = Tracker()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2, log_with=tracker)
    accelerator.init_trackers("run")
    net = Net()
    model, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.01))
    integration.attach(accelerator, model, keep=False)
    for step in range(40):
        with accelerator.accumulate(model):
            loss = model(torch.rand(4 if step % 2 else 6, 12)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if step % 10 == 9:
            with torch.no_grad():
                model(torch.rand(50, 12))
            accelerator.log({"loss": loss.item()}, step=step)
    accelerator.end_training()
    assert len(tracker.lines) == 4
    for line in tracker.lines[1:]:
        assert line["flops"] == flops(4) + flops(6)
        assert set(line) >= RATES
        assert line["samples_per_s"] == pytest.approx(10 / line["step_s"])
    assert not model._forward_pre_hooks
