"""Layers that move, pick, repeat or resize; their settings are inputs, which are attributes in the house or not."""

from __future__ import annotations

from flopwise.formats.openvino.lower.lowered import AS_STATED, Application, Lowered, Rule, axes_of, axis_of
from flopwise.operators import shape
from flopwise.operators.tables import row


def reshape(application: Application) -> Lowered:
    """Reshape: 0 stands for the extent of the input with special_zero."""
    return Lowered("Reshape", attrs={"allowzero": int(not application.flag("special_zero"))})


def transpose(application: Application) -> Lowered:
    """Transpose: the order of the axes is an input; an empty one turns them round."""
    order = axes_of(application, 1)
    if order is None:
        return Lowered("Transpose", (0, 1), shape=AS_STATED)
    return Lowered("Transpose", (0,), {"perm": order} if order else {})


def split(application: Application) -> Lowered:
    """Split: the axis is an input, the number of parts an attribute."""
    axis = axis_of(application, 1)
    if axis is None:
        return Lowered("Split", (0,), shape=AS_STATED)
    return Lowered("Split", (0,), {"axis": axis, "num_outputs": application.number("num_splits", 1)})


def variadic_split(application: Application) -> Lowered:
    """VariadicSplit: the axis and the lengths are inputs."""
    axis = axis_of(application, 1)
    if axis is None:
        return Lowered("Split", (0, 2), shape=AS_STATED)
    rule = shape.by("openvino:variadic_split")
    return Lowered("Split", (0, 2), {"axis": axis}, rule, shape.elements("structure:split"))


def gather(application: Application) -> Lowered:
    """Gather: the axis is an input; with batch_dims the first axes are those of the indices too."""
    axis, batch = axis_of(application, 2), application.number("batch_dims")
    if axis is None:
        return Lowered("Gather", (0, 1), shape=AS_STATED)
    if batch < 0:
        batch += len(application.shape(1))
    if not batch:
        return Lowered("Gather", (0, 1), {"axis": axis})
    return Lowered("Gather", (0, 1), {"axis": axis, "batch_dims": batch}, shape.by("tflite:gathered"))


def gather_nd(application: Application) -> Lowered:
    """GatherND: in operator set 5 the axes of the batch become one."""
    rule = shape.by("openvino:gather_nd") if application.version == 5 else None
    return Lowered("GatherND", attrs={"batch_dims": application.number("batch_dims")}, shape=rule)


def scatter_elements(application: Application) -> Lowered:
    """ScatterElementsUpdate: the axis is an input."""
    axis = axis_of(application, 3)
    reduction = {"sum": "add", "prod": "mul"}.get(application.text("reduction", "none"), application.text("reduction"))
    attrs: dict[str, object] = {"reduction": reduction or "none"}
    return Lowered("ScatterElements", (0, 1, 2), attrs if axis is None else {**attrs, "axis": axis})


def scatter_nd(application: Application) -> Lowered:
    """ScatterNDUpdate."""
    reduction = {"sum": "add", "prod": "mul"}.get(application.text("reduction"), application.text("reduction"))
    return Lowered("ScatterND", attrs={"reduction": "none" if reduction in ("", "sub") else reduction})


def strided_slice(application: Application) -> Lowered:
    """StridedSlice: begin, end and strides, of which masks leave some out."""
    names = {
        "begin_mask": "begin_mask",
        "end_mask": "end_mask",
        "new_axis_mask": "new_axis_mask",
        "shrink_axis_mask": "shrink_axis_mask",
        "ellipsis_mask": "ellipsis_mask",
    }
    masks = {name: application.ints(said) for name, said in names.items()}
    attrs = {name: sum(1 << place for place, bit in enumerate(mask) if bit) for name, mask in masks.items()}
    places = (0, 1, 2, -1, 3) if application.inputs > 3 else (0, 1, 2)
    rule = shape.by("tflite:strided_slice")
    return Lowered("Slice", places, attrs, rule, shape.elements("tflite:strided_slice"))


def slice_(application: Application) -> Lowered:
    """Slice: start, stop, step and axes."""
    return Lowered("Slice", (0, 1, 2, 4, 3) if application.inputs > 4 else (0, 1, 2, -1, 3))


