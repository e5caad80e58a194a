"""Caffe's layers that bring data, and those that move, cut or join it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from flopwise.errors import InputError
from flopwise.formats.caffe.message import MOST_AXES
from flopwise.formats.caffe.place import Extents, Lowered, Place, Row, product, same, show
from flopwise.graph import Shape

# Caffe layers without bottoms: the net's inputs, databases, constants; and layers without tops.
#
# A database holds what the net does not say, so a shape that neither the layer's own parameters nor the user gives
# is asked for.


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


# Caffe layers that move, select, repeat or reduce elements.
#
# Shapes as in BVLC Caffe, src/caffe/layers/reshape_layer.cpp and its neighbours; Permute as in the SSD branch,
# ShuffleChannel as in the ShuffleNet forks.


def reshape(place: Place, op: str) -> Lowered:
    """num_axes dimensions from `axis` on are replaced: 0 copies one, a single −1 takes what is left."""
    message = place.param("reshape_param")
    shape = place.bottom()
    axis, axes = message.int("axis", 0), message.int("num_axes", -1)
    start = axis if axis >= 0 else len(shape) + axis + 1
    if not 0 <= start <= len(shape):
        raise place.error(f"axis {axis} of a blob with {len(shape)} dimensions")
    end = len(shape) if axes == -1 else start + axes
    if axes < -1 or end > len(shape):
        raise place.error(f"{axes} axes from axis {start} on do not fit a blob of shape {show(shape)}")
    dims = message.merged("shape").ints("dim")
    if len(dims) > MOST_AXES:
        raise place.error(f"has {len(dims)} dimensions, Caffe allows {MOST_AXES}")
    middle: list[int] = []
    for i, dim in enumerate(dims):
        if dim == 0 and start + i >= len(shape):
            raise place.error(f"dimension {i} copies axis {start + i}, but its bottom has shape {show(shape)}")
        middle.append(shape[start + i] if dim == 0 else place.at_least(-1, dim, "a dimension of the shape"))
    before, after = shape[:start], shape[end:]
    if middle.count(-1) > 1:
        raise place.error("has more than one dimension of -1")
    if -1 in middle:
        others = product([dim for dim in middle if dim != -1]) * product(before) * product(after)
        if others == 0 or product(shape) % others:
            raise _mismatch(place, shape, (*before, *dims, *after))
        middle[middle.index(-1)] = product(shape) // others
    result = (*before, *middle, *after)
    if product(result) != product(shape):
        raise _mismatch(place, shape, result)
    return Lowered(op, (result,))


def _mismatch(place: Place, shape: Extents, dims: Sequence[int]) -> Exception:
    return place.error(
        f"cannot make {show(dims)} of {product(shape)} elements of shape {show(shape)}; "
        f"a shape that is fixed in the file allows no other batch or input size"
    )


def _flatten_op(place: Place) -> str:
    """ONNX's Flatten always gives a matrix."""
    message = place.param("flatten_param")
    return "Flatten" if (message.int("axis", 1), message.int("end_axis", -1)) == (1, -1) else "Reshape"


def flatten(place: Place, op: str) -> Lowered:
    """The dimensions from axis (1) to end_axis (−1) become one."""
    message = place.param("flatten_param")
    shape = place.bottom()
    start = place.axis(message.int("axis", 1), len(shape))
    end = place.axis(message.int("end_axis", -1), len(shape), "end_axis")
    if end < start:
        raise place.error(f"end_axis {end} lies before axis {start}")
    result = (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :])
    return Lowered(op, (result,), attrs={"axis": start} if op == "Flatten" else {})


def permute(place: Place, op: str) -> Lowered:
    """The dimensions in the order given; those left out follow."""
    shape = place.bottom()
    order = [place.axis(axis, len(shape), "order") for axis in place.param("permute_param").ints("order")]
    if len(set(order)) != len(order):
        raise place.error("its order names a dimension twice")
    order += sorted(set(range(len(shape))) - set(order))
    return Lowered(op, (tuple(shape[axis] for axis in order),), attrs={"perm": order})


def concat(place: Place, op: str) -> Lowered:
    """The bottoms one after the other along axis (1; old files: concat_dim)."""
    message = place.param("concat_param")
    shapes = place.all_bottoms()
    first = shapes[0]
    axis = place.axis(message.int("axis", message.int("concat_dim", 1)), len(first))
    for shape in shapes:
        if len(shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(first, shape, strict=True)) if i != axis
        ):
            raise place.error(f"cannot join {show(first)} and {show(shape)} along axis {axis}")
    joined = sum(shape[axis] for shape in shapes)
    return Lowered(op, ((*first[:axis], joined, *first[axis + 1 :]),), attrs={"axis": axis})


def slice_(place: Place, op: str) -> Lowered:
    """Equal parts along axis (1; old files: slice_dim), or parts that end at the slice points."""
    message = place.param("slice_param")
    shape = place.bottom()
    axis = place.axis(message.int("axis", message.int("slice_dim", 1)), len(shape))
    parts, extent = len(place.layer.tops), shape[axis]
    points = message.ints("slice_point")
    if points:
        if len(points) != parts - 1:
            raise place.error(f"has {len(points)} slice points for {parts} tops")
        ends = [0, *points, extent]
        if any(b <= a for a, b in pairwise(ends)):
            raise place.error(f"its slice points do not rise from 0 to {extent}")
        sizes = [b - a for a, b in pairwise(ends)]
    elif extent % parts:
        raise place.error(f"cannot cut {extent} into {parts} equal parts")
    else:
        sizes = [extent // parts] * parts
    return Lowered(op, tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes), attrs={"axis": axis})


