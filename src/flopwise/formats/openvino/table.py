"""The layers of operator sets 1 to 16: what each is in the house. All others have rows of their own, or none."""

from __future__ import annotations

from flopwise.formats.kit.lowering import Lowered
from flopwise.formats.openvino import layers
from flopwise.formats.openvino.layers import Application, Rule, axes_of, axis_of, own, same
from flopwise.graph import Layout
from flopwise.operators import shape
from flopwise.operators.shape import FromInput
from flopwise.operators.size import Dims

#: The domain of rows of its own.
_DOMAIN = "openvino"


def _axis(op: str, default: int = 0) -> Rule:
    """The rule for an operator along the axis in an attribute."""
    return lambda application: Lowered(op, attrs={"axis": application.number("axis", default)})


def _reduction(op: str) -> Rule:
    """The rule for a reduction along the axes in the second input; none is no reduction."""

    def rule(application: Application) -> Lowered:
        attrs = {"keepdims": int(application.flag("keep_dims")), "noop_with_empty_axes": 1}
        return Lowered(op, (0,), attrs, settings={"axes": FromInput(1, many=True)})

    return rule


def _matmul(application: Application) -> Lowered:
    attrs, orders = {}, []
    for place, side in enumerate("ab"):
        rank, turned = len(application.shape(place)), application.flag(f"transpose_{side}")
        attrs[f"transpose_{side}"] = int(turned)
        orders.append((*range(rank - 2), rank - 1, rank - 2) if turned and rank > 1 else None)
    if not any(attrs.values()):
        return Lowered("MatMul")
    return Lowered("MatMul", attrs=attrs, shape=shape.by("openvino:matmul"), layout=Layout(tuple(orders)))


def _attention(application: Application) -> Lowered:
    attrs = {"is_causal": int(application.flag("causal"))}
    rule = shape.by("openvino:attention")
    ranks = {len(application.shape(place)) for place in range(3)}
    places = (0, 1, 2, 3) if application.inputs > 3 else (0, 1, 2)
    if application.inputs > 3 and len(application.shape(3)) == 0:
        places = (0, 1, 2)  # a number stands for no mask
    views = {} if ranks == {4} else dict.fromkeys(range(3), four_axes)
    return Lowered("Attention", places, attrs, rule, views=views)


def four_axes(shape_: Dims) -> Dims:
    """Images, heads, tokens and width: leading axes as one, or one more of extent 1."""
    first: int = 1
    for extent in shape_[:-3]:
        first = first * extent
    return (first, *shape_[-3:]) if len(shape_) > 2 else (1, 1, *shape_)


def _clamp(application: Application) -> Lowered:
    return Lowered("Clip", attrs={"min": application.real("min"), "max": application.real("max")})


def _elu(application: Application) -> Lowered:
    return Lowered("Elu", attrs={"alpha": application.real("alpha", 1.0)})


def _gelu(application: Application) -> Lowered:
    return Lowered("Gelu", attrs={"approximate": "tanh"} if application.text("approximation_mode") == "tanh" else {})


def _batch_norm(application: Application) -> Lowered:
    places = (2, 0, 1, 3, 4) if application.version < 5 else (0, 1, 2, 3, 4)
    return Lowered("BatchNormalization", places, {"epsilon": application.real("epsilon", 1e-5)})


def _group_norm(application: Application) -> Lowered:
    return Lowered("GroupNormalization", attrs={"num_groups": application.number("num_groups", 1)})


def _lrn(application: Application) -> Lowered:
    axes = axes_of(application, 1) or (1,)
    return Lowered("LRN", (0,), {"size": application.number("size", 1) ** len(axes)})


def _mvn(application: Application) -> Lowered:
    rank = len(application.shape(0))
    if application.version < 6:
        axes: tuple[int, ...] | None = tuple(range(1 if application.flag("across_channels") else 2, rank))
    else:
        axes = axes_of(application, 1)
    if axes is None:
        return Lowered("MeanVarianceNormalization", (0,))
    if application.flag("normalize_variance", True):
        return Lowered("MeanVarianceNormalization", (0,), {"axes": axes})
    return Lowered(f"{_DOMAIN}::MVN", (0,), {"axes": axes})


def _normalize(application: Application) -> Lowered:
    axes = axes_of(application, 1)
    if axes is not None and len(axes) == 1:
        return Lowered("LpNormalization", (0,), {"axis": axes[0], "p": 2})
    return Lowered(f"{_DOMAIN}::NormalizeL2", (0,), {} if axes is None else {"axes": axes})


def _cumulative(application: Application) -> Lowered:
    attrs = {name: int(application.flag(name)) for name in ("exclusive", "reverse")}
    return Lowered("CumSum", attrs=attrs)


def _reverse_sequence(application: Application) -> Lowered:
    attrs = {"batch_axis": application.number("batch_axis"), "time_axis": application.number("seq_axis", 1)}
    return Lowered("ReverseSequence", attrs=attrs)


def _grid_sample(application: Application) -> Lowered:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(application.text("mode", "bilinear"), "nearest")
    return Lowered("GridSample", attrs={"mode": mode, "align_corners": int(application.flag("align_corners"))})


