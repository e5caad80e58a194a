"""The formulas of Molchanov et al., arXiv:1611.06440, appendix A.1."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conventions.nodes import Shapes, node, total

from flopwise.conventions import CONVENTIONS
from flopwise.operators.tables import OPERATORS

X = (2, 8, 6, 6)

#: Operator, input shapes, output shapes, attributes, total.
ROWS: list[tuple[str, Shapes, Shapes, dict[str, Any], int | None]] = [
    # 2HW(CK² + 1)C' of VGG-16's second layer.
    ("Conv", [(1, 64, 224, 224), (64, 64, 3, 3), (64,)], [(1, 64, 224, 224)], {}, 2 * 224 * 224 * (64 * 9 + 1) * 64),
    ("Conv", [X, (4, 8, 3, 3)], [(2, 4, 4, 4)], {}, 2 * 2 * 4 * 4 * 73 * 4),
    ("Conv", [X, (8, 1, 3, 3)], [(2, 8, 4, 4)], {"group": 8}, 2 * 2 * 4 * 4 * 10 * 8),
    # (2I − 1)O of its last one.
    ("Gemm", [(1, 4096), (1000, 4096), (1000,)], [(1, 1000)], {"transB": 1}, 8191 * 1000),
    ("MatMul", [(2, 5), (5, 7)], [(2, 7)], {}, 9 * 14),
    ("Relu", [X], [X], {}, 0),
    ("MaxPool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]}, 0),
    ("BatchNormalization", [X, (8,), (8,), (8,), (8,)], [X], {}, 0),
    ("Softmax", [(2, 10)], [(2, 10)], {}, 0),
    ("ConvTranspose", [(1, 4, 3, 3), (4, 2, 2, 2)], [(1, 2, 6, 6)], {}, None),
    ("Einsum", [(2, 3), (3, 4)], [(2, 4)], {"equation": "ij,jk->ik"}, None),
    ("acme::Mystery", [X], [X], {}, None),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "count"), ROWS)
def test_rows(op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], count: int | None) -> None:
    assert total("molchanov", node(op, inputs, outputs, attrs)) == count


def test_nothing_that_multiplies_and_accumulates_is_free() -> None:
    """Operators whose canonical formula has a mac are counted or unknown; AffineGrid is free as what it is for."""
    macs = {op for op, known in OPERATORS.items() if " mac" in known.formula}
    assert macs - {"AffineGrid"} <= CONVENTIONS["molchanov"].overrides.keys()
