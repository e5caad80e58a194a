"""Convolutions in groups, whose bytes grow with the channels that they pay for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.analyses.advice.convolutions import as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.graph import Tensor

if TYPE_CHECKING:
    from flopwise.analyses.timing.roofline import Roof


def find(subject: Subject) -> Iterator[Change]:
    """Convolutions in groups that are not depthwise, against a dense one of as many products."""
    for each in convolutions(subject):
        if each.groups == 1 or each.groups in (each.taken, each.made):
            continue
        root = math.sqrt(each.groups)
        taken, made = round(each.taken / root), round(each.made / root)
        batch, _, *grid = each.source.dims
        source = Tensor(f"{each.node.name}.source", (batch, taken, *grid), each.source.dtype)
        after = convolution(source, each.node.name, made, each.kernel, each.grid)
        text = (
            f"{each.groups} groups of {each.taken} to {each.made} channels: dense, {taken} to {made} multiply as much"
        )
        yield Change((each.position,), text, (after,))


def applies(roof: Roof) -> bool:
    """True where bytes bind."""
    return roof == "memory"


RULE = Rule(
    name="groups",
    about="Use fewer channels without groups in place of more in groups (G2), where memory binds.",
    exactness="other",
    source="Ma et al., ShuffleNet V2, 2018, guideline G2 and table 2",
    find=find,
    applies=applies,
    code=as_modules,
)
