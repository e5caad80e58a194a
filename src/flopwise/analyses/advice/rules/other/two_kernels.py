"""A 5x5 convolution as two of 3x3."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.convolutions import as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject


def find(subject: Subject) -> Iterator[Change]:
    """Dense 5x5 convolutions: 25 weights for each pair of channels, where 18 see as far."""
    for each in convolutions(subject):
        if each.kernel != (5, 5) or each.groups != 1:
            continue
        first = convolution(each.source, f"{each.node.name}.first", each.made, (3, 3), each.grid)
        second = convolution(first.output(), each.node.name, each.made, (3, 3), each.grid, result=each.result)
        text = f"5x5 of {each.taken} to {each.made} channels on {each.grid[0]}x{each.grid[1]}: two 3x3 see as far"
        yield Change((each.position,), text, (first, second))


RULE = Rule(
    name="two-kernels",
    about="Use two 3x3 convolutions for one of 5x5.",
    exactness="other",
    source="Szegedy et al., Rethinking the Inception Architecture, 2016, section 3.1",
    find=find,
    code=as_modules,
)
