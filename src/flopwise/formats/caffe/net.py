"""A Caffe net as its file describes it, in one state and with older forms brought up to date: layers, blobs, phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flopwise.errors import InputError, ModelError
from flopwise.formats.caffe.message import Field, Message, Value, Word

# A Caffe net from its message: the layers of one phase in their order, each with what it reads and writes.
#
# Source: BVLC Caffe, src/caffe/net.cpp (FilterNet, StateMeetsRule, AppendTop, AppendBottom).

PHASES = ("TRAIN", "TEST")

#: Shapes of the stored blobs of layers, by the layer's name.
Blobs = Mapping[str, "tuple[tuple[int, ...], ...]"]


class State(NamedTuple):
    """The state that selects layers of a file; None and () leave the choice to the file."""

    phase: str | None = None
    stages: tuple[str, ...] = ()
    level: int | None = None


class Layer(NamedTuple):
    """One layer of a net, in the newest form of the format."""

    name: str
    #: Type as V2 files spell it ("SoftmaxWithLoss").
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Message
    #: Shapes of the stored blobs; None when no weights are at hand.
    blobs: tuple[tuple[int, ...], ...] | None
    #: For each blob the name under which layers share it ("" for none).
    shared: tuple[str, ...]
    #: Where the layer begins in the text; 0 in a binary file.
    line: int
    phase: str

    def __str__(self) -> str:
        return f"layer {self.name!r} ({self.type}{f', line {self.line}' if self.line else ''})"


class Net(NamedTuple):
    """The layers of a net in the state that was chosen."""

    name: str
    layers: tuple[Layer, ...]
    warnings: tuple[str, ...]


def network(message: Message, state: State, blobs: Blobs | None = None, saved: bool = False) -> Net:
    """The net of a message in one state.

    Args:
        message: the net as in the file, in any of its three forms.
        state: which layers to take.
        blobs: the shapes of stored blobs when weights are at hand.
        saved: whether the message comes from a file with weights. Such a file holds the layers of one state already;
            blobs that none of them makes are the net's inputs.

    Raises:
        ModelError: a layer makes no sense, reads what no layer before it writes, or writes what another one has.
        InputError: there is no such phase.
    """
    newest, warnings = upgrade(message)
    complete = _complete(newest, state)
    layers: list[Layer] = []
    named: set[str] = set()
    for part in newest.messages("layer"):
        layer = _layer(part, complete, blobs)
        rules = part.messages("include") + part.messages("exclude")
        named.update(stage for rule in rules for stage in (*rule.texts("stage"), *rule.texts("not_stage")))
        if saved or _selected(part, layer, complete):
            layers.append(layer)
    if not layers:
        raise ModelError(_no_layers(message, complete))
    for stage in state.stages:
        if stage not in named:
            choices = f"those named are {', '.join(sorted(named))}" if named else "no layer names any"
            warnings.append(f"no layer names the stage {stage!r}; {choices}")
    if saved and (missing := _missing(layers)):
        layers.insert(0, _input(missing, complete))
    _check(layers)
    return Net(newest.text("name", ""), tuple(layers), tuple(warnings))


class _Complete(NamedTuple):
    """A state with nothing left open."""

    phase: str
    stages: frozenset[str]
    level: int


def _complete(net: Message, state: State) -> _Complete:
    """The state that was chosen, completed by the file's own."""
    own = net.merged("state")
    phase = _phase(state.phase, "phase") if state.phase is not None else _phase_of(own, "TEST")
    level = own.int("level", 0) if state.level is None else state.level
    return _Complete(phase, frozenset((*state.stages, *own.texts("stage"))), level)


def _phase(text: str, what: str) -> str:
    phase = PHASES[int(text)] if text in ("0", "1") else text.upper()
    if phase not in PHASES:
        raise InputError(f"unknown {what} {text!r}; choose {' or '.join(PHASES)}")
    return phase


def _phase_of(message: Message, default: str) -> str:
    """The phase in a message.

    Raises:
        ModelError: it is none.
    """
    try:
        return _phase(message.text("phase", default), "the phase")
    except InputError as error:
        raise ModelError(f"{line_of(message.line)}{error}") from None


def _layer(part: Message, state: _Complete, blobs: Blobs | None) -> Layer:
    name = part.text("name", "")
    type_ = part.text("type", "")
    if not type_:
        raise ModelError(f"{line_of(part.line)}layer {name!r} has no type")
    return Layer(
        name=name,
        type=type_,
        bottoms=tuple(part.texts("bottom")),
        tops=tuple(part.texts("top")),
        message=part,
        blobs=blobs.get(name) if blobs else None,
        shared=tuple(spec.text("name", "") for spec in part.messages("param")),
        line=part.line,
        phase=_phase_of(part, state.phase) if part.has("phase") else state.phase,
    )


