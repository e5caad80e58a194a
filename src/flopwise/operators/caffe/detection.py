"""Operators of Caffe's detection forks. How many boxes overlap, and how large a region is, the image decides."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.operator import Operator, by, nothing

#: Overlap of two boxes whose areas are known, and its comparison with the threshold.
_PAIR = Counts(cmp=7, add=4, mul=1, div=1)
_AREA = Counts(add=2, mul=1)
#: One prior box with its four locations and variances: centre and size, shift, exponentials, corners.
_DECODE = Counts(add=10, mul=8, div=4, exp=2)
#: One anchor moved to its position, shifted and scaled, clipped to the image and held against the smallest size.
_PROPOSE = Counts(add=20, mul=8, exp=2, cmp=10)


def _suppress(candidates: int) -> Counts:
    """Every pair of the candidates: none suppresses another."""
    return _PAIR * (candidates * (candidates - 1) // 2)


def detection_output(node: Node) -> Counts:
    """at most N × [boxes × (10 add + 8 mul + 4 div + 2 exp) (decoding), boxes × (2 add + 1 mul) (areas), and for each
    class priors × (1 + bits(K)) cmp (threshold, sorting) and K (K − 1) / 2 pairs × (7 cmp + 4 add + 1 mul + 1 div)
    (overlap)], and for the best of all classes K × classes × bits(K × classes) cmp.

    K is the number of candidates for each class, boxes the number of priors, or priors × classes without
    share_location; bits is the number of binary digits.

    https://github.com/weiliu89/caffe/tree/ssd
    """
    boxes, priors, classes, candidates = (required(node, n) for n in ("boxes", "priors", "classes", "candidates"))
    per_class = Counts(cmp=priors * (1 + candidates.bit_length())) + _suppress(candidates)
    last = Counts(cmp=candidates * classes * (candidates * classes).bit_length())
    once: Counts = _DECODE * boxes + _AREA * boxes + per_class * classes + last
    return once * extent(node, node.input(0), 0)


def proposal(node: Node) -> Counts:
    """at most N × [anchors × (20 add + 8 mul + 2 exp + 10 cmp) (decoding, clipping), anchors × bits(K) cmp (sorting),
    K × (4 add + 1 mul) (areas) and K (K − 1) / 2 pairs × (7 cmp + 6 add + 1 mul + 1 div) (overlap)].

    K is pre_nms_topn; bits is the number of binary digits.

    https://github.com/rbgirshick/py-faster-rcnn
    """
    anchors, candidates = required(node, "anchors"), required(node, "candidates")
    inclusive = Counts(add=candidates * (candidates - 1))
    once: Counts = (
        _PROPOSE * anchors + Counts(cmp=anchors * candidates.bit_length()) + _suppress(candidates) + inclusive
    )
    once += Counts(add=4, mul=1) * candidates
    return once * extent(node, node.input(0), 0)


def roi_pooling(node: Node) -> Counts:
    """at most R × C × (H + 2 pooled_h) × (W + 2 pooled_w) cmp: a region covers the whole map at most, and neighbouring
    bins share at most their edges.

    Where a bin lies is addressing.

    https://github.com/rbgirshick/caffe-fast-rcnn
    """
    return Counts(cmp=product(node.output().dims[:2]) * _covered(node))


def psroi_pooling(node: Node) -> Counts:
    """at most R × output_dim × (H + 2 group_size) × (W + 2 group_size) add + numel(Y) div.

    https://github.com/daijifeng001/caffe-rfcn
    """
    y = node.output()
    return Counts(add=product(y.dims[:2]) * _covered(node), div=y.numel)


def _covered(node: Node) -> int:
    """Elements of one map that all bins of one region cover together, at most."""
    x, y = node.input(0), node.output()
    rows = extent(node, x, 2) + 2 * extent(node, y, 2)
    return rows * (extent(node, x, 3) + 2 * extent(node, y, 3))


OPERATORS: dict[str, Operator] = {
    "caffe::PriorBox": nothing("writes boxes that follow from the shapes of its inputs alone"),
    "caffe::DetectionOutput": by(detection_output, "bound"),
    "caffe::Proposal": by(proposal, "bound"),
    "caffe::ROIPooling": by(roi_pooling, "bound"),
    "caffe::PSROIPooling": by(psroi_pooling, "bound"),
}
