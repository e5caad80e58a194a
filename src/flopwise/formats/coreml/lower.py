"""The operations of MIL programs as operators of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flopwise.formats.kit.lowering import Lowered
from flopwise.formats.openvino.table import four_axes
from flopwise.graph import Layout, Shape
from flopwise.operators import shape
from flopwise.operators.shape import Element

#: A stated extent; None where it is open.
Extents = tuple["int | None", ...]


class Typed(NamedTuple):
    """The type of a value: element type and extents, None where the file states none."""

    dtype: str | None
    dims: Extents | None


class Operation(NamedTuple):
    """An operation."""

    type: str
    #: Parameter -> the names of the values that are bound to it.
    bound: Mapping[str, tuple[str, ...]]
    #: The elements of a constant by its name; None for what is none, or large.
    elements: Callable[[str], tuple[Element, ...] | None]
    #: The types of values.
    types: Mapping[str, Typed]
    #: The types of its results.
    results: tuple[Typed, ...]

    def has(self, parameter: str) -> bool:
        """True if a parameter is given."""
        return parameter in self.bound

    def shape(self, parameter: str) -> Extents:
        """The stated extents of a parameter; () where none are stated."""
        names = self.bound.get(parameter)
        return self.types[names[0]].dims or () if names and names[0] in self.types else ()

    def constant(self, parameter: str) -> tuple[Element, ...] | None:
        """The elements of a constant parameter."""
        names = self.bound.get(parameter, ())
        return self.elements(names[0]) if len(names) == 1 else None

    def list(self, parameter: str, default: tuple[Element, ...] = ()) -> tuple[Element, ...]:
        """The elements of a parameter that has to be constant.

        Raises:
            ValueError: it is not.
        """
        if parameter not in self.bound:
            return default
        elements = self.constant(parameter)
        if elements is None:
            raise ValueError(f"{parameter} is no constant")
        return elements

    def one(self, parameter: str, default: Element) -> Element:
        """The one element of a parameter that has to be constant.

        Raises:
            ValueError: it is not, or of another type than the default.
        """
        elements = self.list(parameter, (default,))
        kinds = (int, float) if type(default) is float else (type(default),)
        if len(elements) != 1 or type(elements[0]) not in kinds:
            raise ValueError(f"{parameter} is {elements!r:.40}")
        return elements[0]


#: How an operation is lowered.
Rule = Callable[[Operation], Lowered]


# The operations of MIL programs: what each is in the house. All others have rows of their own, or none.

#: The domain of rows of its own.
DOMAIN = "coreml"

#: The shape is the one that the file states.
AS_STATED = shape.by("openvino:as_stated")

_PADDING = {"same": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID", "custom": "NOTSET"}


def _same(op: str, *inputs: str, **attrs: object) -> Rule:
    """The rule for an operation that takes what the operator of the house takes."""
    lowered = Lowered(op, inputs, attrs)
    return lambda o: lowered


def _own(o: Operation, rule: str = "", inputs: tuple[str, ...] | None = ("x",), **attrs: object) -> Lowered:
    """An operation with a row of its own."""
    return Lowered(f"{DOMAIN}::{o.type}", inputs, attrs, shape.by(rule) if rule else None)


def _with(op: str, *inputs: str, **defaults: float) -> Rule:
    """The rule for an operator with numbers among its attributes, which have these defaults."""
    return lambda o: Lowered(op, inputs, {name: o.one(name, default) for name, default in defaults.items()})


def _windows(o: Operation, kernel: Sequence[int | None], default: str = "valid") -> dict[str, object]:
    """The attributes that say how windows lie."""
    rank, mode = len(kernel), str(o.one("pad_type", default)).lower()
    pads = o.list("pad", (0,) * 2 * rank) if mode == "custom" else (0,) * 2 * rank
    return {
        "auto_pad": _PADDING[mode],
        "strides": o.list("strides", (1,) * rank),
        "pads": (*pads[::2], *pads[1::2]),
    }


def _products(o: Operation) -> dict[str, object]:
    kernel = o.shape("weight")[2:]
    return {
        **_windows(o, kernel),
        "dilations": o.list("dilations", (1,) * len(kernel)),
        "group": o.one("groups", 1),
    }


def _conv(o: Operation) -> Lowered:
    return Lowered("Conv", ("x", "weight", "bias"), _products(o))


def _conv_transpose(o: Operation) -> Lowered:
    attrs = _products(o)
    if o.has("output_shape"):
        attrs["output_shape"] = o.list("output_shape")[2:]
    return Lowered("ConvTranspose", ("x", "weight", "bias"), attrs)


def _pool(op: str, **more: object) -> Rule:
    def rule(o: Operation) -> Lowered:
        kernel = o.list("kernel_sizes")
        attrs = {**_windows(o, kernel), "kernel_shape": kernel, "ceil_mode": int(o.one("ceil_mode", False)), **more}
        if op == "AveragePool":
            attrs["count_include_pad"] = int(not o.one("exclude_padding_from_average", False))
        return Lowered(op, ("x",), attrs)

    return rule


def _linear(o: Operation) -> Lowered:
    attrs = {"transB": 1, "keep_num_dims": 1}
    return Lowered("Gemm", ("x", "weight", "bias"), attrs, shape.by("tflite:fully_connected"))


def _matmul(o: Operation) -> Lowered:
    attrs: dict[str, int] = {}
    orders = []
    for parameter, side in zip("xy", "ab", strict=True):
        rank, turned = len(o.shape(parameter)), o.one(f"transpose_{parameter}", False)
        attrs[f"transpose_{side}"] = int(turned)
        orders.append((*range(rank - 2), rank - 1, rank - 2) if turned and rank > 1 else None)
    if not any(attrs.values()):
        return Lowered("MatMul", ("x", "y"))
    return Lowered("MatMul", ("x", "y"), attrs, shape.by("openvino:matmul"), layout=Layout(tuple(orders)))


def _attention(o: Operation) -> Lowered:
    inputs = ("query", "key", "value", "attn_mask")
    views = {} if len(o.shape("query")) == 4 else dict.fromkeys(range(3), four_axes)
    return Lowered("Attention", inputs, {}, shape.by("openvino:attention"), views=views)


#: Operator of the house -> its states and its activations, as parameters with defaults.
_RECURRENT = {
    "LSTM": (
        ("initial_h", "initial_c"),
        (("recurrent_activation", "sigmoid"), ("cell_activation", "tanh"), ("activation", "tanh")),
    ),
    "GRU": (("initial_h",), (("recurrent_activation", "sigmoid"), ("activation", "tanh"))),
    "RNN": (("initial_h",), (("activation", "tanh"),)),
}

#: Activations of recurrent layers that the house calls otherwise.
_ACTIVATIONS = {"sigmoid_hard": "hardsigmoid", "scaled_tanh": "scaledtanh", "linear": "affine"}


def _of_both(dims: Shape) -> Shape:
    """The view of a bias of the recurrent product that has one of the inputs' beside it: as no sum of both."""
    return (*dims, 1)


