"""What PyTorch's exporter on torch.export says about tensors."""

from __future__ import annotations

import pytest

from flopwise.formats.kit.program import Graph, Value, Values
from flopwise.formats.kit.stored import FOLDED_FROM, KIND, SIGNATURE, notes

SIGNED = """\
# inputs
p_fc_weight: PARAMETER target='fc.weight'
p_old: PARAMETER target='old.weight'
b_mean: BUFFER target='bn.running_mean' persistent=True
c_table: CONSTANT_TENSOR target='table'
x: USER_INPUT
# outputs
linear: USER_OUTPUT
"""


def graph(signature: str = "", **values: dict[str, str]) -> Graph:
    """A graph whose values have the given metadata."""
    noted = [Value(name, None, entries) for name, entries in values.items()]
    return Graph(metadata={SIGNATURE: signature} if signature else {}, values=Values([], lambda data: noted))


STORED = {"fc.weight", "bn.running_mean", "table", "folded"}


@pytest.mark.parametrize(
    ("made", "name", "expected"),
    [
        (graph(), "fc.weight", None),
        (graph(SIGNED), "fc.weight", "weight"),
        (graph(SIGNED), "bn.running_mean", "buffer"),
        (graph(SIGNED), "table", "constant"),
        (graph(SIGNED), "x", None),
        (graph(w={KIND: "PARAMETER"}), "w", "weight"),
        (graph(w={KIND: "BUFFER"}), "w", "buffer"),
        (graph(w={KIND: "USER_INPUT"}), "w", None),
        (graph(w={"other": "PARAMETER"}), "w", None),
        # a copy of a parameter that is still there counts there; of one that is gone, it is that parameter now
        (graph(SIGNED, folded={FOLDED_FROM: "['fc.weight']"}), "folded", "constant"),
        (graph(SIGNED, folded={FOLDED_FROM: "['old.weight']"}), "folded", "weight"),
        (graph(SIGNED, folded={FOLDED_FROM: "['fc.weight', 'old.weight']"}), "folded", "constant"),
        (graph(SIGNED, folded={FOLDED_FROM: "['val_1', 'val_2']"}), "folded", "constant"),
        (graph(SIGNED, folded={FOLDED_FROM: "['bn.running_mean']"}), "folded", "constant"),
        (graph(SIGNED, folded={FOLDED_FROM: "['a.b']"}), "folded", "constant"),
        # without a signature, names with dots are the module's
        (graph(folded={FOLDED_FROM: "['a.b']"}), "folded", "weight"),
        (graph(folded={FOLDED_FROM: "['fc.weight']"}), "folded", "constant"),
        (graph(folded={FOLDED_FROM: "['val_1']"}), "folded", "constant"),
        (graph(folded={FOLDED_FROM: "[]"}), "folded", "constant"),
    ],
)
def test_kinds(made: Graph, name: str, expected: str | None) -> None:
    assert notes(made).kind(name, STORED) == expected
