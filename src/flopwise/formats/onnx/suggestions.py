"""Sizes to suggest for inputs whose dimensions are open: such that the model can take them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from flopwise.formats.onnx.file.model import Graph, TensorType, Type, Value
from flopwise.formats.onnx.types import concrete, dims_of, dtype_of
from flopwise.sizes.scope import Scope

#: Heights and widths of images, the usual one first.
IMAGES: tuple[int, ...] = (224, 256, 640, 512, 299, 320, 416, 32, 28)

#: The extent of other open dimensions that are not the batch (tokens, frames, samples), the usual one first.
LENGTHS: tuple[int, ...] = (128, 64, 256, 512, 77, 32, 16, 8, 4, 2, 1)

#: Height and width of images, and the extent of other open dimensions.
Usual = tuple[int, int]

USUAL: Usual = (IMAGES[0], LENGTHS[0])

_CHANNELS = (1, 3, 4)
_INTEGERS = frozenset({"int32", "int64"})


def error_of(value: Value, usual: Usual = USUAL) -> str:
    """The error for an input without a concrete shape: its name, and what to type.

    Args:
        value: the input.
        usual: the sizes to suggest.
    """
    import shlex

    dims, dtype = dims_of(value.type), dtype_of(value.type) or "float32"
    if dims is None:
        what = shlex.quote(f"{value.name}:{dtype}:")
        return f"input {value.name!r} has no shape; give it with -i {what}SHAPE, such as 1x3x224x224"
    sizes = _sizes(value, usual)
    cure = f"-i {shlex.quote(f'{value.name}:{dtype}:' + 'x'.join(map(str, sizes)))}"
    symbols = {dim: size for dim, size in zip(dims, sizes, strict=True) if isinstance(dim, str)}
    if symbols and None not in dims:
        cure = f"{' '.join(f'--dim {shlex.quote(s)}={size}' for s, size in symbols.items())}, or with {cure}"
    return f"input {value.name!r} has open dimensions ({written(value)}); give them with {cure}"


def working_sizes(graph: Graph, names: Collection[str], fits: Callable[[Mapping[str, Type | None]], bool]) -> Usual:
    """The sizes, the usual ones first, with which a model runs when its open inputs have them.

    Args:
        graph: the graph of the model.
        names: its inputs that are open.
        fits: whether the model can run when inputs have these types.
    """
    opened = [v for v in graph.inputs if v.name in names]
    if any(dims_of(v.type) is None for v in opened):
        return USUAL
    images = any(_is_image(v) for v in opened)
    for usual in [(image, LENGTHS[0]) for image in IMAGES] if images else [(IMAGES[0], length) for length in LENGTHS]:
        if fits({v.name: TensorType(dtype_of(v.type), tuple(_sizes(v, usual))) for v in opened}):
            return usual
    return USUAL


def written(value: Value) -> str:
    """The dimensions of an input as the file has them."""
    return " x ".join("?" if dim is None else str(dim) for dim in dims_of(value.type) or ())


def has_all(shapes: Scope, graph: Graph) -> bool:
    """True if every result of a graph's operators has a shape."""
    return all(shapes.sized(o) for n in graph.nodes for o in n.outputs if o)


def _stated(value: Value) -> list[int | None]:
    return [dim if isinstance(dim, int) else None for dim in dims_of(value.type) or ()]


def _is_image(value: Value) -> bool:
    """True if an input is a batch of images with an open height or width, channels first or last."""
    stated = _stated(value)
    if len(stated) != 4 or dtype_of(value.type) in _INTEGERS or concrete(value.type) is not None:
        return False
    first = stated[1] in (*_CHANNELS, None)
    last = stated[3] in _CHANNELS and (stated[1] is None or stated[1] not in _CHANNELS)
    return (first and None in stated[2:]) or (last and None in stated[1:3])


def _sizes(value: Value, usual: Usual) -> list[int]:
    """All dimensions of an input: those that it has, and usual ones in place of those that are open."""
    stated = _stated(value)
    image, length = usual
    sizes = [length if dim is None else dim for dim in stated]
    if sizes and stated[0] is None:
        sizes[0] = 1
    if len(stated) >= 4 and dtype_of(value.type) not in _INTEGERS:
        last = stated[-1] in _CHANNELS and stated[1] not in _CHANNELS
        channels, edges = (len(stated) - 1, range(1, len(stated) - 1)) if last else (1, range(2, len(stated)))
        fixed = [stated[i] for i in edges if stated[i] is not None]
        for i in edges:
            if stated[i] is None:
                sizes[i] = fixed[0] or image if fixed else image if len(stated) == 4 else 16 if i == edges[0] else 112
        if stated[channels] is None:
            sizes[channels] = 3
    return sizes
