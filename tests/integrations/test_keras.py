"""Twenty steps of Keras' ``fit`` on its PyTorch backend, whose history and CSV log are read back."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras")

from tests.integrations.nets import RATES, Net, flops  # noqa: E402

import flopwise  # noqa: E402

if keras.backend.backend() != "torch":
    pytest.skip("Keras was imported with another backend", allow_module_level=True)


def net() -> Any:
    layers = keras.layers
    return keras.Sequential([layers.Input((12,)), layers.Dense(24, activation="relu"), layers.Dense(3)])


@pytest.mark.upstream
def test_a_model_of_keras_costs_what_its_twin_does() -> None:
    profiles = [flopwise.profile(model, torch.rand(5, 12), train=True) for model in (net(), Net())]
    for column in ("flops", "macs", "backward_flops"):
        assert profiles[0].total(column) == profiles[1].total(column)


def test_twenty_steps(tmp_path: Path) -> None:
    model = net()
    model.compile("sgd", "mse")
    data, labels = torch.rand(50, 12).numpy(), torch.rand(50, 3).numpy()
    log = tmp_path / "log.csv"
    from flopwise.integrations.keras import FlopsCallback

    callbacks = [FlopsCallback(keep=False), keras.callbacks.CSVLogger(str(log))]
    history = model.fit(
        data, labels, batch_size=5, epochs=2, validation_split=0.0, validation_data=(data, labels),
        callbacks=callbacks, verbose=0,
    )  # fmt: skip
    lines = [*csv.DictReader(log.open())]
    assert len(lines) == 2
    for epoch, line in enumerate(lines):
        assert history.history["flops"][epoch] == float(line["flops"]) == flops(5)
        assert set(line) >= RATES
        assert float(line["samples_per_s"]) == pytest.approx(5 / float(line["step_s"]))
        assert 0 < float(line["mfu"]) < 1
