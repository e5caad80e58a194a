"""The whole way in one call: read a model, count it, know how to print it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flopwise import conventions
from flopwise.conventions import Convention
from flopwise.errors import FlopwiseError
from flopwise.graph import Graph
from flopwise.ops import Rule
from flopwise.profiles import Profile, profile_graph

if TYPE_CHECKING:
    from flopwise.formulas.formula import Formula


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


def formula(
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
) -> Formula:
    """What a model costs as closed formulas in the open dimensions of its inputs.

    The formulas are compared with profiles at several sizes before they are handed over.

    Args:
        model: as in :func:`read`.
        inputs: shapes as in :func:`read`, in which names may stand for sizes that the file fixes as numbers.
        convention: as in :func:`profile`.
        rules: as in :func:`profile`.
        dims: values of symbolic dimensions that are not to be symbols.
        batch_size: as in :func:`read`.
        trips: as in :func:`read`.
        fold: as in :func:`profile`.
        progress: as in :func:`read`.

    Raises:
        ModelError: the model cannot be read.
        InputError: no dimension is open, no sizes were found that the model takes, or the convention is unknown.
    """
    from dataclasses import replace

    from flopwise.formulas.derive import derive
    from flopwise.formulas.rows import Counting
    from flopwise.formulas.sizes import open_inputs
    from flopwise.readers.onnx_signature import signature

    chosen = conventions.get(convention)
    progress("reading the inputs")
    declared, light = signature(model)
    opened = open_inputs(declared, inputs, dims, batch_size)
    first = [model]  # with the names of modules, which the lighter copy lacks

    def at(point: Mapping[str, int]) -> Graph:
        try:
            return read(first[0] if first else light, opened.at(point), batch_size=batch_size, trips=trips)
        except FlopwiseError as error:
            raise type(error)(str(error).partition(": ")[2] or str(error)) from error
        finally:
            first.clear()

    shapes = [(i.name, i.dtype, i.shape) for i in opened.inputs]
    found = derive(opened.symbols, at, Counting(chosen, rules, fold), opened.hints, shapes, progress)
    return replace(found, renderer=_formula_as_text)


def _formula_as_text(formula: Formula) -> str:
    from flopwise.report.formulas import render

    return render(formula)


def _as_text(profile: Profile) -> str:
    from flopwise.report import render

    return render(profile)
