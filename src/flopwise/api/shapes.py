"""``flopwise.write_shapes``: an ONNX model with every known shape in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from flopwise import conventions
from flopwise._arguments import checked
from flopwise.api import places
from flopwise.errors import InputError
from flopwise.formats.kit.read import graph_of
from flopwise.formats.onnx.read import resolve_onnx
from flopwise.formats.options import OnnxOptions
from flopwise.formats.table import format_of
from flopwise.operators.own import Rules, own_rows, using
from flopwise.profiles.count import profile_graph
from flopwise.writers.onnx.write import Written, write_onnx


@checked
def write_shapes(
    model: object,
    path: str | os.PathLike[str],
    inputs: object = None,
    *,
    tensors: Sequence[str] = (),
    weights: bool = True,
    annotate: bool = False,
    copy_data: bool = False,
    rules: Rules | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    states: Mapping[str, str] | None = None,
    assume: Mapping[str, int] | None = None,
    largest_graph: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Written:
    """Write an ONNX model with every shape that is known; the file appears only when it is complete.

    Args:
        model: as in ``flopwise.read``.
        path: the file to write, ending in ``.onnx``; none that is read.
        inputs: as in ``flopwise.read``; these shapes are written into the inputs.
        tensors: names of hidden tensors that become outputs.
        weights: whether stored tensors keep their elements. Without them, each becomes a Constant operator whose sparse
            tensor holds nothing; tensors that may steer shapes and words stay.
        annotate: whether each operator gets its parameters, MACs, FLOPs and bytes as metadata.
        copy_data: whether files with weights that lie beside the model are copied to another folder.
        rules: as in ``flopwise.profile``, for the metadata.
        dims: as in ``flopwise.read``.
        batch_size: as in ``flopwise.read``.
        trips: as in ``flopwise.OnnxOptions``, like ``states``, ``assume`` and ``largest_graph``.
        states: inputs that are states, and the outputs that feed them.
        assume: sizes of dimensions that nothing else says.
        largest_graph: bytes that the graph may take.
        progress: as in ``flopwise.read``.

    Returns:
        How many shapes were written, and the names of the tensors that have none.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, a tensor is unknown, or the file is read or cannot be written.
    """
    places.check({"path=": path}, model, inputs)
    format = format_of(model)
    if not format.writable:
        raise InputError(f"{model}: only ONNX models are written; without -o the shapes of {format.models} are listed")
    with using(own_rows(rules)):
        resolved = resolve_onnx(
            model, inputs, dims, batch_size, OnnxOptions(trips, states, assume, largest_graph), progress
        )
    costs = profile_graph(graph_of(resolved, progress), conventions.get("flops"), rules) if annotate else None
    progress("writing the model")
    return write_onnx(model, resolved, path, tensors, weights, costs, copy_data)
