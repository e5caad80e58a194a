"""Every arithmetic rule against the operations that the operator's plain definition executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.defs
import pytest
from tests.operators.arrays import Input, newest, onnxruntime, reference
from tests.operators.cases import BOUNDED, CASES, Case, label
from tests.operators.nodes import cost
from tests.operators.oracle import ALGORITHMS, DEFINITIONS, Number, numbers, values

from flopwise.operators.counts import CLASSES, Counts
from flopwise.operators.tables import OPERATORS


def execute(one: Case, definition: Callable[..., Any]) -> tuple[list[Any], Counter[str]]:
    """The outputs of a definition and the operations that it executed."""
    tally: Counter[str] = Counter()
    arrays = [None if x is None else numbers(x.array, tally) if x.counted else x.array for x in one.inputs]
    told = {name: numbers(v.array, tally) if isinstance(v, Input) else v for name, v in one.told.items()}
    outputs = definition(*arrays, **one.attrs, **told)
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    return [np.asarray(y, object) if isinstance(y, Number) else y for y in several], tally


def ruled(one: Case, outputs: list[Any]) -> Counts:
    """What the rule says of the same application, from its shapes."""
    shapes = [None if x is None else x.array.shape for x in one.inputs]
    return cost(one.op, shapes, [y.shape for y in outputs], one.version, **one.attrs)


def right(one: Case, outputs: int) -> list[Any]:
    """The right values, from whoever knows them."""
    if callable(one.expected):
        return one.expected(*(x.array for x in one.inputs if x))
    judge = {"reference": reference, "onnxruntime": onnxruntime}[one.expected]
    return judge(one.op, one.inputs, outputs, one.attrs, one.version)


def skip_if_missing(one: Case) -> None:
    """Skip what the installed version of onnx does not have yet."""
    domain, _, kind = one.op.rpartition("::")
    if one.expected == "reference" and not onnx.defs.has(kind, one.version or newest(one.op), domain):
        pytest.skip(f"onnx {onnx.__version__} has no {one.op}")


@pytest.mark.parametrize("one", CASES, ids=label)
def test_rule_counts_what_the_definition_executes(one: Case) -> None:
    skip_if_missing(one)
    outputs, tally = execute(one, DEFINITIONS[one.op])
    outputs = outputs[: one.outputs]
    assert ruled(one, outputs) == Counts(**tally)
    for ours, theirs in zip(outputs, right(one, one.outputs), strict=True):
        np.testing.assert_allclose(values(ours), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("one", BOUNDED, ids=label)
def test_bound_covers_what_a_plain_algorithm_executes(one: Case) -> None:
    skip_if_missing(one)
    outputs, tally = execute(one, ALGORITHMS[one.op])
    bound = ruled(one, outputs)
    for name in CLASSES:
        assert tally[name] <= getattr(bound, name), name
    expected = right(one, 2 if one.op == "TopK" else one.outputs)
    for ours, theirs in zip(outputs, expected, strict=False):
        np.testing.assert_allclose(values(ours), theirs, rtol=1e-4, atol=1e-5)


#: What other tests hold: test_microsoft, test_fusions, test_aten, test_openvino, test_coreml, and those of JAX and
#: TensorFlow Lite.
ELSEWHERE = (
    "com.m",
    "aten::",
    "torch::",
    "quantized::",
    "lax::",
    "tflite",
    "openvino",
    "coreml",
    "tensorflow::",
    "cortex_m::",
    "SimplifiedLayerNormalization",
)


def test_every_operator_has_cases() -> None:
    claims: dict[str, set[str]] = {"exact": set(), "bound": set(), "nothing": set()}
    for op, row in OPERATORS.items():
        if not op.startswith(ELSEWHERE):
            claims[row.claim].add(op)
    assert claims["exact"] == {one.op for one in CASES} - {"Where"}
    assert claims["bound"] == {one.op for one in BOUNDED}


#: Optional inputs that no case gives or leaves out, and why.
_ONE_FORM = {
    ("Attention", 6): "how much of a cache is valid is data: see tests/formats/torch/test_arguments.py",
    ("GRU", 4): "shorter sequences are computed whole",
    ("LSTM", 4): "shorter sequences are computed whole",
    ("RNN", 4): "shorter sequences are computed whole",
    ("NonMaxSuppression", 2): "without a number of boxes nothing is selected",
    ("NonMaxSuppression", 3): "the default threshold compares as any other",
    ("NonMaxSuppression", 4): "see the rows in test_tables",
    ("Resize", 1): "where a region lies does not change what each element takes",
}


def test_every_optional_input_is_given_and_left_out() -> None:
    """A rule that takes an input for granted, or overlooks it, shows in one of the two."""
    missing = set()
    for schema in onnx.defs.get_all_schemas():
        op = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
        if op not in OPERATORS or OPERATORS[op].claim == "nothing":
            continue
        cases = [one for one in (*CASES, *BOUNDED) if one.op == op]
        for place, input_ in enumerate(schema.inputs):
            if input_.option == onnx.defs.OpSchema.FormalParameterOption.Optional:
                forms = {len(one.inputs) > place and one.inputs[place] is not None for one in cases}
                if len(forms) < 2:
                    missing.add((op, place))
    assert missing == _ONE_FORM.keys()
