"""The colours of the pages: text can be read on them, and the colour-blind can tell kinds of work apart."""

from __future__ import annotations

import itertools
import re

import pytest

from flopwise.report.html.page import asset
from flopwise.report.structure import KINDS

np = pytest.importorskip("numpy")

#: The least distance in OKLab of two kinds in any kind of sight; a just noticeable difference is about 0.02.
LEAST = 0.06

#: Full protanopia, deuteranopia and tritanopia in linear RGB: Machado, Oliveira, Fernandes 2009, severity 1.0.
SIGHT = {
    "common": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def colours(theme: str) -> dict[str, str]:
    """Name -> the colour in a theme, from the style sheet."""
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{3,6}), (#[0-9a-f]{3,6})\)", asset("page.css"))
    return {name: light if theme == "light" else dark for name, light, dark in pairs}


def linear(colour: str) -> object:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    part = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """By WCAG 2."""
    light = sorted(float(np.dot([0.2126, 0.7152, 0.0722], linear(colour))) for colour in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


def oklab(rgb: object) -> object:
    """https://bottosson.github.io/posts/oklab/."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return to_lab @ np.cbrt(cones @ np.clip(rgb, 0, 1))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_can_be_read(theme: str) -> None:
    palette = colours(theme)
    for ground in ("surface", "ground", "sunken"):
        for ink in ("text", "muted", "faint", "accent", "mark", "k-5"):
            assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)
    assert contrast(palette["text"], palette["accent-soft"]) >= 4.5
    assert contrast(palette["warn"], palette["warn-soft"]) >= 4.5
    for kind in range(len(KINDS)):
        assert contrast(palette[f"k-{kind}"], palette[f"on-k-{kind}"]) >= 4.5, KINDS[kind]
        assert contrast(palette[f"k-{kind}"], palette["surface"]) >= 3, KINDS[kind]


@pytest.mark.parametrize("sight", list(SIGHT))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_kinds_look_different_to_everybody(theme: str, sight: str) -> None:
    palette = colours(theme)
    kinds = KINDS[:-1]  # what is of no kind is a grey like movement
    seen = [oklab(np.array(SIGHT[sight]) @ linear(palette[f"k-{kind}"])) for kind in range(len(kinds))]
    for one, other in itertools.combinations(range(len(kinds)), 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= LEAST, (kinds[one], kinds[other])
