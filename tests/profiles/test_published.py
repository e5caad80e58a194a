"""The column MACs is what papers print: published multiply-adds of torchvision's models, to the digit or as rounded."""

from __future__ import annotations

import pytest

import flopwise

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("tests.torch_vision").torchvision


@pytest.mark.parametrize(
    ("name", "inputs", "macs", "published"),
    [
        ("resnet50", (1, 3, 224, 224), 4_089_184_256, 4.089),
        ("vit_b_16", (1, 3, 224, 224), 17_563_828_224, 17.564),
        ("mobilenet_v3_small", (1, 3, 224, 224), 56_510_400, 0.057),
        ("raft_small", [(1, 3, 512, 512), (1, 3, 512, 512)], 47_655_157_760, 47.655),
    ],
)
def test_macs_are_what_is_published(name: str, inputs: object, macs: int, published: float) -> None:
    with torch.device("meta"):
        module = torchvision.models.get_model_builder(name)(weights=None)
    found = flopwise.profile(module, inputs).total("macs")
    assert (found, round(found / 1e9, 3)) == (macs, published)
