"""Products of each step of an unrolled loop with the same weights, which do not wait for each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, bare
from flopwise.graph import Node, Tensor

#: What takes a step out of a sequence.
_PARTS = frozenset({"Gather", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Identity"})

#: Steps from which it is a loop.
STEPS = 3


def find(subject: Subject) -> Iterator[Change]:
    """Products of parts of one tensor with one stored matrix, against one product of all parts."""
    groups: dict[tuple[str, str], list[int]] = {}
    for position, node in subject.live("MatMul", "Gemm"):
        if node.has_input(1) and subject.stored(node.input(1)) and not node.has_input(2):
            whole = _whole(subject, node.input(0))
            if whole is not None:
                groups.setdefault((whole, node.input(1).name), []).append(position)
    for positions in groups.values():
        if len(positions) < STEPS:
            continue
        nodes = [subject.nodes[p] for p in positions]
        first = nodes[0]
        rows = sum(math.prod(node.output().dims[:-1]) for node in nodes)
        taken = Tensor(f"{first.name}.steps", (rows, first.input(0).dims[-1]), first.input(0).dtype)
        made = Tensor(f"{first.name}.products", (rows, first.output().dims[-1]), first.output().dtype)
        after = Node(bare(first.op), f"{first.name}.all", (taken, first.input(1)), (made,), first.attrs)
        text = f"{len(nodes)} products with the same {first.input(1).nbytes:,} bytes of weights wait for nothing"
        yield Change(tuple(positions), text, (after,))


def _whole(subject: Subject, tensor: Tensor) -> str | None:
    """Name of the tensor that one is a part of; None where it is no part."""
    maker, parts = subject.maker(tensor), False
    while maker is not None and maker[1].op in _PARTS and not subject.stored(maker[1].input(0)):
        parts |= maker[1].op in ("Gather", "Slice", "Split")
        tensor = maker[1].input(0)
        maker = subject.maker(tensor)
    return tensor.name if parts else None


RULE = Rule(
    name="unrolled",
    about="Multiply all steps of a sequence by the same weights at once, or use LSTM, GRU or RNN for the loop.",
    exactness="same",
    source="arithmetic: the weights are read once; cuDNN and onnxruntime's recurrent operators do so",
    find=find,
    code=lambda change: "(x @ weight).unbind(dim) in place of [part @ weight for part in x.unbind(dim)]",
)