def _recurrent(op: str) -> Rule:
    states, activations = _RECURRENT[op]

    def rule(o: Operation) -> Lowered:
        both = o.one("direction", "forward") == "bidirectional"
        names = [str(o.one(name, default)).lower() for name, default in activations]
        attrs: dict[str, object] = {
            "direction": o.one("direction", "forward"),
            "activations": tuple([_ACTIVATIONS.get(name, name) for name in names]) * (2 if both else 1),
            "sequence": int(o.one("output_sequence", False)),
        }
        if o.has("clip"):
            attrs["clip"] = o.one("clip", 0.0)
        last = ("input_bias",) if op == "GRU" else ("peephole",) if op == "LSTM" else ()
        back = ("weight_ih_back", "weight_hh_back", "bias_back", "peephole_back") if both else ()
        inputs = ("x", "weight_ih", "weight_hh", "bias", "", *states, *last, *back)
        views = {3: _of_both} if o.has("input_bias") else {}
        return Lowered(op, inputs, attrs, shape.by("coreml:recurrent"), views=views)

    return rule


def _batch_norm(o: Operation) -> Lowered:
    return Lowered("BatchNormalization", ("x", "gamma", "beta", "mean", "variance"), {}, shape.alike)


def _layer_norm(o: Operation) -> Lowered:
    rank = len(o.shape("x"))
    axes = sorted({axis % rank for axis in o.list("axes", tuple(range(rank)))}) if rank else []
    others = [axis for axis in range(rank) if axis not in axes]
    order = (*others, *axes)
    layout = None if order == tuple(range(rank)) else Layout((order,), (order,))
    attrs = {"axis": -len(axes)}
    return Lowered("LayerNormalization", ("x", "gamma", "beta"), attrs, shape.alike, layout=layout)


