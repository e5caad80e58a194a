"""Counts of OpenVINO's own operators, each worked out by hand from its specification."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.graph import Node, Tensor
from flopwise.operators import tables
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
    # Three boxes in each of 2 classes: sorted, with corners, three pairs.
    "NMSRotated": (
        [(1, 3, 5), (1, 2, 3)],
        [(6, 3), (6, 3), (1,)],
        {},
        Counts(cmp=2 * (6 + 144), trig=12, mul=2 * (24 + 288), add=2 * (24 + 288), div=2 * 96),
    ),
    # 32 points in 3 channels, 2 regions: as RoiAlign, and turned.
    "ROIAlignRotated": (
        [(1, 3, 9, 9), (2, 5), (2,)],
        [(2, 3, 2, 2)],
        {"sampling_ratio": 2},
        Counts(
            mul=96 * 4 + 32 * (8 + 4) + 2 * 4,
            add=96 * 4 + 32 * (8 + 4) + 2 * 6,
            div=24 + 32 * 2 + 2 * 2,
            cmp=32 * 10 + 2 * 4,
            trig=4,
        ),
    ),
    "DeformablePSROIPooling": (
        [(1, 8, 9, 9), (2, 5), (2, 2, 2, 2)],
        [(2, 2, 2, 2)],
        {"bins": 4},
        Counts(mul=16 * (16 + 4), add=16 * (16 + 4), div=16),
    ),
    # Six anchors in each of 2 images, of which the best four are kept: six pairs.
    "GenerateProposals": (
        [(2, 3), (1, 2, 3, 4), (2, 12, 1, 2), (2, 3, 1, 2)],
        [(8, 4), (8,), (2,)],
        {"candidates": 4},
        Counts(add=2 * (72 + 8 + 24), mul=2 * (48 + 4 + 6), exp=24, cmp=2 * (60 + 18 + 42), div=12),
    ),
    "ExperimentalDetectronGenerateProposalsSingleImage": (
        [(3,), (6, 4), (12, 1, 2), (3, 1, 2)],
        [(4, 4), (4,)],
        {"candidates": 4},
        Counts(add=72 + 8 + 24, mul=48 + 4 + 6, exp=12, cmp=60 + 18 + 42, div=6),
    ),
    # Three regions in each of 2 classes: three pairs.
    "ExperimentalDetectronDetectionOutput": (
        [(3, 4), (3, 8), (3, 2), (1, 3)],
        [(6, 4), (6,), (6,)],
        {"classes": 2},
        Counts(add=2 * (36 + 12), mul=2 * (24 + 3), exp=12, cmp=2 * (30 + 21 + 9), div=6),
    ),
    "ExperimentalDetectronROIFeatureExtractor": (
        [(2, 4), (1, 3, 9, 9)],
        [(2, 3, 2, 2)],
        {"sampling_ratio": 3},
        Counts(mul=24 * 9 * 4 + 8 + 72 * 8, add=24 * 9 * 4 + 8 + 72 * 8, div=24, sqrt=2, log=2),
    ),
    "ExperimentalDetectronTopKROIs": ([(5, 4), (5,)], [(2, 4)], {}, Counts(cmp=15)),
    "ROIPooling": (
        [(1, 2, 9, 9), (1, 5)],
        [(1, 2, 2, 2)],
        {},
        Counts(mul=3 * 8 + 4 * 4 + 4, add=6 * 8 + 4 * 4 + 2, div=2),
    ),
    "NotEqual": ([(2, 3), (3,)], [(2, 3)], {}, Counts(cmp=6)),
    "IsFinite": ([(2, 3)], [(2, 3)], {}, Counts(cmp=12)),
    "FakeConvert": ([(2, 3), (1,), (1,)], [(2, 3)], {}, Counts(add=12, mul=6, div=6, cmp=18)),
    "ReduceLogicalAnd": ([(2, 3), (1,)], [(2,)], {}, Counts(bit=6)),
    "ReduceLogicalOr": ([(2, 3), (1,)], [(2,)], {}, Counts(bit=6)),
    "AdaptiveMaxPool": ([(2, 3, 5)], [(2, 3, 2)], {"axes": 1}, Counts(cmp=36)),
    # As STFT, with a window of which the square is added too, and a quotient for each sample.
    "ISTFT": ([(3, 3, 2)], [(12,)], {"length": 4}, Counts(mul=3 * (8 + 8), add=3 * (12 + 8), div=12)),
    # A LogSoftmax of 10 rows of 9; then labels of 3 are 7 states in each of 4 further steps, for 2 texts.
    "CTCLoss": (
        [(2, 5, 9), (2,), (2, 3), (2,)],
        [(2,)],
        {},
        Counts(cmp=90 + 56 * 2 + 2, add=270 + 56 * 8 + 10, exp=90 + 56 * 3 + 4, log=10 + 56 + 2, bit=2),
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


def test_every_operator_that_counts_is_among_them() -> None:
    """But for those that are Caffe's."""
    rules = {tables.ROWS[f"openvino::{op}"].rule for op in ROWS}
    counted = {op for op, row in tables.ROWS.items() if op.startswith("openvino::") and row.rule not in rules}
    others = {op for op in counted if tables.ROWS[op].claim not in ("nothing", "unknown")}
    assert others == {f"openvino::{op}" for op in ("DetectionOutput", "Proposal", "PSROIPooling")}


@pytest.mark.parametrize(("bias", "adds"), [(28, 4), (56, 8)])
def test_biases_of_a_recurrent_layer_are_added_as_they_are_stored(bias: int, adds: int) -> None:
    shapes = [(2, 5, 8), (1, 28, 8), (1, 28, 7), (1, bias)]
    tensors = tuple([Tensor(f"x{i}", shape, "float32") for i, shape in enumerate(shapes)])
    node = Node("LSTM", "node", tensors, (Tensor("y", (2, 1, 5, 7), "float32"),), {"layout": 1})
    counted = count(node)
    assert counted is not None
    assert counted.mac == 10 * 7 * 4 * 15
    assert counted.add == 10 * 7 * (4 + adds + 1 + 3)  # joined, biases, the cell, three sigmoids
