"""Sizes to suggest for inputs whose dimensions are open: such that the model can take them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

import onnx

from flopwise.readers.onnx.file.skeleton import DTYPES
from flopwise.readers.onnx.types import Shapes, concrete

#: Heights and widths of images, the usual one first.
IMAGES: tuple[int, ...] = (224, 256, 640, 512, 299, 320, 416, 32, 28)

#: The extent of other open dimensions that are not the batch (tokens, frames, samples), the usual one first.
LENGTHS: tuple[int, ...] = (128, 64, 256, 512, 77, 32, 16, 8, 4, 2, 1)

#: Height and width of images, and the extent of other open dimensions.
Usual = tuple[int, int]

USUAL: Usual = (IMAGES[0], LENGTHS[0])

_CHANNELS = (1, 3, 4)
_INTEGERS = frozenset({onnx.TensorProto.INT32, onnx.TensorProto.INT64})


def error_of(value: onnx.ValueInfoProto, usual: Usual = USUAL) -> str:
    """The error for an input without a concrete shape: its name, and what to type.

    Args:
        value: the input.
        usual: the sizes to suggest.
    """
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type, "float32")
    if not tensor.HasField("shape"):
        what = shlex.quote(f"{value.name}:{dtype}:")
        return f"input {value.name!r} has no shape; give it with -i {what}SHAPE, such as 1x3x224x224"
    sizes = _sizes(value, usual)
    cure = f"-i {shlex.quote(f'{value.name}:{dtype}:' + 'x'.join(map(str, sizes)))}"
    symbols = {d.dim_param: size for d, size in zip(tensor.shape.dim, sizes, strict=True) if d.dim_param}
    if symbols and all(d.dim_param or (d.HasField("dim_value") and d.dim_value >= 0) for d in tensor.shape.dim):
        cure = f"{' '.join(f'--dim {shlex.quote(s)}={size}' for s, size in symbols.items())}, or with {cure}"
    return f"input {value.name!r} has open dimensions ({written(value)}); give them with {cure}"


def working_sizes(model: onnx.ModelProto, names: Iterable[str], fits: Callable[[onnx.ModelProto], bool]) -> Usual:
    """The sizes, the usual ones first, with which a model runs when its open inputs have them.

    Args:
        model: the model; it is not changed.
        names: its inputs that are open.
        fits: whether a copy of the model with concrete inputs can run.
    """
    chosen = set(names)
    opened = [v for v in model.graph.input if v.name in chosen]
    if any(not v.type.tensor_type.HasField("shape") for v in opened):
        return USUAL
    images = any(_is_image(v) for v in opened)
    for usual in [(image, LENGTHS[0]) for image in IMAGES] if images else [(IMAGES[0], length) for length in LENGTHS]:
        trial = onnx.ModelProto()
        trial.CopyFrom(model)
        for value in trial.graph.input:
            if value.name in chosen:
                for dim, size in zip(value.type.tensor_type.shape.dim, _sizes(value, usual), strict=True):
                    dim.dim_value = size
        if fits(trial):
            return usual
    return USUAL


def written(value: onnx.ValueInfoProto) -> str:
    """The dimensions of an input as the file has them."""
    dims = value.type.tensor_type.shape.dim
    return " x ".join(
        str(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?" for d in dims
    )


def has_all(shapes: Shapes, model: onnx.ModelProto) -> bool:
    """Whether everything that a model makes has a shape."""
    return all(shapes.sized(o) for n in model.graph.node for o in n.output if o)


def _stated(value: onnx.ValueInfoProto) -> list[int | None]:
    dims = value.type.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims]


def _is_image(value: onnx.ValueInfoProto) -> bool:
    """Whether an input is a batch of images, channels first or last."""
    stated = _stated(value)
    if len(stated) != 4 or value.type.tensor_type.elem_type in _INTEGERS or concrete(value.type) is not None:
        return False
    first = stated[1] in (*_CHANNELS, None)
    last = stated[3] in _CHANNELS and (stated[1] is None or stated[1] not in _CHANNELS)
    return (first and None in stated[2:]) or (last and None in stated[1:3])


def _sizes(value: onnx.ValueInfoProto, usual: Usual) -> list[int]:
    """All dimensions of an input: those that it has, and usual ones in place of those that are open."""
    stated = _stated(value)
    image, length = usual
    sizes = [length if dim is None else dim for dim in stated]
    if sizes and stated[0] is None:
        sizes[0] = 1
    if len(stated) >= 4 and value.type.tensor_type.elem_type not in _INTEGERS:
        last = stated[-1] in _CHANNELS and stated[1] not in _CHANNELS
        channels, edges = (len(stated) - 1, range(1, len(stated) - 1)) if last else (1, range(2, len(stated)))
        fixed = [stated[i] for i in edges if stated[i] is not None]
        for i in edges:
            if stated[i] is None:
                sizes[i] = fixed[0] or image if fixed else image if len(stated) == 4 else 16 if i == edges[0] else 112
        if stated[channels] is None:
            sizes[channels] = 3
    return sizes
