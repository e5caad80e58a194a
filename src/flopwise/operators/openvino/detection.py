"""Operators of OpenVINO on boxes and regions. What overlaps, and how large a region is, the data decide."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import shape
from flopwise.operators.caffe import detection_output, proposal, psroi_pooling
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.onnx.movement import bits
from flopwise.operators.onnx.spatial import roi_align
from flopwise.operators.operator import Operator, by, nothing

#: Overlap of two boxes whose areas are known, and its comparison with the threshold.
_PAIR = Counts(cmp=7, add=4, mul=1, div=1)
#: An anchor moved and scaled, its corners held in the image, and held against the smallest size.
_PROPOSE = Counts(add=12, mul=8, exp=2, cmp=10)


def several_classes(node: Node) -> Counts:
    """at most for each image and class n × bits(n) cmp (sorting), n × (2 add + 1 mul) (areas) and K (K − 1) / 2 pairs
    × (7 cmp + 4 add + 1 mul + 1 div) (overlap), n boxes, K = nms_top_k or n; and the same count of cmp to sort what
    all classes keep. MatrixNms: for each pair 2 mul + 1 exp + 1 div more (decay).

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/multiclass-nms-9.html
    """
    boxes, scores = node.input(0), node.input(1)
    number, classes = extent(node, boxes, 1), extent(node, scores, 1)
    top = node.attrs.get("nms_top_k", -1)
    kept = number if top < 0 else min(number, top)
    pair = _PAIR + Counts(mul=2, exp=1, div=1) if node.attrs.get("decay") else _PAIR
    once = Counts(cmp=number * bits(number)) + Counts(add=2, mul=1) * number + pair * (kept * (kept - 1) // 2)
    total = kept * classes
    return (once * classes + Counts(cmp=total * bits(total))) * extent(node, boxes, 0)


def rotated(node: Node) -> Counts:
    """at most for each image and class n × bits(n) cmp (sorting), n × (2 trig + 8 mul + 8 add) (corners) and n (n − 1)
    / 2 pairs × (48 cmp + 96 mul + 96 add + 32 div) (up to 16 crossings of edges and 8 corners inside, their polygon's
    area, the threshold).

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/nms-rotated-13.html
    """
    number, classes = extent(node, node.input(0), 1), extent(node, node.input(1), 1)
    pair = Counts(cmp=48, mul=96, add=96, div=32)
    once = Counts(cmp=number * bits(number)) + Counts(trig=2, mul=8, add=8) * number
    return (once + pair * (number * (number - 1) // 2)) * (classes * extent(node, node.input(0), 0))


def roi_align_rotated(node: Node) -> Counts:
    """at most as RoiAlign, and for each region 2 trig, for each of its points 4 mul + 4 add (turned).

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/roi-align-rotated-15.html
    """
    y = node.output()
    ratio = node.attrs.get("sampling_ratio", 0) or 2
    points = y.numel // extent(node, y, 1) * ratio**2 if extent(node, y, 1) else 0
    return roi_align(node) + Counts(trig=2) * extent(node, y, 0) + Counts(mul=4, add=4) * points


def bilinear_regions(node: Node) -> Counts:
    """numel(Y) × (3 mul + 6 add) (average of four elements in three steps), for each of its places 4 mul + 4 add, and
    for each region 4 mul + 2 add + 2 div.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/roi-pooling-1.html
    """
    y = node.output()
    places = extent(node, y, 0) * product(y.dims[2:])
    return (
        Counts(mul=3, add=6) * y.numel
        + Counts(mul=4, add=4) * places
        + Counts(mul=4, add=2, div=2) * extent(node, y, 0)
    )


def deformable_regions(node: Node) -> Counts:
    """at most numel(Y) × g × (4 mul + 4 add) + numel(Y) × (1 div + 4 add + 4 mul) (places moved by offsets), g =
    spatial_bins_x × spatial_bins_y points in a cell.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/deformable-psroi-pooling-1.html
    """
    points: int = node.attrs.get("bins", 1)
    return (Counts(mul=4, add=4) * points + Counts(div=1, add=4, mul=4)) * node.output().numel


def proposals(node: Node) -> Counts:
    """at most for each image anchors × (12 add + 8 mul + 2 exp + 10 cmp) (decoding, clipping), anchors × bits(K) cmp
    (sorting), K × (2 add + 1 mul) (areas) and K (K − 1) / 2 pairs × (7 cmp + 4 add + 1 mul + 1 div) (overlap).

    K is pre_nms_count; bits is the number of binary digits.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/generate-proposals-9.html
    """
    scores = node.input(3)
    images = extent(node, scores, 0) if len(scores.dims) == 4 else 1
    anchors = scores.numel // images if images else 0
    kept = min(anchors, node.attrs.get("candidates", anchors))
    once: Counts = _PROPOSE * anchors + Counts(cmp=anchors * bits(kept)) + Counts(add=2, mul=1) * kept
    once += _PAIR * (kept * (kept - 1) // 2)
    return once * images


def detectron_output(node: Node) -> Counts:
    """at most regions × classes × (12 add + 8 mul + 2 exp + 10 cmp) (decoding), for each class R (R − 1) / 2 pairs × (7
    cmp + 4 add + 1 mul + 1 div) (overlap) and R × (1 + bits(R)) cmp (threshold, sorting), R regions.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/experimental-detectron-detection-output-6.html
    """
    regions, classes = extent(node, node.input(0), 0), int(required(node, "classes"))
    once: Counts = _PROPOSE * regions + _PAIR * (regions * (regions - 1) // 2)
    return (once + Counts(cmp=regions * (1 + bits(regions)))) * classes


def pyramid_features(node: Node) -> Counts:
    """at most numel(Y) × g × (4 mul + 4 add) + numel(Y) div, g = sampling_ratio² points in a cell, and for each region
    4 add + 4 mul + 1 sqrt + 1 log (its level) and each of its points 8 mul + 8 add.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/experimental-detectron-roi-feature-extractor-6.html
    """
    y = node.output()
    points: int = (node.attrs.get("sampling_ratio", 0) or 2) ** 2
    regions, channels = extent(node, y, 0), extent(node, y, 1)
    places = y.numel // channels * points if channels else 0
    counts = Counts(mul=4, add=4) * (y.numel * points) + Counts(div=y.numel)
    return counts + Counts(add=4, mul=4, sqrt=1, log=1) * regions + Counts(mul=8, add=8) * places


def best_regions(node: Node) -> Counts:
    """at most R × bits(R) cmp: R regions sorted by their scores.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sort/experimental-detectron-top-krois-6.html
    """
    regions = extent(node, node.input(0), 0)
    return Counts(cmp=regions * bits(regions))


_PRIORS = nothing("writes boxes that follow from the shapes of its inputs alone", shape=shape.by("openvino:priors"))

_ROWS: dict[str, Operator] = {
    "PriorBox": _PRIORS,
    "PriorBoxClustered": _PRIORS,
    "DetectionOutput": by(detection_output, "bound", shape=shape.by("openvino:detections")),
    "Proposal": by(proposal, "bound", shape=shape.by("openvino:proposals")),
    "MulticlassNms": by(several_classes, "bound", shape=shape.by("openvino:several_classes")),
    "MatrixNms": by(several_classes, "bound", shape=shape.by("openvino:several_classes")),
    "NMSRotated": by(rotated, "bound", shape=shape.by("openvino:suppressed")),
    "ROIAlignRotated": by(roi_align_rotated, "bound", shape=shape.by("openvino:regions")),
    "ROIPooling": by(bilinear_regions, shape=shape.by("openvino:regions")),
    "PSROIPooling": by(psroi_pooling, "bound", shape=shape.by("openvino:regions")),
    "DeformablePSROIPooling": by(deformable_regions, "bound", shape=shape.by("openvino:regions")),
    "GenerateProposals": by(proposals, "bound"),
    "ExperimentalDetectronGenerateProposalsSingleImage": by(
        proposals, "bound", shape=shape.by("openvino:proposals_of_image")
    ),
    "ExperimentalDetectronDetectionOutput": by(detectron_output, "bound", shape=shape.by("openvino:found")),
    "ExperimentalDetectronROIFeatureExtractor": by(
        pyramid_features, "bound", shape=shape.by("openvino:features_of_regions")
    ),
    "ExperimentalDetectronTopKROIs": by(best_regions, "bound", shape=shape.by("openvino:best_regions")),
    "ExperimentalDetectronPriorGridGenerator": nothing("writes boxes that follow from the shapes of its inputs alone"),
}

OPERATORS: dict[str, Operator] = {f"openvino::{name}": row for name, row in _ROWS.items()}
