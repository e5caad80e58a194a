"""Caffe layers that normalise: by neighbouring channels, by batch statistics, by norms, and softmax.

Stored blobs as in BVLC Caffe, src/caffe/layers/batch_norm_layer.cpp and lrn_layer.cpp; BN as in PSPNet and
caffe-segnet, Normalize as in the SSD branch, scale_bias as in NVIDIA's fork.
"""

from __future__ import annotations

from flopwise.formats.caffe.layers.place import Lowered, Place, Row, Weight, show

_REGIONS = ("ACROSS_CHANNELS", "WITHIN_CHANNEL")


def _lrn_op(place: Place) -> str:
    across = place.choice(place.param("lrn_param"), "norm_region", _REGIONS) == "ACROSS_CHANNELS"
    return "LRN" if across else "caffe::LRNWithinChannel"


def lrn(place: Place, op: str) -> Lowered:
    """local_size (5, odd) channels, or a square of that side within one channel."""
    message = place.param("lrn_param")
    size = place.at_least(1, message.int("local_size", 5), "local_size")
    if size % 2 == 0:
        raise place.error(f"local_size is {size}, must be odd")
    attrs = {"size": size, "alpha": message.float("alpha", 1.0), "beta": message.float("beta", 0.75)}
    return Lowered(op, (place.bottom(),), attrs={**attrs, "bias": message.float("k", 1.0)})


def batch_norm(place: Place, op: str) -> Lowered:
    """Mean, variance and the factor that both are divided by; in one fork also a scale and a bias (scale_bias)."""
    message = place.param("batch_norm_param")
    shape = place.bottom()
    channels = shape[place.axis(1, len(shape))] if len(shape) > 1 else 1
    stored = message.bool("use_global_stats", place.layer.phase != "TRAIN")
    span = (channels,)
    weights: tuple[Weight, ...] = (("mean", span, "buffer"), ("variance", span, "buffer"), ("factor", (1,), "buffer"))
    affine = message.bool("scale_bias", False)
    if affine:
        weights = *weights, ("weight", span, "weight"), ("bias", span, "weight")
    return Lowered(op, (shape,), weights, {"use_global_stats": int(stored), "scale_bias": int(affine)})


def _bn_op(place: Place) -> str:
    """The operator of a BN layer: caffe-segnet's has scale and shift alone, recognised by its two blobs or its
    bn_mode.
    """
    blobs = place.layer.blobs
    folded = len(blobs) == 2 if blobs else place.param("bn_param").has("bn_mode")
    return "caffe::BN" if folded else "BatchNormalization"


def bn(place: Place, op: str) -> Lowered:
    """Scale and shift, and, except in caffe-segnet, mean and variance, each of shape [1, C, 1, 1]."""
    message = place.param("bn_param")
    shape = place.bottom()
    axis = place.axis(message.int("axis", 1), len(shape))
    span = tuple(shape[axis] if i == axis else 1 for i in range(max(4, len(shape))))
    weights: tuple[Weight, ...] = (("weight", span, "weight"), ("bias", span, "weight"))
    outputs = (shape, *((span,) * (len(place.layer.tops) - 1)))
    if op == "caffe::BN":
        learning = place.choice(message, "bn_mode", ("LEARN", "INFERENCE")) == "LEARN"
        return Lowered(op, outputs, weights, {"learning": int(learning)})
    weights = *weights, ("mean", span, "buffer"), ("variance", span, "buffer")
    return Lowered(op, outputs, weights)


def mvn(place: Place, op: str) -> Lowered:
    """Each channel of each sample, or each sample (across_channels), to mean zero and, as a rule, variance one."""
    message = place.param("mvn_param")
    across = message.bool("across_channels", False)
    attrs = {"across_channels": int(across), "normalize_variance": int(message.bool("normalize_variance", True))}
    return Lowered(op, (place.bottom(),), attrs=attrs)


def normalize(place: Place, op: str) -> Lowered:
    """Each sample, or each position (across_spatial false), to norm one, × a stored scale, one or one per channel."""
    message = place.param("norm_param")
    shape = place.bottom()
    if len(shape) < 2:
        raise place.error(f"needs at least 2 dimensions, its bottom has shape {show(shape)}")
    shared = message.bool("channel_shared", True)
    weights: tuple[Weight, ...] = (("weight", () if shared else (shape[1],), "weight"),)
    return Lowered(op, (shape,), weights, {"across_spatial": int(message.bool("across_spatial", True))})


def softmax(place: Place, op: str) -> Lowered:
    """Along one axis, the channels unless `axis` says otherwise."""
    shape = place.bottom()
    axis = place.axis(place.param("softmax_param").int("axis", 1), len(shape))
    return Lowered(op, (shape,), attrs={"axis": axis})


LAYERS: dict[str, Row] = {
    "LRN": Row(_lrn_op, lrn),
    "BatchNorm": Row("caffe::BatchNorm", batch_norm, stores=True),
    "BN": Row(_bn_op, bn, tops=(1, 3), stores=True),
    "Bn": Row(_bn_op, bn, tops=(1, 3), stores=True),
    "MVN": Row("caffe::MVN", mvn),
    "Normalize": Row("caffe::Normalize", normalize, stores=True),
    "Softmax": Row("Softmax", softmax),
}
