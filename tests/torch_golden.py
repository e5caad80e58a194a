"""Recorded figures of tools, and published architectures, which may not be installed."""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).parent / "recorded" / "module_tools.json"


@functools.lru_cache(maxsize=1)
def _recorded() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(_FILE.read_text())
    return figures


def recorded(module: str, tool: str) -> Any:
    """What a tool said of a module."""
    return _recorded()[module][tool]


def architectures() -> Any:
    """The builders of ``torch_models``; skips the test where torchvision or transformers is missing."""
    for name in ("torch", "torchvision", "transformers"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    from tests.torch_models import MODELS

    return MODELS


#: Architecture -> multiply-accumulates at 224 x 224 (inception 299), or of 128 tokens: PyTorch's counter with
#: mathematical attention and no fused paths, divided by two.
MACS: dict[str, int] = {
    "alexnet": 714_188_480,
    "vgg16": 15_470_264_320,
    "resnet18": 1_814_073_344,
    "resnet50": 4_089_184_256,
    "densenet121": 2_834_161_664,
    "mobilenet_v2": 300_774_272,
    "efficientnet_b0": 385_814_752,
    "vit_b_16": 17_563_828_224,
    "inception_v3": 5_713_216_096,
    "googlenet": 1_498_376_192,
    "squeezenet1_1": 349_151_936,
    "shufflenet_v2_x1_0": 144_907_992,
    "bert_base": 11_174_215_680,
    "gpt2": 16_114_089_984,
}
