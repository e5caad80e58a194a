"""Caffe's losses and measures: each gives one number, some also what they computed on the way.

As in BVLC Caffe, src/caffe/layers/*_loss_layer.cpp and accuracy_layer.cpp; SmoothL1Loss as in Fast R-CNN, MultiBoxLoss
as in the SSD branch.
"""

from __future__ import annotations

from functools import partial

from flopwise.formats.caffe.layers.place import Extents, Lowered, Place, Row, product, show


def _scalars(place: Place) -> tuple[Extents, ...]:
    """One scalar per top; a loss may be written without a top."""
    return ((),) * len(place.layer.tops)


def loss(place: Place, op: str) -> Lowered:
    """One number."""
    place.all_bottoms()
    return Lowered(op, _scalars(place))


def pairwise_loss(place: Place, op: str) -> Lowered:
    """One number from two bottoms with equally many elements."""
    shapes = place.all_bottoms()
    if product(shapes[0]) != product(shapes[1]):
        raise place.error(f"its bottoms {show(shapes[0])} and {show(shapes[1])} have different numbers of elements")
    return Lowered(op, _scalars(place))


def _with_values(place: Place, op: str, attrs: dict[str, object]) -> Lowered:
    """One number, and as second top what was computed of the first bottom."""
    shape = place.all_bottoms()[0]
    return Lowered(op, ((), shape)[: len(place.layer.tops)], attrs=attrs)


def softmax_loss(place: Place, op: str, param: str = "softmax_param") -> Lowered:
    """One number; the second top holds the probabilities."""
    shape = place.bottom()
    axis = place.axis(place.param(param).int("axis", 1), len(shape))
    return _with_values(place, op, {"axis": axis})


def sigmoid_loss(place: Place, op: str) -> Lowered:
    """One number; the second top holds the sigmoids."""
    pairwise_loss(place, op)
    return _with_values(place, op, {})


def hinge_loss(place: Place, op: str) -> Lowered:
    """One number."""
    message = place.param("hinge_loss_param")
    norm = place.choice(message, "norm", ("", "L1", "L2")) if message.has("norm") else "L1"
    return Lowered(op, loss(place, op).outputs, attrs={"norm": norm or "L1"})


def contrastive_loss(place: Place, op: str) -> Lowered:
    """One number from two bottoms of features and one of similarities."""
    lowered = pairwise_loss(place, op)
    legacy = place.param("contrastive_loss_param").bool("legacy_version", False)
    return Lowered(op, lowered.outputs, attrs={"legacy_version": int(legacy)})


def accuracy(place: Place, op: str) -> Lowered:
    """One number; the second top holds one per class."""
    message = place.param("accuracy_param")
    shape = place.bottom()
    axis = place.axis(message.int("axis", 1), len(shape))
    place.at_least(1, message.int("top_k", 1), "top_k")
    return Lowered(op, ((), (shape[axis],))[: len(place.layer.tops)], attrs={"axis": axis})


_ANY = (0, 1)
_TWO = (0, 2)

LAYERS: dict[str, Row] = {
    "SoftmaxWithLoss": Row("caffe::SoftmaxWithLoss", softmax_loss, (2, 3), _TWO),
    "MultinomialLogisticLoss": Row("caffe::MultinomialLogisticLoss", loss, (2, 2), _ANY),
    "InfogainLoss": Row("caffe::InfogainLoss", partial(softmax_loss, param="infogain_loss_param"), (2, 3), _TWO),
    "SigmoidCrossEntropyLoss": Row("caffe::SigmoidCrossEntropyLoss", sigmoid_loss, (2, 2), _TWO),
    "EuclideanLoss": Row("caffe::EuclideanLoss", pairwise_loss, (2, 2), _ANY),
    "HingeLoss": Row("caffe::HingeLoss", hinge_loss, (2, 2), _ANY),
    "ContrastiveLoss": Row("caffe::ContrastiveLoss", contrastive_loss, (3, 3), _ANY),
    "SmoothL1Loss": Row("caffe::SmoothL1Loss", pairwise_loss, (2, 4), _ANY),
    "MultiBoxLoss": Row("caffe::MultiBoxLoss", loss, (4, 4), _ANY),
    "Accuracy": Row("caffe::Accuracy", accuracy, (2, 2), _TWO),
}
