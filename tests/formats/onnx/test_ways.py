"""Models are read the same, however large the reader takes them to be and however their tensors are written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.models import fields, with_groups
from tests.formats.onnx.every_kind import OTHERS, PLAIN
from tests.onnx_suite import cases

import flopwise
from flopwise.errors import FlopwiseError
from flopwise.formats.onnx import tensors, walk
from flopwise.profiles import count

EXAMPLES = Path(__file__).parents[3] / "examples"

#: Where a size decides in which way something is read.
THRESHOLDS: tuple[tuple[Any, str], ...] = (
    (count, "MANY"),
    (walk, "SMALL"),
    (walk, "USUAL"),
    (tensors, "SMALL"),
)

#: The thresholds of each way: nothing is large; everything is; fields are looked at one by one; and both.
WAYS: dict[str, dict[tuple[Any, str], int]] = {
    "small": dict.fromkeys(THRESHOLDS, 1 << 40),
    "large": dict.fromkeys(THRESHOLDS[:1], -1),
    "field by field": dict.fromkeys(THRESHOLDS[1:], -1),
    "large, field by field": dict.fromkeys(THRESHOLDS, -1),
}


def typed(tensor: TensorProto) -> TensorProto:
    """The tensor with its elements in the list of their type."""
    try:
        array = numpy_helper.to_array(tensor)
        return helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, array.ravel().tolist())
    except (TypeError, ValueError, KeyError):  # onnx writes no such list
        return tensor


def with_typed_data(model: onnx.ModelProto) -> None:
    """Write the elements of stored tensors into the lists of their types."""
    stored = [typed(tensor) for tensor in model.graph.initializer]
    del model.graph.initializer[:]
    model.graph.initializer.extend(stored)


def with_odd_names(model: onnx.ModelProto) -> None:
    """Give the stored tensors that nodes of the graph alone take names that are long, or not ASCII."""
    graph = model.graph
    if any(a.type == onnx.AttributeProto.GRAPH for node in graph.node for a in node.attribute):
        return
    ends = {v.name for v in (*graph.input, *graph.output)}
    ends |= {text.decode() for node in graph.node for a in node.attribute for text in a.strings}  # a Gradient's xs
    odd = itertools.cycle(["{:_<200}", "層{}"])
    names = {t.name: next(odd).format(t.name) for t in graph.initializer if t.name not in ends}
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]


def with_documentation_first(model: onnx.ModelProto) -> bytes:
    """A model that begins as text does, for more than a kilobyte, with groups."""
    return fields(6, f"{'a model that says at length what it is for ':-<1300}") + with_groups(model)


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The models of onnx's tests, as they are and with their inputs stored; those of other tests; and the examples."""
    for case in (*cases.made(), *itertools.chain.from_iterable(map(cases.stored, cases.STORED))):
        yield case.name, case.model
        held = {n: numpy_helper.from_array(v, n) for n, v in case.inputs.items() if isinstance(v, numpy.ndarray)}
        if held:
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            model.graph.initializer.extend(held.values())
            inputs = [i for i in model.graph.input if i.name not in held]
            del model.graph.input[:]
            model.graph.input.extend(inputs)
            yield f"{case.name}, stored", model
    for path in sorted(EXAMPLES.glob("*.onnx")):
        yield path.name, onnx.load(path)
    for name, make in {**PLAIN, **OTHERS}.items():
        if name not in ("damaged", "a name that is no text"):
            yield name, onnx.ModelProto.FromString(make())


def rows(data: bytes, way: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """All that a profile says without the notes, which name stored tensors; or the error."""
    with monkeypatch.context() as patch:
        for (module, threshold), value in WAYS[way].items():
            patch.setattr(module, threshold, value)
        try:
            said = flopwise.profile(data, fold=False).to_dict()
        except FlopwiseError as error:
            return type(error)
    return {key: said[key] for key in ("inputs", "totals", "layers", "coverage")}


def test_every_way_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    different = []
    for name, model in models():
        said = rows(model.SerializeToString(), "small", monkeypatch)
        spellings = {"large": with_groups(model)}
        with_typed_data(model)
        spellings["field by field"] = with_documentation_first(model)
        with_odd_names(model)
        spellings["large, field by field"] = model.SerializeToString()
        different += [(name, way) for way, data in spellings.items() if rows(data, way, monkeypatch) != said]
    assert not different, len(different)
