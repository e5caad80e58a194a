"""Networks of all kinds, small, as PyTorch modules with their inputs: what is written in every format and compared.

Imports torch, torchvision and transformers: ask for torch and transformers with ``pytest.importorskip`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.torch_vision import torchvision
from torch import nn

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]

_IMAGE = 64


def _seen(module: nn.Module, size: int = _IMAGE) -> Built:
    return module, (torch.zeros(1, 3, size, size),)


def resnet() -> Built:
    """ResNet of bottlenecks, as ResNet-50, with one block in each stage."""
    models = torchvision.models.resnet
    return _seen(models.ResNet(models.Bottleneck, [1, 1, 1, 1], width_per_group=16, num_classes=10))


def mobilenet_v2() -> Built:
    """MobileNetV2 of a quarter of the width."""
    return _seen(torchvision.models.mobilenet_v2(width_mult=0.25, num_classes=10))


def mobilenet_v3() -> Built:
    """MobileNetV3 with its squeezing, hard activations and depthwise convolutions."""
    return _seen(torchvision.models.mobilenet_v3_small(width_mult=0.5, num_classes=10))


def efficientnet() -> Built:
    """The first blocks of EfficientNet-B0."""
    whole = torchvision.models.efficientnet_b0(num_classes=10)
    return _seen(nn.Sequential(whole.features[:4]))


def vit() -> Built:
    """A vision transformer of two layers."""
    model = torchvision.models.VisionTransformer(_IMAGE, 16, 2, 4, 64, 128, num_classes=10)
    return _seen(model)


class _Unet(nn.Module):
    """Down twice and up twice, by transposed convolution and by resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.bottom = nn.Conv2d(16, 32, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Conv2d(24, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.first(image))
        bottom = torch.relu(self.bottom(nn.functional.max_pool2d(torch.relu(self.down(first)), 2)))
        up = nn.functional.interpolate(torch.relu(self.up(bottom)), scale_factor=2.0, mode="bilinear")
        return self.last(torch.cat([first, up], 1))


def unet() -> Built:
    """A U-Net."""
    return _seen(_Unet(), 32)


class _Ssd(nn.Module):
    """Two maps of features, each with boxes and classes, joined and decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.more = nn.Conv2d(3, 16, 3, stride=4, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.boxes = nn.ModuleList([nn.Conv2d(n, 4 * 4, 3, padding=1) for n in (16, 32)])
        self.classes = nn.ModuleList([nn.Conv2d(n, 4 * 3, 3, padding=1) for n in (16, 32)])

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.relu(self.stem(image))
        maps = (first, torch.relu(self.more(first)))
        boxes = [m(x).permute(0, 2, 3, 1).reshape(1, -1, 4) for m, x in zip(self.boxes, maps, strict=True)]
        classes = [m(x).permute(0, 2, 3, 1).reshape(1, -1, 3) for m, x in zip(self.classes, maps, strict=True)]
        joined = torch.cat(boxes, 1)
        return torch.cat([joined[..., :2] * 0.1, torch.exp(joined[..., 2:] * 0.2)], -1), torch.cat(classes, 1).softmax(
            2
        )


def ssd() -> Built:
    """A detector with the heads of SSD."""
    return _seen(_Ssd())


class _Lstm(nn.Module):
    """Two bidirectional layers and a classifier for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 24, 2, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(48, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.lstm(x)[0])


def lstm() -> Built:
    """An LSTM."""
    return _Lstm(), (torch.zeros(2, 6, 16),)


class _First(nn.Module):
    """A model of transformers of which the first result is kept."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, attention_mask=mask, **self.options)[0]


_TOKENS = (torch.ones(2, 12, dtype=torch.int64), torch.ones(2, 12, dtype=torch.int64))


def bert() -> Built:
    """BERT of two layers."""
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(**sizes, intermediate_size=64, attn_implementation="eager")
    return _First(BertModel(config, add_pooling_layer=False)), _TOKENS


def gpt() -> Built:
    """GPT-2 of two layers with its head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
    model = GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager"))
    model.lm_head.weight = nn.Parameter(torch.zeros(100, 32))  # of its own: exporters store a tied one twice or once
    return _First(model, use_cache=False), _TOKENS


NETWORKS: dict[str, Callable[[], Built]] = {
    one.__name__: one for one in (resnet, mobilenet_v2, mobilenet_v3, efficientnet, vit, unet, ssd, lstm, bert, gpt)
}


def built(name: str) -> Built:
    """A network in inference mode; all its weights differ, so that no converter merges equal ones."""
    torch.manual_seed(0)
    module, inputs = NETWORKS[name]()
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            nn.init.uniform_(norm.running_mean, -0.1, 0.1)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return module.eval(), inputs
