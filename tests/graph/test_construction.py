"""Frozen dataclasses made fast are no other than those made by their class."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from flopwise.graph import Node, StoredTensor, Tensor
from flopwise.graph.construction import constructor
from flopwise.rows import Row

NODE = Node("Relu", "relu", (), ())


@pytest.mark.parametrize(
    ("cls", "arguments"),
    [
        (Tensor, ("x", (2, 3), "float32", "weight", True)),
        (Node, ("Relu", "relu", (), ())),
        (StoredTensor, ("w", (2,), "float32", 8)),
        (Row, ("relu", "Relu", NODE, None, None, 3)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_same_instance(cls: type, arguments: tuple[object, ...]) -> None:
    made, usual = constructor(cls)(*arguments), cls(*arguments)
    assert type(made) is cls
    assert repr(made) == repr(usual)
    if cls is not StoredTensor:  # its elements are compared by identity
        assert made == usual
    with pytest.raises(FrozenInstanceError):
        made.name = "other"


def test_every_instance_has_its_own_defaults() -> None:
    make = constructor(Node)
    assert make("Relu", "a", (), ()).attrs is not make("Relu", "b", (), ()).attrs
