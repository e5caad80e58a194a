"""The tokens that a model's processor makes of an image: what it is resized to, and cut into."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from flopwise.errors import InputError, ModelError

#: Pixels of an image that is resized.
MOST_PIXELS = 1 << 26

#: Tiles of an image.
_MOST_TILES = 1000


class Cut(NamedTuple):
    """One image after its processor: tokens and patches."""

    #: Tokens of the language model that stand for it, the words between its rows and tiles among them.
    tokens: int
    #: Rows and columns of patches of each piece that the tower sees, and how many such pieces there are.
    rows: int
    columns: int
    pieces: int = 1


class Processor(NamedTuple):
    """Settings that decide how an image is cut."""

    #: The settings of the image processor, and of the model around the tower.
    settings: Mapping[str, Any]
    content: Mapping[str, Any]
    #: Pixels of a side of a patch, and of the images of a tower with learned positions (0: any); patches of a side of
    #: the square that one token stands for.
    patch: int
    side: int
    merge: int

    def size(self, keys: Sequence[str], usual: int) -> int:
        """A size by the first of its names that the settings have; of ``size`` the part behind a dot.

        Raises:
            ModelError: it is no whole number of at least 1.
        """
        for key in keys:
            part, _, name = key.rpartition(".")
            own = self.settings.get(part) if part else self.settings
            value = own.get(name) if isinstance(own, Mapping) else None
            if value is not None:
                if type(value) is not int or value < 1:
                    raise ModelError(f"preprocessor_config.json: {key} is {value!r}; a whole number is expected")
                return value
        return usual


Rule: TypeAlias = Callable[[Processor, int, int], Cut]


def _square(p: Processor, width: int, height: int) -> Cut:
    """One square, whatever the image: as many tokens as patches, and one more where that of the class is kept."""
    side = p.side // p.patch
    full = p.content.get("vision_feature_select_strategy") == "full"
    return Cut(side * side // p.merge**2 + full, side, side)


def _averaged(p: Processor, width: int, height: int) -> Cut:
    """One square, whatever the image, averaged to as many tokens as the configuration says (Gemma 3)."""
    side = p.side // p.patch
    return Cut(p.content.get("mm_tokens_per_image") or 256, side, side)


def _native(least: int, most: int) -> Rule:
    """The image at its own size, within so many pixels in all, sides rounded to whole tokens (Qwen-VL)."""

    def rule(p: Processor, width: int, height: int) -> Cut:
        low = p.size(("min_pixels", "size.shortest_edge"), least)
        high = p.size(("max_pixels", "size.longest_edge"), most)
        factor = p.patch * p.merge
        if max(width, height) > 200 * min(width, height):
            raise InputError(f"image {width}x{height}: its longer side is more than 200 times the shorter one")
        sides = [round(side / factor) * factor for side in (height, width)]
        if math.prod(sides) > high:
            by = math.sqrt(height * width / high)
            sides = [max(factor, math.floor(side / by / factor) * factor) for side in (height, width)]
        elif math.prod(sides) < low:
            by = math.sqrt(low / (height * width))
            sides = [math.ceil(side * by / factor) * factor for side in (height, width)]
        rows, columns = (side // p.patch for side in sides)
        return Cut(rows * columns // p.merge**2, rows, columns)

    return rule


def _within_edge(p: Processor, width: int, height: int) -> Cut:
    """The image within a longest edge, sides rounded up to whole tokens; a word ends each row (Pixtral)."""
    most, factor = p.size(("size.longest_edge",), p.side), p.patch * p.merge
    by = max(height / most, width / most, 1)
    rows, columns = ((math.floor(side / by) - 1) // factor + 1 for side in (height, width))
    return Cut(rows * (columns + 1), rows * p.merge, columns * p.merge)


def _within_patches(p: Processor, width: int, height: int) -> Cut:
    """The largest size of the image's shape with no more than so many tokens, sides whole tokens (Gemma 4)."""
    stated = p.content.get("vision_soft_tokens_per_image") or 280
    most = p.size(("max_soft_tokens",), stated) * p.merge**2
    factor = p.patch * p.merge
    by = math.sqrt(most * p.patch**2 / (height * width))
    sides = [math.floor(by * side / factor) for side in (height, width)]
    if 0 in sides:
        longest = min(max(height, width) // min(height, width), most // p.merge**2)
        sides = [1 if side == 0 else longest for side in sides]
    rows, columns = (side * p.merge for side in sides)
    return Cut(rows * columns // p.merge**2, rows, columns)


def _never_larger(p: Processor, width: int, height: int) -> Cut:
    """The image, made smaller where it has more patches than allowed, and padded to whole tokens (Kimi K2.5)."""
    own = p.settings.get("media_proc_cfg")
    q = p._replace(settings=own) if isinstance(own, Mapping) else p
    most = q.size(("in_patch_limit", "max_patches"), 16384)
    longest = q.size(("patch_limit_on_one_side", "size.max_height"), 512) * p.patch
    patches = max(1, height // p.patch) * max(1, width // p.patch)
    by = min(1.0, math.sqrt(most / patches), longest / height, longest / width)
    factor = p.patch * p.merge
    rows, columns = (-(-min(max(1, int(side * by)), longest) // factor) * p.merge for side in (height, width))
    return Cut(rows * columns // p.merge**2, rows, columns)


def _tiles(p: Processor, width: int, height: int) -> Cut:
    """Square tiles in the grid whose shape is nearest to the image's, and the whole image (InternVL)."""
    fewest, most = p.size(("min_patches",), 1), p.size(("max_patches",), 12)
    best, least = (1, 1), math.inf
    for columns, rows in sorted(_grids(most), key=math.prod):
        if columns * rows < fewest:
            continue
        far = abs(width / height - columns / rows)
        if far < least or (far == least and width * height > 0.5 * p.side**2 * columns * rows):
            best, least = (columns, rows), far
    tiles = math.prod(best)
    side = p.side // p.patch
    pieces = tiles + (tiles > 1)
    return Cut(pieces * (side // p.merge) ** 2, side, side, pieces)


def _grids(most: int) -> Iterator[tuple[int, int]]:
    """Every grid of no more than so many tiles: columns, rows.

    Raises:
        ModelError: there are more than a processor can mean.
    """
    if most > _MOST_TILES:
        raise ModelError(f"preprocessor_config.json: {most:,} tiles are more than the {_MOST_TILES:,} that are cut")
    for columns in range(1, most + 1):
        for rows in range(1, most // columns + 1):
            yield columns, rows


def _canvas(p: Processor, width: int, height: int, most: int) -> tuple[int, int]:
    """The grid of tiles that an image is made larger for least, else made smaller for least; columns, rows."""
    scales = {grid: min(p.side * grid[0] / width, p.side * grid[1] / height) for grid in _grids(most)}
    larger = [scale for scale in scales.values() if scale >= 1]
    chosen = min(larger) if larger else max(scales.values())
    return min((grid for grid, scale in scales.items() if scale == chosen), key=math.prod)


def _tiles_of_llama(p: Processor, width: int, height: int) -> Cut:
    """Square tiles that the image fits into, a word behind each, and the whole image (Llama 4)."""
    columns, rows = _canvas(p, width, height, p.size(("max_patches",), 16))
    tiles, side = columns * rows, p.side // p.patch
    pieces = tiles + (tiles > 1)
    words = 3 + (tiles if tiles > 1 else 0)  # start, image and end; a separator behind each tile
    return Cut(pieces * (side // p.merge) ** 2 + words, side, side, pieces)


def _tiles_across(p: Processor, width: int, height: int) -> Cut:
    """Room for as many square tiles as there can be, which layers attend to; one word of the prompt (Llama 3.2)."""
    side = p.side // p.patch
    return Cut(1, side, side, p.size(("max_image_tiles",), 4))


def _resolutions(p: Processor, width: int, height: int) -> Cut:
    """The whole image, and tiles of the resolution that wastes least; padding left out, rows with an end (LLaVA)."""
    pinpoints = p.settings.get("image_grid_pinpoints") or p.content.get("image_grid_pinpoints") or _PINPOINTS
    if not all(type(side) is int and side > 0 for pair in pinpoints for side in pair):
        raise ModelError("image_grid_pinpoints: a list of heights and widths is expected")
    most, fewest, best = 0, math.inf, (p.side, p.side)
    for tall, wide in pinpoints:
        by = min(wide / width, tall / height)
        useful = min(int(width * by) * int(height * by), width * height)
        wasted = wide * tall - useful
        if useful > most or (useful == most and wasted < fewest):
            most, fewest, best = useful, wasted, (tall, wide)
    side = p.side // p.patch
    rows, columns = (side * (length // p.side) for length in best)
    if width / height > columns / rows:
        rows -= (rows - int(round(height * (columns / width), 7))) // 2 * 2
    else:
        columns -= (columns - int(round(width * (rows / height), 7))) // 2 * 2
    ratio, stated = p.content.get("vision_aspect_ratio"), p.content.get("model_type") == "llava_onevision"
    if stated:
        limit = int(str(ratio or "anyres_max_9").removeprefix("anyres_max_"))
        over = math.sqrt(rows * columns / (limit * side**2))
        rows, columns = (int(rows // over), int(columns // over)) if over > 1.1 else (rows, columns)
    pieces = 1 + math.prod(length // p.side for length in best)
    return Cut(side * side + rows * columns + rows, side, side, pieces)


_PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))

_QWEN2, _QWEN3 = _native(56 * 56, 12_845_056), _native(1 << 16, 1 << 24)

#: ``model_type`` of a model with a tower -> how its processor cuts images, and whether a file beside the configuration
#: says more of it. The numbers are those of the published files. Source: ``image_processing_*.py`` and
#: ``processing_*.py`` of https://github.com/huggingface/transformers, 5.23.
RULES: dict[str, Rule] = {
    **dict.fromkeys(("llava", "vipllava", "paligemma"), _square),
    **dict.fromkeys(("gemma3", "gemma3n"), _averaged),
    **dict.fromkeys(("llava_next", "llava_onevision"), _resolutions),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_omni_moe"), _QWEN2),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _QWEN3),
    "mistral3": _within_edge,
    "pixtral": _within_edge,
    "gemma4": _within_patches,
    "kimi_k25": _never_larger,
    "internvl": _tiles,
    "llama4": _tiles_of_llama,
    "mllama": _tiles_across,
}


def cut(kind: str, processor: Processor, width: int, height: int) -> Cut:
    """One image of so many pixels after its processor.

    Raises:
        InputError: the image is too large, or too narrow.
    """
    if width * height > MOST_PIXELS:
        raise InputError(
            f"an image of {width:,} × {height:,} has more than the {MOST_PIXELS:,} pixels that are resized"
        )
    return RULES[kind](processor, width, height)
