"""Layers on boxes and regions, and lookups of embeddings: their settings as the rows of the house name them."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.formats.openvino.lower.lowered import Application, Lowered, Rule


def suppression(application: Application) -> Lowered:
    """NonMaxSuppression: how many boxes, and the thresholds, are inputs."""
    from flopwise.operators import shape

    center = application.text("box_encoding") == "center"
    places = (0, 1, 2, 3, 4) if application.inputs > 4 else None
    attrs = {"center_point_box": int(center)}
    return Lowered("NonMaxSuppression", places, attrs, shape.by("openvino:suppressed"))


def several_classes(decay: bool) -> Rule:
    """The rule for MulticlassNms and, with decay, MatrixNms."""

    def rule(application: Application) -> Lowered:
        attrs = {name: application.number(name, -1) for name in ("nms_top_k", "keep_top_k")}
        op = "openvino::MatrixNms" if decay else "openvino::MulticlassNms"
        return Lowered(op, attrs={**attrs, "decay": int(decay)})

    return rule


def _box(application: Application) -> dict[str, int]:
    return {
        "output_height": application.number("pooled_h", 1),
        "output_width": application.number("pooled_w", 1),
        "sampling_ratio": application.number("sampling_ratio"),
    }


def roi_align(application: Application) -> Lowered:
    """ROIAlign: regions and the images that they are in are inputs."""
    return Lowered("RoiAlign", attrs={**_box(application), "mode": application.text("mode", "avg")})


def rotated_regions(application: Application) -> Lowered:
    """ROIAlignRotated: regions have an angle too."""
    box = _box(application)
    size = (box["output_height"], box["output_width"])
    return Lowered("openvino::ROIAlignRotated", attrs={**box, "pooled_shape": size})


def roi_pooling(application: Application) -> Lowered:
    """ROIPooling: the largest, or a bilinear average."""
    box = (application.number("pooled_h", 1), application.number("pooled_w", 1))
    op = "openvino::ROIPooling" if application.text("method") == "bilinear" else "MaxRoiPool"
    return Lowered(op, attrs={"pooled_shape": box})


def psroi_pooling(application: Application) -> Lowered:
    """PSROIPooling: each cell from channels of its own."""
    size = application.number("group_size", 1)
    return Lowered("openvino::PSROIPooling", attrs=_cells(application, size, size))


def deformable_psroi(application: Application) -> Lowered:
    """DeformablePSROIPooling: cells are moved by offsets."""
    size = application.number("group_size", 1)
    bins = application.number("spatial_bins_x", 1) * application.number("spatial_bins_y", 1)
    return Lowered("openvino::DeformablePSROIPooling", attrs={**_cells(application, size, size), "bins": bins})


def _cells(application: Application, rows: int, columns: int) -> dict[str, object]:
    return {"channels": application.number("output_dim", 1), "pooled_shape": (rows, columns)}


def _list(application: Application, name: str) -> tuple[str, ...]:
    said = application.text(name)
    return tuple([part.strip() for part in said.split(",") if part.strip()])


def priors(application: Application) -> Lowered:
    """PriorBox and PriorBoxClustered: how many boxes each place has.

    https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/detection/prior-box-8.html
    """
    name = application.layer.type
    if name.lower() == "priorboxclustered":
        return Lowered("openvino::PriorBoxClustered", attrs={"boxes": max(len(_list(application, "width")), 1)})
    ratios = {1.0}
    for ratio in map(float, _list(application, "aspect_ratio")):
        ratios |= {ratio, 1 / ratio} if application.flag("flip") and ratio else {ratio}
    small, large = len(_list(application, "min_size")), len(_list(application, "max_size"))
    fixed, ratio_count = len(_list(application, "fixed_size")), len(ratios)
    if fixed:
        fixed_ratios = len(_list(application, "fixed_ratio"))
        densities = [int(float(part)) for part in _list(application, "density")]
        each = fixed_ratios or ratio_count
        boxes = sum(each * density**2 for density in densities) or fixed * each
    else:
        all_sizes = application.flag("scale_all_sizes", True)
        boxes = (ratio_count * small if all_sizes else ratio_count + small - 1) + large
    return Lowered("openvino::PriorBox", attrs={"boxes": max(boxes, 1)})


def detection_output(application: Application) -> Lowered:
    """DetectionOutput: boxes, scores and priors; the classes follow from the scores where no attribute has them."""
    scores, said = (application.shape(place) for place in (1, 2))
    width = 4 if application.flag("normalized") else 5
    priors_ = (said[-1] or 0) // width if said else 0
    classes = application.number("num_classes")
    if not classes and len(scores) == 2 and scores[1] and priors_:
        classes = scores[1] // priors_
    shared = application.flag("share_location", True)
    top = application.number("top_k", -1)
    keep = application.ints("keep_top_k")
    attrs: dict[str, object] = {"classes": classes or 1, "top_k": top, "keep_top_k": keep[0] if keep else -1}
    if priors_:
        attrs |= {
            "priors": priors_,
            "boxes": priors_ if shared else priors_ * (classes or 1),
            "candidates": min(top, priors_) if top > 0 else priors_,
        }
    return Lowered("openvino::DetectionOutput", attrs=attrs)


def proposal(application: Application) -> Lowered:
    """Proposal: anchors from ratios and scales at each place."""
    scores = application.shape(0)
    each = max(len(_list(application, "ratio")), 1) * max(len(_list(application, "scale")), 1)
    places = (scores[2] or 0) * (scores[3] or 0) if len(scores) == 4 else 0
    attrs = {"kept": application.number("post_nms_topn", 1)}
    if places:
        attrs |= {"anchors": each * places, "candidates": min(application.number("pre_nms_topn", 1), each * places)}
    return Lowered("openvino::Proposal", attrs=attrs)


def generated(op: str) -> Rule:
    """The rule for proposals of a network with regions."""

    def rule(application: Application) -> Lowered:
        attrs = {"kept": application.number("post_nms_count", 1), "candidates": application.number("pre_nms_count", 1)}
        return Lowered(f"openvino::{op}", attrs=attrs)

    return rule


def numbers(op: str, names: Mapping[str, str]) -> Rule:
    """The rule for a layer that has whole numbers among its attributes: name of the house -> name of the file."""

    def rule(application: Application) -> Lowered:
        attrs = {name: application.number(said) for name, said in names.items()}
        return Lowered(f"openvino::{op}", attrs=attrs)

    return rule


def yolo(application: Application) -> Lowered:
    """RegionYolo."""
    names = ("axis", "end_axis", "coords", "classes", "num")
    attrs: dict[str, object] = {name: application.number(name) for name in names}
    attrs |= {"do_softmax": int(application.flag("do_softmax", True)), "mask": application.ints("mask")}
    return Lowered("openvino::RegionYolo", attrs=attrs)


def embedding(op: str, weights: int, bags: int = 1) -> Rule:
    """The rule for sums of rows of a table; the input of a place weighs them, the one of another counts the bags."""

    def rule(application: Application) -> Lowered:
        attrs = {
            "weighted": int(application.inputs > weights),
            "reduction": application.text("reduction", "sum"),
            "bags": bags,
        }
        return Lowered(f"openvino::{op}", attrs=attrs)

    return rule