def _reduction(op: str) -> Rule:
    def rule(o: Operation) -> Lowered:
        attrs: dict[str, object] = {"keepdims": int(o.one("keep_dims", False))}
        if axes := o.list("axes"):
            attrs["axes"] = axes
        return Lowered(op, ("x",), attrs)

    return rule


def _extreme(op: str) -> Rule:
    def rule(o: Operation) -> Lowered:
        return Lowered(op, ("x",), {"axis": o.one("axis", -1), "keepdims": int(o.one("keep_dims", False))})

    return rule


def _axis(op: str, *inputs: str, default: int = 0) -> Rule:
    """The rule for an operator along an axis."""
    return lambda o: Lowered(op, inputs, {"axis": o.one("axis", default)})


def _axes(op: str) -> Rule:
    return lambda o: Lowered(op, ("x",), {"axes": o.list("axes")} if o.has("axes") else {})


def _gather(o: Operation) -> Lowered:
    return Lowered("Gather", ("x", "indices"), {"axis": o.one("axis", 0), "batch_dims": o.one("batch_dims", 0)})


def _scatter(o: Operation) -> Lowered:
    return _own(o, "", ("data", "indices", "updates"), mode=str(o.one("mode", "add")).lower())


def _slice(o: Operation) -> Lowered:
    names = {"begin_mask": "begin_mask", "end_mask": "end_mask", "shrink_axis_mask": "squeeze_mask"}
    masks = {name: o.list(said) for name, said in names.items()}
    attrs = {name: sum(1 << place for place, bit in enumerate(mask) if bit) for name, mask in masks.items()}
    rule, value = shape.by("tflite:strided_slice"), shape.elements("tflite:strided_slice")
    return Lowered("Slice", ("x", "begin", "end", "", "stride"), attrs, rule, value)


def _slice_by_size(o: Operation) -> Lowered:
    return Lowered(
        "Slice", ("x", "begin", "size"), {}, shape.by("tflite:slice_"), shape.elements("tflite:slice_"), shows=1
    )


def _split(o: Operation) -> Lowered:
    attrs: dict[str, object] = {"axis": o.one("axis", 0)}
    if o.has("split_sizes"):
        return Lowered("Split", ("x", "split_sizes"), attrs)
    return Lowered("Split", ("x",), {**attrs, "num_outputs": o.one("num_splits", len(o.results))})


def _stack(o: Operation) -> Lowered:
    attrs = {"axis": o.one("axis", 0)}
    return Lowered("Concat", ("values",), attrs, shape.by("tflite:pack"), shape.elements("tflite:packed", "some"))


def _pad(o: Operation) -> Lowered:
    mode = str(o.one("mode", "constant")).lower()
    attrs = {"mode": {"replicate": "edge"}.get(mode, mode)}
    return Lowered("Pad", ("x", "pad"), attrs, shape.by("coreml:padded"))


def _reshape(o: Operation) -> Lowered:
    return Lowered("Reshape", ("x", "shape"), {}, shape.by("coreml:reshaped"), shape.elements("structure:same"))


