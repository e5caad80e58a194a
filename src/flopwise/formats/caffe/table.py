"""Each Caffe layer as an operator with the shapes of its tops and of its stored blobs.

One table per family, merged here. A type that no table has is unknown: its tops have no shape, and nothing behind them
is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flopwise.errors import InputError
from flopwise.formats.caffe import detection, movement, pointwise, windows
from flopwise.formats.caffe.message import MOST_AXES
from flopwise.formats.caffe.place import MOST_ELEMENTS, Lowered, Place, Row, Unresolved, Weight, product, show
from flopwise.graph import Kind, Shape

if TYPE_CHECKING:
    from flopwise.formats.caffe.net import Layer

#: Layer type -> its row.
LAYERS: dict[str, Row] = {**movement.LAYERS, **windows.LAYERS, **pointwise.LAYERS, **detection.LAYERS}

#: Stored blobs that are statistics, by layer type, for layers whose shapes are unknown.
_STATISTICS: dict[str, tuple[int, ...]] = {"BatchNorm": (0, 1, 2), "BN": (2, 3), "Bn": (2, 3)}


def lower(layer: Layer, bottoms: Sequence[Shape | None], inputs: Mapping[str, Shape]) -> tuple[Lowered, ...]:
    """The operators that a layer becomes, as a rule one.

    Args:
        layer: the layer.
        bottoms: the shapes of its bottoms; None where it is unknown.
        inputs: shapes that the user gave, by blob name: for layers without bottoms, and for the tops of layers whose
            own shapes are unknown.

    Raises:
        ModelError: the layer's parameters or the shapes of its bottoms make no sense.
        InputError: the layer reads data of a shape that the file does not give; the message says what to type.
    """
    place = Place(layer, tuple(bottoms), inputs)
    row = LAYERS.get(layer.type)
    if row is None:
        return (_unknown(place),)
    _check_number(place, "bottom", len(bottoms), row.bottoms)
    _check_number(place, "top", len(layer.tops), row.tops)
    op = row.op if isinstance(row.op, str) else row.op(place)
    try:
        result = row.rule(place, op)
    except Unresolved as missing:
        return (_behind(place, op, row, str(missing)),)
    lowered = (result,) if isinstance(result, Lowered) else result
    for one in lowered:
        _check_sizes(place, one)
    if layer.blobs is not None:
        lowered = (_compared(place, lowered[0], layer.blobs), *lowered[1:])
    return tuple(_with_stated_shapes(place, one) if one.bound or None in one.outputs else one for one in lowered)


def _unknown(place: Place) -> Lowered:
    """A layer of a type that no table has.

    Raises:
        InputError: it has no bottoms, so it brings data of a shape that the user must give.
    """
    layer = place.layer
    attrs: dict[str, object] = {}
    what = f"there is no rule for its type {layer.type}"
    if layer.type == "Python":
        message = place.param("python_param")
        attrs = {"module": message.text("module", ""), "layer": message.text("layer", "")}
        what = f"what the Python layer {attrs['module']}.{attrs['layer']} does is not in the file"
    missing = [top for top in layer.tops if top not in place.inputs]
    if missing and not place.bottoms:
        typed = " ".join(f"-i {top}:f32:1x3x224x224" for top in missing)
        raise InputError(f"{place}: {what}, so the shape of {', '.join(missing)} must be given: {typed}")
    note = f"{place}: {what}"
    if missing:
        note += f"; the shape of {', '.join(missing)} is unknown unless given: -i {missing[0]}:f32:SHAPE"
    return _with_stated_shapes(
        place, Lowered(f"caffe::{layer.type}", (None,) * len(layer.tops), _stored(place), attrs, note=note)
    )


def _behind(place: Place, op: str, row: Row, missing: str) -> Lowered:
    """A known layer behind a blob whose shape is unknown."""
    note = ""
    if row.stores and place.layer.blobs is None:
        note = f"{place}: the shape of {missing!r} is unknown, so its stored blobs are not counted"
    return _with_stated_shapes(place, Lowered(op, (None,) * len(place.layer.tops), _stored(place), note=note))


def _stored(place: Place) -> tuple[Weight, ...]:
    """The layer's stored blobs as the file has them."""
    weights: list[Weight] = []
    for i, shape in enumerate(place.layer.blobs or ()):
        kind: Kind = "buffer" if i in _STATISTICS.get(place.layer.type, ()) else "weight"
        weights.append((f"blob{i}", shape, kind))
    return tuple(weights)


def _with_stated_shapes(place: Place, lowered: Lowered) -> Lowered:
    """The same with the shapes that the user gave for tops whose own are not certain."""
    positions = lowered.writes if lowered.writes is not None else range(len(place.layer.tops))
    tops = [place.layer.tops[i] for i in positions]
    outputs = tuple(place.inputs.get(top, shape) for top, shape in zip(tops, lowered.outputs, strict=True))
    return lowered._replace(outputs=outputs, bound=lowered.bound and not all(top in place.inputs for top in tops))


def _check_number(place: Place, what: str, count: int, bounds: tuple[int, int | None]) -> None:
    """Refuse a layer with too few or too many bottoms or tops."""
    least, most = bounds
    if count < least or (most is not None and count > most):
        allowed = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise place.error(f"has {count} {what}{'' if count == 1 else 's'}, needs {allowed}")


def _check_sizes(place: Place, lowered: Lowered) -> None:
    """Refuse blobs larger than any machine can address."""
    for shape in (*lowered.outputs, *(shape for _, shape, _ in lowered.weights)):
        dims = [int(dim) for dim in shape or () if isinstance(dim, int)]
        if len(dims) > MOST_AXES:
            raise place.error(f"has a blob of {len(dims)} dimensions, Caffe allows {MOST_AXES}")
        if any(dim > MOST_ELEMENTS for dim in dims) or product(dims) > MOST_ELEMENTS:
            raise place.error("has a blob of more than 2^63 elements")


def _stripped(shape: Sequence[object]) -> tuple[object, ...]:
    """A shape without leading ones: old files store every blob with four dimensions."""
    start = next((i for i, dim in enumerate(shape) if dim != 1), len(shape))
    return tuple(shape[start:])


def _compared(place: Place, lowered: Lowered, blobs: Sequence[Shape]) -> Lowered:
    """The same, with a note where the stored blobs contradict the layer's parameters."""
    expected = [shape for _, shape, _ in lowered.weights]
    if [_stripped(shape) for shape in expected] == [_stripped(shape) for shape in blobs]:
        return lowered
    have, need = (", ".join(map(show, shapes)) or "none" for shapes in (blobs, expected))
    return lowered._replace(note=f"{place}: its stored blobs are {have}, its parameters need {need}")
