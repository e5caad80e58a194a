"""The six networks of the figures on time, exported into benchmarks/cache: python benchmarks/time_models.py.

Weights are random, which does not matter for time as long as no value is a denormal number; shapes are those of the
published networks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

CACHE = Path(__file__).parent / "cache" / "time"


def _vision(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from tests.torch_vision import torchvision

    extra = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(weights=None, **extra), (torch.randn(1, 3, 224, 224),)


def _bert() -> tuple[Any, tuple[Any, ...]]:
    import torch
    import transformers

    config = transformers.BertConfig(
        hidden_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=2048,
        attn_implementation="eager",
        return_dict=False,
    )
    ids = torch.randint(0, 1000, (1, 128))
    return transformers.BertModel(config, add_pooling_layer=True), (ids, torch.ones_like(ids))


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "resnet50": lambda: _vision("resnet50"),
    "mobilenet_v3_large": lambda: _vision("mobilenet_v3_large"),
    "vit_b_16": lambda: _vision("vit_b_16"),
    "bert_small": _bert,
    "googlenet": lambda: _vision("googlenet"),
    "squeezenet1_1": lambda: _vision("squeezenet1_1"),
}


def exported(name: str) -> Path:
    """The ONNX file of a network, made when it is not there yet."""
    path = CACHE / f"{name}.onnx"
    if not path.exists():
        import torch

        torch.manual_seed(0)
        CACHE.mkdir(parents=True, exist_ok=True)
        module, inputs = MODELS[name]()
        torch.onnx.export(module.eval(), inputs, str(path), dynamo=True, verbose=False, external_data=False)
    return path


def main() -> None:
    for name in MODELS:
        path = exported(name)
        print(f"{name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