def _resize(mode: str) -> Rule:
    """The rule for rows and columns of given numbers, or times given factors."""

    def rule(o: Operation) -> Lowered:
        attrs: dict[str, object] = {"mode": mode}
        if o.type == "resize":
            attrs["mode"] = "nearest" if "NEAREST" in str(o.one("interpolation_mode", "LINEAR")).upper() else "linear"
            attrs["resized"] = o.one("resized_dims", 2)
            return Lowered("Resize", ("x", "shape"), attrs, shape.by("coreml:resized"), shows=1)
        name, kind = ("scales", "scale_factor") if o.type.startswith("upsample") else ("sizes", "target_size")
        attrs[name] = tuple([o.list(f"{kind}_{side}", (1,))[0] for side in ("height", "width")])
        return Lowered("Resize", ("x",), attrs, shape.by("coreml:resized"))

    return rule


def _blocks(op: str, parameter: str) -> Rule:
    return lambda o: Lowered(op, ("x",), {"blocksize": o.one(parameter, 1)})


def _batch_blocks(parameter: str) -> Rule:
    return lambda o: _own(o, block=o.list("block_shape"), pads=o.list(parameter))


def _top_k(o: Operation) -> Lowered:
    attrs = {"axis": o.one("axis", -1), "largest": int(not o.one("ascending", False))}
    if o.has("k"):
        return Lowered("TopK", ("x", "k"), attrs, shows=1)
    return Lowered("TopK", ("x",), {**attrs, "k": 1})


def _gelu(o: Operation) -> Lowered:
    mode = str(o.one("mode", "EXACT")).upper()
    if mode.startswith("SIGMOID"):
        return _own(o)
    return Lowered("Gelu", ("x",), {"approximate": "tanh"} if mode.startswith("TANH") else {})


def _cast(o: Operation) -> Lowered:
    return Lowered("Cast", ("x",) if o.has("x") else ("source_val",), {"to": o.results[0].dtype or "float32"})


def _crop(o: Operation) -> Lowered:
    return _own(o, rows=o.list("crop_height"), columns=o.list("crop_width"))


def _crop_resize(o: Operation) -> Lowered:
    boxes = "boxes" if o.has("boxes") else "roi"
    sizes = (o.one("target_height", 1), o.one("target_width", 1))
    return _own(o, "", ("x", boxes, "box_indices"), sizes=sizes)


def _affine(o: Operation) -> Lowered:
    return _own(o, "", ("x", "transform_matrix"), sizes=(o.one("output_height", 1), o.one("output_width", 1)))


def _resample(o: Operation) -> Lowered:
    mode = "nearest" if str(o.one("sampling_mode", "bilinear")).lower() == "nearest" else "linear"
    return Lowered("GridSample", ("x", "coordinates"), {"mode": mode})


def _slide(o: Operation) -> Lowered:
    return _own(o, axis=o.one("axis", 0), size=o.one("size", 1), stride=o.one("stride", 1))


def _suppress(o: Operation) -> Lowered:
    attrs = {"most": o.one("max_boxes", 1), "per_class": int(o.one("per_class_suppression", False))}
    if o.has("score_threshold"):
        return _own(o, "", ("boxes", "scores"), **attrs)
    turned = ((0, 2, 1), (0, 2, 1))  # since iOS 17 the boxes lie along the last axis
    return _own(o, "coreml:suppressed", ("boxes", "scores"), **attrs, last=1)._replace(layout=Layout(turned, turned))


def _order(o: Operation) -> Lowered:
    return _own(o, axis=o.one("axis", -1))


def _packed(*inputs: str) -> Rule:
    """The rule for weights that are stored compressed; where their shape is a setting, the file states it."""
    return lambda o: Lowered(f"{DOMAIN}::{o.type}", inputs)


def _dense(o: Operation) -> Lowered:
    """A sparse tensor: the shape is that of the mask."""
    dims = o.list("shape") if o.has("shape") else o.shape("mask")
    return _own(o, "coreml:unpacked", ("nonzero_data", "mask"), shape=dims)


