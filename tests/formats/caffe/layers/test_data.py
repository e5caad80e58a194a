"""Layers that bring data, and the shapes that the user gives for them."""

from __future__ import annotations

import pytest
from tests.formats.caffe.layers.layer import layer, one

from flopwise.errors import InputError
from flopwise.formats.caffe.table import lower


def test_data_without_a_size_asks_for_it() -> None:
    with pytest.raises(InputError, match=r"layer 'it' \(Data, line \d+\).*-i y0:f32:1x3x224x224"):
        one("Data", "data_param { batch_size: 4 }", [])
    with pytest.raises(InputError, match="-i y0:f32:1x3x224x224 -i y1:f32:1"):
        one("HDF5Data", "", [], 2)
    with pytest.raises(InputError, match="-i y0:f32:1x3x300x300"):
        one("AnnotatedData", "", [], 2)
    with pytest.raises(InputError, match="-i y0:f32:1x3x224x224"):
        one("Input", "", [])


def test_the_shape_that_the_user_gives_wins() -> None:
    params = "data_param { batch_size: 256 } transform_param { crop_size: 227 }"
    (given,) = lower(layer("Data", params, 0, 2), [], {"y0": (2, 1, 28, 28)})
    assert given.outputs == ((2, 1, 28, 28), (2,))
    assert given.note == ""
    (both,) = lower(layer("Data", "", 0, 2), [], {"y0": (2, 1, 28, 28), "y1": (2, 1)})
    assert both.outputs == ((2, 1, 28, 28), (2, 1))
    (declared,) = lower(layer("Input", "input_param { shape { dim: 10 dim: 3 } }", 0, 1), [], {"y0": (1, 3)})
    assert declared.outputs == ((1, 3),)


def test_channels_that_the_file_does_not_give_are_said_to_be_assumed() -> None:
    size = "transform_param { crop_size: 227 %s }"
    assert "taken as 3" in one("Data", f"data_param {{ batch_size: 4 }} {size % ''}", []).note
    assert one("WindowData", f"window_data_param {{ batch_size: 4 }} {size % ''}", []).note == ""
    gray = one("Data", f"data_param {{ batch_size: 4 }} {size % 'force_gray: true'}", [])
    assert (gray.outputs, gray.note) == (((4, 1, 227, 227),), "")