def split(place: Place, op: str) -> Lowered:
    """Every top is the bottom."""
    return Lowered(op, (place.bottom(),) * len(place.layer.tops))


def crop(place: Place, op: str) -> Lowered:
    """The dimensions from axis (2) on as large as those of the second bottom."""
    message = place.param("crop_param")
    shape, reference = place.bottom(0), place.bottom(1)
    axis = place.axis(message.int("axis", 2), len(shape))
    offsets = message.ints("offset") or [0]
    if len(reference) != len(shape):
        raise place.error(f"cannot crop {show(shape)} to {show(reference)}")
    if len(offsets) not in (1, len(shape) - axis):
        raise place.error(f"has {len(offsets)} offsets for {len(shape) - axis} dimensions")
    if len(offsets) == 1:
        offsets = offsets * (len(shape) - axis)
    for size, length, offset in zip(shape[axis:], reference[axis:], offsets, strict=True):
        if offset < 0 or offset + length > size:
            raise place.error(f"cannot crop {show(shape)} to {show(reference)} with an offset of {offset}")
    return Lowered(op, ((*shape[:axis], *reference[axis:]),), attrs={"axis": axis, "offset": list(offsets)})


def tile(place: Place, op: str) -> Lowered:
    """`tiles` copies along axis (1)."""
    message = place.param("tile_param")
    shape = place.bottom()
    axis = place.axis(message.int("axis", 1), len(shape))
    times = place.size(message, "tiles")
    return Lowered(op, ((*shape[:axis], shape[axis] * times, *shape[axis + 1 :]),))


_REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}
#: Caffe numbers the operations from 1.
_NUMBERED = ("", *_REDUCTIONS)


def _operation(place: Place) -> str:
    message = place.param("reduction_param")
    operation = place.choice(message, "operation", _NUMBERED) if message.has("operation") else "SUM"
    if not operation:
        raise place.error("has no operation 0: Caffe numbers operations from 1")
    return operation


def _reduction_op(place: Place) -> str:
    """ONNX's operator when the coefficient is 1."""
    plain = place.param("reduction_param").float("coeff", 1.0) == 1.0
    return _REDUCTIONS[_operation(place)] if plain else "caffe::Reduction"


def reduction(place: Place, op: str) -> Lowered:
    """All dimensions from axis (0) on become one number, × coeff."""
    shape = place.bottom()
    stated = place.param("reduction_param").int("axis", 0)
    axis = place.axis(stated, len(shape)) if shape else 0
    if op == "caffe::Reduction":
        attrs: dict[str, object] = {"operation": _operation(place)}
    else:
        attrs = {"axes": [*range(axis, len(shape))], "keepdims": 0}
    return Lowered(op, (shape[:axis],), attrs=attrs)


def argmax(place: Place, op: str) -> Lowered:
    """With an axis that dimension becomes top_k; without one [N, 1 (2 with out_max_val), top_k, 1...]."""
    message = place.param("argmax_param")
    shape = place.bottom()
    if not shape:
        raise place.error("needs at least 1 dimension, its bottom is a scalar")
    best = place.at_least(1, message.int("top_k", 1), "top_k")
    if message.has("axis"):
        axis = place.axis(message.int("axis", 0), len(shape))
        candidates, out = shape[axis], (*shape[:axis], best, *shape[axis + 1 :])
    else:
        axis, candidates = 2, product(shape[1:])
        values = 2 if message.bool("out_max_val", False) else 1
        out = (shape[0], values, best, *[1] * (len(shape) - 3))
    if best > candidates:
        raise place.error(f"top_k is {best}, but there are {candidates} to choose from")
    return Lowered(op, (out,), attrs={"axis": axis})


def batch_reindex(place: Place, op: str) -> Lowered:
    """The samples that the second bottom names, in its order."""
    shape, index = place.bottom(0), place.rank(place.bottom(1), 1)
    if not shape:
        raise place.error("needs at least 1 dimension, its bottom is a scalar")
    return Lowered(op, ((index[0], *shape[1:]),), attrs={"axis": 0})


def filter_(place: Place, op: str) -> Lowered:
    """The samples that the last bottom selects, at most all of them."""
    *shapes, _ = place.all_bottoms()
    if len(shapes) != len(place.layer.tops):
        raise place.error(f"has {len(shapes)} bottoms to filter and {len(place.layer.tops)} tops")
    return Lowered(op, tuple(shapes), bound=True)


_SEVERAL = (1, None)


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
    "Reshape": Row("Reshape", reshape),
    "Flatten": Row(_flatten_op, flatten),
    "Permute": Row("Transpose", permute),
    "Concat": Row("Concat", concat, bottoms=_SEVERAL),
    "Slice": Row("Split", slice_, tops=_SEVERAL),
    "Split": Row("Identity", split, tops=_SEVERAL),
    "Crop": Row("caffe::Crop", crop, bottoms=(2, 2)),
    "Tile": Row("Tile", tile),
    "Reduction": Row(_reduction_op, reduction),
    "ArgMax": Row(lambda place: "TopK" if place.param("argmax_param").int("top_k", 1) > 1 else "ArgMax", argmax),
    "BatchReindex": Row("Gather", batch_reindex, bottoms=(2, 2)),
    "Filter": Row("caffe::Filter", filter_, bottoms=(2, None), tops=_SEVERAL),
    "ShuffleChannel": Row("caffe::ShuffleChannel", same),
}
