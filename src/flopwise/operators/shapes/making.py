"""Shapes of reductions, normalisations and losses, and of what makes values: ranges, windows, draws, spectra."""

from __future__ import annotations

import math
from typing import Any

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import OPEN, MisfitError, Most, UnresolvedError, axis_of, differ, larger, require, written


def reduced(call: Call) -> Types:
    """Without the axes that are reduced, or with extent 1 there."""
    x, keep = call.shape(0), call.attr("keepdims", 1)
    try:
        named = call.settings("axes", 1)
    except UnresolvedError:
        return [_reduced_somewhere(call, keep)]
    if not named:
        if call.attr("noop_with_empty_axes", 0):
            return [x]
        named = list(range(len(x)))
    axes = {axis_of(axis, len(x)) for axis in named}
    if keep:
        return [tuple([1 if axis in axes else n for axis, n in enumerate(x)])]
    return [tuple([n for axis, n in enumerate(x) if axis not in axes])]


def _reduced_somewhere(call: Call, keep: int) -> Any:
    """The shape of a reduction along axes that nobody knows."""
    x = call.shape(0)
    if not keep:
        raise UnresolvedError
    return tuple([n if type(n) is int and n == 1 else OPEN for n in x])


def chosen(call: Call) -> Types:
    """Without the axis along which the largest or smallest is sought, or with extent 1 there."""
    x = call.shape(0)
    axis = axis_of(call.attr("axis", 0), len(x))
    return [(*x[:axis], *([1] if call.attr("keepdims", 1) else []), *x[axis + 1 :])]


def normalized(call: Call) -> Types:
    """As the first input; statistics along what is normalised have extent 1."""
    x = call.shape(0)
    axis = axis_of(call.attr("axis", -1), len(x))
    statistics = (*x[:axis], *[1] * (len(x) - axis))
    return [x, statistics, statistics]


def normalized_types(call: Call) -> list[str | None]:
    """The statistics have a type of their own."""
    stash = call.type_attribute("stash_type", "float32")
    return [call.dtype(0), stash, stash]


def per_channel(call: Call) -> Types:
    """As the first input; the others have a number for each channel."""
    x = call.shape(0)
    for place in range(1, call.inputs):
        parameters = call.type(place)
        shape = None if parameters is None else parameters.shape
        if shape is not None and len(shape) == 1 and len(x) > 1 and differ(shape[0], x[1]):
            raise MisfitError(f"it has parameters for {shape[0]} channels, but {written(x)} has {x[1]}")
    return [x]


def batch_normalized(call: Call) -> Types:
    """As the first input; statistics for each channel."""
    per_channel(call)
    return [call.shape(0), *[call.shape(1)] * (call.outputs - 1)]


def batch_types(call: Call) -> list[str | None]:
    """Statistics have the type of the mean that flows in."""
    return [call.dtype(0), *[call.dtype(3 if call.version >= 14 else 0)] * 4]


def dynamically_quantized(call: Call) -> Types:
    """As the first input; a scale and a zero point."""
    return [call.shape(0), (), ()]


def quantized_type(call: Call) -> list[str | None]:
    """That of the zero point, else what an attribute says."""
    if call.has(2):
        return [call.dtype(2)]
    return [call.type_attribute("output_dtype", "uint8") if call.attr("output_dtype") else "uint8"]


def mask_type(call: Call) -> list[str | None]:
    """The mask of a Dropout is of flags since version 10."""
    return [call.dtype(0), "bool" if call.version >= 10 else call.dtype(0)]


def loss(call: Call) -> Types:
    """As the labels, or one number; and the logarithms of the probabilities."""
    return [call.shape(1) if call.attr("reduction", "mean") == "none" else (), call.shape(0)]


def identity(call: Call) -> Types:
    """The type of the input, with its elements."""
    return [call.whole_type(0)]


def constant(call: Call) -> Types:
    """The type and elements of the value in the attribute, whose name says the element type.

    https://onnx.ai/onnx/operators/onnx__Constant.html
    """
    for name in ("value", "sparse_value"):
        if call.attr(name) is not None:
            return [call.constant(name)]
    for kind, dtype in (("int", "int64"), ("float", "float32"), ("string", "string")):
        if call.attr(f"value_{kind}") is not None:
            return [call.known(dtype, (), (call.attr(f"value_{kind}"),))]
        listed = call.attr(f"value_{kind}s")
        if listed is not None:
            return [call.known(dtype, (len(listed),), listed)]
    raise UnresolvedError


