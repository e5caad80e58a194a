"""Field numbers of a binary Caffe net, as far as shapes and operations depend on them.

Only BVLC's numbers are the same in every fork, and of the forks' own only those that the layer's type makes certain.
A number that stands in no table here is somebody else's: what it says is not known.

Source: BVLC Caffe, src/caffe/proto/caffe.proto; the forks' numbers: weiliu89/caffe (branch ssd), hszhao/PSPNet,
OpenCV's opencv-caffe.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, TypeAlias


class FieldType(NamedTuple):
    """A field by its number."""

    name: str
    #: "int", "bool", "float", "text", or the name of a message in MESSAGES.
    kind: str = "int"


#: Number -> field; None for one that changes neither shapes nor operations.
Schema: TypeAlias = "Mapping[int, FieldType | None]"


def _fields(kind: str, /, **numbers: int) -> dict[int, FieldType]:
    """Fields of a kind by number; without one they are messages, named like themselves in MESSAGES."""
    return {number: FieldType(name, kind or name) for name, number in numbers.items()}


_ints, _floats, _bools, _texts, _inner = (partial(_fields, kind) for kind in ("int", "float", "bool", "text", ""))


def _neither(*numbers: int) -> dict[int, None]:
    """Fillers, engines, file names: what changes neither shapes nor operations."""
    return dict.fromkeys(numbers)


_KERNEL = _ints(pad_h=9, pad_w=10, kernel_h=11, kernel_w=12, stride_h=13, stride_w=14)
_POOL = _ints(kernel_h=5, kernel_w=6, stride_h=7, stride_w=8, pad_h=9, pad_w=10)
_LINE = _floats(base=1, scale=2, shift=3)
_RULE = {**_ints(phase=1, min_level=2, max_level=3), **_texts(stage=4, not_stage=5)}

MESSAGES: dict[str, Schema] = {
    "shape": _ints(dim=1),
    "input_shape": _ints(dim=1),
    "state": {**_ints(phase=1, level=2), **_texts(stage=3)},
    "include": _RULE,
    "exclude": _RULE,
    "param": {**_texts(name=1), **_ints(share_mode=2), **_neither(3, 4)},
    "transform_param": {**_ints(crop_size=3), **_bools(force_color=6, force_gray=7), **_neither(1, 2, 4, 5)},
    "loss_param": _neither(1, 2, 3),
    "accuracy_param": {**_ints(top_k=1, axis=2), **_neither(3)},
    "argmax_param": {**_bools(out_max_val=1), **_ints(top_k=2, axis=3)},
    "concat_param": _ints(concat_dim=1, axis=2),
    "contrastive_loss_param": {**_bools(legacy_version=2), **_neither(1)},
    "convolution_param": {
        **_ints(num_output=1, pad=3, kernel_size=4, group=5, stride=6, axis=16, dilation=18),
        **_KERNEL,
        **_bools(bias_term=2),
        **_neither(7, 8, 15, 17),
    },
    "data_param": {**_ints(batch_size=4, crop_size=5), **_neither(1, 2, 3, 6, 7, 8, 9, 10)},
    "dropout_param": _neither(1),
    "dummy_data_param": {**_ints(num=2, channels=3, height=4, width=5), **_inner(shape=6), **_neither(1)},
    "eltwise_param": {**_ints(operation=1), **_floats(coeff=2), **_neither(3)},
    "exp_param": _LINE,
    "hdf5_data_param": {**_ints(batch_size=2), **_neither(1, 3)},
    "hdf5_output_param": _neither(1),
    "hinge_loss_param": _ints(norm=1),
    "image_data_param": {
        **_ints(batch_size=4, crop_size=5, new_height=9, new_width=10),
        **_bools(is_color=11),
        **_neither(1, 2, 3, 6, 7, 8, 12),
    },
    "infogain_loss_param": {**_ints(axis=2), **_neither(1)},
    "inner_product_param": {**_ints(num_output=1, axis=5), **_bools(bias_term=2, transpose=6), **_neither(3, 4)},
    "lrn_param": {**_ints(local_size=1, norm_region=4), **_floats(alpha=2, beta=3, k=5), **_neither(6)},
    "memory_data_param": _ints(batch_size=1, channels=2, height=3, width=4),
    "mvn_param": {**_bools(normalize_variance=1, across_channels=2), **_neither(3)},
    # 13 says round_mode in BVLC's, ceil_mode or dilation in forks': nobody can tell which.
    "pooling_param": {
        **_ints(pool=1, kernel_size=2, stride=3, pad=4),
        **_POOL,
        **_bools(global_pooling=12),
        **_neither(11),
    },
    "power_param": _floats(power=1, scale=2, shift=3),
    "relu_param": {**_floats(negative_slope=1), **_neither(2)},
    "sigmoid_param": _neither(1),
    "softmax_param": {**_ints(axis=2), **_neither(1)},
    "slice_param": _ints(slice_dim=1, slice_point=2, axis=3),
    "tanh_param": _neither(1),
    "threshold_param": _floats(threshold=1),
    "window_data_param": {**_ints(batch_size=4, crop_size=5), **_neither(1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13)},
    "python_param": {**_texts(module=1, layer=2), **_neither(3, 4)},
    "prelu_param": {**_bools(channel_shared=2), **_neither(1)},
    "spp_param": {**_ints(pyramid_height=1, pool=2), **_neither(6)},
    "reshape_param": {**_inner(shape=1), **_ints(axis=2, num_axes=3)},
    "log_param": _LINE,
    "flatten_param": _ints(axis=1, end_axis=2),
    "reduction_param": {**_ints(operation=1, axis=2), **_floats(coeff=3)},
    "embed_param": {**_ints(num_output=1, input_dim=2), **_bools(bias_term=3), **_neither(4, 5)},
    "tile_param": _ints(axis=1, tiles=2),
    "batch_norm_param": {**_bools(use_global_stats=1), **_neither(2, 3)},
    "elu_param": _floats(alpha=1),
    "bias_param": {**_ints(axis=1, num_axes=2), **_neither(3)},
    "scale_param": {**_ints(axis=1, num_axes=2), **_bools(bias_term=4), **_neither(3, 5)},
    "crop_param": _ints(axis=1, offset=2),
    "parameter_param": _inner(shape=1),
    # From here on messages that have no number of their own.
    "input_param": _inner(shape=1),
    "recurrent_param": {**_ints(num_output=1), **_bools(expose_hidden=5), **_neither(2, 3, 4)},
    "swish_param": _floats(beta=1),
    "clip_param": _floats(min=1, max=2),
    "interp_param": _ints(height=1, width=2, zoom_factor=3, shrink_factor=4, pad_beg=5, pad_end=6),
    "permute_param": _ints(order=1),
    "norm_param": {**_bools(across_spatial=1, channel_shared=3), **_neither(2, 4)},
    "prior_box_param": {
        **_floats(min_size=1, max_size=2, aspect_ratio=3),
        **_bools(flip=4),
        **_neither(5, 6, 7, 8, 9, 10, 11, 12, 13),
    },
    "roi_pooling_param": {**_ints(pooled_h=1, pooled_w=2), **_neither(3)},
    "psroi_pooling_param": {**_ints(output_dim=2, group_size=3), **_neither(1)},
    "bn_param": _neither(1, 2, 3, 4, 5, 6),
    # The layer of V0 files, all in one.
    "layer": {
        **_texts(name=1, type=2),
        **_ints(num_output=3, pad=7, kernelsize=8, group=9, stride=10, pool=11, local_size=13),
        **_ints(batchsize=19, cropsize=20, new_num=60, new_channels=61, new_height=62, new_width=63, concat_dim=65),
        **_bools(biasterm=4),
        **_floats(dropout_ratio=12, alpha=14, beta=15, k=22),
        **_neither(5, 6, 16, 17, 18, 21, 51, 52, 53, 54, 55, 56, 57, 58, 59, 64, 1001),
    },
}

#: NetParameter without its layers.
NET: Schema = {**_texts(name=1, input=3), **_ints(input_dim=4), **_inner(state=6, input_shape=8), **_neither(5, 7)}

#: LayerParameter (V2) without its blobs. Numbers from 100 on are parameters of one layer type.
LAYER: Schema = {
    **_texts(name=1, type=2, bottom=3, top=4),
    **_inner(param=6, include=8, exclude=9),
    **_ints(phase=10),
    **_neither(5, 11),
    **_inner(transform_param=100, loss_param=101, accuracy_param=102, argmax_param=103, concat_param=104),
    **_inner(contrastive_loss_param=105, convolution_param=106, data_param=107, dropout_param=108),
    **_inner(dummy_data_param=109, eltwise_param=110, exp_param=111, hdf5_data_param=112, hdf5_output_param=113),
    **_inner(hinge_loss_param=114, image_data_param=115, infogain_loss_param=116, inner_product_param=117),
    **_inner(lrn_param=118, memory_data_param=119, mvn_param=120, pooling_param=121, power_param=122),
    **_inner(relu_param=123, sigmoid_param=124, softmax_param=125, slice_param=126, tanh_param=127),
    **_inner(threshold_param=128, window_data_param=129, python_param=130, prelu_param=131, spp_param=132),
    **_inner(reshape_param=133, log_param=134, flatten_param=135, reduction_param=136, embed_param=137),
    **_inner(tile_param=138, batch_norm_param=139, elu_param=140, bias_param=141, scale_param=142),
    **_inner(crop_param=144, parameter_param=145),
}

#: Numbers that several forks use, and the layer types that say which message stands there.
FORKS: dict[tuple[int, str], str] = {
    (143, "Input"): "input_param",
    (143, "Interp"): "interp_param",
    (146, "LSTM"): "recurrent_param",
    (146, "RNN"): "recurrent_param",
    (147, "Swish"): "swish_param",
    (148, "Clip"): "clip_param",
    (148, "Permute"): "permute_param",
    (149, "Normalize"): "norm_param",
    (150, "PriorBox"): "prior_box_param",
    (152, "BN"): "bn_param",
    (202, "Permute"): "permute_param",
    (203, "PriorBox"): "prior_box_param",
    (206, "Normalize"): "norm_param",
    (10002, "PSROIPooling"): "psroi_pooling_param",
    (8266711, "ROIPooling"): "roi_pooling_param",
}

#: V1LayerParameter without its blobs.
LAYER_V1: Schema = {
    **_inner(layer=1, include=32, exclude=33),
    **_texts(bottom=2, top=3, name=4, param=1001),
    **_ints(type=5, blob_share_mode=1002),
    **_neither(7, 8, 35),
    **_inner(concat_param=9, convolution_param=10, data_param=11, dropout_param=12, hdf5_data_param=13),
    **_inner(hdf5_output_param=14, image_data_param=15, infogain_loss_param=16, inner_product_param=17, lrn_param=18),
    **_inner(pooling_param=19, window_data_param=20, power_param=21, memory_data_param=22, argmax_param=23),
    **_inner(eltwise_param=24, threshold_param=25, dummy_data_param=26, accuracy_param=27, hinge_loss_param=29),
    **_inner(relu_param=30, slice_param=31, mvn_param=34, transform_param=36, tanh_param=37, sigmoid_param=38),
    **_inner(softmax_param=39, contrastive_loss_param=40, exp_param=41, loss_param=42),
}

#: Numbers from here on hold what only one layer type needs; unknown ones below change nothing.
FIRST_PARAM, FIRST_PARAM_V1 = 100, 9
