"""Layers as operators of the house: windows, recurrences, movement, detection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flopwise.formats.kit.lowering import Lowered, View
from flopwise.formats.openvino.decode import Layer
from flopwise.graph import Shape
from flopwise.operators import shape
from flopwise.operators.shape import Element, FromInput, ShapeRule
from flopwise.operators.tables import row


class Application(NamedTuple):
    """A layer with what is known of its inputs."""

    layer: Layer
    #: The elements of an input that is stored and small; None for any other.
    elements: Callable[[int], tuple[Element, ...] | None]

    @property
    def version(self) -> int:
        """Number of its operator set; 0 for one that has none."""
        digits = self.layer.version.removeprefix("opset")
        return int(digits) if digits.isdecimal() and len(digits) < 4 else 0

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.layer.inputs)

    def shape(self, place: int) -> tuple[int | None, ...]:
        """The extents that the file states of an input, None for open ones; () where it states none."""
        return tuple(self.layer.inputs[place].dims) if place < self.inputs else ()

    def text(self, name: str, default: str = "") -> str:
        """An attribute in lower case."""
        return self.layer.data.get(name, default).lower()

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is true or false."""
        said = self.text(name)
        return said in ("true", "1") if said else default

    def number(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number.

        Raises:
            ValueError: it is none.
        """
        said = self.text(name)
        return int(float(said)) if said else default

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute that is a number.

        Raises:
            ValueError: it is none.
        """
        return float(self.text(name) or default)

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers; () where it is left out.

        Raises:
            ValueError: it is none.
        """
        said = self.layer.data.get(name, "").strip()
        return tuple([int(part) for part in said.split(",")]) if said else ()


#: How a layer is lowered.
Rule = Callable[[Application], Lowered]

#: The shape is the one that the file states: a setting is not at hand.
AS_STATED: ShapeRule = shape.by("openvino:as_stated")


def same(op: str, **attrs: object) -> Rule:
    """The rule for a layer that takes what the operator of the house takes."""
    lowered = Lowered(op, attrs=attrs)
    return lambda application: lowered


def own(name: str, inputs: tuple[int, ...] | None = None, **attrs: object) -> Rule:
    """The rule for a layer that has a row of its own."""
    lowered = Lowered(f"openvino::{name}", inputs, attrs)
    return lambda application: lowered


def axes_of(application: Application, place: int) -> tuple[int, ...] | None:
    """The whole numbers in an input; None where they are not at hand."""
    elements = application.elements(place) if place < application.inputs else None
    if elements is None or not all(isinstance(element, int) for element in elements):
        return None
    return elements


def axis_of(application: Application, place: int) -> int | None:
    """The whole number in an input; None where it is not at hand."""
    axes = axes_of(application, place)
    return axes[0] if axes is not None and len(axes) == 1 else None


def joined(*axes: Sequence[int]) -> View:
    """The view in which axes that lie next to each other are one; each group names the axes of one extent."""

    def view(shape: Shape) -> Shape:
        made: list[int] = []
        for group in axes:
            extent: int = 1
            for axis in group:
                extent = extent * shape[axis]
            made.append(extent)
        return (*made, *shape[sum(map(len, axes)) :])

    return view


def batched(shape: Shape) -> Shape:
    """With an axis of one in front."""
    return (1, *shape)


# Convolutions, poolings and what else lays windows over images.

#: How padding is called in the house.
_PADDING = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}

#: How rounding is called there: as ONNX rounds up, and so that windows may start behind the image.
_ROUNDING = {"ceil": 2, "ceil_torch": 1}


def _windows(application: Application, *kernel: str) -> dict[str, object]:
    """The attributes that say how windows lie."""
    attrs: dict[str, object] = {"auto_pad": _PADDING.get(application.text("auto_pad"), "NOTSET")}
    before, after = application.ints("pads_begin"), application.ints("pads_end")
    if before or after:
        attrs["pads"] = (*before, *after)
    for name, said in (("strides", "strides"), ("dilations", "dilations"), *(("kernel_shape", one) for one in kernel)):
        if numbers := application.ints(said):
            attrs[name] = numbers
    return attrs


def _groups(application: Application) -> int:
    shape_ = application.shape(1)
    return shape_[0] or 1 if shape_ else 1


def convolution(application: Application) -> Lowered:
    """Convolution: the weights are (outputs, channels, kernel)."""
    return Lowered("Conv", (0, 1), {**_windows(application), "group": 1})


def grouped(application: Application) -> Lowered:
    """GroupConvolution: the weights are (groups, outputs, channels of a group, kernel)."""
    attrs = {**_windows(application), "group": _groups(application)}
    return Lowered("Conv", (0, 1), attrs, shape.by("openvino:grouped_conv"), views={1: joined((0, 1))})


def _transposed(application: Application) -> dict[str, object]:
    attrs = _windows(application)
    rank = max(len(application.shape(0)) - 2, 0)
    attrs.setdefault("strides", (1,) * rank)
    attrs.setdefault("dilations", (1,) * rank)
    if more := application.ints("output_padding"):
        attrs["output_padding"] = more
    return attrs


def backprop(application: Application) -> Lowered:
    """ConvolutionBackpropData: the weights are (inputs, outputs, kernel)."""
    attrs = {**_transposed(application), "group": 1}
    return Lowered("ConvTranspose", None, attrs, shape.by("openvino:transposed_conv"), shows=2)


def grouped_backprop(application: Application) -> Lowered:
    """GroupConvolutionBackpropData: the weights are (groups, inputs of a group, outputs of a group, kernel)."""
    attrs = {**_transposed(application), "group": _groups(application)}
    rule = shape.by("openvino:transposed_conv")
    return Lowered("ConvTranspose", None, attrs, rule, views={1: joined((0, 1))}, shows=2)


def binary(application: Application) -> Lowered:
    """BinaryConvolution: weights of one bit, whose shape is that of a convolution's."""
    from flopwise.operators.tables import row

    return Lowered("openvino::BinaryConvolution", (0, 1), {**_windows(application), "group": 1}, row("Conv").shape)


def deformable(application: Application) -> Lowered:
    """DeformableConvolution: the image, offsets, weights and a mask."""
    attrs = {
        **_windows(application),
        "group": application.number("group", 1),
        "offset_group": application.number("deformable_group", 1),
    }
    return Lowered("DeformConv", (0, 2, 1, -1, 3) if application.inputs > 3 else (0, 2, 1), attrs)


def _pooling(application: Application) -> dict[str, object]:
    rank = max(len(application.shape(0)) - 2, 0)
    attrs = {**_windows(application, "kernel"), "ceil_mode": _ROUNDING.get(application.text("rounding_type"), 0)}
    attrs.setdefault("strides", (1,) * rank)
    attrs.setdefault("pads", (0,) * (2 * rank))
    return attrs


def max_pool(application: Application) -> Lowered:
    """MaxPool, with the places of the largest from operator set 8 on."""
    return Lowered("MaxPool", (0,), _pooling(application), shape.by("openvino:pool"))


def average_pool(application: Application) -> Lowered:
    """AvgPool, with padding among what is averaged or without."""
    attrs = {**_pooling(application), "count_include_pad": int(not application.flag("exclude-pad"))}
    return Lowered("AveragePool", (0,), attrs, shape.by("openvino:pool"))


def adaptive(op: str) -> Rule:
    """The rule for a pooling to a size; axes are those behind the channels."""

    def rule(application: Application) -> Lowered:
        rank = max(len(application.shape(0)) - 2, 1)
        return Lowered(f"openvino::{op}", None, {"axes": rank})

    return rule


def patches(application: Application) -> Lowered:
    """ExtractImagePatches."""
    attrs = {
        "kernel_shape": application.ints("sizes"),
        "strides": application.ints("strides"),
        "dilations": application.ints("rates"),
        "auto_pad": _PADDING.get(application.text("auto_pad"), "VALID"),
    }
    return Lowered("openvino::ExtractImagePatches", (0,), attrs)


def columns(application: Application) -> Lowered:
    """Col2Im: what windows hold is added up to an image."""
    return Lowered("Col2Im", None, _windows(application))


# Recurrent layers: whole sequences, and single steps of them.

#: Operator of the house -> its activations where the file names none.
_DEFAULT = {"LSTM": "sigmoid,tanh,tanh", "GRU": "sigmoid,tanh", "RNN": "tanh"}


def _attrs(application: Application, op: str) -> dict[str, object]:
    names = tuple([name.strip() for name in application.text("activations", _DEFAULT[op]).split(",") if name.strip()])
    direction = application.text("direction", "forward")
    attrs: dict[str, object] = {"direction": direction, "layout": 1, "hidden_size": application.number("hidden_size")}
    attrs["activations"] = names * (2 if direction == "bidirectional" else 1)
    if application.real("clip"):
        attrs["clip"] = application.real("clip")
    if application.flag("linear_before_reset"):
        attrs["linear_before_reset"] = 1
    if application.flag("input_forget"):
        attrs["input_forget"] = 1
    return attrs


def sequence(op: str) -> Rule:
    """The rule for a sequence: X, the states, lengths, W, R, B; the batch comes first."""
    states = 2 if op == "LSTM" else 1

    def rule(application: Application) -> Lowered:
        first = 1 + states
        places = (0, first + 1, first + 2, first + 3, first, *range(1, first))
        return Lowered(op, places, _attrs(application, op), shape.by("openvino:sequence"))

    return rule


def cell(op: str) -> Rule:
    """The rule for one step: X, the states, W, R, B, without axes of steps and directions."""
    states = 2 if op == "LSTM" else 1

    def rule(application: Application) -> Lowered:
        first = 1 + states
        bias = first + 2 if application.inputs > first + 2 else -1
        places = (0, first, first + 1, bias, -1, *range(1, first))
        views = {place: batched for place, taken in enumerate(places) if taken >= 0}
        return Lowered(op, places, _attrs(application, op), shape.by("openvino:cell"), views=views)

    return rule


# Layers that move, pick, repeat or resize; their settings are inputs, which are attributes in the house or not.


def reshape(application: Application) -> Lowered:
    """Reshape: 0 stands for the extent of the input with special_zero."""
    return Lowered("Reshape", attrs={"allowzero": int(not application.flag("special_zero"))})


def transpose(application: Application) -> Lowered:
    """Transpose: the order of the axes is an input; an empty one turns them round."""
    return Lowered("Transpose", (0,), settings={"perm": FromInput(1, many=True)})


def split(application: Application) -> Lowered:
    """Split: the axis is an input, the number of parts an attribute."""
    return Lowered("Split", (0,), {"num_outputs": application.number("num_splits", 1)}, settings={"axis": FromInput(1)})


def variadic_split(application: Application) -> Lowered:
    """VariadicSplit: the axis and the lengths are inputs."""
    return Lowered("Split", (0, 2), settings={"axis": FromInput(1)})


def gather(application: Application) -> Lowered:
    """Gather: the axis is an input; with batch_dims the first axes are those of the indices too."""
    batch = application.number("batch_dims")
    return Lowered("Gather", (0, 1), {"batch_dims": batch} if batch else {}, settings={"axis": FromInput(2)})


def gather_nd(application: Application) -> Lowered:
    """GatherND: in operator set 5 the axes of the batch become one."""
    rule = shape.by("openvino:gather_nd") if application.version == 5 else None
    return Lowered("GatherND", attrs={"batch_dims": application.number("batch_dims")}, shape=rule)


def scatter_elements(application: Application) -> Lowered:
    """ScatterElementsUpdate: the axis is an input."""
    reduction = {"sum": "add", "prod": "mul"}.get(application.text("reduction", "none"), application.text("reduction"))
    attrs = {"reduction": reduction or "none"}
    return Lowered("ScatterElements", (0, 1, 2), attrs, settings={"axis": FromInput(3)})


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


# Layers on boxes and regions, and lookups of embeddings: their settings as the rows of the house name them.


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
