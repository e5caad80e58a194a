"""Published architectures without their weights, on which the tools that count PyTorch modules are compared.

Imports torch, torchvision and transformers: ask for them with ``pytest.importorskip`` first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from unittest import mock

import torch
from tests.torch_vision import torchvision
from torch import nn

#: A module in eval mode, its positional inputs and its keyword inputs.
Case: TypeAlias = "tuple[nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]"


@contextlib.contextmanager
def zeros() -> Iterator[None]:
    """Weights that would be drawn are zeros: of the 138 million of VGG-16 that takes seconds, and no tool looks."""

    def drawn(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return tensor.zero_()

    with mock.patch.multiple(torch.Tensor, normal_=drawn, uniform_=drawn, erfinv_=drawn):
        yield


def vision(name: str, size: int = 224, **options: Any) -> Case:
    """A classifier of torchvision and one image."""
    with zeros():
        model = getattr(torchvision.models, name)(weights=None, **options)
    return model.eval(), (torch.zeros(1, 3, size, size),), {}


def bert() -> Case:
    """BERT base, one sequence of 128 tokens and its mask."""
    from transformers import BertConfig, BertModel

    with zeros():
        model = BertModel(BertConfig()).eval()
    tokens = torch.zeros(1, 128, dtype=torch.int64)
    return model, (tokens,), {"attention_mask": torch.ones(1, 128, dtype=torch.int64)}


def gpt2() -> Case:
    """GPT-2 small with its head, one sequence of 128 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with zeros():
        model = GPT2LMHeadModel(GPT2Config()).eval()
    return model, (torch.zeros(1, 128, dtype=torch.int64),), {}


class FirstTensor(nn.Module):
    """A model of which only the first tensor of the result is handed on, for tools that take nothing else."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        result = self.model(*inputs, use_cache=False) if hasattr(self.model, "config") else self.model(*inputs)
        return result if isinstance(result, torch.Tensor) else result[0]


#: Name -> builder, made anew at each call.
MODELS: dict[str, Callable[[], Case]] = {
    "alexnet": lambda: vision("alexnet"),
    "vgg16": lambda: vision("vgg16"),
    "resnet18": lambda: vision("resnet18"),
    "resnet50": lambda: vision("resnet50"),
    "densenet121": lambda: vision("densenet121"),
    "mobilenet_v2": lambda: vision("mobilenet_v2"),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "vit_b_16": lambda: vision("vit_b_16"),
    "inception_v3": lambda: vision("inception_v3", 299, init_weights=False),
    "googlenet": lambda: vision("googlenet", init_weights=False),
    "squeezenet1_1": lambda: vision("squeezenet1_1"),
    "shufflenet_v2_x1_0": lambda: vision("shufflenet_v2_x1_0"),
    "bert_base": bert,
    "gpt2": gpt2,
}