def shape_of(call: Call) -> Types:
    """One number for each axis."""
    return [(len(call.shape(0)[call.attr("start", 0) : call.attr("end")]),)]


def scalar(call: Call) -> Types:
    """One number."""
    return [()]


def filled(call: Call) -> Types:
    """As the elements of the input say."""
    return [tuple([OPEN if n is None else n for n in call.settings_or_open("", 0) or ()])]


def filled_type(call: Call) -> list[str | None]:
    """That of the value."""
    value = call.constant("value")
    return ["float32" if value is None else value.dtype]


def stated(call: Call) -> Types:
    """As the attribute says."""
    return [tuple(call.attr("shape") or ())]


def counted(call: Call) -> Types:
    """Range: as many numbers as steps go from start to limit."""
    try:
        start, limit, step = (call.elements(place)[0] if call.has(place) else 1 for place in range(3))
    except UnresolvedError:
        return [(OPEN,)]
    if start is None or limit is None or type(step) not in (int, float) or not step:
        return [(OPEN,)]
    if float in map(type, (start, limit, step)):
        return [(max(math.ceil((limit - start) / step), 0),)]
    return [(larger(-(-(limit - start) // step), 0),)]


def window(call: Call) -> Types:
    """As many numbers as the input says."""
    (size,) = call.settings_or_open("", 0) or (None,)
    return [(OPEN if size is None else size,)]


def draws(call: Call) -> Types:
    """Multinomial: as many draws for each row."""
    return [(call.shape(0)[0], call.attr("sample_size", 1))]


def spectrum(call: Call) -> Types:
    """DFT: as X with complex numbers along the last axis, half as many where one side is asked for.

    https://onnx.ai/onnx/operators/onnx__DFT.html
    """
    x = list(call.shape(0))
    place = call.wholes(2)[0] if call.has(2) else call.attr("axis", -2 if call.version >= 20 else 1)
    axis = axis_of(place, len(x))
    one, inverse = call.attr("onesided", 0), call.attr("inverse", 0)
    if call.has(1):
        x[axis] = call.wholes(1)[0]
    if one and inverse:
        x[axis] = x[axis] if call.has(1) else (x[axis] - 1) * 2
    elif one:
        x[axis] = x[axis] // 2 + 1
    return [(*x[:-1], 1 if one and inverse else 2)]


def short_time(call: Call) -> Types:
    """STFT: frames × bins × 2 for each signal.

    https://onnx.ai/onnx/operators/onnx__STFT.html
    """
    x, step = call.shape(0), call.wholes(1)[0]
    length = call.wholes(3)[0] if call.has(3) else call.shape(2)[0]
    room = x[1] - length
    if type(room) is int and room < 0:
        raise MisfitError(f"a frame of {length} is taken from a signal of {x[1]}")
    require(room, ">=")
    frames = Most(room.high // step + 1) if type(room) is Most else room // step + 1
    return [(x[0], frames, length // 2 + 1 if call.attr("onesided", 1) else length, 2)]


def mel(call: Call) -> Types:
    """Bins of the spectrum × mel bins."""
    return [(call.wholes(1)[0] // 2 + 1, call.wholes(0)[0])]


def image(call: Call) -> Types:
    """ImageDecoder: height, width and channels, of which the format says the last."""
    return [(OPEN, OPEN, 1 if call.attr("pixel_format", "RGB") == "Grayscale" else 3)]


def split_strings(call: Call) -> Types:
    """StringSplit: the parts of each string, padded to the most; and how many there are of each."""
    x, between, limit = call.shape(0), call.attr("delimiter") or None, call.attr("maxsplit")
    try:
        texts = call.elements(0)
    except UnresolvedError:
        return [(*x, OPEN), x]
    if not all(isinstance(text, str) for text in texts):
        return [(*x, OPEN), x]
    counts = [len(text.split(between, -1 if limit is None else limit)) for text in texts]
    return [(*x, max(counts, default=0)), x]


def normalized_strings(call: Call) -> Types:
    """StringNormalizer: without the words that are left out; at least one string stays."""
    x = call.shape(0)
    return [(*x[:-1], Most(x[-1])) if call.attr("stopwords") else x]


def occurrences(call: Call) -> Types:
    """TfIdfVectorizer: a number for each n-gram."""
    return [(*call.shape(0)[:-1], max(call.attr("ngram_indexes")) + 1)]
