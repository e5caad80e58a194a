"""Sizes of the networks that are written in every format, and what is different in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Network -> the arguments of what builds it.
Sizes = Mapping[str, Mapping[str, Any]]

SMALL: Sizes = {
    "resnet": {"blocks": (1, 1, 1, 1), "width": 16, "classes": 10, "size": 64},
    "mobilenet_v2": {"width": 0.25, "classes": 10, "size": 64},
    "mobilenet_v3": {"width": 0.5, "classes": 10, "size": 64},
    "efficientnet": {"stages": 3, "classes": 10, "size": 64},
    "vit": {"layers": 2, "heads": 4, "width": 64, "inner": 128, "classes": 10, "size": 64},
    "unet": {"width": 8, "size": 32},
    "ssd": {"width": 16, "size": 64},
    "lstm": {"features": 16, "units": 24, "classes": 5, "steps": 6},
    "bert": {"vocabulary": 100, "width": 32, "layers": 2, "heads": 4, "inner": 64, "positions": 512, "length": 12},
    "gpt": {"vocabulary": 100, "width": 32, "layers": 2, "heads": 4, "positions": 32, "length": 12},
}

#: ResNet-50, MobileNetV2, MobileNetV3-Small, EfficientNet-B0, ViT-B/16, BERT base, GPT-2 and three of our own.
FULL: Sizes = {
    "resnet": {"blocks": (3, 4, 6, 3), "width": 64, "classes": 1000, "size": 224},
    "mobilenet_v2": {"width": 1.0, "classes": 1000, "size": 224},
    "mobilenet_v3": {"width": 1.0, "classes": 1000, "size": 224},
    "efficientnet": {"stages": 7, "classes": 1000, "size": 224},
    "vit": {"layers": 12, "heads": 12, "width": 768, "inner": 3072, "classes": 1000, "size": 224},
    "unet": {"width": 64, "size": 256},
    "ssd": {"width": 128, "size": 320},
    "lstm": {"features": 256, "units": 512, "classes": 1000, "steps": 16},
    "bert": {"vocabulary": 30_522, "width": 768, "layers": 12, "heads": 12, "inner": 3072, "positions": 512,
             "length": 128},
    "gpt": {"vocabulary": 50_257, "width": 768, "layers": 12, "heads": 12, "positions": 1024, "length": 128},
}  # fmt: skip


class Difference(NamedTuple):
    """What a converter, or the twin's framework, does to a network."""

    params: int
    why: str
    macs: int = 0


_CUT = "rows of the position table beyond the sequence are cut off"
_INTO_DENSE = "scale and shift of a layer norm in front of dense layers alone are multiplied into these"


def differences(sizes: Sizes) -> dict[tuple[str, str], Difference]:
    """(network, format) -> what is different."""
    bert, gpt, vit, unet = (sizes[name] for name in ("bert", "gpt", "vit", "unet"))
    units = sizes["lstm"]["units"]
    summed = Difference(-2 * 2 * 4 * units, "the two biases of each gate are stored as their sum")
    bert_cut, gpt_cut = (-(one["positions"] - one["length"]) * one["width"] for one in (bert, gpt))
    gpt_norms, vit_norms = (-2 * one["layers"] * 2 * one["width"] for one in (gpt, vit))
    channels, large = 2 * unet["width"], unet["size"]
    small = large // 2
    return {
        ("bert", "openvino"): Difference(bert_cut, _CUT),
        ("bert", "tflite"): Difference(bert_cut, _CUT),
        ("gpt", "openvino"): Difference(gpt_cut, _CUT),
        ("gpt", "tflite"): Difference(gpt_cut + gpt_norms, f"{_CUT}; {_INTO_DENSE}"),
        ("vit", "tflite"): Difference(vit_norms, _INTO_DENSE),
        ("lstm", "openvino"): summed,
        ("lstm", "coreml"): summed,
        ("lstm", "keras"): summed,
        ("lstm", "flax"): summed,
        ("lstm", "tflite"): Difference(
            4 * 2 * 4 * units,
            "steps are unrolled, and the first one's product with a state of zeros is stored, for four directions",
            -4 * 2 * units * 4 * units,
        ),
        ("unet", "flax"): Difference(
            0,
            "jax.image.resize multiplies by a matrix for each axis: rows, then columns",
            channels * (large * small * small + large * large * small),
        ),
    }
