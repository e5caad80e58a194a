"""onnx's own tests: a model of one or a few operators, inputs, and the outputs that any backend has to give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy
import onnx
from onnx import numpy_helper

#: The models that the onnx package brings along.
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

#: Kinds of tests of which the package holds the files.
STORED = ("pytorch-converted", "pytorch-operator", "simple")


class Case(NamedTuple):
    """One test. A value is an array, a list of arrays (a sequence), a dict (a map), or None (an empty optional)."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@lru_cache(maxsize=1)
def made() -> tuple[Case, ...]:
    """The tests of the installed onnx, made by its own generators."""
    from onnx.reference.ops import op_pool_common  # all operators: they keep their own pool

    from onnx.backend.test.case.node import collect_testcases  # isort: skip

    with warnings.catch_warnings(), mock.patch.object(op_pool_common, "pool", _pooled):
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)  # type: ignore[arg-type] # None is every operator
    found = []
    for case in cases:
        inputs, outputs = case.data_sets[0]
        found.append(_case(case.name, case.model, inputs, outputs))
    return tuple(found)


def _pooled(padded: Any, x_shape: Any, kernel: Any, strides: Any, out_shape: Any, *_: Any, **__: Any) -> Any:
    """A result of a pooling of which no test looks at the elements: to average 90,000 windows takes onnx seconds."""
    return numpy.full([*x_shape[:2], *out_shape], numpy.nan, padded.dtype)


def stored(kind: str, data: Path = DATA) -> Iterator[Case]:
    """The tests of one kind of which a folder holds the files (``node`` in the package of onnx 1.22 and before)."""
    for path in sorted((data / kind).glob("*/model.onnx")):
        model = onnx.load(path, load_external_data=False)
        folder = path.parent / "test_data_set_0"
        if folder.is_dir():
            inputs = [_read(folder / f"input_{i}.pb", v.type) for i, v in enumerate(_open_inputs(model))]
            outputs = [_read(folder / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output)]
            yield _case(path.parent.name, model, inputs, outputs)
        else:
            yield Case(path.parent.name, model, {}, {})


def _open_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    held = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in held]


def _case(name: str, model: onnx.ModelProto, inputs: Any, outputs: Any) -> Case:
    names = [i.name for i in _open_inputs(model)]
    return Case(
        name,
        model,
        {n: _value(v) for n, v in zip(names, inputs, strict=False)},
        {o.name: _value(v) for o, v in zip(model.graph.output, outputs, strict=False)},
    )


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_value(v) for v in value]
    return value if value is None or isinstance(value, dict) else numpy.asarray(value)


def _read(path: Path, type_: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if type_.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if type_.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    if type_.HasField("map_type"):
        return numpy_helper.to_dict(onnx.MapProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))
