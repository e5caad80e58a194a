"""The whole way in one call: read a model, count it, know how to print it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flopwise import conventions
from flopwise.conventions import Convention
from flopwise.graph import Graph
from flopwise.ops import Rule
from flopwise.profiles import Profile, profile_graph


def read(
    model: object,
    inputs: Any = None,
    *,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Graph:
    """The graph of a model with resolved shapes; no weights are read.

    Args:
        model: path of an ONNX file, its bytes, an open binary file, or an ``onnx.ModelProto``.
        inputs: shapes by input name (``{"x": (1, 3, 224, 224)}``), one shape when there is one input, or texts of the
            form ``name:dtype:shape[:data]``. Needed where the file leaves a shape open.
        dims: values of symbolic dimensions by name.
        batch_size: first dimension of the inputs whose first dimension is the batch.
        trips: how often loops run, by name, where the model does not say.
        progress: called with the name of each step.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit.
    """
    from flopwise.readers.onnx import read_onnx

    return read_onnx(model, inputs, dims, batch_size, trips, progress)


def profile(
    model: object,
    inputs: Any = None,
    *,
    convention: str | Convention = "flops",
    rules: Mapping[str, Rule] | None = None,
    dims: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    trips: Mapping[str, int] | None = None,
    fold: bool | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Profile:
    """What a model costs, per layer and in total.

    Args:
        model: as in :func:`read`, or a Graph.
        inputs: as in :func:`read`.
        convention: how operations are added up: a name from ``flopwise.CONVENTIONS`` or a Convention.
        rules: your own operators: name -> function from Node to Counts. They win over the built-in ones.
        dims: as in :func:`read`.
        batch_size: as in :func:`read`.
        trips: as in :func:`read`.
        fold: whether operators on weights and constants only are left out; None: as the convention does.
        progress: as in :func:`read`.

    Raises:
        ModelError: the model cannot be read.
        InputError: a shape is missing or does not fit, or the convention is unknown.
    """
    from dataclasses import replace

    chosen = conventions.get(convention)
    graph = (
        model
        if isinstance(model, Graph)
        else read(model, inputs, dims=dims, batch_size=batch_size, trips=trips, progress=progress)
    )
    progress("counting")
    return replace(profile_graph(graph, chosen, rules, fold), renderer=_as_text)


def _as_text(profile: Profile) -> str:
    from flopwise.report import render

    return render(profile)
