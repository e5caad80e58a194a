"""Caffe's layers element by element, normalisations, recurrence, losses and what is measured."""

from __future__ import annotations

from functools import partial

from flopwise.formats.caffe.place import Extents, Lowered, Place, Row, Rule, Weight, product, same, show

# Caffe layers that compute each element by itself: activations, powers, scaling, combining.
#
# Parameters as in BVLC Caffe, src/caffe/proto/caffe.proto; Axpy as in SENet, ReLU6 as in MobileNet's forks, Mish
# and Axpy as in the forks that introduced them.


def relu(place: Place, op: str) -> Lowered:
    """max(x, 0), or negative_slope × x below zero."""
    slope = place.param("relu_param").float("negative_slope", 0.0)
    return Lowered(op, (place.bottom(),), attrs={"alpha": slope} if slope else {})


def clip(place: Place, op: str) -> Lowered:
    """x between min and max, both of which must be given."""
    message = place.param("clip_param")
    for bound in ("min", "max"):
        if not message.has(bound):
            raise place.error(f"has no {bound}")
    return Lowered(op, (place.bottom(),), attrs={bound: message.float(bound, 0.0) for bound in ("min", "max")})


def prelu(place: Place, op: str) -> Lowered:
    """One slope per channel, or one for all (channel_shared)."""
    shape = place.bottom()
    if len(shape) < 2:
        raise place.error(f"needs at least 2 dimensions, its bottom has shape {show(shape)}")
    shared = place.param("prelu_param").bool("channel_shared", False)
    return Lowered(op, (shape,), (("weight", () if shared else (shape[1],), "weight"),))


def _with(attr: str, message: str, field: str, default: float) -> Rule:
    """A curve that one number shapes."""
    return lambda place, op: Lowered(op, (place.bottom(),), attrs={attr: place.param(message).float(field, default)})


def power(place: Place, op: str) -> Lowered:
    """(shift + scale × x) ^ power."""
    message = place.param("power_param")
    attrs = {"power": message.float("power", 1.0), "scale": message.float("scale", 1.0)}
    return Lowered(op, (place.bottom(),), attrs={**attrs, "shift": message.float("shift", 0.0)})


def _curve(place: Place) -> tuple[str, dict[str, float]]:
    """Name of the parameters of Exp and Log, and their values."""
    name = f"{place.layer.type.lower()}_param"
    message = place.param(name)
    defaults = {"base": -1.0, "scale": 1.0, "shift": 0.0}
    return name, {key: message.float(key, value) for key, value in defaults.items()}


def _curve_op(place: Place) -> str:
    """ONNX's operator when base, scale and shift are left at their defaults."""
    _, values = _curve(place)
    plain = list(values.values()) == [-1.0, 1.0, 0.0]
    return place.layer.type if plain else f"caffe::{place.layer.type}"


def curve(place: Place, op: str) -> Lowered:
    """base ^ (shift + scale × x), and log to the base of (shift + scale × x); base −1 stands for e."""
    name, values = _curve(place)
    if values["base"] != -1.0 and not values["base"] > 0.0:
        raise place.error(f"base in {name} is {values['base']:g}, must be positive, or -1 for e")
    return Lowered(op, (place.bottom(),), attrs=values if op.startswith("caffe::") else {})


def _span(place: Place, axis: int, axes: int) -> Extents:
    """The extents of the first bottom that a stored scale or bias covers."""
    shape = place.bottom()
    if axes == 0:
        return ()
    start = place.axis(axis, len(shape))
    if axes < -1:
        raise place.error(f"num_axes is {axes}, must be at least -1")
    end = len(shape) if axes == -1 else start + axes
    if end > len(shape):
        raise place.error(f"{axes} axes from axis {start} on do not fit a blob of shape {show(shape)}")
    return shape[start:end]


def _covered(place: Place, axis: int) -> Extents:
    """The shape of the second bottom, which must be that of the first one from the axis on."""
    shape, second = place.bottom(0), place.bottom(1)
    if not second:
        return second
    start = place.axis(axis, len(shape))
    if second != shape[start : start + len(second)]:
        raise place.error(f"its bottoms {show(shape)} and {show(second)} do not agree from axis {start} on")
    return second