def _einsum(application: Application) -> Lowered:
    return Lowered("Einsum", attrs={"equation": application.layer.data.get("equation", "")})


def _spectrum(op: str, real: str = "") -> Rule:
    def rule(application: Application) -> Lowered:
        axes = axes_of(application, 1)
        attrs: dict[str, object] = {"real": real}
        return Lowered(f"{_DOMAIN}::{op}", attrs=attrs if axes is None else {**attrs, "axes": axes})

    return rule


def _short_spectrum(op: str) -> Rule:
    def rule(application: Application) -> Lowered:
        attrs: dict[str, object] = {"transpose_frames": int(application.flag("transpose_frames"))}
        length = axis_of(application, 2)
        return Lowered(f"{_DOMAIN}::{op}", attrs=attrs if length is None else {**attrs, "length": length})

    return rule


def _read_value(application: Application) -> Lowered:
    attrs: dict[str, object] = {"variable": application.layer.data.get("variable_id", "")}
    said = application.layer.data.get("variable_shape", "")
    parts = [part.strip() for part in said.split(",")] if said else []
    if parts and all(part.isdecimal() for part in parts):
        attrs["shape"] = tuple(map(int, parts))
    return Lowered(f"{_DOMAIN}::ReadValue", attrs=attrs)


def _grn(application: Application) -> Lowered:
    return Lowered(f"{_DOMAIN}::GRN", attrs={"axes": (1,)})


def _named(**operators: str) -> dict[str, Rule]:
    return {name: same(op) for name, op in operators.items()}


