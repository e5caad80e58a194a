"""Caffe layers without bottoms: the net's inputs, databases, constants; and layers without tops.

A database holds what the net does not say, so a shape that neither the layer's own parameters nor the user gives is
asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from flopwise.errors import InputError
from flopwise.formats.caffe.layers.place import Extents, Lowered, Place, Row, show
from flopwise.graph import Shape


def _missing(place: Place, tops: Mapping[str, str]) -> InputError:
    """An error that says what to type for the tops without a shape, given as name -> example."""
    typed = " ".join(f"-i {name}:{example}" for name, example in tops.items())
    return InputError(f"{place}: the file does not give the shape of {', '.join(tops)}; give it with {typed}")


def _sized(place: Place, own: Mapping[str, Extents | None], example: str = "1x3x224x224", note: str = "") -> Lowered:
    """The shapes that the user gave, else the layer's own.

    Raises:
        InputError: neither gives one.
    """
    shapes: list[Shape] = []
    missing: dict[str, str] = {}
    for top, shape in own.items():
        stated = place.inputs.get(top, shape)
        if stated is None:
            missing[top] = f"f32:{example if not shapes and not missing else '1'}"
        else:
            shapes.append(stated)
    if missing:
        raise _missing(place, missing)
    first_is_own = any(top not in place.inputs for top in list(own)[:1])
    return Lowered(f"caffe::{place.layer.type}", tuple(shapes), note=note if first_is_own else "")


def _shapes(place: Place, name: str) -> list[Extents]:
    """The shapes in a parameter: BlobShape messages, or num, channels, height and width."""
    message = place.param(name)
    shapes = [tuple(shape.ints("dim")) for shape in message.messages("shape")]
    if not shapes and message.has("num"):
        legacy = [message.ints(field) for field in ("num", "channels", "height", "width")]
        counts = {len(values) for values in legacy}
        if len(counts) > 1:
            raise place.error("num, channels, height and width do not come equally often")
        shapes = list(zip(*legacy, strict=True))
    for shape in shapes:
        for dim in shape:
            place.at_least(0, dim, "a dimension")
    return shapes


def _spread(place: Place, shapes: list[Extents]) -> dict[str, Extents | None]:
    """One shape for all tops, or one for each; none at all leaves them open."""
    tops = place.layer.tops
    if len(shapes) not in (0, 1, len(tops)):
        raise place.error(f"has {len(shapes)} shapes for {len(tops)} tops")
    if not shapes:
        return dict.fromkeys(tops)
    return dict(zip(tops, shapes * len(tops) if len(shapes) == 1 else shapes, strict=True))


def declared(place: Place, op: str, param: str = "input_param") -> Lowered:
    """The shapes of a parameter, once for all tops or once for each."""
    return _sized(place, _spread(place, _shapes(place, param)))


def memory(place: Place, op: str) -> Lowered:
    """[batch_size, channels, height, width] and the labels."""
    message = place.param("memory_data_param")
    shape = tuple(place.size(message, name) for name in ("batch_size", "channels", "height", "width"))
    return _labelled(place, shape)


def _labelled(place: Place, shape: Extents | None, note: str = "") -> Lowered:
    """Images, and one label for each of them."""
    tops = place.layer.tops
    images = place.inputs.get(tops[0], shape)
    own: dict[str, Extents | None] = {tops[0]: shape}
    for top in tops[1:]:
        batch = images[0] if images else None
        own[top] = (batch,) if isinstance(batch, int) else None
    return _sized(place, own, note=note)


#: Batch size, and the size of the images, by layer type.
_BATCHES = {"Data": "data_param", "ImageData": "image_data_param", "WindowData": "window_data_param"}


def images(place: Place, op: str) -> Lowered:
    """batch_size × channels × crop_size × crop_size; ImageData also new_height × new_width."""
    name = _BATCHES[place.layer.type]
    message, transform = place.param(name), place.param("transform_param")
    crop = place.at_least(0, transform.int("crop_size", message.int("crop_size", 0)), "crop_size")
    size = (crop, crop) if crop else (message.int("new_height", 0), message.int("new_width", 0))
    if not message.has("batch_size") or min(size) < 1:
        return _labelled(place, None)
    channels, sure = 3, place.layer.type != "Data" or transform.bool("force_color", False)
    if transform.bool("force_gray", False) or not message.bool("is_color", True):
        channels, sure = 1, True
    top = place.layer.tops[0]
    shape = (place.size(message, "batch_size"), channels, *size)
    note = (
        f"the file does not give the channels of {top!r}: taken as 3; "
        f"if they are not, give its shape with -i {top}:f32:{show(shape)}"
    )
    return _labelled(place, shape, note="" if sure else note)


def annotated(place: Place, op: str) -> Lowered:
    """Images cropped or resized to one size, with their boxes: how many there are, the data say."""
    transform, tops = place.param("transform_param"), place.layer.tops
    resize = transform.merged("resize_param")
    crop = transform.int("crop_size", 0)
    size = (crop, crop) if crop > 0 else (resize.int("height", 0), resize.int("width", 0))
    batch = place.param("data_param").int("batch_size", 0)
    own = (batch, 3, *size) if min(batch, *size) > 0 else None
    shape = place.inputs.get(tops[0], own)
    if shape is None:
        raise _missing(place, {tops[0]: "f32:1x3x300x300"})
    others = tuple(place.inputs.get(top) for top in tops[1:])
    return Lowered(op, (shape, *others))


def unstated(place: Place, op: str) -> Lowered:
    """The shapes that the user gives, where the file has none."""
    return _sized(place, dict.fromkeys(place.layer.tops))


def parameter(place: Place, op: str) -> Lowered:
    """A stored blob handed on as a top."""
    shape = tuple(
        place.at_least(0, dim, "a dimension") for dim in place.param("parameter_param").merged("shape").ints("dim")
    )
    return Lowered(op, (shape,), (("weight", shape, "weight"),))


def sink(place: Place, op: str) -> Lowered:
    """An operator without results."""
    return Lowered(op, ())


_NONE = (0, 0)
_SOME = (1, None)

LAYERS: dict[str, Row] = {
    "Input": Row("caffe::Input", declared, _NONE, _SOME),
    "DummyData": Row("caffe::DummyData", partial(declared, param="dummy_data_param"), _NONE, _SOME),
    "MemoryData": Row("caffe::MemoryData", memory, _NONE, (1, 2)),
    "Data": Row("caffe::Data", images, _NONE, (1, 2)),
    "ImageData": Row("caffe::ImageData", images, _NONE, (1, 2)),
    "WindowData": Row("caffe::WindowData", images, _NONE, (1, 2)),
    "HDF5Data": Row("caffe::HDF5Data", unstated, _NONE, _SOME),
    "AnnotatedData": Row("caffe::AnnotatedData", annotated, _NONE, (1, 2)),
    "Parameter": Row("Identity", parameter, _NONE),
    "Silence": Row("caffe::Silence", sink, _SOME, _NONE),
    "HDF5Output": Row("caffe::HDF5Output", sink, _SOME, _NONE),
}
