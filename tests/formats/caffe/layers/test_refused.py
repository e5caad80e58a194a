"""Layers that make no sense: one line with the layer, its type and its line."""

from __future__ import annotations

import contextlib

import pytest
from tests.cases import each
from tests.formats.caffe.layers.layer import layer, one
from tests.formats.caffe.layers.rows import CONV, ROWS, X

from flopwise.errors import FlopwiseError, ModelError
from flopwise.formats.caffe.table import LAYERS, lower
from flopwise.graph import Shape

REFUSED: list[tuple[str, str, list[Shape], int, str]] = [
    ("Convolution", "", [X], 1, "has no num_output"),
    ("Convolution", "convolution_param { num_output: 0 kernel_size: 3 }", [X], 1, "num_output is 0"),
    ("Convolution", "convolution_param { num_output: 4 }", [X], 1, "kernel_size is 0"),
    ("Convolution", "convolution_param { num_output: 4 kernel_size: [3, 3, 3] }", [X], 1, "3 values of kernel_size"),
    ("Convolution", CONV % (4, 3, "kernel_h: 3 kernel_w: 3"), [X], 1, "one form only"),
    ("Convolution", CONV % (4, 3, "pad_h: 1"), [(1, 2, 9)], 1, "1 spatial dimensions"),
    ("Convolution", CONV % (4, 3, "stride: 0"), [X], 1, "stride is 0"),
    ("Convolution", CONV % (4, 3, "stride_h: 1"), [X], 1, "stride is 0"),
    ("Convolution", CONV % (4, 3, "pad: -1"), [X], 1, "pad is -1"),
    ("Convolution", CONV % (4, 3, "dilation: 4"), [X], 1, "does not fit"),
    ("Convolution", CONV % (4, 3, "group: 2"), [X], 1, "2 groups"),
    ("Convolution", CONV % (4, 3, "group: 0"), [X], 1, "group is 0"),
    ("Convolution", CONV % (4, 3, "axis: 4"), [X], 1, "axis 4 of a blob with 4 dimensions"),
    ("Convolution", CONV % (4, 3, ""), [X, (2, 3, 6, 6)], 2, "differ in shape"),
    ("Convolution", CONV % (4, 3, ""), [X, X], 1, "one top for each bottom"),
    ("Convolution", "convolution_param { num_output: 9223372036854775807 kernel_size: 3 }", [X], 1, "2^63"),
    ("Deconvolution", CONV % (4, 3, "pad: 9"), [X], 1, "nothing is left"),
    ("InnerProduct", "inner_product_param { num_output: 4 axis: -5 }", [X], 1, "axis -5"),
    ("Embed", "embed_param { num_output: 4 }", [X], 1, "has no input_dim"),
    ("Pooling", "", [X], 1, "has no kernel_size"),
    ("Pooling", "pooling_param { kernel_size: 0 }", [X], 1, "kernel_size is 0"),
    ("Pooling", "pooling_param { kernel_h: 2 }", [X], 1, "both are needed"),
    ("Pooling", "pooling_param { kernel_size: 2 kernel_h: 2 kernel_w: 2 }", [X], 1, "one form only"),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 0 }", [X], 1, "stride is 0"),
    ("Pooling", "pooling_param { kernel_size: 2 pad: 2 }", [X], 1, "not smaller than the kernel"),
    ("Pooling", "pooling_param { kernel_size: 9 }", [X], 1, "does not fit"),
    ("Pooling", "pooling_param { kernel_size: 2 pool: MIN }", [X], 1, "pool is 'MIN', must be one of MAX, AVE"),
    ("Pooling", "pooling_param { kernel_size: 2 }", [(2, 3)], 1, "needs 4 dimensions"),
    ("SPP", "", [X], 1, "has no pyramid_height"),
    ("SPP", "spp_param { pyramid_height: 1000000000 }", [X], 1, "is not smaller than the kernel"),
    ("Upsample", "upsample_param { upsample_h: 5 }", [X], 1, "has no upsample_w"),
    ("Clip", "clip_param { min: 0 }", [X], 1, "has no max"),
    ("Exp", "exp_param { base: -2 }", [X], 1, "must be positive, or -1 for e"),
    ("PReLU", "", [(3,)], 1, "at least 2 dimensions"),
    ("Scale", "scale_param { axis: 3 num_axes: 2 }", [X], 1, "2 axes from axis 3"),
    ("Scale", "", [X, (4,)], 1, "do not agree from axis 1"),
    ("Eltwise", "", [X, (2, 3, 6, 6)], 1, "differ in shape: 2x3x6x5, 2x3x6x6"),
    ("Eltwise", "eltwise_param { coeff: 1 }", [X, X], 1, "1 coefficients"),
    ("Eltwise", "eltwise_param { operation: MAX coeff: [1, 1] }", [X, X], 1, "2 coefficients for the MAX"),
    ("LRN", "lrn_param { local_size: 4 }", [X], 1, "must be odd"),
    ("Softmax", "", [(3,)], 1, "axis 1 of a blob with 1 dimensions"),
    ("Concat", "", [X, (2, 3, 6, 6)], 1, "cannot join 2x3x6x5 and 2x3x6x6 along axis 1"),
    ("Concat", "", [X, (2, 3, 6)], 1, "cannot join"),
    ("Slice", "", [X], 2, "cannot cut 3 into 2"),
    ("Slice", "slice_param { slice_point: [2, 1] }", [X], 3, "do not rise"),
    ("Slice", "slice_param { slice_point: 1 }", [X], 3, "1 slice points for 3 tops"),
    ("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }", [X], 1, "more than one dimension of -1"),
    ("Reshape", "reshape_param { shape { dim: 10 dim: 90 } }", [X], 1, "allows no other batch"),
    ("Reshape", "reshape_param { shape { dim: -1 dim: 7 } }", [X], 1, "cannot make -1x7 of 180"),
    ("Reshape", "reshape_param { shape { dim: -2 } }", [X], 1, "is -2"),
    ("Reshape", f"reshape_param {{ shape {{ {'dim: 1 ' * 33} }} }}", [X], 1, "33 dimensions"),
    ("Input", f"input_param {{ shape {{ {'dim: 9 ' * 33} }} }}", [], 1, "33 dimensions"),
    ("InnerProduct", f"inner_product_param {{ num_output: {'9' * 4000} }}", [X], 1, "num_output is more than 2^63"),
    ("Reshape", "reshape_param { axis: 3 num_axes: 2 }", [X], 1, "2 axes from axis 3"),
    ("Reshape", "reshape_param { axis: -6 }", [X], 1, "axis -6"),
    ("Reshape", "reshape_param { axis: 3 shape { dim: 0 dim: 0 } }", [X], 1, "copies axis 4"),
    ("Flatten", "flatten_param { axis: 2 end_axis: 1 }", [X], 1, "lies before"),
    ("Permute", "permute_param { order: [0, 0] }", [X], 1, "twice"),
    ("Permute", "permute_param { order: 4 }", [X], 1, "order 4"),
    ("Crop", "", [X, (2, 3, 7, 5)], 1, "cannot crop"),
    ("Crop", "crop_param { offset: [1, 1, 1] }", [X, X], 1, "3 offsets for 2"),
    ("Tile", "tile_param { tiles: 0 }", [X], 1, "tiles is 0"),
    ("Tile", "tile_param { tiles: 9223372036854775807 }", [X], 1, "2^63"),
    ("Reduction", "reduction_param { operation: 0 }", [X], 1, "no operation 0"),
    ("ArgMax", "argmax_param { top_k: 91 }", [X], 1, "there are 90"),
    ("BatchReindex", "", [X, (2, 2)], 1, "needs 1 dimensions"),
    ("Reorg", "reorg_param { stride: 2 }", [X], 1, "cannot cut 6x5"),
    ("Interp", "", [X], 1, "neither a factor nor"),
    ("Interp", "interp_param { pad_beg: -9 zoom_factor: 2 }", [X], 1, "padded extent is -3"),
    ("Interp", "interp_param { shrink_factor: 0 }", [X], 1, "shrink_factor is 0"),
    ("LSTM", "", [(4, 3, 5), (4, 3)], 1, "has no num_output"),
    ("LSTM", "recurrent_param { num_output: 7 }", [(4, 3, 5), (3, 4)], 1, "do not agree in steps"),
    ("LSTM", "recurrent_param { num_output: 7 expose_hidden: true }", [(4, 3, 5), (4, 3)], 1, "and 2 states"),
    ("RNN", "recurrent_param { num_output: 7 }", [(4, 3, 5), (4, 3), (4, 3)], 1, "does not have 3 streams"),
    ("LSTMUnit", "", [(1, 3, 7), (1, 3, 21), (1, 3)], 2, "cannot step"),
    ("EuclideanLoss", "", [X, (2, 3)], 1, "different numbers of elements"),
    ("PriorBox", "", [X], 1, "has no min_size"),
    ("PriorBox", "prior_box_param { min_size: 1 max_size: [2, 3] }", [X], 1, "1 min_size and 2 max_size"),
    ("PriorBox", "prior_box_param { min_size: 1 aspect_ratio: 0 }", [X], 1, "must be positive"),
    ("DetectionOutput", "", [(1, 8), (1, 4), (1, 2, 8)], 1, "has no num_classes"),
    ("DetectionOutput", "detection_output_param { num_classes: 2 }", [(1, 8), (1, 4), (1, 2, 9)], 1, "prior boxes"),
    ("ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 2 }", [X, (300, 4)], 1, "five numbers each"),
    ("PSROIPooling", "psroi_pooling_param { output_dim: 2 group_size: 2 }", [X, (300, 5)], 1, "has 3 channels"),
    ("ReLU", "", [X, X], 1, "has 2 bottoms, needs 1"),
    ("Concat", "", [], 1, "has 0 bottoms, needs at least 1"),
    ("Scale", "", [X, X, X], 1, "has 3 bottoms, needs 1 to 2"),
    ("Input", "input_param { shape { dim: -3 } }", [], 1, "a dimension is -3"),
    ("Input", "input_param { shape { dim: 3 } shape { dim: 4 } }", [], 3, "2 shapes for 3 tops"),
    ("DummyData", "dummy_data_param { num: [1, 2] channels: 3 }", [], 1, "do not come equally often"),
]  # fmt: skip