def scale(place: Place, op: str) -> Lowered:
    """x × a stored scale, or × the second bottom; + a stored bias if bias_term (default false)."""
    message = place.param("scale_param")
    axis = message.int("axis", 1)
    weights: tuple[Weight, ...] = ()
    if len(place.bottoms) == 2:
        covered = _covered(place, axis)
    else:
        covered = _span(place, axis, message.int("num_axes", 1))
        weights = (("weight", covered, "weight"),)
    bias = message.bool("bias_term", False)
    if bias:
        weights = *weights, ("bias", covered, "weight")
    return Lowered(op, (place.bottom(),), weights, {"bias_term": int(bias)})


def bias(place: Place, op: str) -> Lowered:
    """x + a stored bias, or + the second bottom."""
    message = place.param("bias_param")
    axis = message.int("axis", 1)
    if len(place.bottoms) == 2:
        _covered(place, axis)
        return Lowered(op, (place.bottom(),))
    return Lowered(op, (place.bottom(),), (("bias", _span(place, axis, message.int("num_axes", 1)), "weight"),))


_OPERATIONS = ("PROD", "SUM", "MAX")


def _operation(place: Place) -> str:
    message = place.param("eltwise_param")
    return place.choice(message, "operation", _OPERATIONS) if message.has("operation") else "SUM"


def _eltwise_op(place: Place) -> str:
    """ONNX's operator where one combines as many bottoms in the same way."""
    operation, coefficients = _operation(place), place.param("eltwise_param").floats("coeff")
    if operation == "MAX":
        return "Max"
    if operation == "SUM":
        return "caffe::Eltwise" if any(c != 1.0 for c in coefficients) else "Sum"
    return "Mul" if len(place.bottoms) == 2 else "caffe::Eltwise"


def eltwise(place: Place, op: str) -> Lowered:
    """Product, sum (with coefficients) or maximum of bottoms of one shape."""
    shape, number = place.alike(), len(place.bottoms)
    operation, coefficients = _operation(place), place.param("eltwise_param").floats("coeff")
    if coefficients and (operation != "SUM" or len(coefficients) != number):
        raise place.error(f"has {len(coefficients)} coefficients for the {operation} of {number} bottoms")
    attrs = {"operation": operation, "coeff": list(coefficients)} if op == "caffe::Eltwise" else {}
    return Lowered(op, (shape,), attrs=attrs)


def axpy(place: Place, op: str) -> Lowered:
    """scale × x + y, the scale one number per sample and channel."""
    factor, x, y = place.all_bottoms()
    if x != y or factor[:2] != x[:2] or any(extent != 1 for extent in factor[2:]):
        raise place.error(f"cannot scale {show(x)} by {show(factor)} and add {show(y)}")
    return Lowered(op, (x,))


_SEVERAL = (1, None)


# Caffe layers that normalise: by neighbouring channels, by batch statistics, by norms, and softmax.
#
# Stored blobs as in BVLC Caffe, src/caffe/layers/batch_norm_layer.cpp and lrn_layer.cpp; BN as in PSPNet and
# caffe-segnet, Normalize as in the SSD branch, scale_bias as in NVIDIA's fork.

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


# Caffe's recurrent layers, which unroll into inner products and pointwise layers over T steps of N streams.
#
# Stored blobs in the order in which BVLC Caffe's unrolled net makes them, src/caffe/layers/recurrent_layer.cpp,
# lstm_layer.cpp and rnn_layer.cpp.


def _streams(place: Place, states: int) -> tuple[Extents, int, int | None]:
    """The shape of x, the number of hidden units, and the elements of the static input for each stream.

    Raises:
        ModelError: bottoms or tops are missing, or their shapes do not go together.
    """
    message = place.param("recurrent_param")
    hidden = place.size(message, "num_output")
    exposed = states if message.bool("expose_hidden", False) else 0
    bottoms, tops = len(place.bottoms), len(place.layer.tops)
    static = bottoms == 3 + exposed
    if bottoms != 2 + static + exposed or tops != 1 + exposed:
        raise place.error(
            f"has {bottoms} bottoms and {tops} tops; needs x, cont, maybe a static input and {exposed} states, "
            f"and {1 + exposed} tops"
        )
    x, marks = place.bottom(0), place.bottom(1)
    if len(x) < 2 or marks != x[:2]:
        raise place.error(f"x of shape {show(x)} and cont of shape {show(marks)} do not agree in steps and streams")
    if not static:
        return x, hidden, None
    side = place.bottom(2)
    if not side or side[0] != x[1]:
        raise place.error(f"its static input of shape {show(side)} does not have {x[1]} streams")
    return x, hidden, product(side[1:])


