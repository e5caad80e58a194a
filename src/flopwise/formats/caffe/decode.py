"""A .caffemodel by the wire format: names, types, connections, parameters and the shapes of blobs; no payload is read.

Only BVLC's field numbers are the same in every fork, and of the forks' own only those that the layer's type makes
certain. A number that stands in no table here is somebody else's: what it says is not known.

Source: BVLC Caffe, src/caffe/proto/caffe.proto; the forks' numbers: weiliu89/caffe (branch ssd), hszhao/PSPNet,
OpenCV's opencv-caffe.proto.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from flopwise.formats.caffe.message import MOST_AXES, Field, Message, Word
from flopwise.formats.sources import wire
from flopwise.formats.sources.schema import Messages, Place, Unknown, schema
from flopwise.formats.sources.source import Source

#: The messages of a net as far as shapes and operations depend on them; fillers, engines and file names are skipped.
#: Field 13 of pooling_param says round_mode in BVLC's, ceil_mode or dilation in forks': nobody can tell which. From
#: input_param on they have no number of their own. The layers of V0 files are all in one message.
_SCHEMA = schema("""
net: name 1 text, input 3 text, input_dim 4 int, state 6, input_shape 8, layers 2 place, layer 100 place, _ 5 7 skip
v2_layer: name 1 text, type 2 text, bottom 3 text, top 4 text, param 6, include 8, exclude 9, phase 10 int, \
transform_param 100, loss_param 101, accuracy_param 102, argmax_param 103, concat_param 104, \
contrastive_loss_param 105, convolution_param 106, data_param 107, dropout_param 108, dummy_data_param 109, \
eltwise_param 110, exp_param 111, hdf5_data_param 112, hdf5_output_param 113, hinge_loss_param 114, \
image_data_param 115, infogain_loss_param 116, inner_product_param 117, lrn_param 118, memory_data_param 119, \
mvn_param 120, pooling_param 121, power_param 122, relu_param 123, sigmoid_param 124, softmax_param 125, \
slice_param 126, tanh_param 127, threshold_param 128, window_data_param 129, python_param 130, prelu_param 131, \
spp_param 132, reshape_param 133, log_param 134, flatten_param 135, reduction_param 136, embed_param 137, \
tile_param 138, batch_norm_param 139, elu_param 140, bias_param 141, scale_param 142, crop_param 144, \
parameter_param 145, blobs 7 blob, _ 5 11 skip
v1_layer: layer 1 v0_layer, include 32, exclude 33, bottom 2 text, top 3 text, name 4 text, param 1001 text, \
type 5 int, blob_share_mode 1002 int, concat_param 9, convolution_param 10, data_param 11, dropout_param 12, \
hdf5_data_param 13, hdf5_output_param 14, image_data_param 15, infogain_loss_param 16, inner_product_param 17, \
lrn_param 18, pooling_param 19, window_data_param 20, power_param 21, memory_data_param 22, argmax_param 23, \
eltwise_param 24, threshold_param 25, dummy_data_param 26, accuracy_param 27, hinge_loss_param 29, relu_param 30, \
slice_param 31, mvn_param 34, transform_param 36, tanh_param 37, sigmoid_param 38, softmax_param 39, \
contrastive_loss_param 40, exp_param 41, loss_param 42, blobs 6 blob, _ 7 8 35 skip
shape input_shape: dim 1 int
state: phase 1 int, level 2 int, stage 3 text
include exclude: phase 1 int, min_level 2 int, max_level 3 int, stage 4 text, not_stage 5 text
param: name 1 text, share_mode 2 int, _ 3 4 skip
transform_param: crop_size 3 int, force_color 6 int, force_gray 7 int, _ 1 2 4 5 skip
loss_param: _ 1 2 3 skip
accuracy_param: top_k 1 int, axis 2 int, _ 3 skip
argmax_param: out_max_val 1 int, top_k 2 int, axis 3 int
concat_param: concat_dim 1 int, axis 2 int
contrastive_loss_param: legacy_version 2 int, _ 1 skip
convolution_param: num_output 1 int, pad 3 int, kernel_size 4 int, group 5 int, stride 6 int, axis 16 int, \
dilation 18 int, pad_h 9 int, pad_w 10 int, kernel_h 11 int, kernel_w 12 int, stride_h 13 int, stride_w 14 int, \
bias_term 2 int, _ 7 8 15 17 skip
data_param: batch_size 4 int, crop_size 5 int, _ 1 2 3 6 7 8 9 10 skip
dropout_param hdf5_output_param sigmoid_param tanh_param: _ 1 skip
dummy_data_param: num 2 int, channels 3 int, height 4 int, width 5 int, shape 6, _ 1 skip
eltwise_param: operation 1 int, coeff 2 float, _ 3 skip
exp_param log_param: base 1 float, scale 2 float, shift 3 float
hdf5_data_param: batch_size 2 int, _ 1 3 skip
hinge_loss_param: norm 1 int
image_data_param: batch_size 4 int, crop_size 5 int, new_height 9 int, new_width 10 int, is_color 11 int, \
_ 1 2 3 6 7 8 12 skip
infogain_loss_param softmax_param: axis 2 int, _ 1 skip
inner_product_param: num_output 1 int, axis 5 int, bias_term 2 int, transpose 6 int, _ 3 4 skip
lrn_param: local_size 1 int, norm_region 4 int, alpha 2 float, beta 3 float, k 5 float, _ 6 skip
memory_data_param: batch_size 1 int, channels 2 int, height 3 int, width 4 int
mvn_param: normalize_variance 1 int, across_channels 2 int, _ 3 skip
pooling_param: pool 1 int, kernel_size 2 int, stride 3 int, pad 4 int, kernel_h 5 int, kernel_w 6 int, \
stride_h 7 int, stride_w 8 int, pad_h 9 int, pad_w 10 int, global_pooling 12 int, _ 11 skip
power_param: power 1 float, scale 2 float, shift 3 float
relu_param: negative_slope 1 float, _ 2 skip
slice_param: slice_dim 1 int, slice_point 2 int, axis 3 int
threshold_param: threshold 1 float
window_data_param: batch_size 4 int, crop_size 5 int, _ 1 2 3 6 7 8 9 10 11 12 13 skip
python_param: module 1 text, layer 2 text, _ 3 4 skip
prelu_param: channel_shared 2 int, _ 1 skip
spp_param: pyramid_height 1 int, pool 2 int, _ 6 skip
reshape_param: shape 1, axis 2 int, num_axes 3 int
flatten_param: axis 1 int, end_axis 2 int
reduction_param: operation 1 int, axis 2 int, coeff 3 float
embed_param: num_output 1 int, input_dim 2 int, bias_term 3 int, _ 4 5 skip
tile_param: axis 1 int, tiles 2 int
batch_norm_param: use_global_stats 1 int, _ 2 3 skip
elu_param: alpha 1 float
bias_param: axis 1 int, num_axes 2 int, _ 3 skip
scale_param: axis 1 int, num_axes 2 int, bias_term 4 int, _ 3 5 skip
crop_param: axis 1 int, offset 2 int
parameter_param input_param: shape 1
recurrent_param: num_output 1 int, expose_hidden 5 int, _ 2 3 4 skip
swish_param: beta 1 float
clip_param: min 1 float, max 2 float
interp_param: height 1 int, width 2 int, zoom_factor 3 int, shrink_factor 4 int, pad_beg 5 int, pad_end 6 int
permute_param: order 1 int
norm_param: across_spatial 1 int, channel_shared 3 int, _ 2 4 skip
prior_box_param: min_size 1 float, max_size 2 float, aspect_ratio 3 float, flip 4 int, _ 5 6 7 8 9 10 11 12 13 skip
roi_pooling_param: pooled_h 1 int, pooled_w 2 int, _ 3 skip
psroi_pooling_param: output_dim 2 int, group_size 3 int, _ 1 skip
bn_param: _ 1 2 3 4 5 6 skip
v0_layer: name 1 text, type 2 text, num_output 3 int, pad 7 int, kernelsize 8 int, group 9 int, stride 10 int, \
pool 11 int, local_size 13 int, batchsize 19 int, cropsize 20 int, new_num 60 int, new_channels 61 int, \
new_height 62 int, new_width 63 int, concat_dim 65 int, biasterm 4 int, dropout_ratio 12 float, alpha 14 float, \
beta 15 float, k 22 float, blobs 50 blob, _ 5 6 16 17 18 21 51 52 53 54 55 56 57 58 59 64 1001 skip
blob: num 1 int, channels 2 int, height 3 int, width 4 int, shape 7, data 5 place, double_data 8 place
""")

#: A file of a fork may give a field several times that is singular in another.
SCHEMA = {name: tuple([field._replace(many="*") for field in fields]) for name, fields in _SCHEMA.items()}

#: Numbers that several forks use, and the layer types that say which message stands there.
FORKS: dict[tuple[int, str], str] = {
    (143, "Input"): "input_param",
    (143, "Interp"): "interp_param",
    (146, "LSTM"): "recurrent_param",
    (146, "RNN"): "recurrent_param",
    (147, "Swish"): "swish_param",
    (148, "Clip"): "clip_param",
    (148, "Permute"): "permute_param",
    (149, "Normalize"): "norm_param",
    (150, "PriorBox"): "prior_box_param",
    (152, "BN"): "bn_param",
    (202, "Permute"): "permute_param",
    (203, "PriorBox"): "prior_box_param",
    (206, "Normalize"): "norm_param",
    (10002, "PSROIPooling"): "psroi_pooling_param",
    (8266711, "ROIPooling"): "roi_pooling_param",
}

#: Numbers from here on hold what only one layer type needs; unknown ones below change nothing.
FIRST_PARAM, FIRST_PARAM_V1 = 100, 9


class Blob(NamedTuple):
    """A stored blob by place."""

    shape: tuple[int, ...]
    #: Where the elements lie in the file, from and to, one run after the other.
    runs: tuple[tuple[int, int], ...]
    #: Type of an element, as NumPy writes it.
    dtype: str
    #: Reads the elements where they do not lie in runs.
    load: Callable[[], Any] | None = None


class Caffemodel(NamedTuple):
    """The content of a file with weights."""

    net: Message
    #: The blobs of each layer, by the layer's name.
    blobs: dict[str, tuple[Blob, ...]]
    #: Layers with parameters that this file gives in a way only a fork understands -> which ones, in words.
    foreign: dict[str, str]
    #: Whether it is an HDF5 file, whose elements h5py finds.
    hdf5: bool = False

    @property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The shapes of the blobs of each layer."""
        return {name: tuple(blob.shape for blob in blobs) for name, blobs in self.blobs.items()}