def _selected(part: Message, layer: Layer, state: _Complete) -> bool:
    """True where the state includes a layer.

    Raises:
        ModelError: it has rules of both kinds.
    """
    include, exclude = part.messages("include"), part.messages("exclude")
    if include and exclude:
        raise ModelError(f"{layer}: has rules to include and to exclude it; only one kind is allowed")
    if include:
        return any(_met(rule, state) for rule in include)
    return not any(_met(rule, state) for rule in exclude)


def _met(rule: Message, state: _Complete) -> bool:
    """True where a state satisfies every condition of a rule."""
    return (
        (not rule.has("phase") or _phase_of(rule, "") == state.phase)
        and rule.int("min_level", state.level) <= state.level <= rule.int("max_level", state.level)
        and state.stages.issuperset(rule.texts("stage"))
        and state.stages.isdisjoint(rule.texts("not_stage"))
    )


def _no_layers(message: Message, state: _Complete) -> str:
    if message.has("layer") or message.has("layers"):
        with_stages = f" with the stages {', '.join(sorted(state.stages))}" if state.stages else ""
        return f"there are no layers in phase {state.phase}{with_stages}; choose with --phase, --stage and --level"
    names = ", ".join(message.names()[:5])
    return f"it has no layers{f'; its fields are {names}' if names else ''}"


def _missing(layers: Iterable[Layer]) -> list[str]:
    """Blobs that layers read and no layer before them writes."""
    tops: set[str] = set()
    missing: dict[str, None] = {}
    for layer in layers:
        missing.update((bottom, None) for bottom in layer.bottoms if bottom not in tops)
        tops.update(layer.bottoms, layer.tops)
    return list(missing)


def _input(tops: Sequence[str], state: _Complete) -> Layer:
    """A layer that brings blobs of shapes that the file does not give."""
    message = Message([Field("name", "input", 0), Field("type", "Input", 0)])
    return Layer("input", "Input", (), tuple(tops), message, None, (), 0, state.phase)


def _check(layers: Sequence[Layer]) -> None:
    """Refuse a layer that reads what no layer before it writes, or writes what another one has written."""
    writers: dict[str, Layer] = {}
    for layer in layers:
        for bottom in layer.bottoms:
            if bottom not in writers:
                raise ModelError(f"{layer}: {_why_missing(bottom, layer, layers)}")
        for i, top in enumerate(layer.tops):
            in_place = i < len(layer.bottoms) and layer.bottoms[i] == top
            if top in writers and not in_place:
                raise ModelError(f"{layer}: produces the blob {top!r}, which {writers[top]} produces already")
            writers[top] = layer


def _why_missing(bottom: str, layer: Layer, layers: Sequence[Layer]) -> str:
    """The reason why a bottom is not there when its layer runs."""
    later = [other for other in layers if bottom in other.tops]
    if not later:
        return f"reads the blob {bottom!r}, which no layer produces in phase {layer.phase}"
    if later[0] is layer:
        return f"reads the blob {bottom!r}, which it produces itself"
    return f"reads the blob {bottom!r}, which {later[0]} produces after it; layers run in the order of the file"


# Older forms of a Caffe net brought to the newest one, as Caffe itself does when it reads them.
#
# V0 (2013): ``layers { layer { name type num_output ... } bottom top }``, with layers that only pad. V1 (2014):
# ``layers { name type: CONVOLUTION convolution_param { ... } }``. V2 (2015): ``layer { name type: "Convolution"
# convolution_param { ... } }``.
#
# Source: BVLC Caffe, src/caffe/util/upgrade_proto.cpp and src/caffe/proto/caffe.proto.

#: Type of a V1 layer, as a word, whose V2 name is not its parts with capitals.
_TYPES = {
    "BNLL": "BNLL",
    "LRN": "LRN",
    "MVN": "MVN",
    "SPP": "SPP",
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "PRELU": "PReLU",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}

