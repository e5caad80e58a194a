"""Selection by the data, where these are known: boxes that do not overlap, and distinct elements."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.operators.elements.places import picked
from flopwise.operators.shape import Call, Element, Elements
from flopwise.operators.size import Dims, UnresolvedError, axis_of


def _numbers(call: Call, place: int) -> tuple[Element, ...] | None:
    """The elements of an input if all of them are plain numbers."""
    try:
        elements = call.elements(place)
    except UnresolvedError:
        return None
    return elements if all(type(element) in (int, float, bool) for element in elements) else None


def distinct(call: Call) -> list[tuple[tuple[Element, ...], list[int]]] | None:
    """The distinct elements or slices of X, each with its places, in the order of the result; None if not known."""
    x, data, named = call.shape(0), _numbers(call, 0), call.attr("axis")
    if data is None or not all(type(n) is int for n in x):
        return None
    places: dict[tuple[Element, ...], list[int]] = {}
    if named is None:
        for place, element in enumerate(data):
            places.setdefault((element,), []).append(place)
    else:
        axis = axis_of(named, len(x))
        for index in range(x[axis]):
            of_slice = picked(x, [[index] if i == axis else range(n) for i, n in enumerate(x)])
            places.setdefault(tuple([data[place] for place in of_slice]), []).append(index)
    return sorted(places.items()) if call.attr("sorted", 1) else list(places.items())


def unique(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The distinct elements, where each is first, which one each element is, and how many there are of each."""
    found = distinct(call)
    if found is None or call.attr("axis") is not None:
        raise UnresolvedError
    inverse = {place: number for number, (_, places) in enumerate(found) for place in places}
    return [
        tuple([element for (element,), _ in found]),
        tuple([places[0] for _, places in found]),
        tuple([inverse[place] for place in sorted(inverse)]),
        tuple([len(places) for _, places in found]),
    ]


def kept_boxes(call: Call) -> list[tuple[int, int, int]] | None:
    """Image, class and box of each that is kept; None if the data are not known.

    https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """
    boxes, scores = _numbers(call, 0), _numbers(call, 1)
    if boxes is None or scores is None:
        return None
    limits = [_numbers(call, place) if call.has(place) else (0,) for place in (2, 3, 4)]
    if any(limit is None for limit in limits):
        return None
    (most,), (overlap,), (least,) = (limit or (0,) for limit in limits)
    images, classes, count = call.shape(1)
    corners = [_corners(boxes[i * 4 : i * 4 + 4], call.attr("center_point_box", 0)) for i in range(images * count)]
    triples: list[tuple[int, int, int]] = []
    for image in range(images):
        for kind in range(classes):
            start = (image * classes + kind) * count
            own = scores[start : start + count]
            left = [i for i in range(count) if not call.has(4) or own[i] > least]
            chosen: list[int] = []
            for box in sorted(left, key=lambda i: (-own[i], i)):
                if len(chosen) >= most:
                    break
                if all(
                    _overlap(corners[image * count + box], corners[image * count + other]) <= overlap
                    for other in chosen
                ):
                    chosen.append(box)
            triples += [(image, kind, box) for box in chosen]
    return triples


def suppressed(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Image, class and box of each that is kept."""
    boxes = kept_boxes(call)
    if boxes is None:
        raise UnresolvedError
    return [tuple([number for row in boxes for number in row])]


def _corners(box: Sequence[float], centred: int) -> tuple[float, float, float, float]:
    """Lower and upper corner of a box, which is given by any two opposite corners, or by its centre and its size."""
    a, b, c, d = box
    if centred:
        return b - d / 2, a - c / 2, b + d / 2, a + c / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The area that two boxes share, of the area that they cover."""
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    if height <= 0 or width <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return height * width / (sum(areas) - height * width)