def read_caffemodel(source: Source) -> Caffemodel:
    """The layers of a file with weights.

    Raises:
        ModelError: the file is truncated or damaged, or is no such file.
    """
    walk = _Walk(source, SCHEMA, ".caffemodel")
    net = walk.message("net", (0, source.size))
    blobs: dict[str, tuple[Blob, ...]] = {}
    foreign: dict[str, str] = {}
    fields = _fields((name, values) for name, values in net.items() if name not in ("layer", "layers"))
    for key in ("layers", "layer"):
        for place in net.get(key, ()):
            message, stored, strange = walk.layer(place, old=key == "layers")
            fields.append(Field(key, message, 0))
            name = message.text("name", "") or message.merged("layer").text("name", "")
            if stored or name not in blobs:
                blobs[name] = stored
            if strange:
                foreign[name] = ", ".join(dict.fromkeys(strange[:5]))
    return Caffemodel(Message(fields), blobs, foreign)


def _fields(values: Iterable[tuple[str, list[Any]]]) -> list[Field]:
    """Decoded values as the fields that a text would have."""
    return [Field(name, _value(value), 0) for name, several in values for value in several]


def _value(value: Any) -> Message | str:
    if isinstance(value, dict):
        return Message(_fields(value.items()))
    if isinstance(value, float):
        return Word(f"{value:.9g}")
    return Word(str(value)) if isinstance(value, int) else value


