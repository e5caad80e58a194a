"""The tokens of images against the functions by which transformers' own processors cut them, at many sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from flopwise.errors import InputError
from flopwise.formats.language.images import MOST_PIXELS, Cut, Processor, cut
from flopwise.formats.torch.libraries import repaired

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def _processors() -> None:
    """The modules of processors can be imported: parts of them need torchvision."""
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    repaired(lambda: import_module("torchvision.transforms.v2.functional"))
    repaired(lambda: transformers.CONFIG_MAPPING["llama"])


def _sizes() -> Iterator[tuple[int, int]]:
    """Widths and heights: some that are usual, at edges of tiles, and others."""
    yield from ((1024, 1024), (640, 480), (336, 336), (337, 336), (1, 1), (300, 900), (4000, 3000), (448, 1344))
    yield 20, 4000
    chance = random.Random(7)
    for _ in range(60):
        yield chance.randint(30, 3000), chance.randint(30, 3000)


def _qwen(height: int, width: int) -> int:
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    sides = smart_resize(height, width, 28, 3136, 12_845_056)
    return sides[0] * sides[1] // 28**2


def _kimi(height: int, width: int) -> int:
    from transformers.models.kimi_k25.image_processing_kimi_k25 import navit_resize

    _, (tall, wide) = navit_resize(height, width, 14, 2, 16384, 512)
    return tall * wide // 28**2


def _gemma4(height: int, width: int) -> int:
    from transformers.models.gemma4.image_processing_gemma4 import get_aspect_ratio_preserving_size

    tall, wide = get_aspect_ratio_preserving_size(height, width, 16, 280 * 9, 3)
    return tall * wide // 48**2


def _pixtral(height: int, width: int) -> int:
    import numpy as np
    from transformers.models.pixtral.image_processing_pixtral import get_resize_output_image_size

    tall, wide = get_resize_output_image_size(np.zeros((height, width, 3), "uint8"), (1540, 1540), (28, 28))
    return tall // 28 * (wide // 28 + 1)


def _internvl(height: int, width: int) -> int:
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

    columns, rows = get_optimal_tiled_canvas((height, width), (448, 448), 1, 12)
    return (columns * rows + (columns * rows > 1)) * 256


def _llama4(height: int, width: int) -> int:
    import torch
    from transformers.image_utils import SizeDict
    from transformers.models.llama4.image_processing_llama4 import find_supported_resolutions, get_best_fit
    from transformers.models.llama4.processing_llama4 import Llama4Processor

    possible = torch.tensor(find_supported_resolutions(16, SizeDict(height=336, width=336)))
    tall, wide = (int(side) // 336 for side in get_best_fit((height, width), possible))
    text = Llama4Processor._prompt_split_image(None, (tall, wide), 144)
    return text.count("<|")


def _llava_next(height: int, width: int) -> int:
    from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor

    pinpoints = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
    this = SimpleNamespace(
        image_processor=SimpleNamespace(image_grid_pinpoints=pinpoints), patch_size=14, num_additional_image_tokens=0
    )
    this._get_unpadded_features = LlavaNextProcessor._get_unpadded_features.__get__(this)
    return int(LlavaNextProcessor._get_number_of_features(this, height, width, 336, 336))


#: Type -> its processor, and what transformers says.
RULES: dict[str, tuple[Processor, Callable[[int, int], int]]] = {
    "qwen2_5_vl": (Processor({}, {}, 14, 0, 2), _qwen),
    "kimi_k25": (Processor({}, {}, 14, 0, 2), _kimi),
    "gemma4": (Processor({}, {}, 16, 0, 3), _gemma4),
    "mistral3": (Processor({}, {}, 14, 1540, 2), _pixtral),
    "internvl": (Processor({}, {}, 14, 448, 2), _internvl),
    "llama4": (Processor({}, {}, 14, 336, 2), _llama4),
    "llava_next": (Processor({}, {}, 14, 336, 1), _llava_next),
}


@pytest.mark.parametrize("kind", RULES)
def test_tokens_are_those_of_the_processor(kind: str) -> None:
    processor, theirs = RULES[kind]
    for width, height in _sizes():
        if kind == "gemma4" and min(width, height) == 1:
            continue
        assert cut(kind, processor, width, height).tokens == theirs(height, width), (width, height)


def test_tokens_as_published() -> None:
    """576 of LLaVA-1.5, 256 of Gemma 3 whatever the image, 1,601 positions of each of 4 tiles of Llama 3.2 Vision."""
    any_size: tuple[Any, ...] = ((1024, 1024), (300, 20))
    for width, height in any_size:
        assert cut("llava", Processor({}, {}, 14, 336, 1), width, height) == Cut(576, 24, 24)
        assert cut("gemma3", Processor({}, {}, 14, 896, 1), width, height).tokens == 256
        assert cut("mllama", Processor({}, {}, 14, 560, 1), width, height) == Cut(1, 40, 40, 4)


def test_what_cannot_be_cut() -> None:
    with pytest.raises(InputError, match="more than the 67,108,864 pixels"):
        cut("llava", Processor({}, {}, 14, 336, 1), MOST_PIXELS, 2)
    with pytest.raises(InputError, match="more than 200 times the shorter"):
        cut("qwen2_vl", Processor({}, {}, 14, 0, 2), 4020, 20)
