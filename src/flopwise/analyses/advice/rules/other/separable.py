"""A dense convolution as a depthwise one and a 1x1."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.convolutions import as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject

#: Channels of an input that is an image: its first layer is no candidate.
IMAGE = 4


def find(subject: Subject) -> Iterator[Change]:
    """Dense convolutions of 3x3 and more over more channels than an image has."""
    for each in convolutions(subject):
        if min(each.kernel) < 3 or each.groups != 1 or each.taken <= IMAGE:
            continue
        deep = convolution(
            each.source, f"{each.node.name}.depthwise", each.taken, each.kernel, each.grid, groups=each.taken
        )
        point = convolution(deep.output(), each.node.name, each.made, (1, 1), each.grid, result=each.result)
        k = f"{each.kernel[0]}x{each.kernel[1]}"
        text = f"{k} of {each.taken} to {each.made} channels: depthwise {k}, then 1x1"
        yield Change((each.position,), text, (deep, point))


RULE = Rule(
    name="separable",
    about="Use a depthwise and a 1x1 convolution for a dense one.",
    exactness="other",
    source="Howard et al., MobileNets, 2017, section 3.1",
    find=find,
    code=as_modules,
)