class _Walk(Messages):
    """The layers and blobs of one file."""

    def layer(self, place: Place, old: bool) -> tuple[Message, tuple[Blob, ...], list[str]]:
        """A layer without its blobs; its blobs; its parameters that only a fork understands, in words."""
        unknown: Unknown = []
        kind = "v1_layer" if old else "v2_layer"
        values = self.message(kind, place, unknown=unknown)
        stored = values.pop("blobs", [])
        for inner in values.get("layer", ()):
            stored += inner.pop("blobs", [])
        fields = _fields(values.items())
        type_ = Message(fields).text("type", "")
        own = [part for within, part in unknown if within == kind and part.wire == wire.BYTES]
        within = [(inner, part) for inner, part in unknown if inner != kind]
        strange: list[str] = []
        for part in own:
            name = None if old else FORKS.get((part.number, type_))
            if name is not None:
                message = self.message(name, (part.start, part.end), unknown=within)
                fields.append(Field(name, _value(message), 0))
            elif part.number >= (FIRST_PARAM_V1 if old else FIRST_PARAM):
                strange.append(f"field {part.number}")
        inside = [f"field {part.number} of {inner.removeprefix('v0_')}" for inner, part in within]
        return Message(fields), tuple(map(self._blob, stored)), [*inside, *strange]

    def _blob(self, values: Mapping[str, list[Any]]) -> Blob:
        """A blob's shape and the places of its elements."""
        shape = [extent for one in values.get("shape", ()) for extent in one.get("dim", ())]
        legacy = ("num", "channels", "height", "width")
        if any(name in values for name in legacy):  # wins over the other form, as in Caffe's Blob::FromProto
            shape = [values[name][-1] if values.get(name) else 0 for name in legacy]
        name, width = ("double_data", 8) if "double_data" in values else ("data", 4)
        runs = values.get(name, ())
        length = sum(end - start for start, end in runs)
        if len(shape) > MOST_AXES or any(not 0 <= extent < 1 << 63 for extent in shape):
            raise self.damaged(f"a blob of shape {shape[:MOST_AXES]}")
        if runs and length != width * math.prod(shape):
            raise self.damaged(f"a blob of shape {shape} with {length} bytes of elements")
        return Blob(tuple(shape), tuple(runs), f"<f{width}")
