"""Changes that ``--try`` makes to a model on this machine, each run in turns with the model as it is."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise._arguments import Arguments
from flopwise.analyses.timing.bound import WhatIf
from flopwise.analyses.timing.engines import Options, known_version
from flopwise.analyses.timing.peaks import Way, in_turns, quantized, saved_ns
from flopwise.analyses.timing.whatif import Try, estimate, roofline_ns
from flopwise.api.profile import profile
from flopwise.api.runnable import check_runnable, file_of
from flopwise.errors import InputError, ModelError

if TYPE_CHECKING:
    import onnx

    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile

#: The optimiser of onnxruntime that keeps channels in blocks.
BLOCKS = "NchwcTransformer"


def tried(
    model: object,
    counted: Profile,
    tries: Sequence[Try],
    device: Device,
    options: Options,
    reading: Mapping[str, object],
    progress: Callable[[str], None],
) -> tuple[list[WhatIf], list[str]]:
    """Times with each change, run in turns with the model as it is, and notes on changes that cannot be run.

    Other batches are estimated, too, by the rooflines of the rows, and int8 by one product of each size that runs here
    alone. The time of another batch is that of as many items as there are now.

    Args:
        model: what was read.
        counted: its profile.
        tries: the changes.
        device: this machine's CPU.
        options: how it is run now.
        reading: how it was read.
        progress: called with the name of each step.

    Raises:
        InputError: no engine runs the model, or none is installed.
        ModelError: the model cannot be read with a batch, or the engine refuses it as it is.
    """
    check_runnable(model)
    known_version("onnxruntime")
    found, notes = [], []
    with contextlib.ExitStack() as opened:
        path = opened.enter_context(file_of(model, counted, _keywords(reading), progress))
        now = Way(path, _shapes(counted), options)
        for each in tries:
            progress(f"trying {each.change}={each.value}")
            other = counted
            if each.change == "batch":
                other = profile(model, progress=progress, **_with_batch(reading, counted, each.number))
            items = _items(counted) / _items(other)
            what = f"{each.change} {each.value}" + (f", time of {_items(counted):,}" if items != 1 else "")
            try:
                way = _way(each, now, other, model, reading, opened, progress)
                base, ns = in_turns([now, way])
                found.append(WhatIf(what, ns * items, "measured", base))
            except (InputError, ModelError) as error:
                notes.append(f"{each.change}={each.value} is not measured: {error}")
                base = _alone(now)
            if each.change == "batch":
                changed = items * roofline_ns(other, device, options.threads)
                found.append(
                    estimate("batch", what, base * changed / roofline_ns(counted, device, options.threads), base)
                )
            elif each.change == "dtype":
                progress("running products of each size alone")
                found.append(estimate("dtype", what, max(0.0, base - saved_ns(counted, options)), base))
    return found, notes


def _keywords(reading: Mapping[str, object]) -> Arguments:
    return {key: value for key, value in reading.items() if key not in ("inputs", "dims", "batch_size")}


def _alone(way: Way) -> float:
    """The time of the model as it is.

    Raises:
        ModelError: the engine refuses it.
    """
    try:
        (base,) = in_turns([way])
    except ModelError as error:
        raise ModelError(f"{os.fsdecode(way.model)}: onnxruntime refuses it: {error}") from error
    return base


def _with_batch(reading: Mapping[str, object], counted: Profile, batch: int) -> Arguments:
    """Arguments that read the model with another batch; of inputs that are given, the first dimension changes."""
    if reading.get("inputs") is None:
        return {**reading, "batch_size": batch}
    items, texts = _items(counted), []
    for tensor in counted.graph.inputs:
        dims = [batch if place == 0 and size == items else size for place, size in enumerate(tensor.dims)]
        texts.append(f"{tensor.name}:{tensor.dtype}:{'x'.join(map(str, dims))}")
    return {**reading, "inputs": texts, "batch_size": None}


def _shapes(counted: Profile) -> dict[str, Sequence[int]]:
    return {t.name: t.shape for t in counted.graph.inputs if t.shape is not None}


def _items(counted: Profile) -> int:
    """The first dimension of the first input."""
    dims = counted.graph.inputs[0].dims if counted.graph.inputs else ()
    return int(dims[0]) if dims else 1


def _way(
    each: Try,
    now: Way,
    other: Profile,
    model: object,
    reading: Mapping[str, object],
    opened: contextlib.ExitStack,
    progress: Callable[[str], None],
) -> Way:
    """Way to run the model with a change.

    Raises:
        InputError: it cannot be run so.
        ModelError: it cannot be made for another batch.
    """
    if each.change == "level":
        return now._replace(options=replace(now.options, level=each.value))
    if each.change == "threads":
        return now._replace(options=replace(now.options, threads=each.number))
    if each.value == "nchw":
        return now._replace(without=(BLOCKS,))
    assert isinstance(now.model, str)  # the path of a file
    if each.value == "nhwc":
        content, shapes = channels_last(now.model, now.shapes)
        return now._replace(model=content, shapes=shapes, folder=os.path.dirname(os.path.abspath(now.model)))
    if each.change == "batch":
        path = opened.enter_context(file_of(model, other, _keywords(reading), progress))
        content = resized(path, _shapes(other))
        return now._replace(model=content, shapes=_shapes(other), folder=os.path.dirname(os.path.abspath(path)))
    folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="flopwise-"))
    return now._replace(model=quantized(now.model, os.path.join(folder, "quantized.onnx")))


def channels_last(path: str, shapes: Mapping[str, Sequence[int]]) -> tuple[bytes, dict[str, Sequence[int]]]:
    """An ONNX file whose images are given with their channels last, turned by a Transpose each, and their shapes.

    Raises:
        InputError: it takes no images: no input has four dimensions.
        ModelError: it is too large to be rewritten.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    turned = {name: [shape[0], *shape[2:], shape[1]] for name, shape in shapes.items() if len(shape) == 4}
    images = [tensor for tensor in graph.input if tensor.name in turned]
    if not images:
        raise InputError("no input has four dimensions, of which the second is channels")
    for tensor in images:
        name, last = tensor.name, f"{tensor.name}.channels_last"
        node = onnx.helper.make_node("Transpose", [last], [name], name=f"{name}.turned", perm=[0, 3, 1, 2])
        kind = tensor.type.tensor_type.elem_type
        tensor.CopyFrom(onnx.helper.make_tensor_value_info(last, kind, turned.pop(name)))
        turned[last] = [dim.dim_value for dim in tensor.type.tensor_type.shape.dim]
        graph.node.insert(0, node)
    return _content(model), {**shapes, **turned}


def resized(path: str, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """An ONNX file whose inputs have other sizes; external weights stay where they are.

    Raises:
        ModelError: it is too large to be rewritten.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for tensor in graph.input:
        dims = tensor.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(tensor.name, ()), strict=False):
            dim.dim_value = size
    for result in graph.output:
        result.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return _content(model)


def _content(model: onnx.ModelProto) -> bytes:
    """The bytes of a model.

    Raises:
        ModelError: it is too large to be rewritten.
    """
    try:
        return bytes(model.SerializeToString())
    except ValueError as error:  # protobuf's, of 2 GB and more
        raise ModelError(f"too large to be rewritten: {error}") from error