def _palette(o: Operation) -> Lowered:
    """Indices and palettes; vectors of a palette add to an axis."""
    if not o.has("vector_axis") or o.shape("lut")[-1:] == (1,):
        return _own(o, "", ("indices", "lut"))
    return _own(o, "coreml:unpacked", ("indices", "lut"), shape=o.results[0].dims)


_X = ("x",)
_XY = ("x", "y")

#: Operations of one input that the house has under the same name.
_PLAIN = (
    "abs acos asin atan atanh ceil cos cosh erf exp floor identity relu round sigmoid sign sin sinh "
    "softplus softsign sqrt tan tanh"
)

#: Type of an operation -> how it is lowered.
TABLE: dict[str, Rule] = {
    # Products and windows.
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "linear": _linear,
    "matmul": _matmul,
    "einsum": lambda o: Lowered("Einsum", ("values",), {"equation": o.one("equation", "")}),
    "scaled_dot_product_attention": _attention,
    "avg_pool": _pool("AveragePool"),
    "max_pool": _pool("MaxPool"),
    "l2_pool": _pool("LpPool", p=2),
    # Recurrent.
    "lstm": _recurrent("LSTM"),
    "gru": _recurrent("GRU"),
    "rnn": _recurrent("RNN"),
    # Element by element.
    **{name: _same(name.capitalize(), *_X) for name in _PLAIN.split()},
    "logical_not": _same("Not", *_X),
    "silu": _same("Swish", *_X),
    **{
        name: _same(op, *_XY)
        for name, op in {
            "add": "Add",
            "sub": "Sub",
            "mul": "Mul",
            "real_div": "Div",
            "pow": "Pow",
            "mod": "Mod",
            "maximum": "Max",
            "minimum": "Min",
            "equal": "Equal",
            "greater": "Greater",
            "greater_equal": "GreaterOrEqual",
            "less": "Less",
            "less_equal": "LessOrEqual",
            "logical_and": "And",
            "logical_or": "Or",
            "logical_xor": "Xor",
        }.items()
    },
    **{
        name: _packed(*_X)
        for name in (
            "square",
            "rsqrt",
            "inverse",
            "log",
            "exp2",
            "linear_activation",
            "scaled_tanh",
            "clamped_relu",
            "threshold",
            "reverse",
            "band_part",
            "non_zero",
        )
    },
    "relu6": _same("Clip", *_X, min=0.0, max=6.0),
    "clip": lambda o: Lowered("Clip", _X, {"min": o.one("alpha", 0.0), "max": o.one("beta", 1.0)}),
    "elu": _with("Elu", *_X, alpha=1.0),
    "leaky_relu": _with("LeakyRelu", *_X, alpha=0.01),
    "thresholded_relu": _with("ThresholdedRelu", *_X, alpha=1.0),
    "sigmoid_hard": _with("HardSigmoid", *_X, alpha=0.2, beta=0.5),
    "prelu": _same("PRelu", "x", "alpha"),
    "gelu": _gelu,
    "cast": _cast,
    "select": _same("Where", "cond", "a", "b"),
    "softplus_parametric": _packed("x", "alpha", "beta"),
    # Along axes.
    "softmax": _axis("Softmax", *_X, default=-1),
    "batch_norm": _batch_norm,
    "instance_norm": lambda o: Lowered("InstanceNormalization", ("x", "gamma", "beta"), {}, shape.alike),
    "layer_norm": _layer_norm,
    "l2_norm": lambda o: _own(o, axes=(-3, -2, -1)),
    "local_response_norm": lambda o: Lowered("LRN", _X, {"size": o.one("size", 1)}),
    "reduce_l1_norm": _reduction("ReduceL1"),
    "reduce_l2_norm": _reduction("ReduceL2"),
    "reduce_log_sum": _reduction("ReduceLogSum"),
    "reduce_log_sum_exp": _reduction("ReduceLogSumExp"),
    "reduce_max": _reduction("ReduceMax"),
    "reduce_mean": _reduction("ReduceMean"),
    "reduce_min": _reduction("ReduceMin"),
    "reduce_prod": _reduction("ReduceProd"),
    "reduce_sum": _reduction("ReduceSum"),
    "reduce_sum_square": _reduction("ReduceSumSquare"),
    "reduce_argmax": _extreme("ArgMax"),
    "reduce_argmin": _extreme("ArgMin"),
    "cumsum": lambda o: Lowered("CumSum", _X),
    "topk": _top_k,
    "argsort": _order,
    "classify": lambda o: _own(o, "", ("probabilities",)),
    # Movement.
    "reshape": _reshape,
    "reshape_like": lambda o: Lowered(f"{DOMAIN}::reshape_like", _X, {}, AS_STATED),
    "flatten2d": _axis("Flatten", *_X, default=1),
    "transpose": lambda o: Lowered("Transpose", _X, {"perm": o.list("perm")}),
    "expand_dims": _axes("Unsqueeze"),
    "squeeze": _axes("Squeeze"),
    "concat": _axis("Concat", "values"),
    "stack": _stack,
    "split": _split,
    "tile": lambda o: Lowered("Tile", ("x", "reps"), {}, shape.by("openvino:tiled")),
    "pad": _pad,
    "slice_by_index": _slice,
    "slice_by_size": _slice_by_size,
    "slice_update": _packed("x", "update"),
    "gather": _gather,
    "gather_along_axis": _axis("GatherElements", "x", "indices"),
    "gather_nd": lambda o: Lowered("GatherND", ("x", "indices"), {"batch_dims": o.one("batch_dims", 0)}),
    "scatter": _scatter,
    "scatter_along_axis": _scatter,
    "scatter_nd": _scatter,
    "reverse_sequence": _same("ReverseSequence", "x", "lengths"),
    "pixel_shuffle": _blocks("DepthToSpace", "upscale_factor"),
    "depth_to_space": _blocks("DepthToSpace", "block_size"),
    "pixel_unshuffle": _blocks("SpaceToDepth", "downscale_factor"),
    "space_to_depth": _blocks("SpaceToDepth", "block_size"),
    "space_to_batch": _batch_blocks("paddings"),
    "batch_to_space": _batch_blocks("crops"),
    "sliding_windows": _slide,
    "crop": _crop,
    "crop_resize": _crop_resize,
    "affine": _affine,
    "resample": _resample,
    **dict.fromkeys(("resize", "resize_bilinear", "upsample_bilinear"), _resize("linear")),
    **dict.fromkeys(("resize_nearest_neighbor", "upsample_nearest_neighbor"), _resize("nearest")),
    "one_hot": _axis("OneHot", "indices", "one_hot_vector_size", "on_value", default=-1),
    "range_1d": _same("Range", "start", "end", "step"),
    "shape": _same("Shape", *_X),
    "fill": _packed("shape", "value"),
    "fill_like": _packed("ref_tensor", "value"),
    "non_maximum_suppression": _suppress,
    # Weights in fewer bits, and numbers in eight.
    "quantize": _axis("QuantizeLinear", "input", "scale", "zero_point", default=1),
    "dequantize": _axis("DequantizeLinear", "input", "scale", "zero_point", default=1),
    "constexpr_affine_dequantize": _axis("DequantizeLinear", "quantized_data", "scale", "zero_point", default=1),
    "constexpr_cast": _cast,
    "constexpr_lut_to_dense": _palette,
    "constexpr_sparse_to_dense": _dense,
    "constexpr_blockwise_shift_scale": _packed("data", "scale", "offset"),
    "constexpr_lut_to_sparse": _packed("indices_nonzero_data", "lut", "indices_mask"),
    "constexpr_sparse_blockwise_shift_scale": _packed("nonzero_data", "scale", "offset", "data_mask"),
}


def lower(o: Operation) -> Lowered:
    """An operation as an operator of the house; those with blocks are for the caller."""
    rule = TABLE.get(o.type)
    return rule(o) if rule is not None else Lowered(f"{DOMAIN}::{o.type}")
