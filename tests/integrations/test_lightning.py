"""Twenty steps of a real Lightning ``Trainer``, logged to CSV and read back."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tests.torch_vision")
pytestmark = pytest.mark.skipif(find_spec("lightning") is None, reason="could not import 'lightning'")

from tests.integrations.nets import RATES, Net, flops  # noqa: E402

import flopwise  # noqa: E402


@pytest.fixture
def module() -> Any:
    """A module of Lightning, which takes a second to import and which no other test needs."""
    import lightning.pytorch as lightning

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, index: int) -> Any:
            return self.net(batch[0]).square().mean()

        def validation_step(self, batch: Any, index: int) -> None:
            self.net(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    return Module()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.upstream
def test_twenty_steps(module: Any, tmp_path: Path) -> None:
    import lightning.pytorch as lightning
    from lightning.pytorch.loggers import CSVLogger

    from flopwise.integrations.lightning import FlopsCallback

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(100, 12)), batch_size=5)
    trainer = lightning.Trainer(
        max_steps=20,
        accelerator="cpu",
        logger=CSVLogger(str(tmp_path)),
        log_every_n_steps=5,
        val_check_interval=10,
        callbacks=[FlopsCallback(keep=False)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader, loader)
    (log,) = tmp_path.rglob("metrics.csv")
    lines = [row for row in csv.DictReader(log.open()) if row.get("flops")]
    assert len(lines) == 4
    for line in lines:
        assert float(line["flops"]) == flops(5)
        assert set(line) >= RATES
        assert float(line["samples_per_s"]) == pytest.approx(5 / float(line["step_s"]), rel=1e-4)
        assert 0 < float(line["mfu"]) < 1


def test_the_summary_has_exact_flops(module: Any) -> None:
    from flopwise.integrations.lightning import Summary

    assert Summary(module).total_flops == 0
    module.example_input_array = torch.rand(4, 12)
    module.forward = module.net.forward
    summary = Summary(module, max_depth=2)
    profile = flopwise.profile(Net(), torch.rand(4, 12))
    assert summary.total_flops == profile.total("flops") == 4 * (2 * 12 * 24 + 24 + 24 + 2 * 24 * 3 + 3)
    assert sum(summary.flop_counts["net.layers"].values()) == profile.total("flops")
    text = str(summary)
    assert "Total Flops" in text


@pytest.mark.filterwarnings("ignore")  # Lightning's own, whose classes a process without its packages cannot read
def test_a_module_that_training_step_goes_around_is_said(module: Any) -> None:
    import lightning.pytorch as lightning

    from flopwise.integrations.lightning import FlopsCallback

    class Around(type(module)):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return self.net(x)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(20, 12)), batch_size=5)
    settings = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_steps=2, callbacks=[FlopsCallback(keep=False)], **settings)
    with pytest.warns(UserWarning, match=r"counts calls of Around, and training_step makes none.*\(net\)"):
        trainer.fit(Around(), loader)
