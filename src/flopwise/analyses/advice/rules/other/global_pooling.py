"""A fully connected layer over a grid, where the mean over the grid would do."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.graph import Node, Tensor


def find(subject: Subject) -> Iterator[Change]:
    """Gemm or MatMul by stored weights of what was flattened from a grid of more than one place."""
    for position, node in subject.live("Gemm", "MatMul"):
        if not node.has_input(1) or not subject.stored(node.input(1)) or len(node.output().dims) != 2:
            continue
        flat = subject.maker(node.input(0))
        skipped = []
        while flat is not None and flat[1].op in ("Dropout", "Identity"):
            skipped.append(flat[0])
            flat = subject.maker(flat[1].input(0))
        if flat is None or flat[1].op not in ("Flatten", "Reshape"):
            continue
        grid = flat[1].input(0)
        if len(grid.dims) != 4 or grid.dims[0] != node.output().dims[0] or int(grid.dims[2] * grid.dims[3]) == 1:
            continue
        if grid.dims[1] == 1 or grid.dims[1] * grid.dims[2] * grid.dims[3] != node.input(0).dims[-1]:
            continue
        channels, units = int(grid.dims[1]), int(node.output().dims[1])
        pooled = Tensor(f"{node.name}.pooled", (grid.dims[0], channels, 1, 1), grid.dtype)
        row = Tensor(f"{node.name}.row", (grid.dims[0], channels), grid.dtype)
        weight = Tensor(f"{node.name}.weight", (channels, units), grid.dtype, "weight")
        after = (
            Node("GlobalAveragePool", f"{node.name}.pool", (grid,), (pooled,)),
            Node("Flatten", f"{node.name}.flatten", (pooled,), (row,), {"axis": 1}),
            Node(bare(node.op), node.name, (row, weight, *node.inputs[2:]), node.outputs),
        )
        text = (
            f"{int(node.input(0).dims[-1]):,} inputs from a {grid.dims[2]}x{grid.dims[3]} grid of {channels} channels"
        )
        yield Change((flat[0], *skipped, position), text, after)


def _code(change: Change) -> str:
    """The mean and a linear layer as modules of PyTorch."""
    channels, units = change.after[-1].input(1).dims
    return f"nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear({channels}, {units}))"


RULE = Rule(
    name="global-pooling",
    about="Take the mean over the grid before a fully connected layer.",
    exactness="other",
    source="Lin et al., Network In Network, 2014, section 3.2",
    find=find,
    code=_code,
)
