"""Sizes against what operators gave: the recorded outputs of onnx's tests, with nothing known but the inputs."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy
from tests.onnx_suite import cases

from flopwise.formats.onnx.read import resolve_onnx
from flopwise.operators.size import OPEN, Most
from flopwise.sizes.facts import Fact

#: Outputs of which nobody can know the size from shapes: decoded images, parts of strings, ranges in bfloat16.
UNKNOWN = 26


def judged(fact: Fact, shape: tuple[int, ...]) -> str:
    """How what is known of a tensor stands to the shape that it had."""
    if fact.shape is None or OPEN in fact.shape:
        return "unknown"
    if len(fact.shape) != len(shape):
        return "wrong"
    ends = [(n.low, int(n)) if type(n) is Most else (n, n) for n in fact.shape]
    return "right" if all(low <= n <= high for (low, high), n in zip(ends, shape, strict=True)) else "wrong"


def inputs_of(case: cases.Case) -> dict[str, Any]:
    """The inputs of a test that are arrays; those of few elements may decide shapes."""
    return {name: value for name, value in case.inputs.items() if isinstance(value, numpy.ndarray)}


def test_no_recorded_output_is_of_another_size() -> None:
    said: Counter[str] = Counter()
    wrong = []
    for case in cases.made():
        if len(inputs_of(case)) < len(case.inputs) or case.model.functions:
            continue
        model = copy.deepcopy(case.model)
        for output in model.graph.output:
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
        given = {name: value for name, value in inputs_of(case).items() if value.dtype.kind in "biufOU"}
        resolved = resolve_onnx(model.SerializeToString(), given)
        for name, value in case.outputs.items():
            if isinstance(value, numpy.ndarray):
                verdict = judged(resolved.shapes.of(name), value.shape)
                said[verdict] += 1
                wrong += [(case.name, name)] * (verdict == "wrong")
    assert not wrong
    assert said["unknown"] <= UNKNOWN
    assert said["right"] > 2000