def pad(application: Application) -> Lowered:
    """Pad: what is before, what is after, and the value are inputs."""
    attrs = {"mode": application.text("pad_mode", "constant")}
    return Lowered("Pad", attrs=attrs, shape=shape.by("openvino:padded"))


def broadcast(application: Application) -> Lowered:
    """Broadcast: to a shape, which with explicit axes is the result's."""
    if application.text("mode", "numpy") == "explicit":
        return Lowered("Expand", shape=shape.by("openvino:named"), shows=2)
    return Lowered("Expand", (0, 1))


def blocks(op: str) -> Rule:
    """The rule for blocks of places that become channels, or channels that become blocks."""
    name = "depth_to_space" if op == "DepthToSpace" else "space_to_depth"

    def rule(application: Application) -> Lowered:
        attrs = {"blocksize": application.number("block_size", 1)}
        return Lowered(op, attrs=attrs, shape=shape.by(f"openvino:{name}"))

    return rule


def squeeze(application: Application) -> Lowered:
    """Squeeze: the axes are an input."""
    known = application.inputs < 2 or axes_of(application, 1) is not None
    return Lowered("Squeeze", shape=None if known else AS_STATED, value=None if known else row("Squeeze").value)


def unique(application: Application) -> Lowered:
    """Unique: of all elements, or along the axis that an input names."""
    if application.inputs < 2:
        return Lowered("Unique")
    axis = axis_of(application, 1)
    return Lowered("Unique", (0,), {"axis": axis}) if axis is not None else Lowered("Unique", (0,), shape=AS_STATED)


#: How ways to interpolate are called in the house, and whether filters grow where the image shrinks.
_MODES = {
    "nearest": ("nearest", False),
    "linear": ("linear", False),
    "linear_onnx": ("linear", False),
    "cubic": ("cubic", False),
    "bilinear_pillow": ("linear", True),
    "bicubic_pillow": ("cubic", True),
}


def interpolate(application: Application) -> Lowered:
    """Interpolate: operator set 1 takes sizes, 4 sizes and scales, 11 one of both; the axes are an input or not."""
    mode, antialias = _MODES.get(application.text("mode"), ("linear", False))
    attrs: dict[str, object] = {"mode": mode}
    if antialias or application.flag("antialias"):
        attrs["antialias"] = 1
    by_sizes = application.text("shape_calculation_mode", "sizes") == "sizes"
    places: tuple[int, ...]
    if application.version < 4:
        places, axes = (0, -1, -1, 1), application.ints("axes") or None
    elif application.version < 11:
        places = (0, -1, -1, 1) if by_sizes else (0, -1, 2)
        axes = axes_of(application, 3) if application.inputs > 3 else tuple(range(len(application.shape(0))))
    else:
        places = (0, -1, -1, 1) if by_sizes else (0, -1, 1)
        axes = axes_of(application, 2) if application.inputs > 2 else tuple(range(len(application.shape(0))))
    padded = any(application.ints("pads_begin")) or any(application.ints("pads_end"))
    if axes is None or (padded and not by_sizes):
        return Lowered("Resize", places, attrs, AS_STATED)
    return Lowered("Resize", places, {**attrs, "axes": axes})


def top_k(application: Application) -> Lowered:
    """TopK: K is an input."""
    attrs = {"axis": application.number("axis", -1), "largest": int(application.text("mode", "max") == "max")}
    return Lowered("TopK", attrs=attrs)


def shape_of(application: Application) -> Lowered:
    """ShapeOf."""
    return Lowered("Shape")


def convert(application: Application) -> Lowered:
    """Convert: the type is that of the result."""
    result = application.layer.outputs[0].dtype if application.layer.outputs else None
    return Lowered("Cast", attrs={"to": result or "float32"})


def bit_shift(direction: str) -> Rule:
    """The rule for a shift."""
    return lambda application: Lowered("BitShift", attrs={"direction": direction})


def drawn(application: Application) -> Lowered:
    """RandomUniform: the shape and the bounds are inputs."""
    return Lowered("RandomUniform", None, {}, shape.by("openvino:made"))


def sampled(application: Application) -> Lowered:
    """Multinomial: the number of samples is an input."""
    number = axis_of(application, 1)
    attrs = {} if number is None else {"sample_size": number}
    return Lowered("Multinomial", None, attrs, shape.by("openvino:drawn"), shows=1)
