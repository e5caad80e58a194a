"""mmcv's counter against the tool itself and figures of it."""

from __future__ import annotations

from typing import Any

import pytest

import flopwise

torch = pytest.importorskip("torch")

from tests.torch_vision import torchvision  # noqa: E402
from torch import nn  # noqa: E402

#: What ``mmcv.cnn.get_model_complexity_info`` of mmcv-lite 2.2.0 returns at 3 x 224 x 224.
RECORDED = {
    "resnet50": 4121924096,
    "vgg16": 15503514112,
    "densenet121": 2882619136,
    "mobilenet_v2": 320236288,
    "vit_b_16": 11278840320,
    "convnext_tiny": 4462568448,
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_figures(name: str) -> None:
    with torch.device("meta"):
        module = torchvision.models.get_model(name, weights=None)
    for batch in (1, 3):
        assert flopwise.profile(module, (batch, 3, 224, 224), convention="mmcv").total("count") == RECORDED[name]


class Shared(nn.Module):
    """A module that stands in two places, functions, and what the tool does not know."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.ReLU()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, bias=True), nn.BatchNorm2d(8, affine=False), act)
        self.second = nn.Sequential(nn.ConvTranspose2d(8, 4, 3, stride=2, groups=2), nn.GELU(), act)
        self.norm = nn.Sequential(nn.Conv1d(4, 4, 1), nn.InstanceNorm1d(4, affine=True))
        self.last = nn.Sequential(nn.Upsample(scale_factor=2), nn.LayerNorm(4), nn.Linear(4, 5), nn.PReLU())

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.second(self.first(x)) + 1)
        x = self.norm(x.mean(3))
        return self.last(x.transpose(1, 2).repeat(1, 1, 2)[:, :, :2])


@pytest.mark.filterwarnings("ignore:variables __flops__")
def test_the_tool_itself() -> None:
    tool = pytest.importorskip("mmcv.cnn").get_model_complexity_info
    module = Shared().eval()
    count, params = tool(module, (3, 12, 10), print_per_layer_stat=False, as_strings=False)
    profile = flopwise.profile(module, (1, 3, 12, 10), convention="mmcv")
    assert (profile.total("count"), profile.own["params"]) == (count, params)
