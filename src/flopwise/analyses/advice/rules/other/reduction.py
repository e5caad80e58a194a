"""A dense convolution between 1x1 convolutions that take channels away and give them back."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.convolutions import as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject

#: Channels from which ResNets have bottlenecks, and the share that is left in them.
WIDE, SHARE = 256, 4


def find(subject: Subject) -> Iterator[Change]:
    """Dense convolutions of 3x3 and more from as many channels to as many, 256 or more."""
    for each in convolutions(subject):
        if min(each.kernel) < 3 or each.groups != 1 or min(each.taken, each.made) < WIDE:
            continue
        name, inner = each.node.name, each.made // SHARE
        height, width = (int(extent) for extent in each.source.dims[2:])
        first = convolution(each.source, f"{name}.reduce", inner, (1, 1), (height, width))
        second = convolution(first.output(), f"{name}.narrow", inner, each.kernel, each.grid)
        third = convolution(second.output(), name, each.made, (1, 1), each.grid, result=each.result)
        text = f"{each.kernel[0]}x{each.kernel[1]} of {each.taken} to {each.made} channels: by way of {inner}"
        yield Change((each.position,), text, (first, second, third))


RULE = Rule(
    name="reduction",
    about="Reduce channels by a 1x1 convolution before a dense one of 256 and more, and expand them behind it.",
    exactness="other",
    source="He et al., Deep Residual Learning, 2016, figure 5 (bottleneck to a quarter)",
    find=find,
    code=as_modules,
)
