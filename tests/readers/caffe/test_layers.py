"""Caffe layers: what each becomes, the shapes of its tops and of its stored blobs, and what it refuses."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

import pytest
from tests.readers.caffe.layer import layer

from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Node, Shape, Tensor
from flopwise.operators.tables import OPERATORS, count
from flopwise.readers.caffe.layers.table import LAYERS, Lowered, lower

Row: TypeAlias = "tuple[str, str, list[Shape], str, list[Shape], list[Shape]]"

X = (2, 3, 6, 5)
CONV = "convolution_param { num_output: %d kernel_size: %d %s }"

#: Type, parameters, bottoms -> operator, tops, stored blobs.
ROWS: list[Row] = [
    # Convolutions.
    (
        "Convolution",
        "convolution_param { num_output: 96 kernel_size: 11 stride: 4 }",
        [(1, 3, 227, 227)],
        "Conv",
        [(1, 96, 55, 55)],
        [(96, 3, 11, 11), (96,)],
    ),
    (
        "Convolution",
        "convolution_param { num_output: 256 pad: 2 kernel_size: 5 group: 2 bias_term: false }",
        [(1, 96, 27, 27)],
        "Conv",
        [(1, 256, 27, 27)],
        [(256, 48, 5, 5)],
    ),
    (
        "Convolution",
        "convolution_param { num_output: 4 kernel_h: 3 kernel_w: 1 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0 }",
        [(1, 2, 8, 9)],
        "Conv",
        [(1, 4, 8, 5)],
        [(4, 2, 3, 1), (4,)],
    ),
    (
        "Convolution",
        "convolution_param { num_output: 4 kernel_size: 3 kernel_size: 5 dilation: 2 pad: [1, 2] }",
        [(1, 2, 16, 16)],
        "Conv",
        [(1, 4, 14, 12)],
        [(4, 2, 3, 5), (4,)],
    ),
    (
        "Convolution",
        "convolution_param { num_output: 5 kernel_size: 3 }",
        [(1, 2, 9)],
        "Conv",
        [(1, 5, 7)],
        [(5, 2, 3), (5,)],
    ),
    ("Convolution", "convolution_param { num_output: 5 }", [(7, 4)], "Conv", [(7, 5)], [(5, 4), (5,)]),
    (
        "Convolution",
        "convolution_param { num_output: 6 kernel_size: 3 axis: 2 }",
        [(2, 3, 4, 8, 8)],
        "Conv",
        [(2, 3, 6, 6, 6)],
        [(6, 4, 3, 3), (6,)],
    ),
    (
        "Convolution",
        "convolution_param { num_output: 6 kernel_size: 2 axis: -3 }",
        [(2, 3, 4, 8, 8)],
        "Conv",
        [(2, 3, 6, 7, 7)],
        [(6, 4, 2, 2), (6,)],
    ),
    *(
        (
            kind,
            "convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 bias_term: false }",
            [(1, 8, 7, 7)],
            "Conv",
            [(1, 8, 4, 4)],
            [(8, 1, 3, 3)],
        )
        for kind in ("ConvolutionDepthwise", "DepthwiseConvolution")
    ),
    (
        "Deconvolution",
        "convolution_param { num_output: 4 kernel_size: 3 stride: 2 }",
        [(2, 3, 6, 4)],
        "ConvTranspose",
        [(2, 4, 13, 9)],
        [(3, 4, 3, 3), (4,)],
    ),
    (
        "Deconvolution",
        "convolution_param { num_output: 3 kernel_size: 3 stride: 2 group: 3 bias_term: false }",
        [(2, 3, 6, 4)],
        "ConvTranspose",
        [(2, 3, 13, 9)],
        [(3, 1, 3, 3)],
    ),
    ("Im2col", "convolution_param { kernel_size: 3 stride: 2 }", [X], "caffe::Im2col", [(2, 27, 2, 2)], []),
    # Inner products.
    (
        "InnerProduct",
        "inner_product_param { num_output: 10 }",
        [(2, 256, 6, 6)],
        "Gemm",
        [(2, 10)],
        [(10, 9216), (10,)],
    ),
    (
        "InnerProduct",
        "inner_product_param { num_output: 10 axis: 2 bias_term: false }",
        [(4, 2, 6, 5)],
        "Gemm",
        [(4, 2, 10)],
        [(10, 30)],
    ),
    (
        "InnerProduct",
        "inner_product_param { num_output: 10 axis: -1 transpose: true }",
        [(4, 2, 6)],
        "Gemm",
        [(4, 2, 10)],
        [(6, 10), (10,)],
    ),
    (
        "Embed",
        "embed_param { num_output: 7 input_dim: 50 }",
        [(4, 9)],
        "caffe::Embed",
        [(4, 9, 7)],
        [(50, 7), (7,)],
    ),
    # Pooling.
    ("Pooling", "pooling_param { kernel_size: 3 stride: 2 }", [X], "MaxPool", [(2, 3, 3, 2)], []),
    ("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }", [X], "MaxPool", [(2, 3, 4, 3)], []),
    (
        "Pooling",
        "pooling_param { pool: AVE kernel_size: 3 stride: 2 }",
        [(1, 8, 8, 8)],
        "AveragePool",
        [(1, 8, 4, 4)],
        [],
    ),
    (
        "Pooling",
        "pooling_param { pool: 1 kernel_h: 2 kernel_w: 3 stride_h: 3 stride_w: 1 }",
        [(1, 8, 8, 8)],
        "AveragePool",
        [(1, 8, 3, 6)],
        [],
    ),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 3 }", [(1, 1, 6, 7)], "MaxPool", [(1, 1, 3, 3)], []),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 3 pad: 1 }", [(1, 1, 5, 4)], "MaxPool", [(1, 1, 2, 2)], []),
    (
        "Pooling",
        "pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }",
        [(1, 8, 8, 8)],
        "MaxPool",
        [(1, 8, 3, 3)],
        [],
    ),
    (
        "Pooling",
        "pooling_param { kernel_size: 3 stride: 2 ceil_mode: false }",
        [(1, 8, 8, 8)],
        "MaxPool",
        [(1, 8, 3, 3)],
        [],
    ),
    (
        "Pooling",
        "pooling_param { pool: AVE global_pooling: true }",
        [(2, 8, 7, 5)],
        "GlobalAveragePool",
        [(2, 8, 1, 1)],
        [],
    ),
    ("Pooling", "pooling_param { global_pooling: true }", [(2, 8, 7, 5)], "GlobalMaxPool", [(2, 8, 1, 1)], []),
    (
        "Pooling",
        "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }",
        [(1, 2, 4, 4)],
        "caffe::StochasticPooling",
        [(1, 2, 2, 2)],
        [],
    ),
    ("SPP", "spp_param { pyramid_height: 3 }", [(2, 3, 9, 8)], "caffe::SPP", [(2, 63)], []),
    ("SPP", "spp_param { pyramid_height: 5 }", [(4, 3, 1024, 765)], "caffe::SPP", [(4, 1023)], []),
    ("SPP", "spp_param { pyramid_height: 1 pool: AVE }", [(4, 3, 9, 8)], "caffe::SPP", [(4, 3, 1, 1)], []),
    ("Upsample", "upsample_param { scale: 2 }", [(1, 4, 13, 13)], "Resize", [(1, 4, 26, 26)], []),
    ("Upsample", "upsample_param { scale: 1 stride: 2 }", [(1, 4, 13, 13)], "Resize", [(1, 4, 26, 26)], []),
    (
        "Upsample",
        "upsample_param { scale: 2 pad_out_h: true }",
        [(1, 4, 12, 15), (1, 4, 12, 15)],
        "MaxUnpool",
        [(1, 4, 23, 30)],
        [],
    ),
    (
        "Upsample",
        "upsample_param { scale: 2 upsample_h: 45 upsample_w: 60 }",
        [(1, 4, 23, 30), (1, 4, 23, 30)],
        "MaxUnpool",
        [(1, 4, 45, 60)],
        [],
    ),
    (
        "Unpooling",
        "unpooling_param { kernel_size: 2 stride: 2 unpool_size: 14 }",
        [(1, 4, 7, 7), (1, 4, 7, 7)],
        "MaxUnpool",
        [(1, 4, 14, 14)],
        [],
    ),
    (
        "Unpooling",
        "unpooling_param { unpool: TILE kernel_size: 3 stride: 2 }",
        [(1, 4, 7, 7)],
        "caffe::Unpooling",
        [(1, 4, 15, 15)],
        [],
    ),
    # Element by element.
    ("ReLU", "", [X], "Relu", [X], []),
    ("ReLU", "relu_param { negative_slope: 0.1 }", [X], "LeakyRelu", [X], []),
    ("ReLU6", "", [X], "Clip", [X], []),
    ("Clip", "clip_param { min: -1 max: 1 }", [X], "Clip", [X], []),
    ("PReLU", "", [X], "PRelu", [X], [(3,)]),
    ("PReLU", "prelu_param { channel_shared: true }", [X], "PRelu", [X], [()]),
    ("ELU", "elu_param { alpha: 0.5 }", [X], "Elu", [X], []),
    ("Sigmoid", "", [X], "Sigmoid", [X], []),
    ("TanH", "", [X], "Tanh", [X], []),
    ("Swish", "swish_param { beta: 1.5 }", [X], "Swish", [X], []),
    ("Mish", "", [X], "Mish", [X], []),
    ("AbsVal", "", [X], "Abs", [X], []),
    ("BNLL", "", [X], "Softplus", [X], []),
    ("Power", "power_param { power: 2 scale: 0.5 shift: 1 }", [X], "caffe::Power", [X], []),
    ("Exp", "", [X], "Exp", [X], []),
    ("Exp", "exp_param { base: 2 }", [X], "caffe::Exp", [X], []),
    ("Log", "log_param { shift: 1 }", [X], "caffe::Log", [X], []),
    ("Threshold", "threshold_param { threshold: 0.5 }", [X], "caffe::Threshold", [X], []),
    ("Dropout", "dropout_param { dropout_ratio: 0.5 }", [X], "Dropout", [X], []),
    ("Scale", "", [X], "caffe::Scale", [X], [(3,)]),
    ("Scale", "scale_param { bias_term: true }", [X], "caffe::Scale", [X], [(3,), (3,)]),
    ("Scale", "scale_param { axis: 1 num_axes: -1 bias_term: true }", [X], "caffe::Scale", [X], [(3, 6, 5), (3, 6, 5)]),
    ("Scale", "scale_param { axis: 0 num_axes: 2 }", [X], "caffe::Scale", [X], [(2, 3)]),
    ("Scale", "scale_param { axis: -1 }", [X], "caffe::Scale", [X], [(5,)]),
    ("Scale", "scale_param { num_axes: 0 }", [X], "caffe::Scale", [X], [()]),
    ("Scale", "scale_param { axis: 0 }", [X, (2, 3)], "caffe::Scale", [X], []),
    ("Scale", "scale_param { axis: 0 bias_term: true }", [X, (2, 3)], "caffe::Scale", [X], [(2, 3)]),
    ("Bias", "", [X], "caffe::Bias", [X], [(3,)]),
    ("Bias", "bias_param { axis: 2 num_axes: 2 }", [X], "caffe::Bias", [X], [(6, 5)]),
    ("Bias", "", [X, (3,)], "caffe::Bias", [X], []),
    ("Eltwise", "", [X, X], "Sum", [X], []),
    ("Eltwise", "eltwise_param { operation: PROD }", [X, X], "Mul", [X], []),
    ("Eltwise", "eltwise_param { operation: 0 }", [X, X, X], "caffe::Eltwise", [X], []),
    ("Eltwise", "eltwise_param { operation: MAX }", [X, X, X], "Max", [X], []),
    ("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -1 }", [X, X], "caffe::Eltwise", [X], []),
    ("Axpy", "", [(2, 3, 1, 1), X, X], "caffe::Axpy", [X], []),
    # Normalisation.
    ("LRN", "lrn_param { local_size: 3 }", [X], "LRN", [X], []),
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }", [X], "caffe::LRNWithinChannel", [X], []),
    ("BatchNorm", "", [X], "caffe::BatchNorm", [X], [(3,), (3,), (1,)]),
    ("BatchNorm", "", [(7,)], "caffe::BatchNorm", [(7,)], [(1,), (1,), (1,)]),
    (
        "BatchNorm",
        "batch_norm_param { scale_bias: true }",
        [X],
        "caffe::BatchNorm",
        [X],
        [(3,), (3,), (1,), (3,), (3,)],
    ),
    ("BN", "bn_param { slope_filler { value: 1 } }", [X], "BatchNormalization", [X], [(1, 3, 1, 1)] * 4),
    ("BN", "bn_param { bn_mode: INFERENCE }", [X], "caffe::BN", [X], [(1, 3, 1, 1)] * 2),
    ("MVN", "mvn_param { across_channels: true }", [X], "caffe::MVN", [X], []),
    ("Normalize", "norm_param { across_spatial: false channel_shared: false }", [X], "caffe::Normalize", [X], [(3,)]),
    ("Normalize", "", [X], "caffe::Normalize", [X], [()]),
    ("Softmax", "softmax_param { axis: -1 }", [X], "Softmax", [X], []),
    # Shapes.
    ("Concat", "", [(2, 3, 6, 5), (2, 5, 6, 5)], "Concat", [(2, 8, 6, 5)], []),
    ("Concat", "concat_param { axis: -4 }", [X, X], "Concat", [(4, 3, 6, 5)], []),
    ("Concat", "concat_param { concat_dim: 2 }", [X, X, X], "Concat", [(2, 3, 18, 5)], []),
    ("Slice", "", [(2, 12, 2, 3)], "Split", [(2, 4, 2, 3)] * 3, []),
    (
        "Slice",
        "slice_param { slice_dim: 0 slice_point: 1 slice_point: 3 }",
        [(6, 2)],
        "Split",
        [(1, 2), (2, 2), (3, 2)],
        [],
    ),
    ("Split", "", [X], "Identity", [X, X], []),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 1 dim: 1 } }", [X], "Reshape", [(2, 90, 1, 1)], []),
    ("Reshape", "reshape_param { axis: 1 shape { dim: 3 dim: 10 dim: -1 } }", [X], "Reshape", [(2, 3, 10, 3)], []),
    (
        "Reshape",
        "reshape_param { axis: 0 num_axes: 0 shape { dim: 1 dim: 1 dim: 1 } }",
        [X],
        "Reshape",
        [(1, 1, 1, 2, 3, 6, 5)],
        [],
    ),
    (
        "Reshape",
        "reshape_param { axis: -1 num_axes: 0 shape { dim: 1 dim: 1 dim: 1 } }",
        [X],
        "Reshape",
        [(2, 3, 6, 5, 1, 1, 1)],
        [],
    ),
    ("Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: -1 } }", [X], "Reshape", [(2, 18, 5)], []),
    ("Flatten", "", [X], "Flatten", [(2, 90)], []),
    ("Flatten", "flatten_param { axis: 2 }", [X], "Reshape", [(2, 3, 30)], []),
    ("Flatten", "flatten_param { axis: 0 end_axis: -2 }", [X], "Reshape", [(36, 5)], []),
    ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [X], "Transpose", [(2, 6, 5, 3)], []),
    ("Permute", "permute_param { order: 3 }", [X], "Transpose", [(5, 2, 3, 6)], []),
    ("Crop", "", [(1, 21, 72, 80), (1, 3, 64, 64)], "caffe::Crop", [(1, 21, 64, 64)], []),
    (
        "Crop",
        "crop_param { axis: 1 offset: [1, 2, 3] }",
        [(1, 9, 9, 9), (4, 8, 7, 6)],
        "caffe::Crop",
        [(1, 8, 7, 6)],
        [],
    ),
    ("Tile", "tile_param { axis: 2 tiles: 3 }", [X], "Tile", [(2, 3, 18, 5)], []),
    ("Reduction", "", [X], "ReduceSum", [()], []),
    ("Reduction", "reduction_param { operation: ASUM axis: 2 }", [X], "ReduceL1", [(2, 3)], []),
    ("Reduction", "reduction_param { operation: 3 axis: -1 }", [X], "ReduceSumSquare", [(2, 3, 6)], []),
    ("Reduction", "reduction_param { operation: MEAN axis: 1 }", [X], "ReduceMean", [(2,)], []),
    ("Reduction", "reduction_param { coeff: 0.5 axis: 1 }", [X], "caffe::Reduction", [(2,)], []),
    ("ArgMax", "", [(10, 1000)], "ArgMax", [(10, 1, 1)], []),
    ("ArgMax", "argmax_param { top_k: 5 out_max_val: true }", [(10, 10, 20, 20)], "TopK", [(10, 2, 5, 1)], []),
    ("ArgMax", "argmax_param { axis: 1 top_k: 3 }", [(10, 21, 8, 8)], "TopK", [(10, 3, 8, 8)], []),
    ("BatchReindex", "", [(5, 3, 2), (9,)], "Gather", [(9, 3, 2)], []),
    ("Filter", "", [(5, 3), (5, 1, 4), (5,)], "caffe::Filter", [(5, 3), (5, 1, 4)], []),
    ("Reorg", "reorg_param { stride: 2 }", [(1, 64, 26, 26)], "caffe::Reorg", [(1, 256, 13, 13)], []),
    ("Reorg", "reorg_param { stride: 2 reverse: true }", [(1, 256, 13, 13)], "caffe::Reorg", [(1, 64, 26, 26)], []),
    ("ShuffleChannel", "shuffle_channel_param { group: 3 }", [X], "caffe::ShuffleChannel", [X], []),
    ("Interp", "interp_param { height: 33 width: 65 }", [X], "Resize", [(2, 3, 33, 65)], []),
    ("Interp", "interp_param { zoom_factor: 8 }", [(1, 3, 41, 41)], "Resize", [(1, 3, 321, 321)], []),
    ("Interp", "interp_param { shrink_factor: 8 }", [(1, 3, 321, 321)], "Resize", [(1, 3, 41, 41)], []),
    (
        "Interp",
        "interp_param { shrink_factor: 2 zoom_factor: 3 pad_beg: -1 pad_end: 0 }",
        [(1, 3, 10, 11)],
        "Resize",
        [(1, 3, 13, 13)],
        [],
    ),
    # Recurrent layers.
    (
        "LSTM",
        "recurrent_param { num_output: 7 }",
        [(1, 3, 3, 2), (1, 3)],
        "caffe::LSTM",
        [(1, 3, 7)],
        [(28, 6), (28,), (28, 7)],
    ),
    (
        "LSTM",
        "recurrent_param { num_output: 256 expose_hidden: true }",
        [(16, 10, 4096), (16, 10), (10, 5), (1, 10, 256), (1, 10, 256)],
        "caffe::LSTM",
        [(16, 10, 256), (1, 10, 256), (1, 10, 256)],
        [(1024, 4096), (1024,), (1024, 5), (1024, 256)],
    ),
    (
        "RNN",
        "recurrent_param { num_output: 7 }",
        [(4, 3, 5), (4, 3), (3, 2, 2)],
        "caffe::RNN",
        [(4, 3, 7)],
        [(7, 5), (7,), (7, 4), (7, 7), (7, 7), (7,)],
    ),
    ("LSTMUnit", "", [(1, 3, 7), (1, 3, 28), (1, 3)], "caffe::LSTMUnit", [(1, 3, 7)] * 2, []),
    # Losses.
    ("SoftmaxWithLoss", "", [(4, 10), (4,)], "caffe::SoftmaxWithLoss", [()], []),
    ("SoftmaxWithLoss", "", [(4, 10), (4,)], "caffe::SoftmaxWithLoss", [(), (4, 10)], []),
    ("MultinomialLogisticLoss", "", [(4, 10), (4,)], "caffe::MultinomialLogisticLoss", [()], []),
    ("InfogainLoss", "", [(4, 10), (4,), (1, 1, 10, 10)], "caffe::InfogainLoss", [()], []),
    ("SigmoidCrossEntropyLoss", "", [(4, 10), (4, 10)], "caffe::SigmoidCrossEntropyLoss", [()], []),
    ("EuclideanLoss", "", [(4, 10), (4, 10, 1)], "caffe::EuclideanLoss", [()], []),
    ("HingeLoss", "hinge_loss_param { norm: L2 }", [(4, 10), (4,)], "caffe::HingeLoss", [()], []),
    ("ContrastiveLoss", "", [(4, 2), (4, 2), (4,)], "caffe::ContrastiveLoss", [()], []),
    ("SmoothL1Loss", "", [(4, 84)] * 4, "caffe::SmoothL1Loss", [()], []),
    ("MultiBoxLoss", "", [(4, 16), (4, 84), (1, 2, 16), (1, 1, 9, 8)], "caffe::MultiBoxLoss", [()], []),
    ("Accuracy", "accuracy_param { top_k: 5 }", [(4, 10), (4,)], "caffe::Accuracy", [()], []),
    ("Accuracy", "", [(4, 10), (4,)], "caffe::Accuracy", [(), (10,)], []),
    # Detection.
    (
        "PriorBox",
        "prior_box_param { min_size: 30 max_size: 60 aspect_ratio: 2 flip: true }",
        [(1, 512, 38, 38), (1, 3, 300, 300)],
        "caffe::PriorBox",
        [(1, 2, 38 * 38 * 4 * 4)],
        [],
    ),
    (
        "PriorBox",
        "prior_box_param { min_size: 60 max_size: 111 aspect_ratio: [2, 3, 2.0000001, 1] }",
        [(1, 1024, 19, 19), (1, 3, 300, 300)],
        "caffe::PriorBox",
        [(1, 2, 19 * 19 * 6 * 4)],
        [],
    ),
    (
        "PriorBox",
        "prior_box_param { min_size: 32 min_size: 64 aspect_ratio: 2 flip: false }",
        [(1, 8, 4, 3), (1, 3, 64, 64)],
        "caffe::PriorBox",
        [(1, 2, 4 * 3 * 4 * 4)],
        [],
    ),
    (
        "DetectionOutput",
        "detection_output_param { num_classes: 21 keep_top_k: 200 nms_param { top_k: 400 } }",
        [(2, 34928), (2, 183372), (1, 2, 34928)],
        "caffe::DetectionOutput",
        [(1, 1, 400, 7)],
        [],
    ),
    (
        "Proposal",
        "proposal_param { feat_stride: 16 post_nms_topn: 300 }",
        [(1, 18, 14, 14), (1, 36, 14, 14), (1, 3)],
        "caffe::Proposal",
        [(300, 5), (300, 1)],
        [],
    ),
    (
        "ROIPooling",
        "roi_pooling_param { pooled_w: 6 pooled_h: 7 spatial_scale: 0.0625 }",
        [(1, 256, 40, 60), (300, 5)],
        "caffe::ROIPooling",
        [(300, 256, 7, 6)],
        [],
    ),
    (
        "PSROIPooling",
        "psroi_pooling_param { output_dim: 21 group_size: 7 spatial_scale: 0.0625 }",
        [(1, 1029, 14, 14), (300, 5)],
        "caffe::PSROIPooling",
        [(300, 21, 7, 7)],
        [],
    ),
    # Without bottoms or tops.
    ("Parameter", "parameter_param { shape { dim: 3 dim: 4 } }", [], "Identity", [(3, 4)], [(3, 4)]),
    ("Input", "input_param { shape { dim: 1 dim: 3 } }", [], "caffe::Input", [(1, 3), (1, 3)], []),
    ("Input", "input_param { shape { dim: [1, 3] } shape { dim: 1 } }", [], "caffe::Input", [(1, 3), (1,)], []),
    (
        "DummyData",
        "dummy_data_param { num: 2 num: 4 channels: [3, 1] height: [8, 1] width: [9, 1] }",
        [],
        "caffe::DummyData",
        [(2, 3, 8, 9), (4, 1, 1, 1)],
        [],
    ),
    ("DummyData", "dummy_data_param { shape { dim: 5 } }", [], "caffe::DummyData", [(5,), (5,)], []),
    (
        "MemoryData",
        "memory_data_param { batch_size: 4 channels: 3 height: 8 width: 9 }",
        [],
        "caffe::MemoryData",
        [(4, 3, 8, 9), (4,)],
        [],
    ),
    (
        "Data",
        "data_param { batch_size: 256 } transform_param { crop_size: 227 }",
        [],
        "caffe::Data",
        [(256, 3, 227, 227), (256,)],
        [],
    ),
    (
        "ImageData",
        "image_data_param { batch_size: 8 new_height: 10 new_width: 20 is_color: false }",
        [],
        "caffe::ImageData",
        [(8, 1, 10, 20), (8,)],
        [],
    ),
    (
        "AnnotatedData",
        "data_param { batch_size: 8 } transform_param { resize_param { height: 300 width: 300 } }",
        [],
        "caffe::AnnotatedData",
        [(8, 3, 300, 300)],
        [],
    ),
    ("Silence", "", [X, X], "caffe::Silence", [], []),
    ("HDF5Output", "", [X], "caffe::HDF5Output", [], []),
]


def node(lowered: Lowered, bottoms: list[Shape]) -> Node:
    """The operator that the reader makes of it."""
    read = [bottoms[i] for i in lowered.reads] if lowered.reads is not None else bottoms
    inputs = [Tensor(f"x{i}", shape, "float32") for i, shape in enumerate(lowered.inputs or read)]
    stored = [Tensor(role, shape, "float32", kind) for role, shape, kind in lowered.weights]
    outputs = [Tensor(f"y{i}", shape, "float32") for i, shape in enumerate(lowered.outputs)]
    return Node(lowered.op, "it", (*inputs, *stored), tuple(outputs), lowered.attrs)


def one(kind: str, params: str, bottoms: list[Any], tops: int = 1, **told: Any) -> Lowered:
    (lowered,) = lower(layer(kind, params, len(bottoms), tops, **told), bottoms, {})
    return lowered


@pytest.mark.parametrize(("kind", "params", "bottoms", "op", "outputs", "blobs"), ROWS)
def test_row(kind: str, params: str, bottoms: list[Shape], op: str, outputs: list[Shape], blobs: list[Shape]) -> None:
    lowered = one(kind, params, bottoms, len(outputs))
    assert lowered.op == op
    assert list(lowered.outputs) == outputs
    assert [shape for _, shape, _ in lowered.weights] == blobs
    counts = count(node(lowered, bottoms))
    assert (counts is None) == (op in UNRULED)


#: Operators whose shapes are known and whose work is not.
UNRULED = {"caffe::MultiBoxLoss"}


def test_every_type_has_a_row() -> None:
    asked = {"HDF5Data", "WindowData", "Bn"}
    assert {row[0] for row in ROWS} | asked == LAYERS.keys()


def test_every_rule_for_caffe_is_reached_by_a_layer() -> None:
    reached = {row[3] for row in ROWS} | {"caffe::HDF5Data", "caffe::WindowData"}
    assert {op for op in OPERATORS if op.startswith("caffe::")} == {
        op for op in reached if op.startswith("caffe::")
    } - UNRULED


@pytest.mark.parametrize(
    ("kind", "params", "bottoms", "macs"),
    [
        ("Convolution", CONV % (256, 5, "pad: 2 group: 2"), [(1, 96, 27, 27)], 223_948_800),
        ("Convolution", CONV % (6, 3, "axis: 2"), [(2, 3, 4, 8, 8)], 46_656),
        ("Deconvolution", CONV % (4, 3, "stride: 2"), [(2, 3, 6, 4)], 5184),
        ("Deconvolution", CONV % (3, 3, "stride: 2 group: 3"), [(2, 3, 6, 4)], 1296),
        ("InnerProduct", "inner_product_param { num_output: 10 axis: 2 }", [(4, 2, 6, 5)], 2400),
        ("InnerProduct", "inner_product_param { num_output: 10 axis: 2 transpose: true }", [(4, 2, 6, 5)], 2400),
        ("LSTM", "recurrent_param { num_output: 256 }", [(16, 10, 4096), (16, 10)], 713_031_680),
        ("LSTM", "recurrent_param { num_output: 7 }", [(4, 3, 5), (4, 3), (3, 2, 2)], 4 * 3 * 28 * 12 + 3 * 28 * 4),
        ("RNN", "recurrent_param { num_output: 7 }", [(4, 3, 5), (4, 3)], 4 * 3 * (7 * 5 + 2 * 49)),
        ("BatchNorm", "", [X], 0),
        ("Scale", "scale_param { bias_term: true }", [X], 0),
    ],
)  # fmt: skip
def test_multiply_accumulates(kind: str, params: str, bottoms: list[Shape], macs: int) -> None:
    counts = count(node(one(kind, params, bottoms), bottoms))
    assert counts is not None
    assert counts.mac == macs


def test_a_bias_is_one_addition_for_each_output() -> None:
    for kind, params, bottom, outputs in (
        ("Convolution", "convolution_param { num_output: 4 kernel_size: 3 %s }", (1, 2, 8, 8), 144),
        ("InnerProduct", "inner_product_param { num_output: 10 %s }", (4, 2, 6), 40),
        ("Embed", "embed_param { num_output: 7 input_dim: 50 %s }", (4, 9), 252),
    ):
        with_bias, without = (
            count(node(one(kind, params % term, [bottom]), [bottom])) for term in ("", "bias_term: false")
        )
        assert with_bias is not None
        assert without is not None
        assert with_bias.add - without.add == outputs


def test_several_bottoms_share_the_weights() -> None:
    shapes: list[Shape] = [(1, 2, 8, 8)] * 2
    both = lower(layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", 2, 2), shapes, {})
    assert [(part.reads, part.writes, part.outputs) for part in both] == [
        ((0,), (0,), ((1, 4, 6, 6),)),
        ((1,), (1,), ((1, 4, 6, 6),)),
    ]
    assert both[0].weights == both[1].weights


def test_kinds_of_stored_blobs() -> None:
    def kinds(kind: str, params: str = "") -> list[str]:
        return [kind for _, _, kind in one(kind, params, [X]).weights]

    assert kinds("BatchNorm") == ["buffer"] * 3
    assert kinds("BN") == ["weight", "weight", "buffer", "buffer"]
    assert kinds("Scale", "scale_param { bias_term: true }") == ["weight", "weight"]
    assert kinds("PReLU") == kinds("Normalize") == ["weight"]


def test_batch_norm_computes_its_statistics_in_training() -> None:
    inference, training = (one("BatchNorm", "", [X], phase=phase) for phase in ("TEST", "TRAIN"))
    assert inference.attrs["use_global_stats"] == 1
    assert training.attrs["use_global_stats"] == 0
    fixed = one("BatchNorm", "batch_norm_param { use_global_stats: true }", [X], phase="TRAIN")
    assert fixed.attrs == inference.attrs


def test_what_the_image_decides_is_an_upper_bound() -> None:
    for row in ROWS:
        bound = one(row[0], row[1], row[2], len(row[4])).bound
        assert bound == (row[0] in ("Filter", "DetectionOutput", "Proposal"))


# Data.


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


# What nobody knows.


def test_unknown_type_is_unresolved_and_what_follows_is_not_guessed() -> None:
    unknown = one("Magic", "", [X], 2)
    assert unknown.op == "caffe::Magic"
    assert unknown.outputs == (None, None)
    assert "no rule for its type Magic" in unknown.note
    behind = one("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", [None])
    assert (behind.op, behind.outputs, behind.weights) == ("Conv", (None,), ())
    assert "'x0' is unknown" in behind.note
    assert one("ReLU", "", [None]).note == ""
    assert count(node(unknown, [X])) is None


def test_unknown_type_takes_the_shapes_that_the_user_gives() -> None:
    (given,) = lower(layer("Magic", "", 1, 2), [X], {"y1": (2, 8)})
    assert given.outputs == (None, (2, 8))
    (whole,) = lower(layer("Magic", "", 1, 1), [X], {"y0": (2, 8)})
    assert "is unknown unless given" not in whole.note
    (behind,) = lower(layer("ReLU", "", 1, 1), [None], {"y0": (2, 8)})
    assert behind.outputs == ((2, 8),)
    (found,) = lower(layer("Proposal", "", 3, 1), [(1, 18, 14, 14), (1, 36, 14, 14), (1, 3)], {"y0": (120, 5)})
    assert (found.outputs, found.bound) == (((120, 5),), False)


def test_python_layer_names_its_module() -> None:
    params = "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' }"
    python = one("Python", params, [X])
    assert (python.op, python.outputs) == ("caffe::Python", (None,))
    assert "rpn.proposal_layer.ProposalLayer" in python.note
    with pytest.raises(InputError, match="must be given: -i y0:f32"):
        one("Python", params, [])


def test_stored_blobs_of_an_unknown_type_are_parameters() -> None:
    unknown = one("Magic", "", [X], blobs=((4, 3), (4,)))
    assert unknown.weights == (("blob0", (4, 3), "weight"), ("blob1", (4,), "weight"))
    behind = one("BatchNorm", "", [None], blobs=((4,), (4,), (1,)))
    assert [kind for _, _, kind in behind.weights] == ["buffer"] * 3
    assert behind.note == ""


def test_stored_blobs_are_held_against_the_parameters() -> None:
    params = "inner_product_param { num_output: 10 }"
    legacy = one("InnerProduct", params, [(2, 6)], blobs=((1, 1, 10, 6), (1, 1, 1, 10)))
    assert legacy.note == ""
    assert legacy.weights[0][1] == (10, 6)
    other = one("InnerProduct", params, [(2, 6)], blobs=((10, 7),))
    assert "its stored blobs are 10x7, its parameters need 10x6, 10" in other.note
    assert one("BN", "", [X], blobs=((1, 3, 1, 1),) * 2).op == "caffe::BN"


# What makes no sense.


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
    ("Reduction", "reduction_param { operation: 0 }", [X], 1, "none of its operations"),
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


@pytest.mark.parametrize(("kind", "params", "bottoms", "tops", "text"), REFUSED)
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
