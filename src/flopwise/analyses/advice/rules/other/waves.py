"""Products whose last wave of tiles leaves most of a GPU idle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.analyses.timing.tiles import TILE, product_of, tiles_of

if TYPE_CHECKING:
    from flopwise.analyses.timing.roofline import Roof

#: The share of idle time from which it is advice, and waves beyond which the last one is a small part.
WASTE, WAVES = 0.1, 8


def find(subject: Subject) -> Iterator[Change]:
    """Products of more than one wave of tiles, the last of which is not full."""
    if subject.multiprocessors is None:
        return
    for position, node in subject.live("MatMul", "Gemm"):
        product = product_of(node)
        if product is None:
            continue
        tiles = tiles_of(product)
        waves = tiles / subject.multiprocessors
        waste = 1 - waves / math.ceil(waves) if waves else 0.0
        if 1 < waves < WAVES and waste >= WASTE:
            text = (
                f"{tiles} tiles of {TILE[0]}x{TILE[1]} on {subject.multiprocessors} multiprocessors: "
                f"{waves:.2f} waves take {math.ceil(waves)}, {waste:.1%} of it idle"
            )
            yield Change((position,), text, idle=waste)


def applies(roof: Roof) -> bool:
    """True where arithmetic binds."""
    return roof == "compute"


RULE = Rule(
    name="waves",
    about="Choose sizes whose tiles fill the multiprocessors of a GPU (wave quantisation).",
    exactness="other",
    source="NVIDIA, Matrix Multiplication Background User's Guide: wave quantization, tiles of 256x128",
    find=find,
    applies=applies,
)