#: Type of a layer in lower case -> how it is lowered.
TABLE: dict[str, Rule] = {
    # Products and layers.
    "convolution": layers.convolution,
    "groupconvolution": layers.grouped,
    "convolutionbackpropdata": layers.backprop,
    "groupconvolutionbackpropdata": layers.grouped_backprop,
    "binaryconvolution": layers.binary,
    "deformableconvolution": layers.deformable,
    "matmul": _matmul,
    "einsum": _einsum,
    "scaleddotproductattention": _attention,
    "inverse": same("com.microsoft::Inverse"),
    "maxpool": layers.max_pool,
    "avgpool": layers.average_pool,
    "adaptiveavgpool": layers.adaptive("AdaptiveAvgPool"),
    "adaptivemaxpool": layers.adaptive("AdaptiveMaxPool"),
    "extractimagepatches": layers.patches,
    "col2im": layers.columns,
    # Recurrent.
    "lstmsequence": layers.sequence("LSTM"),
    "grusequence": layers.sequence("GRU"),
    "rnnsequence": layers.sequence("RNN"),
    "lstmcell": layers.cell("LSTM"),
    "grucell": layers.cell("GRU"),
    "rnncell": layers.cell("RNN"),
    # Element by element.
    **_named(
        add="Add",
        subtract="Sub",
        multiply="Mul",
        divide="Div",
        power="Pow",
        mod="Mod",
        floormod="Mod",
        maximum="Max",
        minimum="Min",
        equal="Equal",
        greater="Greater",
        greaterequal="GreaterOrEqual",
        less="Less",
        lessequal="LessOrEqual",
        logicaland="And",
        logicalor="Or",
        logicalxor="Xor",
        logicalnot="Not",
        xor="Xor",
        bitwiseand="BitwiseAnd",
        bitwiseor="BitwiseOr",
        bitwisexor="BitwiseXor",
        bitwisenot="BitwiseNot",
        abs="Abs",
        negative="Neg",
        sign="Sign",
        ceiling="Ceil",
        floor="Floor",
        round="Round",
        exp="Exp",
        log="Log",
        sqrt="Sqrt",
        erf="Erf",
        sin="Sin",
        cos="Cos",
        tan="Tan",
        asin="Asin",
        acos="Acos",
        atan="Atan",
        sinh="Sinh",
        cosh="Cosh",
        tanh="Tanh",
        asinh="Asinh",
        acosh="Acosh",
        atanh="Atanh",
        relu="Relu",
        prelu="PRelu",
        sigmoid="Sigmoid",
        hswish="HardSwish",
        softplus="Softplus",
        softsign="Softsign",
        mish="Mish",
        isnan="IsNaN",
        isinf="IsInf",
        select="Where",
        identity="Identity",
        convertlike="CastLike",
    ),
    "hsigmoid": same("HardSigmoid", alpha=1 / 6, beta=0.5),
    "hardsigmoid": lambda application: Lowered("HardSigmoid", (0,)),
    "selu": lambda application: Lowered("Selu", (0,)),
    "swish": lambda application: Lowered("Swish", (0,)),
    "clamp": _clamp,
    "elu": _elu,
    "gelu": _gelu,
    "convert": layers.convert,
    "bitwiseleftshift": layers.bit_shift("LEFT"),
    "bitwiserightshift": layers.bit_shift("RIGHT"),
    # Along axes.
    "softmax": _axis("Softmax", 1),
    "logsoftmax": _axis("LogSoftmax", 1),
    "batchnorminference": _batch_norm,
    "groupnormalization": _group_norm,
    "lrn": _lrn,
    "mvn": _mvn,
    "normalizel2": _normalize,
    "grn": _grn,
    "rms": same("RMSNormalization"),
    "reducesum": _reduction("ReduceSum"),
    "reducemean": _reduction("ReduceMean"),
    "reducemax": _reduction("ReduceMax"),
    "reducemin": _reduction("ReduceMin"),
    "reduceprod": _reduction("ReduceProd"),
    "reducel1": _reduction("ReduceL1"),
    "reducel2": _reduction("ReduceL2"),
    "reducelogicaland": _reduction(f"{_DOMAIN}::ReduceLogicalAnd"),
    "reducelogicalor": _reduction(f"{_DOMAIN}::ReduceLogicalOr"),
    "cumsum": _cumulative,
    "topk": layers.top_k,
    "dft": _spectrum("DFT"),
    "idft": _spectrum("IDFT"),
    "rdft": _spectrum("RDFT", "input"),
    "irdft": _spectrum("IRDFT", "result"),
    "stft": _short_spectrum("STFT"),
    "istft": _short_spectrum("ISTFT"),
    "searchsorted": own("SearchSorted", boundaries=0),
    # Movement.
    "reshape": layers.reshape,
    "squeeze": layers.squeeze,
    "unsqueeze": same("Unsqueeze"),
    "transpose": layers.transpose,
    "concat": _axis("Concat"),
    "split": layers.split,
    "variadicsplit": layers.variadic_split,
    "gather": layers.gather,
    "gatherelements": _axis("GatherElements"),
    "gathernd": layers.gather_nd,
    "scatterelementsupdate": layers.scatter_elements,
    "scatterndupdate": layers.scatter_nd,
    "stridedslice": layers.strided_slice,
    "slice": layers.slice_,
    "pad": layers.pad,
    "broadcast": layers.broadcast,
    "tile": lambda application: Lowered("Tile", shape=shape.by("openvino:tiled")),
    "reversesequence": _reverse_sequence,
    "depthtospace": layers.blocks("DepthToSpace"),
    "spacetodepth": layers.blocks("SpaceToDepth"),
    "interpolate": layers.interpolate,
    "gridsample": _grid_sample,
    "onehot": _axis("OneHot", -1),
    "range": same("Range"),
    "shapeof": layers.shape_of,
    "nonzero": same("NonZero"),
    "unique": layers.unique,
    "randomuniform": layers.drawn,
    "multinomial": layers.sampled,
    # Boxes, regions and tables.
    "nonmaxsuppression": layers.suppression,
    "multiclassnms": layers.several_classes(False),
    "matrixnms": layers.several_classes(True),
    "roialign": layers.roi_align,
    "roialignrotated": layers.rotated_regions,
    "roipooling": layers.roi_pooling,
    "psroipooling": layers.psroi_pooling,
    "deformablepsroipooling": layers.deformable_psroi,
    "priorbox": layers.priors,
    "priorboxclustered": layers.priors,
    "detectionoutput": layers.detection_output,
    "proposal": layers.proposal,
    "generateproposals": layers.generated("GenerateProposals"),
    "experimentaldetectrongenerateproposalssingleimage": layers.generated(
        "ExperimentalDetectronGenerateProposalsSingleImage"
    ),
    "experimentaldetectrondetectionoutput": layers.numbers(
        "ExperimentalDetectronDetectionOutput", {"classes": "num_classes", "kept": "max_detections_per_image"}
    ),
    "experimentaldetectronroifeatureextractor": layers.numbers(
        "ExperimentalDetectronROIFeatureExtractor", {"output_size": "output_size", "sampling_ratio": "sampling_ratio"}
    ),
    "experimentaldetectrontopkrois": layers.numbers("ExperimentalDetectronTopKROIs", {"kept": "max_rois"}),
    "regionyolo": layers.yolo,
    "reorgyolo": layers.numbers("ReorgYolo", {"stride": "stride"}),
    "embeddingbagoffsetssum": layers.embedding("EmbeddingBagOffsetsSum", 4, bags=2),
    "embeddingbagoffsets": layers.embedding("EmbeddingBagOffsets", 4, bags=2),
    "embeddingbagpackedsum": layers.embedding("EmbeddingBagPackedSum", 2),
    "embeddingbagpacked": layers.embedding("EmbeddingBagPacked", 2),
    "embeddingsegmentssum": layers.embedding("EmbeddingSegmentsSum", 5),
    # Variables.
    "readvalue": _read_value,
}

#: Layers with bodies, in lower case -> the operator of the house.
CONTROL_FLOW = {"if": "If", "loop": "Loop", "tensoriterator": "Loop"}


def lower(application: Application) -> Lowered:
    """A layer as an operator of the house; layers with bodies are for the caller."""
    kind = application.layer.type
    rule = TABLE.get(kind.lower())
    if rule is not None:
        return rule(application)
    return Lowered(f"{_DOMAIN}::{kind}")
