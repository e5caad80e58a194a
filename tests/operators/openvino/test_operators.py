"""Counts of OpenVINO's own operators, each worked out by hand from its specification."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count

#: Operator -> shapes of inputs, shapes of outputs, attributes, and its operations.
ROWS: dict[str, tuple[list[tuple[int, ...]], list[tuple[int, ...]], dict[str, Any], Counts]] = {
    "SquaredDifference": ([(2, 3), (3,)], [(2, 3)], {}, Counts(add=6, mul=6)),
    "FakeQuantize": ([(2, 3)], [(2, 3)], {}, Counts(cmp=18, add=12, mul=12, div=12)),
    # Sums of 3 squares for each of 2 x 4 places, their roots with epsilon, and every element divided.
    "NormalizeL2": ([(2, 3, 4)], [(2, 3, 4)], {"axes": [1]}, Counts(mul=24, add=24 + 8, div=24, sqrt=8)),
    # A sum and a subtraction for each element, and a quotient for each of 2 x 3 means.
    "MVN": ([(2, 3, 4)], [(2, 3, 4)], {"axes": [2]}, Counts(add=48, div=6)),
    # 8 boundaries: 4 binary digits.
    "Bucketize": ([(5,), (8,)], [(5,)], {}, Counts(cmp=20)),
    "SearchSorted": ([(2, 8), (2, 3)], [(2, 3)], {"boundaries": 0}, Counts(cmp=24)),
    "BinaryConvolution": ([(1, 4, 5, 5), (2, 4, 3, 3)], [(1, 2, 3, 3)], {}, Counts(bit=2 * 18 * 36)),
    # Windows along 5 elements to 2: 3 + 3, of 2 x 3 channels.
    "AdaptiveAvgPool": ([(2, 3, 5)], [(2, 3, 2)], {"axes": 1}, Counts(add=36, div=12)),
    "EmbeddingBagPackedSum": ([(9, 4), (2, 3)], [(2, 4)], {}, Counts(add=24)),
    "EmbeddingBagOffsets": ([(9, 4), (6,)], [(2, 4)], {"weighted": 1, "reduction": "mean"}, Counts(mac=24, div=8)),
    "SegmentMax": ([(6, 4)], [(2, 4)], {}, Counts(cmp=24)),
    "CTCGreedyDecoderSeqLen": ([(2, 5, 7)], [(2, 5), (2,)], {}, Counts(cmp=70 + 20)),
    "RegionYolo": ([(1, 18, 2, 2)], [(1, 18, 2, 2)], {"classes": 1}, Counts(bit=72, exp=72, add=72, div=72)),
    "NV12toRGB": ([(1, 3, 2, 1)], [(1, 2, 2, 3)], {}, Counts(mul=20, add=28, cmp=24)),
    # Two butterflies in each of two stages for 4 numbers: 4 x (4 mul + 2 add + 4 add), along 3 lines.
    "DFT": ([(3, 4, 2)], [(3, 4, 2)], {"axes": [1]}, Counts(mul=48, add=72)),
    # Half of that for 4 real numbers.
    "RDFT": ([(3, 4)], [(3, 3, 2)], {"axes": [1], "real": "input"}, Counts(mul=24, add=36)),
    "IRDFT": ([(3, 3, 2)], [(3, 4)], {"axes": [1], "real": "result"}, Counts(mul=24, add=36)),
    # Three frames of 4: a window, and half of a transform.
    "STFT": ([(12,)], [(3, 3, 2)], {"length": 4}, Counts(mul=3 * (8 + 4), add=3 * 12)),
    # Two boxes in each of 2 classes: sorted, one pair; then 4 sorted.
    "MulticlassNms": (
        [(1, 2, 4), (1, 2, 2)],
        [(4, 6), (4, 1), (1,)],
        {},
        Counts(cmp=2 * (4 + 7) + 12, add=2 * (4 + 4), mul=2 * (2 + 1), div=2),
    ),
    "ExperimentalDetectronTopKROIs": ([(5, 4), (5,)], [(2, 4)], {}, Counts(cmp=15)),
    "ROIPooling": (
        [(1, 2, 9, 9), (1, 5)],
        [(1, 2, 2, 2)],
        {},
        Counts(mul=3 * 8 + 4 * 4 + 4, add=6 * 8 + 4 * 4 + 2, div=2),
    ),
    "Roll": ([(2, 3)], [(2, 3)], {}, Counts()),
    "PriorBox": ([(2,), (2,)], [(2, 64)], {}, Counts()),
}


@pytest.mark.parametrize("op", ROWS)
def test_a_row_by_hand(op: str) -> None:
    inputs, outputs, attrs, expected = ROWS[op]
    given, made = (
        [Tensor(f"{side}{i}", s, "float32") for i, s in enumerate(shapes)]
        for side, shapes in (("x", inputs), ("y", outputs))
    )
    node = Node(f"openvino::{op}", "node", tuple(given), tuple(made), attrs)
    assert count(node) == expected


@pytest.mark.parametrize(("bias", "adds"), [(28, 4), (56, 8)])
def test_biases_of_a_recurrent_layer_are_added_as_they_are_stored(bias: int, adds: int) -> None:
    shapes = [(2, 5, 8), (1, 28, 8), (1, 28, 7), (1, bias)]
    tensors = tuple([Tensor(f"x{i}", shape, "float32") for i, shape in enumerate(shapes)])
    node = Node("LSTM", "node", tensors, (Tensor("y", (2, 1, 5, 7), "float32"),), {"layout": 1})
    counted = count(node)
    assert counted is not None
    assert counted.mac == 10 * 7 * 4 * 15
    assert counted.add == 10 * 7 * (4 + adds + 1 + 3)  # joined, biases, the cell, three sigmoids