@each(("kind", "params", "bottoms", "tops", "text"), REFUSED)
def test_refused(kind: str, params: str, bottoms: list[Shape], tops: int, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        one(kind, params, bottoms, tops)
    message = str(caught.value)
    assert text in message
    assert message.startswith(f"layer 'it' ({kind}, line ")
    assert "\n" not in message


@pytest.mark.parametrize("kind", LAYERS)
def test_damaged_layer_is_read_or_refused_but_never_crashes(kind: str) -> None:
    params = [row[1] for row in ROWS if row[0] == kind] or [""]
    for text in ("", *params):
        for digit in ("0", "-1", "7", "99999999999999999999", "9" * 4000):
            damaged = "".join(digit if c.isdigit() else c for c in text)
            for shape in ((), (0,), (2,), (2, 3), (2, 0, 2), X, (1, 1, 1, 1), (2, 2, 2, 2, 2), None):
                for bottoms in range(6):
                    with contextlib.suppress(FlopwiseError):
                        lower(layer(kind, damaged, bottoms, 1), [shape] * bottoms, {})


def test_many_aspect_ratios_take_no_time() -> None:
    ratios = " ".join(f"aspect_ratio: {1 + i / 1000}" for i in range(20_000))
    lowered = one("PriorBox", f"prior_box_param {{ min_size: 1 {ratios} }}", [X])
    assert lowered.outputs == ((1, 2, 6 * 5 * 39_999 * 4),)
