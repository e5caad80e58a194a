"""Values of small tensors with sizes in them: the arithmetic of shapes, element by element."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy

from flopwise.analyses.formula.dim import Dim, Ratio, larger, require, smaller
from flopwise.analyses.formula.propagation.movement import reshaped
from flopwise.analyses.formula.propagation.site import Site, UnknownError, Value, array, axis_of

#: Values of more elements are not followed.
MOST = 1024

Rule = Callable[[Site], Value]


def elementwise(function: Callable[..., Any], inputs: int = 2) -> Rule:
    """The rule of an operator on each element, broadcast."""
    each = numpy.frompyfunc(function, inputs, 1)

    def rule(site: Site) -> Value:
        return array(each(*(site.value(i) for i in range(each.nin))))

    return rule


def folded(function: Callable[[Any, Any], Any]) -> Rule:
    """The rule of an operator that takes any number of inputs two by two."""
    each = numpy.frompyfunc(function, 2, 1)

    def rule(site: Site) -> Value:
        return array(functools.reduce(each, (site.value(i) for i in range(len(site.node.inputs)))))

    return rule


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if isinstance(a, Dim) or isinstance(b, Dim):
            return a // b if a >= 0 and b > 0 else -(-a // b)
        return int(a / b)
    return a / b


def _least(a: Any, b: Any) -> Any:
    return smaller(a, b) if isinstance(a, int) and isinstance(b, int) else min(a, b)


def _largest(a: Any, b: Any) -> Any:
    return larger(a, b) if isinstance(a, int) and isinstance(b, int) else max(a, b)


#: Element type -> up to which number it has all whole ones; beyond, what models round was rounded before.
_WHOLE = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}


def _exact(x: Any, dtype: str | None) -> Any:
    """A number of an element type; that the type has the whole numbers beside it becomes a condition."""
    most = _WHOLE.get(dtype or "")
    if isinstance(x, Ratio) and most is not None:
        most = most * 2 // 3 if x.rounded else most  # rounding stays away from the next whole number
        if x.number * x.by > most:
            raise UnknownError
        require(most - x.over, ">=")
    return x


def rounding(way: Callable[[Any], int]) -> Rule:
    """The rule of an operator that makes numbers whole, of the same type as they were."""

    def rule(site: Site) -> Value:
        dtype = site.node.input(0).dtype

        def rounded(x: Any) -> Any:
            if isinstance(x, int):
                return x
            return Ratio.of(way(_exact(x, dtype))) if isinstance(x, Ratio) else float(way(x))

        return elementwise(rounded, 1)(site)

    return rule


def _power(a: Any, b: Any) -> Any:
    return a ** int(b) if isinstance(b, float) and b.is_integer() else a**b


def cast(site: Site) -> Value:
    """The elements in another type: whole numbers, ratios or flags."""
    to = site.attr("to")
    dtype, before = site.node.output().dtype or "", site.node.input(0).dtype
    if to is None and not dtype:
        raise UnknownError

    def convert(x: Any) -> Any:
        if dtype.startswith(("int", "uint")):
            return x if isinstance(x, int) and not isinstance(x, bool) else math.trunc(_exact(x, before))
        if dtype.startswith(("float", "double", "bfloat")):
            return Ratio.of(x) if isinstance(x, Dim) else x if isinstance(x, Ratio) else float(x)
        if dtype == "bool":
            return bool(x)
        raise UnknownError

    return array(numpy.frompyfunc(convert, 1, 1)(site.value(0)))


def _first(site: Site) -> Value:
    return site.value(0)


def shape_of(site: Site) -> Value:
    return array(list(site.shape(0)[site.attr("start", 0) : site.attr("end")]))


def size(site: Site) -> Value:
    return array(math.prod(site.shape(0)))


def gather(site: Site) -> Value:
    data, indices = site.value(0), site.value(1)
    places = numpy.array([int(i) for i in indices.ravel().tolist()], dtype=numpy.int64).reshape(indices.shape)
    return array(numpy.take(data, places, axis=site.attr("axis", 0)))


def concat(site: Site) -> Value:
    parts = [site.value(i) for i in range(len(site.node.inputs))]
    return numpy.concatenate(parts, axis=site.attr("axis", 0))


def slice_(site: Site) -> Value:
    data = site.value(0)
    starts, ends = site.settings("starts", 1), site.settings("ends", 2)
    if starts is None or ends is None:
        raise UnknownError
    axes = site.settings("axes", 3) or list(range(len(starts)))
    steps = site.settings("steps", 4) or [1] * len(starts)
    picked: list[Any] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if isinstance(start, Dim) or isinstance(end, Dim):
            raise UnknownError
        place = axis_of(axis, data.ndim)
        stop = None if step < 0 and end < -data.shape[place] else end
        picked[place] = slice(start, stop, step)
    return data[tuple(picked)]


def squeeze(site: Site) -> Value:
    data, axes = site.value(0), site.settings("axes", 1)
    return array(numpy.squeeze(data, None if axes is None else tuple(axes)))


def unsqueeze(site: Site) -> Value:
    data, axes = site.value(0), site.settings("axes", 1)
    return numpy.expand_dims(data, tuple(axes or ()))


def reshape(site: Site) -> Value:
    data, target = site.value(0), site.settings("shape", 1)
    return data.reshape(reshaped(data.shape, [int(n) for n in target or ()]))


def flatten(site: Site) -> Value:
    return site.value(0).reshape(1, -1)


def transpose(site: Site) -> Value:
    return numpy.transpose(site.value(0), site.attr("perm"))


def expand(site: Site) -> Value:
    target = [int(n) for n in site.whole(1)]
    if any(isinstance(n, Dim) for n in site.whole(1)):
        raise UnknownError
    data = site.value(0)
    return array(numpy.broadcast_to(data, numpy.broadcast_shapes(data.shape, tuple(target))))


def filled(site: Site) -> Value:
    extents = site.whole(0)
    hint = site.hint_value(0)
    if any(isinstance(n, Dim) for n in extents) or math.prod(extents) > MOST:
        raise UnknownError
    if hint is None:
        raise UnknownError
    return hint


def ranged(site: Site) -> Value:
    start, limit = site.whole(0)[0], site.whole(1)[0]
    step = site.whole(2)[0] if site.has(2) else 1
    if any(isinstance(n, Dim) for n in (start, limit, step)):
        raise UnknownError
    return array(list(range(start, limit, step)))


def reduced(function: Callable[[Any, Any], Any]) -> Rule:
    """The rule of a reduction of a vector or of everything."""

    def rule(site: Site) -> Value:
        data, axes = site.value(0), site.settings("axes", 1)
        if data.ndim > 1 and axes is not None and len(axes) != data.ndim:
            raise UnknownError
        total = functools.reduce(function, data.ravel().tolist())
        return array(total).reshape([1] * data.ndim if site.attr("keepdims", 1) else [])

    return rule


def split(site: Site) -> list[Value]:
    """The values of each part."""
    data = site.value(0)
    count = len(site.node.outputs)
    axis = axis_of(site.attr("axis", 0), data.ndim)
    sizes = site.settings("split", 1) or [-(-data.shape[axis] // count)] * (count - 1)
    return numpy.split(data, numpy.cumsum([int(s) for s in sizes])[: count - 1], axis=axis)


def non_zero(site: Site) -> Value:
    flags = [bool(x) for x in site.value(0).ravel().tolist()]
    return array(numpy.array(numpy.nonzero(numpy.array(flags).reshape(site.value(0).shape))))


RULES: dict[str, Rule] = {
    "Shape": shape_of,
    "Size": size,
    **dict.fromkeys(("Identity", "CastLike"), _first),
    "Cast": cast,
    "Gather": gather,
    "Concat": concat,
    "Slice": slice_,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Reshape": reshape,
    "Transpose": transpose,
    "Expand": expand,
    "ConstantOfShape": filled,
    "Range": ranged,
    "NonZero": non_zero,
    "Add": elementwise(operator.add),
    "Sub": elementwise(operator.sub),
    "Mul": elementwise(operator.mul),
    "Div": elementwise(_divided),
    "Mod": elementwise(operator.mod),
    "Pow": elementwise(_power),
    "Sqrt": elementwise(math.sqrt, 1),
    "Neg": elementwise(operator.neg, 1),
    "Abs": elementwise(abs, 1),
    "Floor": rounding(math.floor),
    "Ceil": rounding(math.ceil),
    "Round": rounding(round),
    "Min": folded(_least),
    "Max": folded(_largest),
    "Equal": elementwise(operator.eq),
    "Greater": elementwise(operator.gt),
    "GreaterOrEqual": elementwise(operator.ge),
    "Less": elementwise(operator.lt),
    "LessOrEqual": elementwise(operator.le),
    "Not": elementwise(operator.not_, 1),
    "And": elementwise(lambda a, b: bool(a) and bool(b)),
    "Or": elementwise(lambda a, b: bool(a) or bool(b)),
    "Where": elementwise(lambda condition, a, b: a if condition else b, 3),
    "ReduceProd": reduced(operator.mul),
    "ReduceSum": reduced(operator.add),
    "ReduceMax": reduced(_largest),
    "ReduceMin": reduced(_least),
}
