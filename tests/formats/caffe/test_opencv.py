"""Shapes of Caffe layers beside those of OpenCV's importer, which needs weights: random ones of our shapes.

OpenCV is no judge of everything. It refuses what it has no layer for (SPP, Threshold, Clip, Bias, BN, Tile, Reduction,
ArgMax, Embed, Upsample, Unpooling, DepthwiseConvolution, losses, data layers), round_mode, a PReLU with one slope and
Interp with a shrink_factor; its LSTM is another one. A convolution has the name of its top there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.caffe_networks import NETWORKS, written
from tests.formats.caffe.caffemodel import caffemodel

import flopwise
from flopwise.graph import STORED, Graph

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
if not hasattr(cv2.dnn, "readNetFromCaffe"):
    pytest.skip("OpenCV 5 reads no Caffe nets", allow_module_level=True)

#: Networks that OpenCV does not read.
NOT_READ = {
    "bvlc_googlenet_train_val": "has data layers for two phases that make the same blobs",
    "mnist_siamese_train_test": "has data layers",
}

#: Layer types whose tops OpenCV counts differently.
COUNTS_TOPS = {
    "Pooling": "a max-pooling always gives the mask too",
    "Proposal": "the scores are always given too",
    "Split": "one result for all consumers",
}


def compared(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Layer by layer the name, our shapes and OpenCV's."""
    graph: Graph = flopwise.read(path)
    stored = [
        (node.name, node.origin, [t.dims for t in node.known_inputs if t.kind in STORED])
        for node in graph.nodes
        if any(t.kind in STORED for t in node.known_inputs)
    ]
    weights = np.frombuffer(caffemodel(stored) or b"\n\0", np.uint8)
    net = cv2.dnn.readNetFromCaffe(np.frombuffer(path.read_bytes(), np.uint8), weights)
    numbers, _, shapes = net.getLayersShapes([list(t.dims) for t in graph.inputs])
    theirs = {
        net.getLayer(int(number)).name: [tuple(map(int, shape)) for shape in of]
        for number, of in zip(numbers, shapes, strict=True)
        if number  # 0 is what brings the inputs
    }
    for node in graph.nodes:
        ours = [t.shape for t in node.known_outputs]
        found = theirs[node.name if node.name in theirs else node.output().name]
        yield node.name, ours, found[: len(ours)] if node.origin in COUNTS_TOPS else found


def agree(path: Path) -> int:
    """How many layers there are, when all shapes agree."""
    layers = list(compared(path))
    different = [row for row in layers if row[1] != row[2]]
    assert not different
    return len(layers)


