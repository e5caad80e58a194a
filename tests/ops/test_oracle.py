"""Every arithmetic rule against the operations that the operator's plain definition executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flopwise.counts import CLASSES, Counts
from flopwise.ops import OPERATORS

from .arrays import onnxruntime, reference
from .cases import BOUNDED, CASES, Case, label
from .nodes import cost
from .oracle import DEFINITIONS, numbers, values
from .oracle.selection import ALGORITHMS


def execute(one: Case, definition: Callable[..., Any]) -> tuple[list[Any], Counter[str]]:
    """The outputs of a definition and the operations that it executed."""
    tally: Counter[str] = Counter()
    arrays = [None if x is None else numbers(x.array, tally) if x.counted else x.array for x in one.inputs]
    outputs = definition(*arrays, **one.attrs, **one.told)
    return list(outputs) if isinstance(outputs, tuple) else [outputs], tally


def ruled(one: Case, outputs: list[Any]) -> Counts:
    """What the rule says of the same application, from its shapes."""
    shapes = [None if x is None else x.array.shape for x in one.inputs]
    return cost(one.op, shapes, [y.shape for y in outputs], one.version, **one.attrs)


@pytest.mark.parametrize("one", CASES, ids=label)
def test_rule_counts_what_the_definition_executes(one: Case) -> None:
    outputs, tally = execute(one, DEFINITIONS[one.op])
    outputs = outputs[: one.outputs]
    assert ruled(one, outputs) == Counts(**tally)
    if callable(one.expected):
        expected = one.expected(*(x.array for x in one.inputs if x))
    else:
        judge = {"reference": reference, "onnxruntime": onnxruntime}[one.expected]
        expected = judge(one.op, one.inputs, one.outputs, one.attrs, one.version)
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(values(ours), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("one", BOUNDED, ids=label)
def test_bound_covers_what_a_plain_algorithm_executes(one: Case) -> None:
    outputs, tally = execute(one, ALGORITHMS[one.op])
    bound = ruled(one, outputs)
    for name in CLASSES:
        assert tally[name] <= getattr(bound, name), name
    theirs = reference(one.op, one.inputs, 2 if one.op == "TopK" else 1, one.attrs, one.version)[0]
    np.testing.assert_allclose(values(outputs[0]), theirs)


def test_every_operator_has_cases() -> None:
    claims: dict[str, set[str]] = {"exact": set(), "bound": set(), "nothing": set()}
    for op, row in OPERATORS.items():
        claims[row.claim].add(op)
    assert claims["exact"] == {one.op for one in CASES} - {"Where"}
    assert claims["bound"] == {one.op for one in BOUNDED}
