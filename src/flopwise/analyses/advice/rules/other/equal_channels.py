"""1x1 convolutions from few channels to many, or the reverse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise.analyses.advice.convolutions import Convolution, as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.graph import Tensor
from flopwise.operators.tables import row

if TYPE_CHECKING:
    from flopwise.analyses.timing.roofline import Roof

#: Ratio of channels from which the paper measured a clear loss.
UNEQUAL = 6


def find(subject: Subject) -> Iterator[Change]:
    """1x1 convolutions whose channels differ by six times and more, against one of equal channels and as many products.

    Bytes of h·w·(c1 + c2) + c1·c2 are least for a product c1·c2 where c1 = c2. What widens for a depthwise convolution
    or narrows behind one is left alone, because the depthwise one is why it is wide; so is a single place, whose bytes
    are weights.
    """
    every = list(convolutions(subject))
    depthwise = {each.position for each in every if each.groups == each.taken == each.made > 1}
    for each in every:
        most, least = max(each.taken, each.made), min(each.taken, each.made)
        if each.kernel != (1, 1) or each.groups != 1 or most < UNEQUAL * least or each.grid == (1, 1):
            continue
        if not depthwise.isdisjoint(_around(subject, each)):
            continue
        equal = math.isqrt(most * least)
        batch, _, *grid = each.source.dims
        source = Tensor(f"{each.node.name}.source", (batch, equal, *grid), each.source.dtype)
        after = convolution(source, each.node.name, equal, (1, 1), each.grid)
        text = f"{each.taken} to {each.made} channels: {equal} to {equal} are as many products and fewer bytes"
        yield Change((each.position,), text, (after,))


def _around(subject: Subject, each: Convolution) -> Iterator[int]:
    """Positions of the convolutions before and behind one, with nothing but element-wise operators between."""
    reached, tensors = [each.source], [each.result]
    while reached:
        maker = subject.maker(reached.pop())
        if maker is not None and bare(maker[1].op) == "Conv":
            yield maker[0]
        elif maker is not None and row(maker[1].op).in_place:
            reached.append(maker[1].input(0))
    while tensors:
        for position in subject.takers(tensors.pop()):
            node = subject.nodes[position]
            if bare(node.op) == "Conv":
                yield position
            elif row(node.op).in_place and node.output().shape == each.result.shape:
                tensors.append(node.output())


def applies(roof: Roof) -> bool:
    """True where bytes bind: where arithmetic does, the same products take the same time."""
    return roof == "memory"


RULE = Rule(
    name="equal-channels",
    about="Give a 1x1 convolution as many channels before as behind (G1), where memory binds it.",
    exactness="other",
    source="Ma et al., ShuffleNet V2, 2018, guideline G1 and table 1; does not hold on a CPU that arithmetic binds",
    find=find,
    applies=applies,
    code=as_modules,
)