def _lowered(place: Place, op: str, gates: int, states: int, output: tuple[Weight, ...]) -> Lowered:
    """Products of x, of the static input and of the last step's state for all gates, then what the output needs."""
    x, hidden, static = _streams(place, states)
    steps, streams, inner = x[0], x[1], product(x[2:])
    rows = gates * hidden
    weights: list[Weight] = [("weight_x", (rows, inner), "weight"), ("bias", (rows,), "weight")]
    if static is not None:
        weights.append(("weight_static", (rows, static), "weight"))
    weights.append(("weight_h", (rows, hidden), "weight"))
    exposed = len(place.layer.tops) - 1
    outputs = ((steps, streams, hidden), *(((1, streams, hidden),) * exposed))
    attrs = {"hidden_size": hidden, "static_input": int(static is not None)}
    return Lowered(op, outputs, (*weights, *output), attrs)


def lstm(place: Place, op: str) -> Lowered:
    """[4H, D], [4H], with a static input [4H, Ds], and [4H, H]."""
    return _lowered(place, op, 4, 2, ())


def rnn(place: Place, op: str) -> Lowered:
    """[H, D], [H], with a static input [H, Ds], [H, H]; and for the output [H, H], [H]."""
    hidden = place.size(place.param("recurrent_param"), "num_output")
    return _lowered(place, op, 1, 1, (("weight_o", (hidden, hidden), "weight"), ("bias_o", (hidden,), "weight")))


def lstm_unit(place: Place, op: str) -> Lowered:
    """Cell and output of one step, from the last cell [1, N, H], the gates [1, N, 4H] and the continuation [1, N]."""
    cell, gates, marks = place.all_bottoms()
    if len(cell) != 3 or gates != (*cell[:2], 4 * cell[2]) or marks != cell[:2] or cell[0] != 1:
        raise place.error(f"cannot step from {show(cell)} with gates of shape {show(gates)} and {show(marks)}")
    return Lowered(op, (cell, cell))


# Caffe's losses and measures: each gives one number, some also what they computed on the way.
#
# As in BVLC Caffe, src/caffe/layers/*_loss_layer.cpp and accuracy_layer.cpp; SmoothL1Loss as in Fast R-CNN,
# MultiBoxLoss as in the SSD branch.


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
    "ReLU": Row(lambda p: "LeakyRelu" if p.param("relu_param").float("negative_slope", 0.0) else "Relu", relu),
    "ReLU6": Row("Clip", lambda place, op: Lowered(op, (place.bottom(),), attrs={"min": 0.0, "max": 6.0})),
    "Clip": Row("Clip", clip),
    "PReLU": Row("PRelu", prelu, stores=True),
    # alpha × (exp(x) − 1) below zero.
    "ELU": Row("Elu", _with("alpha", "elu_param", "alpha", 1.0)),
    "Sigmoid": Row("Sigmoid", same),
    "TanH": Row("Tanh", same),
    # x × sigmoid(beta × x).
    "Swish": Row("Swish", _with("alpha", "swish_param", "beta", 1.0)),
    "Mish": Row("Mish", same),
    "AbsVal": Row("Abs", same),
    "BNLL": Row("Softplus", same),
    "Power": Row("caffe::Power", power),
    "Exp": Row(_curve_op, curve),
    "Log": Row(_curve_op, curve),
    # 1 above the threshold, else 0.
    "Threshold": Row("caffe::Threshold", _with("threshold", "threshold_param", "threshold", 0.0)),
    "Dropout": Row("Dropout", same),
    "Scale": Row("caffe::Scale", scale, bottoms=(1, 2), stores=True),
    "Bias": Row("caffe::Bias", bias, bottoms=(1, 2), stores=True),
    "Eltwise": Row(_eltwise_op, eltwise, bottoms=_SEVERAL),
    "Axpy": Row("caffe::Axpy", axpy, bottoms=(3, 3)),
    "LRN": Row(_lrn_op, lrn),
    "BatchNorm": Row("caffe::BatchNorm", batch_norm, stores=True),
    "BN": Row(_bn_op, bn, tops=(1, 3), stores=True),
    "Bn": Row(_bn_op, bn, tops=(1, 3), stores=True),
    "MVN": Row("caffe::MVN", mvn),
    "Normalize": Row("caffe::Normalize", normalize, stores=True),
    "Softmax": Row("Softmax", softmax),
    "LSTM": Row("caffe::LSTM", lstm, (2, 5), (1, 3), stores=True),
    "RNN": Row("caffe::RNN", rnn, (2, 4), (1, 2), stores=True),
    "LSTMUnit": Row("caffe::LSTMUnit", lstm_unit, (3, 3), (2, 2)),
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