#: Type of a V1 layer by number.
_WORDS = """
    NONE ACCURACY BNLL CONCAT CONVOLUTION DATA DROPOUT EUCLIDEAN_LOSS FLATTEN HDF5_DATA HDF5_OUTPUT IM2COL IMAGE_DATA
    INFOGAIN_LOSS INNER_PRODUCT LRN MULTINOMIAL_LOGISTIC_LOSS POOLING RELU SIGMOID SOFTMAX SOFTMAX_LOSS SPLIT TANH
    WINDOW_DATA ELTWISE POWER SIGMOID_CROSS_ENTROPY_LOSS HINGE_LOSS MEMORY_DATA ARGMAX THRESHOLD DUMMY_DATA SLICE MVN
    ABSVAL SILENCE CONTRASTIVE_LOSS EXP DECONVOLUTION
"""
NUMBERED = tuple(_WORDS.split())

#: Type of a V0 layer -> its V2 type and the message that its fields move to ("" for none).
_V0_TYPES: dict[str, tuple[str, str]] = {
    "accuracy": ("Accuracy", ""),
    "bnll": ("BNLL", ""),
    "concat": ("Concat", "concat_param"),
    "conv": ("Convolution", "convolution_param"),
    "data": ("Data", "data_param"),
    "dropout": ("Dropout", "dropout_param"),
    "euclidean_loss": ("EuclideanLoss", ""),
    "flatten": ("Flatten", ""),
    "hdf5_data": ("HDF5Data", "hdf5_data_param"),
    "hdf5_output": ("HDF5Output", "hdf5_output_param"),
    "im2col": ("Im2col", "convolution_param"),
    "images": ("ImageData", "image_data_param"),
    "infogain_loss": ("InfogainLoss", "infogain_loss_param"),
    "innerproduct": ("InnerProduct", "inner_product_param"),
    "lrn": ("LRN", "lrn_param"),
    "multinomial_logistic_loss": ("MultinomialLogisticLoss", ""),
    "pool": ("Pooling", "pooling_param"),
    "relu": ("ReLU", ""),
    "sigmoid": ("Sigmoid", ""),
    "softmax": ("Softmax", ""),
    "softmax_loss": ("SoftmaxWithLoss", ""),
    "split": ("Split", ""),
    "tanh": ("TanH", ""),
    "window_data": ("WindowData", "window_data_param"),
}

#: Fields of a V0 layer whose names changed.
_V0_FIELDS = {"biasterm": "bias_term", "kernelsize": "kernel_size", "batchsize": "batch_size", "meanfile": "mean_file"}

#: Fields of a V0 layer that belong to the layer itself.
_V0_OWN = frozenset({"name", "blobs", "blobs_lr", "weight_decay", "hdf5_output_param"})

#: Fields of a V0 layer that say how data are prepared.
_V0_TRANSFORM = {"cropsize": "crop_size", "scale": "scale", "mirror": "mirror", "meanfile": "mean_file"}


def upgrade(net: Message) -> tuple[Message, list[str]]:
    """The net in its newest form: fields ``layer`` only, no ``layers`` and no ``input``; and what is odd about it.

    Raises:
        ModelError: a layer or the inputs make no sense.
    """
    warnings: list[str] = []
    if net.has("layer") and net.has("layers"):
        warnings.append("the file has both 'layer' and 'layers', which Caffe refuses; they are taken in their order")
    layers: list[Field] = []
    padding: dict[str, Message] = {}  # top of a layer that only pads -> that layer
    for field in net.fields():
        if field.name in ("layer", "layers") and not isinstance(field.value, Message):
            raise ModelError(f"{line_of(field.line)}{field.name} must be a message in braces")
        if field.name == "layers" and isinstance(field.value, Message):
            layer = _from_v0(field.value, padding) if field.value.has("layer") else _from_v1(field.value)
            if layer is not None:
                layers.append(Field("layer", layer, field.line))
        elif field.name == "layer":
            layers.append(field)
    others = [field for field in net.fields() if field.name not in ("layer", "layers", "input", *_INPUTS)]
    first = _inputs(net)
    if first is not None:
        layers.insert(0, Field("layer", first, first.line))
    return Message([*others, *layers], net.line), warnings


def _from_v1(layer: Message) -> Message:
    """A V1 layer in the form of V2."""
    fields: list[Field] = []
    for field in layer.fields():
        value: Value = field.value
        if field.name == "type" and isinstance(value, Word):
            value = type_of(value)
        elif field.name == "param" and not isinstance(value, Message):
            value = Message([Field("name", value, field.line)], field.line)
        fields.append(field._replace(value=value))
    return Message(fields, layer.line)


