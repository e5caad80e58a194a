"""Shapes of standard operators with windows, blocks and parts, at sizes where no other formula gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.operators.shapes.test_rules import Type, ints, results

from flopwise.operators.size import MisfitError, Most

_ = None

#: Operator, inputs, attributes -> results. No size is the sum, the product or the power of others by chance: 2 + 2 is
#: 2 × 2.
ROWS: list[tuple[str, list[Type], dict[str, Any], list[tuple[int, ...]]]] = [
    ("DepthToSpace", [(2, 18, 5, 7)], {"blocksize": 3}, [(2, 2, 15, 21)]),
    ("SpaceToDepth", [(5, 2, 15, 21)], {"blocksize": 3}, [(5, 18, 5, 7)]),
    ("Tile", [(5, 7), ints(3, 2)], {}, [(15, 14)]),
    ("Pad", [(5, 7), ints(1, 4, 3, 2)], {}, [(9, 13)]),
    ("Pad", [(5, 7), ints(-1, 4, -2, 2)], {}, [(2, 13)]),
    ("Pad", [(5, 7), ints(1, 3), _, ints(-1)], {}, [(5, 11)]),
    ("CenterCropPad", [(5, 7, 9), ints(8, 4)], {"axes": [0, -1]}, [(8, 7, 4)]),
    ("Flatten", [(2, 3, 5)], {"axis": -1}, [(6, 5)]),
    ("AveragePool", [(2, 5, 23, 19)],
     {"kernel_shape": [3, 4], "dilations": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]}, [(2, 5, 10, 5)]),
    ("LpPool", [(2, 5, 23)], {"kernel_shape": [4], "strides": [5]}, [(2, 5, 4)]),
    ("LpPool", [(2, 5, 23)], {"kernel_shape": [4], "strides": [5], "ceil_mode": 1}, [(2, 5, 5)]),
    ("LpPool", [(2, 5, 21)], {"kernel_shape": [2], "strides": [7], "ceil_mode": 1}, [(2, 5, 3)]),
    ("LpPool", [(2, 5, 20)], {"kernel_shape": [2], "strides": [7], "pads": [1, 3], "ceil_mode": 1}, [(2, 5, 3)]),
    ("LpPool", [(2, 5, 23)], {"kernel_shape": [4], "dilations": [5], "auto_pad": "VALID", "pads": [9, 9]}, [(2, 5, 8)]),
    ("AveragePool", [(2, 5, 23)], {"kernel_shape": [4], "strides": [5], "auto_pad": "SAME_UPPER"}, [(2, 5, 5)]),
    ("LpPool", [(2, 5, 23)], {"kernel_shape": [4], "dilations": [5], "pads": [3, 4]}, [(2, 5, 15)]),
    ("Conv", [(2, 6, 23), (4, 3, 5)], {"dilations": [3], "group": 2}, [(2, 4, 11)]),
    ("Conv", [(2, 6, 23), (4, 3, 5)], {"strides": [3], "pads": [1, 3], "group": 2}, [(2, 4, 8)]),
    ("ConvTranspose", [(2, 6, 5), (6, 4, 3)],
     {"strides": [4], "dilations": [3], "output_padding": [2], "pads": [1, 2], "group": 2}, [(2, 8, 22)]),
    ("ConvTranspose", [(2, 6, 5), (6, 4, 3)], {"strides": [4], "auto_pad": "SAME_LOWER"}, [(2, 4, 20)]),
    ("ConvTranspose", [(2, 6, 5), (6, 4, 3)], {"strides": [4], "pads": [1, 2], "auto_pad": "VALID"}, [(2, 4, 19)]),
    ("ConvTranspose", [(2, 6, 5), (6, 4, 3)], {"strides": [4], "output_shape": [2, 4, 17]}, [(2, 4, 17)]),
    ("MaxUnpool", [(2, 3, 5), (2, 3, 5)], {"kernel_shape": [4], "strides": [3], "pads": [1, 2]}, [(2, 3, 13)]),
    ("Col2Im", [(2, 60, 7), ints(6, 11), ints(4, 5)], {}, [(2, 3, 6, 11)]),
    ("GridSample", [(2, 3, 5, 7), (2, 11, 13, 2)], {}, [(2, 3, 11, 13)]),
    ("AffineGrid", [(2, 2, 3), ints(2, 3, 5, 7)], {}, [(2, 5, 7, 2)]),
    ("AffineGrid", [(2, 3, 4), ints(2, 3, 5, 7, 11)], {}, [(2, 5, 7, 11, 3)]),
    ("RoiAlign", [(2, 3, 30, 40), (7, 4), ("int64", (7,))], {"output_height": 5, "output_width": 6}, [(7, 3, 5, 6)]),
    ("Resize", [(2, 3, 5, 7), _, np.array([1, 1, 2.5, 0.5], np.float32)], {}, [(2, 3, 12, 3)]),
    ("Resize", [(1, 3, 20, 30), _, _, ints(40, 45)],
     {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}, [(1, 3, 30, 45)]),
    ("Resize", [(1, 3, 20, 30), _, _, ints(40, 45)],
     {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}, [(1, 3, 40, 60)]),
    ("GatherND", [(2, 3, 5, 7), ("int64", (2, 11, 1))], {"batch_dims": 1}, [(2, 11, 5, 7)]),
    ("GatherND", [(2, 3, 5, 7), ("int64", (11, 3))], {}, [(11, 7)]),
    ("STFT", [(3, 100, 1), np.array(7), (16,)], {}, [(3, 13, 9, 2)]),
    ("STFT", [(3, 100, 1), np.array(7), (16,)], {"onesided": 0}, [(3, 13, 16, 2)]),
    ("DFT", [(3, 11, 1)], {"axis": 1, "onesided": 1}, [(3, 6, 2)]),
    ("DFT", [(3, 6, 2)], {"axis": 1, "onesided": 1, "inverse": 1}, [(3, 10, 1)]),
    ("MelWeightMatrix", [np.array(5), np.array(17), np.array(9), np.array(1.0), np.array(2.0)], {}, [(9, 5)]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attrs", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_shapes(op: str, inputs: list[Type], attrs: dict[str, Any], expected: list[tuple[int, ...]]) -> None:
    assert [shape for _, shape in results(op, inputs, attrs)][: len(expected)] == expected


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Conv", [(2, 7, 23), (4, 3, 5)], {"group": 2}),
        ("Conv", [(2, 6, 23), (5, 3, 5)], {"group": 2}),
        ("Conv", [(2, 6, 23), (4, 3, 5)], {"group": 0}),
        ("ConvTranspose", [(2, 5, 5), (6, 4, 3)], {}),
        ("LpPool", [(2, 5, 23)], {"kernel_shape": [3, 3]}),
        ("LpPool", [(2, 5, 23)], {"kernel_shape": [3], "pads": [1]}),
        ("Tile", [(5, 7), ints(3)], {}),
        ("Pad", [(5, 7), ints(1, 2)], {}),
        ("GatherND", [(2, 3), ("int64", (11, 3))], {}),
        ("STFT", [(3, 15, 1), np.array(7), (16,)], {}),
        ("Flatten", [(2, 3, 5)], {"axis": 4}),
    ],
)
def test_what_does_not_fit_is_refused(op: str, inputs: list[Type], attrs: dict[str, Any]) -> None:
    with pytest.raises(MisfitError):
        results(op, inputs, attrs)


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"kernel_shape": [3], "strides": [2]}, 4),  # of at most 9 elements: 0 to 4 windows
        ({"kernel_shape": [3], "strides": [2], "pads": [3, 3]}, 7),
        ({"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, 4),
    ],
)
def test_windows_of_a_size_that_data_decide(attrs: dict[str, Any], expected: int) -> None:
    (_, shape), *_ = results("AveragePool", [(2, 5, Most(9))], attrs)
    assert shape == (2, 5, expected)
