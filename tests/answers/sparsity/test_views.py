"""How the elements of packed weights lie in their bytes."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.answers.sparsity.views import Bits
from flopwise.graph import Node

SIZES = {"N": 3, "K": 40, "block_size": 16}


def bits(shape: tuple[int, ...], **attributes: Any) -> Bits | None:
    return Bits.from_node(Node("com.microsoft::MatMulNBits", "p", (), (), SIZES | attributes), shape)


def test_packed_weights_have_four_bits_unless_they_say_otherwise() -> None:
    assert bits((3, 3, 8)) == Bits(3, 40, 4, 16)
    assert bits((3, 3, 4), bits=2) == Bits(3, 40, 2, 16)
    assert bits((3, 3, 2), bits=1) == Bits(3, 40, 1, 16)
    assert bits((3, 3, 9)) is None
    assert bits((1, 1, 8), N=1, K=1) == Bits(1, 1, 4, 16)
    assert bits((1, 1, 1), N=1, K=1, block_size=1, bits=8) == Bits(1, 1, 8, 1)


@pytest.mark.parametrize(
    "attributes",
    [{"N": 0}, {"K": 0}, {"block_size": 0}, {"bits": 3}, {"bits": 16}, {"block_size": 1}, {"K": None}, {"N": "many"}],
)
def test_what_is_no_packing_has_none(attributes: dict[str, Any]) -> None:
    shapes = [(n, blocks, size) for n in range(4) for blocks in range(41) for size in range(33)]
    assert not any(bits(shape, **attributes) for shape in shapes)
