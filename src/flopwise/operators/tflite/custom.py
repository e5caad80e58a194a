"""Custom operators that well-known libraries bring along, under the name ``tflite.custom::NAME``.

A file names them and no more; MediaPipe's are in mediapipe/util/tflite/operations and in its GPU delegate.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.onnx.movement import bits
from flopwise.operators.operator import Operator, by, nothing, unknown


def detections(node: Node) -> Counts:
    """at most A × (6 add + 6 mul + 4 div + 2 exp) (decoding), A × C cmp (the best class), A × bits(A) cmp (sorting) and
    A (A − 1) / 2 pairs × (7 cmp + 4 add + 1 mul + 1 div) (overlap), A anchors and C classes.

    tensorflow/lite/kernels/detection_postprocess.cc
    """
    anchors, scores = extent(node, node.input(2), 0), node.input(1)
    pairs = anchors * (anchors - 1) // 2
    counts = Counts(add=6, mul=6, div=4, exp=2) * anchors + Counts(cmp=7, add=4, mul=1, div=1) * pairs
    return counts + Counts(cmp=scores.numel + anchors * bits(anchors))


def max_pool_with_places(node: Node) -> Counts:
    """at most numel(X) cmp where windows do not overlap.

    mediapipe/util/tflite/operations/max_pool_argmax.cc
    """
    return Counts(cmp=node.input(0).numel)


def warp(node: Node) -> Counts:
    """numel(Y) × 4 × (1 mul + 1 add) (linear average), and for each position 8 mac (its place in X), 2 cmp + 2 add (its
    cell) and 4 mul + 2 add (weights).

    mediapipe/util/tflite/operations/transform_tensor_bilinear.cc
    """
    y = node.output()
    return Counts(mul=4, add=4) * y.numel + Counts(mac=8, cmp=2, add=4, mul=4) * product(y.dims[:-1])


def move_landmarks(node: Node) -> Counts:
    """for each landmark 8 mac: two coordinates times a matrix of 2 × 4.

    mediapipe/util/tflite/operations/transform_landmarks.cc
    """
    y = node.output()
    return Counts(mac=8) * product(y.dims[:-1])


def matrix_of_landmarks(node: Node) -> Counts:
    """at most numel(X) × 2 cmp (the box around landmarks) + numel(X) × 2 mac (rotation) + 16 mul + 8 add + 2 div + 3
    trig + 1 sqrt.

    mediapipe/util/tflite/operations/landmarks_to_transform_matrix.cc
    """
    return Counts(cmp=2, mac=2) * node.input(0).numel + Counts(mul=16, add=8, div=2, trig=3, sqrt=1)


_EDGE_TPU = "compiled for the Edge TPU: the operators in it are not in the file; count the file before edgetpu_compiler"

_ROWS: dict[str, Operator] = {
    "TFLite_Detection_PostProcess": by(detections, "bound"),
    "MaxPoolingWithArgmax2D": by(max_pool_with_places, "bound"),
    "MaxUnpooling2D": nothing("copies elements to the places that a pooling kept"),
    "TransformTensorBilinear": by(warp),
    "TransformLandmarks": by(move_landmarks),
    "Landmarks2TransformMatrix": by(matrix_of_landmarks, "bound"),
    "edgetpu-custom-op": unknown(_EDGE_TPU),
    "ethos-u": unknown(
        "compiled for Arm's Ethos-U: the operators in it are not in the file; count the file before vela"
    ),
}

OPERATORS: dict[str, Operator] = {f"tflite.custom::{name}": row for name, row in _ROWS.items()}
