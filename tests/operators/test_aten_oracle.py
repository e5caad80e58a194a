"""Rules of PyTorch's operators that ONNX lacks, against what their plain definitions execute on counting numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.operators import (  # noqa: E402
    calls_algebra,
    calls_backward,
    calls_losses,
    calls_pointwise,
    calls_products,
    calls_quantized,
    calls_recurrent,
    calls_reductions,
    calls_searches,
    calls_signals,
    calls_updates,
)
from tests.operators.calls import Call, Does, label  # noqa: E402
from tests.operators.oracle import Number, numbers, values  # noqa: E402

import flopwise  # noqa: E402
from flopwise.operators.counts import CLASSES, Counts  # noqa: E402
from flopwise.operators.tables import OPERATORS  # noqa: E402

CALLS = [
    *calls_algebra.calls(),
    *calls_backward.calls(),
    *calls_losses.calls(),
    *calls_pointwise.calls(),
    *calls_products.calls(),
    *calls_quantized.calls(),
    *calls_recurrent.calls(),
    *calls_reductions.calls(),
    *calls_searches.calls(),
    *calls_signals.calls(),
    *calls_updates.calls(),
]


def results(thing: Any) -> list[Any]:
    """The tensors that a function hands back, in a row."""
    return [part for one in thing for part in results(one)] if isinstance(thing, (tuple, list)) else [thing]


def execute(one: Call, theirs: list[Any]) -> tuple[list[Any], Counter[str]]:
    """The outputs of the definition and the operations that it executed."""
    tally: Counter[str] = Counter()
    inputs = [numbers(x.array, tally) if x.counted else x.array for x in one.inputs]
    if one.drawn is not None:
        inputs.append(numbers(one.drawn(theirs[0].numpy()), tally))
    outputs = results(one.definition(*inputs))
    return [np.asarray(y, object) if isinstance(y, Number) else y for y in outputs], tally


def ruled(one: Call) -> tuple[Counts, set[str]]:
    """What the rules say of all that the call does, and the operators that it is made of."""
    rows = flopwise.profile(Does(one.function), one.tensors(), mode="as-is").rows
    total = Counts()
    for row in rows:
        assert row.counts is not None, row
        total += row.counts if one.whole or row.node.op == one.op else Counts()
    return total, {row.node.op for row in rows}


def agree(ours: Any, theirs: Any, tolerance: float) -> None:
    """Both are the same numbers."""
    right = theirs.detach().to_dense().resolve_conj().numpy()
    found = values(ours)
    assert found.shape == right.shape
    kind = complex if np.iscomplexobj(right) else float
    np.testing.assert_allclose(found.astype(kind), right.astype(kind), rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore::UserWarning")  # what PyTorch thinks of old functions
@pytest.mark.parametrize("one", CALLS, ids=label)
def test_rule_counts_what_the_definition_executes(one: Call) -> None:
    torch.manual_seed(0)
    theirs = results(one.function(*one.tensors()))
    outputs, tally = execute(one, theirs)
    for mine, right in zip(outputs, theirs, strict=True):
        agree(mine, right, one.tolerance)
    counts, ops = ruled(one)
    assert one.op in ops
    if OPERATORS[one.op].claim == "exact":
        assert counts == Counts(**tally)
    for name in CLASSES:
        assert tally[name] <= getattr(counts, name), name


def test_every_rule_has_a_case() -> None:
    ours = {op: row for op, row in OPERATORS.items() if op.startswith(("aten::", "quantized::"))}
    ruled = {op for op, row in ours.items() if row.claim != "nothing"}
    assert {one.op for one in CALLS} == ruled
