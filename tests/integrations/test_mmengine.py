"""Twenty steps of MMEngine's runner, whose log is read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("mmengine")

import tests.torch_vision  # noqa: E402, F401 # before the runner asks for torchvision
from mmengine.model import BaseModel  # noqa: E402
from mmengine.runner import Runner  # noqa: E402
from tests.integrations.nets import RATES, Net, flops  # noqa: E402

from flopwise.integrations.mmengine import FlopsHook  # noqa: E402


class Model(BaseModel):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, inputs: Any, mode: str = "tensor") -> Any:
        result = self.net(inputs)
        return {"loss": result.mean()} if mode == "loss" else result


class Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> Any:
        return {"inputs": torch.rand(12)}


@pytest.mark.filterwarnings("ignore")
def test_twenty_steps(tmp_path: Path) -> None:
    runner = Runner(
        model=Model(),
        work_dir=str(tmp_path),
        train_dataloader={
            "dataset": Images(),
            "batch_size": 5,
            "sampler": {"type": "DefaultSampler", "shuffle": False},
            "collate_fn": {"type": "default_collate"},
        },
        train_cfg={"by_epoch": False, "max_iters": 20},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.01}},
        default_hooks={"logger": {"type": "LoggerHook", "interval": 5}, "checkpoint": None},
        custom_hooks=[FlopsHook(interval=5, keep=False)],
    )
    runner.train()
    (log,) = tmp_path.rglob("vis_data/scalars.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10, 15, 20]
    for line in lines:
        assert set(line) >= RATES
        assert line["flops"] == pytest.approx(flops(5), rel=0.01)  # and the mean that the loss is
        assert 0 < line["mfu"] < 1