def type_of(word: str) -> str:
    """The V2 name of a V1 layer's type, given as a word or a number; a fork's own gets capitals.

    >>> type_of("SOFTMAX_LOSS"), type_of("4"), type_of("ROI_POOLING")
    ('SoftmaxWithLoss', 'Convolution', 'RoiPooling')
    """
    if word.isascii() and word.isdigit() and len(word) < 4 and int(word) < len(NUMBERED):
        word = NUMBERED[int(word)]
    return _TYPES.get(word) or ("".join(part.capitalize() for part in word.split("_")) if word.isupper() else word)


def _from_v0(connection: Message, padding: dict[str, Message]) -> Message | None:
    """A V0 layer in the form of V2; None for one that only pads.

    Args:
        connection: the layer with its bottoms and tops.
        padding: the layers that only pad, by top; a new one is added.
    """
    layer = connection.merged("layer")
    kind = layer.text("type", "")
    what = f"{line_of(connection.line)}layer {layer.text('name', '')!r} ({kind})"
    bottoms, tops = connection.texts("bottom"), connection.texts("top")
    if kind == "padding":
        if len(bottoms) != 1 or len(tops) != 1:
            raise ModelError(f"{what}: needs one bottom and one top")
        padding[tops[0]] = Message([Field("bottom", bottoms[0], 0), *layer.fields()], connection.line)
        return None
    if kind not in _V0_TYPES:
        raise ModelError(
            f"{what}: is not a layer type of this old form; known: {', '.join(sorted(_V0_TYPES))}, padding"
        )
    moved: list[Field] = []
    if any(bottom in padding for bottom in bottoms):
        if kind not in ("conv", "pool") or len(bottoms) != 1:
            raise ModelError(f"{what}: only a convolution or pooling can take its input from a layer that pads")
        if layer.int("pad", 0):
            raise ModelError(f"{what}: pads, and so does the layer before it")
        pads = padding[bottoms[0]]
        bottoms = [pads.text("bottom", "")]
        moved = [Field("pad", Word(str(pads.int("pad", 0))), pads.line)]
    for top in tops:
        padding.pop(top, None)
    type_, message = _V0_TYPES[kind]
    fields = [Field("name", layer.text("name", ""), layer.line), Field("type", type_, layer.line)]
    fields += [Field("bottom", bottom, connection.line) for bottom in bottoms]
    fields += [field for field in connection.fields() if field.name not in ("layer", "bottom")]
    return Message([*fields, *_v0_params(layer, moved, message)], connection.line)


def _v0_params(layer: Message, moved: Iterable[Field], message: str) -> list[Field]:
    """The flat fields of a V0 layer as messages of their own."""
    own: list[Field] = []
    transform: list[Field] = []
    params = list(moved)
    for field in layer.fields():
        if field.name in _V0_OWN:
            own += [field] if field.name != "name" else []
        elif field.name in _V0_TRANSFORM and message.endswith("data_param"):
            transform.append(field._replace(name=_V0_TRANSFORM[field.name]))
        elif field.name != "type" and not (field.name == "pad" and params and params[0].name == "pad"):
            params.append(field._replace(name=_V0_FIELDS.get(field.name, field.name)))
    if message:
        own.append(Field(message, Message(params, layer.line), layer.line))
    if transform:
        own.append(Field("transform_param", Message(transform, layer.line), layer.line))
    return own


_INPUTS = ("input_dim", "input_shape")


def _inputs(net: Message) -> Message | None:
    """The layer that stands for the fields ``input``; None when there are none.

    Raises:
        ModelError: there are not as many shapes as inputs.
    """
    names = net.texts("input")
    if not names:
        return None
    shapes: Sequence[Message] = net.messages("input_shape")
    dims = net.entries("input_dim")
    if not shapes and dims:
        if len(dims) != 4 * len(names):
            raise ModelError(f"there are {len(dims)} values of input_dim for {len(names)} inputs; each takes 4")
        parts = [dims[i : i + 4] for i in range(0, len(dims), 4)]
        shapes = [Message([dim._replace(name="dim") for dim in part], part[0].line) for part in parts]
    if len(shapes) not in (0, 1, len(names)):
        raise ModelError(f"there are {len(shapes)} shapes for {len(names)} inputs")
    line = net.entries("input")[0].line
    params = Message([Field("shape", shape, shape.line) for shape in shapes], line)
    fields: Mapping[str, Sequence[Value]] = {
        "name": ["input"],
        "type": ["Input"],
        "top": names,
        "input_param": [params],
    }
    return Message([Field(name, value, line) for name, values in fields.items() for value in values], line)


def line_of(line: int) -> str:
    """The line where a message of a text begins, for an error; "" in a binary file."""
    return f"line {line}: " if line else ""