@pytest.mark.parametrize("name", NETWORKS)
def test_network(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    if name in NOT_READ:
        with pytest.raises(cv2.error):
            cv2.dnn.readNetFromCaffe(str(path))
        return
    assert agree(path) > 5


X = (2, 6, 9, 8)

#: Type, parameters, shapes of the bottoms, number of tops.
LAYERS: list[tuple[str, str, list[tuple[int, ...]], int]] = [
    ("Convolution", "convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 dilation: 2 group: 2 }", [X], 1),
    ("Convolution", "convolution_param { num_output: 4 kernel_h: 3 kernel_w: 1 stride_h: 1 stride_w: 2 }", [X], 1),
    ("ConvolutionDepthwise", "convolution_param { num_output: 6 kernel_size: 3 }", [X], 1),
    ("Deconvolution", "convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 }", [X], 1),
    ("Deconvolution", "convolution_param { num_output: 6 kernel_size: 4 stride: 2 group: 6 bias_term: false }", [X], 1),
    ("InnerProduct", "inner_product_param { num_output: 10 }", [X], 1),
    ("InnerProduct", "inner_product_param { num_output: 10 axis: 2 }", [X], 1),
    ("InnerProduct", "inner_product_param { num_output: 10 axis: -1 bias_term: false }", [X], 1),
    *(
        ("Pooling", f"pooling_param {{ pool: {pool} kernel_size: {k} stride: {s} pad: {p} {mode} }}", [(1, 2, h, w)], 1)
        for k, s, p in (
            (2, 1, 0),
            (2, 2, 0),
            (2, 2, 1),
            (2, 3, 1),
            (3, 2, 0),
            (3, 2, 1),
            (3, 3, 1),
            (4, 2, 1),
            (5, 3, 2),
        )
        for h, w in ((9, 8), (7, 6), (5, 13))
        for pool, mode in (("MAX", ""), ("AVE", ""), ("AVE", "ceil_mode: false"))
    ),
    ("Pooling", "pooling_param { pool: AVE global_pooling: true }", [X], 1),
    ("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", [X], 2),
    ("ReLU", "relu_param { negative_slope: 0.1 }", [X], 1),
    ("PReLU", "", [X], 1),
    *((kind, "", [X], 1) for kind in ("ReLU6", "ELU", "Sigmoid", "TanH", "Swish", "Mish", "AbsVal", "BNLL", "Log")),
    *((kind, "", [X], 1) for kind in ("Dropout", "BatchNorm", "MVN")),
    ("Power", "power_param { power: 2 scale: 0.5 shift: 1 }", [X], 1),
    ("Exp", "exp_param { base: 2 }", [X], 1),
    ("Scale", "scale_param { bias_term: true }", [X], 1),
    ("Scale", "scale_param { axis: 0 }", [X, (2, 6)], 1),
    ("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -1 }", [X, X], 1),
    ("Eltwise", "eltwise_param { operation: MAX }", [X, X, X], 1),
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }", [X], 1),
    ("Normalize", "norm_param { across_spatial: false channel_shared: false }", [X], 1),
    ("Softmax", "softmax_param { axis: 2 }", [X], 1),
    ("Concat", "concat_param { axis: 2 }", [X, X], 1),
    ("Slice", "slice_param { axis: 1 slice_point: 1 slice_point: 3 }", [X], 3),
    ("Slice", "slice_param { axis: 1 }", [X], 3),
    ("Split", "", [X], 2),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 1 dim: 1 } }", [X], 1),
    ("Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: -1 } }", [X], 1),
    ("Reshape", "reshape_param { axis: 1 shape { dim: 3 dim: 16 dim: -1 } }", [X], 1),
    ("Flatten", "", [X], 1),
    ("Flatten", "flatten_param { axis: 2 }", [X], 1),
    ("Flatten", "flatten_param { axis: 1 end_axis: 2 }", [X], 1),
    ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [X], 1),
    ("Crop", "crop_param { axis: 2 offset: 1 }", [X, (2, 3, 6, 5)], 1),
    ("Reorg", "reorg_param { stride: 2 }", [(1, 4, 8, 6)], 1),
    ("ShuffleChannel", "shuffle_channel_param { group: 3 }", [X], 1),
    ("Interp", "interp_param { height: 33 width: 65 }", [X], 1),
    ("Interp", "interp_param { zoom_factor: 8 }", [X], 1),
    (
        "PriorBox",
        "prior_box_param { min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 }",
        [X, X],
        1,
    ),
    (
        "PriorBox",
        "prior_box_param { min_size: 32 min_size: 64 aspect_ratio: 2 flip: false variance: 0.1 }",
        [X, (1, 3, 64, 64)],
        1,
    ),
    (
        "Proposal",
        "proposal_param { ratio: 0.5 ratio: 1 ratio: 2 scale: 8 scale: 16 scale: 32 post_nms_topn: 300 }",
        [(1, 18, 14, 14), (1, 36, 14, 14), (1, 3)],
        1,
    ),
    (
        "ROIPooling",
        "roi_pooling_param { pooled_w: 6 pooled_h: 7 spatial_scale: 0.0625 }",
        [(1, 25, 40, 60), (30, 5)],
        1,
    ),
    (
        "PSROIPooling",
        "psroi_pooling_param { output_dim: 2 group_size: 7 spatial_scale: 0.0625 }",
        [(1, 98, 14, 14), (30, 5)],
        1,
    ),
]


def prototxt(kind: str, params: str, bottoms: list[tuple[int, ...]], tops: int) -> str:
    """A net of one layer between inputs and, so that nothing is fused or left out, one that passes on each top."""
    lines = []
    for i, shape in enumerate(bottoms):
        lines.append(f'input: "x{i}" input_shape {{ {" ".join(f"dim: {dim}" for dim in shape)} }}')
    named = [f'bottom: "x{i}"' for i in range(len(bottoms))] + [f'top: "y{i}"' for i in range(tops)]
    lines.append(f'layer {{ name: "it" type: "{kind}" {" ".join(named)} {params} }}')
    for i in range(tops):
        lines.append(f'layer {{ name: "after{i}" type: "AbsVal" bottom: "y{i}" top: "z{i}" }}')
    return "\n".join(lines)


@pytest.mark.parametrize(("kind", "params", "bottoms", "tops"), LAYERS)
def test_layer(kind: str, params: str, bottoms: list[tuple[int, ...]], tops: int, tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(prototxt(kind, params, bottoms, tops))
    assert agree(path) == 1 + tops
