"""Networks of all kinds as PyTorch modules with their inputs: what is written in every format and compared.

Imports torch, torchvision and transformers: ask for torch and transformers with ``pytest.importorskip`` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.formats.network_sizes import SMALL, Sizes
from tests.torch_vision import torchvision
from torch import nn

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]


def _seen(module: nn.Module, size: int) -> Built:
    return module, (torch.zeros(1, 3, size, size),)


def resnet(blocks: tuple[int, ...], width: int, classes: int, size: int) -> Built:
    """ResNet of bottlenecks, as ResNet-50."""
    models = torchvision.models.resnet
    return _seen(models.ResNet(models.Bottleneck, list(blocks), width_per_group=width, num_classes=classes), size)


def mobilenet_v2(width: float, classes: int, size: int) -> Built:
    """MobileNetV2."""
    return _seen(torchvision.models.mobilenet_v2(width_mult=width, num_classes=classes), size)


def mobilenet_v3(width: float, classes: int, size: int) -> Built:
    """MobileNetV3 with its squeezing, hard activations and depthwise convolutions."""
    return _seen(torchvision.models.mobilenet_v3_small(width_mult=width, num_classes=classes), size)


def efficientnet(stages: int, classes: int, size: int) -> Built:
    """EfficientNet-B0, or its first stages."""
    whole = torchvision.models.efficientnet_b0(num_classes=classes)
    return _seen(whole if stages == 7 else nn.Sequential(whole.features[: 1 + stages]), size)


def vit(layers: int, heads: int, width: int, inner: int, classes: int, size: int) -> Built:
    """A vision transformer."""
    return _seen(torchvision.models.VisionTransformer(size, 16, layers, heads, width, inner, num_classes=classes), size)


class _Unet(nn.Module):
    """Down twice and up twice, by transposed convolution and by resizing."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, n, 3, padding=1), nn.Conv2d(n, 2 * n, 3, stride=2, padding=1)
        self.bottom = nn.Conv2d(2 * n, 4 * n, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(4 * n, 2 * n, 2, stride=2), nn.Conv2d(3 * n, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.first(image))
        bottom = torch.relu(self.bottom(nn.functional.max_pool2d(torch.relu(self.down(first)), 2)))
        up = nn.functional.interpolate(torch.relu(self.up(bottom)), scale_factor=2.0, mode="bilinear")
        return self.last(torch.cat([first, up], 1))


def unet(width: int, size: int) -> Built:
    """A U-Net."""
    return _seen(_Unet(width), size)


class _Ssd(nn.Module):
    """Two maps of features, each with boxes and classes, joined and decoded."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.stem, self.more = nn.Conv2d(3, n, 3, stride=4, padding=1), nn.Conv2d(n, 2 * n, 3, stride=2, padding=1)
        self.boxes = nn.ModuleList([nn.Conv2d(m, 4 * 4, 3, padding=1) for m in (n, 2 * n)])
        self.classes = nn.ModuleList([nn.Conv2d(m, 4 * 3, 3, padding=1) for m in (n, 2 * n)])

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.relu(self.stem(image))
        maps = (first, torch.relu(self.more(first)))
        boxes = [m(x).permute(0, 2, 3, 1).reshape(1, -1, 4) for m, x in zip(self.boxes, maps, strict=True)]
        classes = [m(x).permute(0, 2, 3, 1).reshape(1, -1, 3) for m, x in zip(self.classes, maps, strict=True)]
        joined = torch.cat(boxes, 1)
        return torch.cat([joined[..., :2] * 0.1, torch.exp(joined[..., 2:] * 0.2)], -1), torch.cat(classes, 1).softmax(
            2
        )


def ssd(width: int, size: int) -> Built:
    """A detector with the heads of SSD."""
    return _seen(_Ssd(width), size)


class _Lstm(nn.Module):
    """Two bidirectional layers and a classifier for each step."""

    def __init__(self, features: int, units: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, units, 2, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(2 * units, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.lstm(x)[0])


def lstm(features: int, units: int, classes: int, steps: int) -> Built:
    """An LSTM."""
    return _Lstm(features, units, classes), (torch.zeros(2, steps, features),)


class _First(nn.Module):
    """A model of transformers of which the first result is kept."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, attention_mask=mask, **self.options)[0]


def _tokens(length: int) -> tuple[torch.Tensor, ...]:
    return torch.ones(2, length, dtype=torch.int64), torch.ones(2, length, dtype=torch.int64)


def bert(vocabulary: int, width: int, layers: int, heads: int, inner: int, positions: int, length: int) -> Built:
    """BERT."""
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    sizes |= {"intermediate_size": inner, "max_position_embeddings": positions}
    config = BertConfig(**sizes, attn_implementation="eager")
    return _First(BertModel(config, add_pooling_layer=False)), _tokens(length)


def gpt(vocabulary: int, width: int, layers: int, heads: int, positions: int, length: int) -> Built:
    """GPT-2 with its head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": vocabulary, "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": positions}
    model = GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager"))
    model.lm_head.weight = nn.Parameter(torch.zeros(vocabulary, width))  # exporters store a tied one twice or once
    return _First(model, use_cache=False), _tokens(length)


NETWORKS: dict[str, Callable[[], Built]] = {
    one.__name__: one for one in (resnet, mobilenet_v2, mobilenet_v3, efficientnet, vit, unet, ssd, lstm, bert, gpt)
}


def built(name: str, sizes: Sizes = SMALL) -> Built:
    """A network in inference mode; all its weights differ, so that no converter merges equal ones."""
    torch.manual_seed(0)
    module, inputs = NETWORKS[name](**sizes[name])
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            nn.init.uniform_(norm.running_mean, -0.1, 0.1)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return module.eval(), inputs
