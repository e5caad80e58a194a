"""Custom operators of MediaPipe and TensorFlow Lite by hand counts."""

from __future__ import annotations

import pytest

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import ROWS


def tensor(*shape: int) -> Tensor:
    return Tensor("t", shape, "float32")


@pytest.mark.parametrize(
    ("op", "inputs", "output", "expected"),
    [
        # 2 x 3 positions of 5 channels: a linear average of 4 neighbours each, and where the position lies
        (
            "TransformTensorBilinear",
            [tensor(1, 9, 9, 5), tensor(4, 4)],
            tensor(1, 2, 3, 5),
            Counts(mac=6 * 8, mul=30 * 4 + 6 * 4, add=30 * 4 + 6 * 4, cmp=6 * 2),
        ),
        ("TransformLandmarks", [tensor(1, 7, 2), tensor(4, 4)], tensor(1, 7, 2), Counts(mac=7 * 8)),
        (
            "Landmarks2TransformMatrix",
            [tensor(1, 7, 3)],
            tensor(4, 4),
            Counts(mac=42, cmp=42, mul=16, add=8, div=2, trig=3, sqrt=1),
        ),
        ("MaxPoolingWithArgmax2D", [tensor(1, 4, 6, 5)], tensor(1, 2, 3, 5), Counts(cmp=120)),
        # 4 anchors of 3 classes: 6 pairs may overlap, the best of 12 scores are found, 4 are sorted (3 each)
        (
            "TFLite_Detection_PostProcess",
            [tensor(1, 4, 4), tensor(1, 4, 3), tensor(4, 4)],
            tensor(1, 2, 4),
            Counts(
                add=4 * 6 + 6 * 4,
                mul=4 * 6 + 6,
                div=4 * 4 + 6,
                exp=4 * 2,
                cmp=12 + 4 * 3 + 6 * 7,
            ),
        ),
    ],
)
def test_counts(op: str, inputs: list[Tensor], output: Tensor, expected: Counts) -> None:
    assert ROWS[f"tflite.custom::{op}"].rule(Node(op, "n", tuple(inputs), (output,))) == expected
