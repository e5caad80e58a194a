"""Records are what dataclasses are, and quick to make."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from flopwise.graph import Node, StoredTensor, Tensor
from flopwise.rows import Row

NODE = Node("Relu", "relu", (), ())


@pytest.mark.parametrize(
    "record", [Tensor("x", (2, 3), "float32", "weight", True), NODE, Row("relu", "Relu", NODE, None, None, 3)]
)
def test_a_record_is_a_value(record: Tensor | Node | Row) -> None:
    for same in (replace(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert same == record
        assert repr(same) == repr(record)
    assert not hasattr(record, "__dict__")
    assert record != replace(record, name="other")


def test_names_of_tensors_are_a_set() -> None:
    assert len({Tensor("x", (2,), "float32"), Tensor("x", (2,), "float32"), Tensor("y", (2,), "float32")}) == 2
    assert StoredTensor("w", (2,), "float32", 8).elements is not StoredTensor("w", (2,), "float32", 8).elements
