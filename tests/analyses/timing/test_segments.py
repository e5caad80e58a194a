"""Executed nodes and the layers behind them: by values, by names, by order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.analyses.timing.segments import Fingerprint, close, match


def node(op: str, inputs: str, outputs: str, name: str = "") -> Any:
    """A node; names of tensors are separated by spaces."""
    return SimpleNamespace(op_type=op, name=name, input=inputs.split(), output=outputs.split())


def values(**tensors: float) -> dict[str, Fingerprint]:
    """Fingerprints that differ wherever the numbers do."""
    return {name: Fingerprint((-value, value, 10 * value, 5 * value), 4) for name, value in tensors.items()}


MODEL = [
    node("Conv", "x w", "c", "conv"),
    node("BatchNormalization", "c s", "b", "norm"),
    node("Relu", "b", "r", "act"),
    node("Add", "r x", "a"),
    node("Gemm", "a g", "y", "fc"),
]
OWN = values(c=1.0, b=2.0, r=3.0, a=4.0, y=5.0)


def test_a_fused_node_does_the_work_of_all_that_lies_between_its_tensors() -> None:
    executed = [node("FusedConv", "x w2", "t1"), node("Add", "t1 x", "t2"), node("Gemm", "t2 g", "y")]
    assert match(MODEL, executed, OWN, values(t1=3.0, t2=4.0, y=5.0)) == [
        ("conv", "norm", "act"),
        ("add_1",),
        ("fc",),
    ]


def test_layers_without_a_tensor_of_their_own_belong_to_whoever_takes_them() -> None:
    executed = [node("Everything", "x", "y")]
    assert match(MODEL, executed, OWN, values(y=5.0)) == [("conv", "norm", "act", "add_1", "fc")]


def test_reorders_do_the_work_of_nothing() -> None:
    executed = [
        node("ReorderInput", "x", "xr"),
        node("FusedConv", "xr w2", "t1"),
        node("ReorderOutput", "t1", "t1o"),
        node("Add", "t1o x", "a"),
        node("Gemm", "a g", "y"),
    ]
    found = match(MODEL, executed, OWN, values(xr=9.0, t1=3.0, t1o=3.0, a=4.0, y=5.0))
    assert found == [(), ("conv", "norm", "act"), (), ("add_1",), ("fc",)]


def test_names_are_left_where_nothing_has_values() -> None:
    executed = [node("FusedConv", "x w", "r"), node("Add", "r x", "a"), node("Gemm", "a g", "y")]
    assert match(MODEL, executed, {}, {}) == [("conv", "norm", "act"), ("add_1",), ("fc",)]


def test_of_equal_tensors_the_order_decides() -> None:
    model = [node("Relu", "x", "a", "one"), node("Relu", "x", "b", "two"), node("Add", "a b", "y", "sum")]
    executed = [node("Relu", "x", "p"), node("Relu", "x", "q"), node("Add", "p q", "y")]
    own = {**values(a=1.0, y=2.0), "b": values(a=1.0)["a"]}
    prints = {**values(p=1.0, y=2.0), "q": values(a=1.0)["a"]}
    assert match(model, executed, own, prints) == [("one",), ("two",), ("sum",)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_segments_are_a_partition(numbers: list[int], data: st.DataObject) -> None:
    """Each layer is behind one executed node at most, however layers are fused."""
    model = [node("Op", f"t{i}", f"t{i + 1}", f"n{i}") for i in range(len(numbers))]
    own = values(**{f"t{i + 1}": float(n) for i, n in enumerate(numbers)})
    cuts = sorted({*data.draw(st.lists(st.integers(1, len(numbers)))), len(numbers)})
    executed, before = [], 0
    prints: dict[str, Fingerprint] = {}
    for cut in cuts:
        executed.append(node("Fused", f"e{before}" if before else "t0", f"e{cut}"))
        prints[f"e{cut}"] = own[f"t{cut}"]
        before = cut
    found = [name for names in match(model, executed, own, prints) for name in names]
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Fingerprint((-1, 2, 30, 50), 10), Fingerprint((-1, 2, 30.01, 50.02), 10), True),
        (Fingerprint((-1, 2, 30, 50), 10), Fingerprint((-1, 2, 31, 50), 10), False),
        (Fingerprint((0.5, 2, 30, 50), 10), Fingerprint((0, 2, 30, 50), 12), True),  # padded channels
        (Fingerprint((), 0), Fingerprint((), 0), False),
    ],
)
def test_closeness(one: Fingerprint, other: Fingerprint, same: bool) -> None:
    assert close(one, other) == same
