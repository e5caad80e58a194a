"""Each operation of MIL in a program of its own: what builds it, and its inputs at a batch of N."""

from __future__ import annotations

from typing import Any

import numpy

F = numpy.float32


def _w(*shape: int) -> Any:
    return numpy.random.default_rng(0).random(shape).astype(F)


def _mb() -> Any:
    from coremltools.converters.mil import Builder

    return Builder


def _op(name: str, *inputs: str, **settings: Any) -> Any:
    """A function of tensors that applies an operation to them."""
    parameters = inputs or ("x",)
    makers = {
        1: lambda x: _apply(name, parameters, (x,), settings),
        2: lambda x, y: _apply(name, parameters, (x, y), settings),
        3: lambda x, y, z: _apply(name, parameters, (x, y, z), settings),
        4: lambda x, y, z, m: _apply(name, parameters, (x, y, z, m), settings),
    }
    return makers[len(parameters)]


def _apply(name: str, parameters: tuple[str, ...], tensors: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return getattr(_mb(), name)(**dict(zip(parameters, tensors, strict=True)), **settings)


def _image(n: int) -> list[Any]:
    return [(n, 4, 9, 10)]


def _row(n: int) -> list[Any]:
    return [(n, 6)]


def _two(n: int) -> list[Any]:
    return [(n, 6), (n, 6)]


def _sequence(n: int) -> list[Any]:
    return [(5, n, 4), (n, 3)]


def _listed(name: str, **settings: Any) -> Any:
    return lambda x, y: getattr(_mb(), name)(values=[x, y], **settings)


_XY = ("x", "y")

#: Operations of one tensor.
_ONE = """
abs acos asin atan atanh ceil cos cosh erf exp exp2 floor identity inverse log relu relu6 round rsqrt sigmoid
sign silu sin sinh softplus softsign sqrt square tan tanh gelu softmax cumsum argsort reverse shape non_zero
reduce_argmax reduce_argmin band_part
"""

#: Operations of two tensors.
_TWO = """
add sub mul real_div floor_div pow mod maximum minimum equal not_equal greater greater_equal less less_equal
"""


#: Name of a case -> what builds it, and the shapes (with a type where it is not a float) of its inputs for N.
CASES: dict[str, Any] = {
    **{name: (_op(name), _row) for name in _ONE.split()},
    **{name: (_op(name, *_XY), _two) for name in _TWO.split()},
    **{
        f"reduce_{name}": (_op(f"reduce_{name}", axes=[1], keep_dims=False), _image)
        for name in ["l1_norm", "l2_norm", "log_sum", "log_sum_exp", "max", "mean", "min", "prod", "sum", "sum_square"]
    },
    "reduce_all": (_op("reduce_sum", keep_dims=True), _image),
    "logical": (
        lambda x, y: _mb().logical_xor(
            x=_mb().logical_and(x=x, y=y), y=_mb().logical_or(x=_mb().logical_not(x=x), y=y)
        ),
        lambda n: [((n, 4), "bool"), ((n, 4), "bool")],
    ),
    "broadcast": (_op("add", *_XY), lambda n: [(n, 1, 6), (5, 1)]),
    "gelu_tanh": (_op("gelu", mode="TANH_APPROXIMATION"), _row),
    "gelu_sigmoid": (_op("gelu", mode="SIGMOID_APPROXIMATION"), _row),
    "clip": (_op("clip", alpha=0.1, beta=0.5), _row),
    "elu": (_op("elu", alpha=0.5), _row),
    "leaky_relu": (_op("leaky_relu", alpha=0.5), _row),
    "thresholded_relu": (_op("thresholded_relu", alpha=0.5), _row),
    "threshold": (_op("threshold", alpha=0.5), _row),
    "sigmoid_hard": (_op("sigmoid_hard", alpha=0.5, beta=0.1), _row),
    "scaled_tanh": (_op("scaled_tanh", alpha=0.5, beta=0.1), _row),
    "clamped_relu": (_op("clamped_relu", alpha=0.5, beta=0.1), _row),
    "linear_activation": (_op("linear_activation", alpha=0.5, beta=0.1), _row),
    "prelu": (_op("prelu", alpha=_w(4)), _image),
    "softplus_parametric": (_op("softplus_parametric", alpha=_w(4), beta=_w(4)), _image),
    "cast": (_op("cast", dtype="int32"), _row),
    "select": (_op("select", "cond", "a", "b"), lambda n: [((n, 6), "bool"), (n, 6), (n, 6)]),
    # Products and windows.
    "conv": (_op("conv", weight=_w(8, 4, 3, 3), bias=_w(8)), _image),
    "conv_same": (_op("conv", weight=_w(8, 4, 3, 3), pad_type="same", strides=[2, 2]), _image),
    "conv_custom": (_op("conv", weight=_w(8, 2, 3, 3), pad_type="custom", pad=[0, 1, 2, 3], groups=2), _image),
    "conv_dilated": (_op("conv", weight=_w(8, 4, 3, 3), dilations=[2, 3]), _image),
    "conv_1d": (_op("conv", weight=_w(8, 4, 3)), lambda n: [(n, 4, 9)]),
    "conv_3d": (_op("conv", weight=_w(8, 4, 3, 3, 3)), lambda n: [(n, 4, 5, 6, 7)]),
    "conv_of_two": (_op("conv", "x", "weight"), lambda n: [(n, 4, 9, 10), (8, 4, 3, 3)]),
    "conv_transpose": (_op("conv_transpose", weight=_w(4, 8, 3, 3), strides=[2, 2], bias=_w(8)), _image),
    "conv_transpose_same": (_op("conv_transpose", weight=_w(4, 8, 3, 3), strides=[2, 2], pad_type="same"), _image),
    "conv_transpose_custom": (
        _op("conv_transpose", weight=_w(4, 4, 3, 3), strides=[2, 2], pad_type="custom", pad=[1, 0, 1, 1], groups=2),
        _image,
    ),
    "linear": (_op("linear", weight=_w(5, 6), bias=_w(5)), _row),
    "linear_3d": (_op("linear", weight=_w(5, 6)), lambda n: [(n, 3, 6)]),
    "matmul": (_op("matmul", *_XY), lambda n: [(n, 3, 4), (n, 4, 5)]),
    "matmul_turned": (_op("matmul", *_XY, transpose_x=True, transpose_y=True), lambda n: [(n, 4, 3), (n, 5, 4)]),
    "einsum": (_listed("einsum", equation="nchw,nwhu->nchu"), lambda n: [(n, 2, 3, 4), (n, 4, 3, 5)]),
    "attention": (
        _op("scaled_dot_product_attention", "query", "key", "value"),
        lambda n: [(n, 2, 3, 4), (n, 2, 5, 4), (n, 2, 5, 6)],
    ),
    "attention_masked": (
        _op("scaled_dot_product_attention", "query", "key", "value", "attn_mask"),
        lambda n: [(n, 3, 4), (n, 5, 4), (n, 5, 6), (n, 3, 5)],
    ),
    "avg_pool": (_op("avg_pool", kernel_sizes=[2, 3], strides=[2, 1], pad_type="valid"), _image),
    "avg_pool_ceil": (
        _op(
            "avg_pool",
            kernel_sizes=[2, 2],
            strides=[2, 2],
            pad_type="custom",
            pad=[0, 0, 0, 0],
            ceil_mode=True,
            exclude_padding_from_average=True,
        ),
        _image,
    ),
    "max_pool": (_op("max_pool", kernel_sizes=[3, 3], strides=[2, 2], pad_type="same"), _image),
    "max_pool_1d": (_op("max_pool", kernel_sizes=[3], pad_type="custom", pad=[1, 1]), lambda n: [(n, 4, 9)]),
    "l2_pool": (_op("l2_pool", kernel_sizes=[3, 3], pad_type="valid"), _image),
    # Recurrent.
    "lstm": (
        _op("lstm", "x", "initial_h", "initial_c", weight_ih=_w(12, 4), weight_hh=_w(12, 3), bias=_w(12)),
        lambda n: [*_sequence(n), (n, 3)],
    ),
    "lstm_both": (
        _op(
            "lstm",
            "x",
            "initial_h",
            "initial_c",
            weight_ih=_w(12, 4),
            weight_hh=_w(12, 3),
            weight_ih_back=_w(12, 4),
            weight_hh_back=_w(12, 3),
            direction="bidirectional",
            output_sequence=True,
        ),
        lambda n: [(5, n, 4), (n, 6), (n, 6)],
    ),
    "gru": (
        _op("gru", "x", "initial_h", weight_ih=_w(9, 4), weight_hh=_w(9, 3), bias=_w(9), output_sequence=True),
        _sequence,
    ),
    "rnn": (_op("rnn", "x", "initial_h", weight_ih=_w(3, 4), weight_hh=_w(3, 3), bias=_w(3)), _sequence),
    # Along axes.
    "batch_norm": (_op("batch_norm", mean=_w(4), variance=_w(4), gamma=_w(4), beta=_w(4)), _image),
    "batch_norm_plain": (_op("batch_norm", mean=_w(4), variance=_w(4)), _image),
    "instance_norm": (_op("instance_norm", gamma=_w(4), beta=_w(4)), _image),
    "layer_norm": (_op("layer_norm", axes=[-1], gamma=_w(10), beta=_w(10)), _image),
    "layer_norm_channels": (_op("layer_norm", axes=[1], gamma=_w(4), beta=_w(4)), _image),
    "l2_norm": (_op("l2_norm"), _image),
    "local_response_norm": (_op("local_response_norm", size=3), _image),
    "topk": (_op("topk", k=2, axis=1), _row),
    # Movement.
    "reshape": (_op("reshape", shape=[-1, 20, 18]), _image),
    "reshape_zero": (_op("reshape", shape=[0, -1]), _image),
    "reshape_by_shape": (
        lambda x: _mb().reshape(
            x=x,
            shape=_mb().concat(
                values=[_mb().slice_by_index(x=_mb().shape(x=x), begin=[0], end=[1]), numpy.array([360], numpy.int32)],
                axis=0,
            ),
        ),
        _image,
    ),
    "flatten2d": (_op("flatten2d", axis=2), _image),
    "transpose": (_op("transpose", perm=[0, 2, 3, 1]), _image),
    "expand_dims": (_op("expand_dims", axes=[1, -1]), _row),
    "squeeze": (_op("squeeze", axes=[1]), lambda n: [(n, 1, 6)]),
    "squeeze_all": (_op("squeeze"), lambda n: [(n, 1, 6, 1)]),
    "concat": (_listed("concat", axis=-1), lambda n: [(n, 6), (n, 5)]),
    "stack": (_listed("stack", axis=1), _two),
    "split": (_op("split", num_splits=3, axis=1), _row),
    "split_sizes": (_op("split", split_sizes=[2, 4], axis=1), _row),
    "tile": (_op("tile", reps=[2, 3]), _row),
    "pad": (_op("pad", pad=[1, 2, 3, 4], mode="reflect"), _image),
    "slice_by_index": (
        _op(
            "slice_by_index",
            begin=[0, 1, 0, 8],
            end=[0, 3, 1, 1],
            stride=[1, 1, 1, -2],
            begin_mask=[True, False, False, False],
            end_mask=[True, False, False, False],
            squeeze_mask=[False, False, True, False],
        ),
        _image,
    ),
    "slice_by_size": (_op("slice_by_size", begin=[0, 1, 2, 3], size=[-1, 2, -1, 4]), _image),
    "slice_update": (
        _op("slice_update", "x", "update", begin=[0, 1], end=[1, 3]),
        lambda n: [(n, 6), (1, 2)],
    ),
    "gather": (_op("gather", indices=[0, 2, 1], axis=1), _image),
    "gather_rows": (_op("gather", "indices", x=_w(7, 5)), lambda n: [((n, 3), "int32")]),
    "gather_batch": (_op("gather", "x", "indices", axis=1, batch_dims=1), lambda n: [(n, 6, 4), ((n, 3), "int32")]),
    "gather_along_axis": (_op("gather_along_axis", "x", "indices", axis=1), lambda n: [(n, 6), ((n, 3), "int32")]),
    "gather_nd": (_op("gather_nd", indices=[[1, 2], [1, 0]]), _image),
    "scatter": (_op("scatter", "data", "updates", indices=[1, 0], axis=1), lambda n: [(n, 6), (n, 2)]),
    "scatter_along_axis": (
        _op("scatter_along_axis", "data", "indices", "updates", axis=1, mode="div"),
        lambda n: [(n, 6), ((n, 2), "int32"), (n, 2)],
    ),
    "scatter_nd": (
        _op("scatter_nd", "data", "updates", indices=[[1], [0]], mode="update"),
        lambda n: [(n, 6), (2, 6)],
    ),
    "reverse_sequence": (
        _op("reverse_sequence", "x", "lengths", seq_axis=1, batch_axis=0),
        lambda n: [(n, 6), ((n,), "int32")],
    ),
    "pixel_shuffle": (_op("pixel_shuffle", upscale_factor=2), _image),
    "depth_to_space": (_op("depth_to_space", block_size=2), _image),
    "pixel_unshuffle": (_op("pixel_unshuffle", downscale_factor=numpy.uint32(2)), lambda n: [(n, 4, 8, 10)]),
    "space_to_depth": (_op("space_to_depth", block_size=2), lambda n: [(n, 4, 8, 10)]),
    "space_to_batch": (_op("space_to_batch", block_shape=[2, 5], paddings=[[1, 0], [0, 0]]), _image),
    "batch_to_space": (
        _op("batch_to_space", block_shape=[1, 2], crops=[[0, 0], [1, 2]]),
        lambda n: [(2 * n, 4, 9, 10)],
    ),
    "sliding_windows": (_op("sliding_windows", axis=1, size=3, stride=2), _row),
    "crop": (_op("crop", crop_height=[1, 2], crop_width=[0, 3]), _image),
    "crop_resize": (
        _op("crop_resize", "x", "boxes", target_height=3, target_width=5),
        lambda n: [(n, 4, 9, 10), (n, 4)],
    ),
    "affine": (
        _op(
            "affine",
            "x",
            "transform_matrix",
            output_height=5,
            output_width=6,
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=True,
        ),
        lambda n: [(n, 4, 9, 10), (n, 6)],
    ),
    "resample": (
        _op(
            "resample",
            "x",
            "coordinates",
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=True,
        ),
        lambda n: [(n, 4, 9, 10), (n, 5, 6, 2)],
    ),
    "resize": (_op("resize", shape=[7, 0], resized_dims=numpy.uint32(2)), _image),
    "resize_bilinear": (_op("resize_bilinear", target_size_height=4, target_size_width=5), _image),
    "resize_nearest_neighbor": (_op("resize_nearest_neighbor", target_size_height=4, target_size_width=5), _image),
    "upsample_bilinear": (_op("upsample_bilinear", scale_factor_height=2, scale_factor_width=3), _image),
    "upsample_nearest_neighbor": (
        _op("upsample_nearest_neighbor", scale_factor_height=2, scale_factor_width=3),
        _image,
    ),
    "one_hot": (_op("one_hot", "indices", one_hot_vector_size=5), lambda n: [((n, 3), "int32")]),
    "fill": (lambda x: _mb().fill(shape=_mb().shape(x=x), value=2.0), _row),
    "fill_like": (_op("fill_like", "ref_tensor", value=2.0), _row),
    "range_1d": (
        lambda x: _mb().range_1d(
            start=0, end=_mb().squeeze(x=_mb().slice_by_index(x=_mb().shape(x=x), begin=[0], end=[1])), step=1
        ),
        _row,
    ),
    "non_maximum_suppression": (
        _op("non_maximum_suppression", "boxes", "scores", iou_threshold=0.5, max_boxes=3),
        lambda n: [(n, 20, 4), (n, 20, 2)],
    ),
    "quantize": (
        lambda x: _mb().dequantize(
            input=_mb().quantize(input=x, scale=F(0.1), zero_point=numpy.int8(3), output_dtype="int8"),
            scale=F(0.1),
            zero_point=numpy.int8(3),
        ),
        _row,
    ),
    "cond": (
        lambda x: _mb().cond(
            pred=_mb().greater(x=_mb().reduce_sum(x=x), y=F(0)),
            _true_fn=lambda: _mb().linear(x=x, weight=_w(5, 6)),
            _false_fn=lambda: _mb().matmul(x=x, y=_w(6, 5)),
        ),
        _row,
    ),
    "while_loop": (
        lambda x: _mb().while_loop(
            _cond=lambda i, y: _mb().less(x=i, y=4),
            _body=lambda i, y: (_mb().add(x=i, y=1), _mb().linear(x=y, weight=_w(6, 6))),
            loop_vars=(0, x),
        )[1],
        _row,
    ),
}
