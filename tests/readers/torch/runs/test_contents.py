"""Contents of containers, whatever their classes make of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

from flopwise.readers.torch.runs.contents import inside


class Frozen(list[Any]):
    """A list that answers additions with a list of its own, as those of pandas do."""

    def __radd__(self, other: object) -> Frozen:
        raise AssertionError

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


class Pair(tuple[Any, ...]):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


@pytest.mark.parametrize("kind", [Frozen, Pair])
def test_no_code_of_a_container_runs(kind: Any) -> None:
    part = [1]
    value = kind([part])
    value.name = "x"
    assert inside(value)[1] == [part, "x"]
