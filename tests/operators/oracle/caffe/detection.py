"""Caffe's detection layers, box by box on counting numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import exp, larger, plain, smaller
from tests.operators.oracle.pooling import average, highest


def area(box: Any) -> Any:
    return (box[2] - box[0]) * (box[3] - box[1])


def survivors(boxes: Any, areas: Any, threshold: float, extra: float = 0.0) -> list[int]:
    """Positions of the boxes, best first, that overlap none before them by more than the threshold."""
    kept: list[int] = []
    for i, box in enumerate(boxes):
        if all(plain(_overlap(box, boxes[j], areas[i], areas[j], extra) <= threshold) for j in kept):
            kept.append(i)
    return kept


def _overlap(a: Any, b: Any, area_a: Any, area_b: Any, extra: float) -> Any:
    sides = [smaller(a[k + 2], b[k + 2]) - larger(a[k], b[k]) for k in (0, 1)]
    width, height = (larger(0.0, side + extra if extra else side) for side in sides)
    common = width * height
    return common / (area_a + area_b - common)


def ordered(scores: Any, keep: int) -> list[int]:
    """Positions of the highest scores, each put into its place by binary search."""
    kept: list[int] = []
    for i, score in enumerate(scores):
        low, high = 0, len(kept)
        while low < high:
            middle = (low + high) // 2
            if plain(scores[kept[middle]] < score):
                high = middle
            else:
                low = middle + 1
        kept.insert(low, i)
        del kept[keep:]
    return kept


def decoded(location: Any, prior: Any, variance: Any) -> Any:
    """A box from its prior box, its location and variances, coded as centre and size."""
    size = [prior[2] - prior[0], prior[3] - prior[1]]
    centre = [(prior[0] + prior[2]) / 2.0, (prior[1] + prior[3]) / 2.0]
    middle = [variance[k] * location[k] * size[k] + centre[k] for k in (0, 1)]
    half = [exp(variance[k + 2] * location[k + 2]) * size[k] / 2.0 for k in (0, 1)]
    return [middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]]


def detection_output(
    location: Any, confidence: Any, prior: Any, *,
    boxes: int, priors: int, classes: int, candidates: int, keep: int, overlap: float, threshold: float,
) -> Any:  # fmt: skip
    """With shared locations; the first class is the background."""
    assert boxes == priors
    found = []
    for n, (places, scores) in enumerate(zip(location, confidence, strict=True)):
        rows = zip(places.reshape(-1, 4), prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4), strict=True)
        corners = [decoded(*row) for row in rows]
        areas = [area(box) for box in corners]
        detected = []
        for c in range(1, classes + 1):
            own = scores.reshape(priors, classes + 1)[:, c]
            passed = [i for i in range(priors) if (own[i] > threshold).value]
            best = [passed[i] for i in ordered([own[i] for i in passed], candidates)]
            left = survivors([corners[i] for i in best], [areas[i] for i in best], overlap)
            detected += [(own[best[i]], c, best[i]) for i in left]
        for i in ordered([score for score, _, _ in detected], keep):
            score, c, box = detected[i]
            found.append([float(n), float(c), score, *corners[box]])
    return np.array(found, object).reshape(1, 1, -1, 7)


def proposal(
    scores: Any, deltas: Any, image: Any, *, anchors: int, candidates: int, base: Any, stride: int, keep: int
) -> Any:
    """One image; boxes hold the pixels on both of their edges."""
    _, _, rows, columns = deltas.shape
    limit = [image[0, 1] - 1.0, image[0, 0] - 1.0]
    boxes, chances = [], []
    for a, i, j in np.ndindex(len(base), rows, columns):
        moved = [b + float(s) for b, s in zip(base[a], (j * stride, i * stride) * 2, strict=True)]
        size = [moved[2] - moved[0] + 1.0, moved[3] - moved[1] + 1.0]
        dx = deltas[0, 4 * a : 4 * a + 4, i, j]
        middle = [dx[k] * size[k] + (moved[k] + size[k] * 0.5) for k in (0, 1)]
        half = [exp(dx[k + 2]) * size[k] * 0.5 for k in (0, 1)]
        corners = [middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]]
        box = [larger(0.0, smaller(limit[k % 2].value, v)) for k, v in enumerate(corners)]
        wide, high = (box[k + 2] - box[k] + 1.0 >= 1.0 for k in (0, 1))
        if wide.value and high.value:
            boxes.append(box)
            chances.append(scores[0, len(base) + a, i, j])
    assert len(boxes) <= anchors
    best = [boxes[i] for i in ordered(chances, candidates)]
    areas = [(b[2] - b[0] + 1.0) * (b[3] - b[1] + 1.0) for b in best]
    left = survivors(best, areas, 0.7, 1.0)[:keep]
    return np.array([[0.0, *best[i]] for i in left], object)


def bins(region: Any, pooled: Any, extents: Any, scale_: float) -> Any:
    """Rows and columns of each bin of a region, clipped to the map."""
    start = [round(float(region[2]) * scale_), round(float(region[1]) * scale_)]
    end = [round(float(region[4]) * scale_), round(float(region[3]) * scale_)]
    for at in np.ndindex(*pooled):
        spans = []
        for k in (0, 1):
            size = max(end[k] - start[k] + 1, 1) / pooled[k]
            low, high = start[k] + math.floor(at[k] * size), start[k] + math.ceil((at[k] + 1) * size)
            spans.append(slice(min(max(low, 0), extents[k]), min(max(high, 0), extents[k])))
        yield at, tuple(spans)


def roi_pooling(x: Any, regions: Any, *, pooled: Any, scale_: float = 1.0) -> Any:
    y = np.full((len(regions), x.shape[1], *pooled), 0.0, object)
    for r, region in enumerate(regions):
        for at, span in bins(region, pooled, x.shape[2:], scale_):
            for c in range(x.shape[1]):
                window = x[(int(region[0]), c, *span)].reshape(-1)
                y[(r, c, *at)] = highest(window) if window.size else 0.0
    return y


def psroi_pooling(x: Any, regions: Any, *, group: int, scale_: float = 1.0) -> Any:
    y = np.full((len(regions), x.shape[1] // group**2, group, group), 0.0, object)
    for r, region in enumerate(regions):
        for at, span in bins(region, (group, group), x.shape[2:], scale_):
            for c in range(y.shape[1]):
                channel = (c * group + at[0]) * group + at[1]
                window = x[(int(region[0]), channel, *span)].reshape(-1)
                y[(r, c, *at)] = average(window) if window.size else 0.0
    return y


ALGORITHMS: dict[str, Callable[..., Any]] = {
    "caffe::DetectionOutput": detection_output,
    "caffe::Proposal": proposal,
    "caffe::ROIPooling": roi_pooling,
    "caffe::PSROIPooling": psroi_pooling,
}
