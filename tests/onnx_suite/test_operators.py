"""onnx's tests of every operator: never a wrong shape, never an unknown operator."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.onnx_suite import cases
from tests.onnx_suite.cases import Case
from tests.onnx_suite.judging import judge

#: Tests without values whose shapes only values decide: with onnx 1.23. Sequences and optionals of unknown length, and
#: as many words as a string holds.
VALUES_DECIDE = {
    "test_identity_opt",
    "test_identity_sequence",
    "test_if_opt",
    "test_loop13_seq",
    "test_loop16_seq_none",
    "test_optional_get_element_optional_sequence",
    "test_optional_get_element_sequence",
    "test_sequence_insert_at_back",
    "test_sequence_insert_at_front",
    "test_split_to_sequence_1",
    "test_split_to_sequence_2",
    "test_string_split_empty_tensor",
}
#: It runs a backward pass that the model names by its ends alone.
UNKNOWN = {"test_gradient_of_add", "test_gradient_of_add_and_mul"}
OPEN_DIMENSIONS = {
    "test_sequence_model8",
    *(f"test_sequence_map_{kind}_1_tensor" for kind in ("identity_1_sequence", "add_1_sequence")),
    *(f"test_sequence_map_{kind}_1_tensor_expanded" for kind in ("identity_1_sequence", "add_1_sequence")),
}


def every() -> list[Case]:
    return [*cases.made(), *(c for kind in cases.STORED for c in cases.stored(kind))]


def test_with_inputs() -> None:
    told = Counter[str]()
    for case in every():
        verdict, why = judge(case, with_inputs=True)
        assert verdict in ("right", "bound") or case.name in UNKNOWN, (case.name, verdict, why)
        told[verdict] += 1
    assert told["bound"] <= 12


def test_without_inputs() -> None:
    for case in every():
        verdict, why = judge(case, with_inputs=False)
        if case.name in OPEN_DIMENSIONS:
            assert verdict == "error"
            assert "has open dimensions" in why
        elif case.name in VALUES_DECIDE or "sequence_map" in case.name:
            assert verdict in ("right", "unresolved"), (case.name, verdict, why)
        else:
            assert verdict in ("right", "bound") or case.name in UNKNOWN, (case.name, verdict, why)


def test_there_are_many() -> None:
    assert len(cases.made()) >= 1765
    assert {kind: len(list(cases.stored(kind))) for kind in cases.STORED} == {
        "pytorch-converted": 82,
        "pytorch-operator": 35,
        "simple": 23,
    }


@pytest.mark.parametrize("kind", cases.STORED)
def test_stored_models_have_exact_counts(kind: str) -> None:
    for case in cases.stored(kind):
        verdict, why = judge(case, with_inputs=True)
        assert verdict == ("unknown" if case.name in UNKNOWN else "right"), (case.name, verdict, why)
