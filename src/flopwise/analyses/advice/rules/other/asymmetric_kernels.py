"""A kxk convolution as one of 1xk and one of kx1."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.convolutions import as_modules, convolution, convolutions
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject

#: Grids on which the paper has it work.
GRIDS = range(12, 21)


def find(subject: Subject) -> Iterator[Change]:
    """Dense square kernels of 3x3 and more on medium grids."""
    for each in convolutions(subject):
        k = each.kernel[0]
        if each.kernel != (k, k) or k < 3 or each.groups != 1 or any(extent not in GRIDS for extent in each.grid):
            continue
        narrow = (int(each.source.dims[2]), each.grid[1])
        first = convolution(each.source, f"{each.node.name}.first", each.made, (1, k), narrow)
        second = convolution(first.output(), each.node.name, each.made, (k, 1), each.grid, result=each.result)
        text = f"{k}x{k} of {each.taken} to {each.made} channels on {each.grid[0]}x{each.grid[1]}: 1x{k}, then {k}x1"
        yield Change((each.position,), text, (first, second))


RULE = Rule(
    name="asymmetric-kernels",
    about="Use a 1xk and a kx1 convolution for one of kxk, on grids of 12 to 20.",
    exactness="other",
    source="Szegedy et al., Rethinking the Inception Architecture, 2016, section 3.2",
    find=find,
    code=as_modules,
)
