"""Caffe layers that compute each element by itself: activations, powers, scaling, combining.

Parameters as in BVLC Caffe, src/caffe/proto/caffe.proto; Axpy as in SENet, ReLU6 as in MobileNet's forks, Mish and
Axpy as in the forks that introduced them.
"""

from __future__ import annotations

from flopwise.formats.caffe.layers.place import Extents, Lowered, Place, Row, Rule, Weight, same, show


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
}
