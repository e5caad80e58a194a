"""Elements that operators take several to a byte."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.conventions import get
from flopwise.graph import Graph, Node, Shape, Tensor
from flopwise.operators import inputs
from flopwise.operators.tables import ROWS, row
from flopwise.profiles.count import profile_graph

#: Operator -> places of its packed inputs.
PACKED = {
    op: [place for place, one in enumerate(row.inputs.first) if one.packed]
    for op, row in ROWS.items()
    if row.inputs.packed
}


def unpacked(node: Node) -> dict[str, int]:
    return inputs.unpacked(node, row(node.op).inputs)


def packed_dtype(node: Node, place: int) -> str | None:
    return inputs.packed_dtype(node, place, row(node.op).inputs)


NBITS = "com.microsoft::MatMulNBits"


def product(
    op: str, shapes: dict[int, Shape | None], dtype: str | None = "uint8", **attrs: Any
) -> tuple[Node, dict[int, int]]:
    """A node that takes stored bytes at some places, and the elements found at each."""
    inputs = [Tensor(f"x{i}", (2, 3), "float32") for i in range(max(shapes) + 1)]
    for place, shape in shapes.items():
        inputs[place] = Tensor(f"w{place}", shape, dtype, "weight" if place != 3 else "buffer")
    node = Node(op, "n", tuple(inputs), (Tensor("y", (2, 3), "float32"),), attrs)
    return node, {int(name[1:]): n for name, n in unpacked(node).items()}


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "elements", "dtype"),
    [
        # 8 columns of 64 rows: 4 blocks of 16, 8 bytes each
        (NBITS, {1: (8, 4, 8)}, {"K": 64, "N": 8, "block_size": 16}, {1: 512}, "int4"),
        (NBITS, {1: (8, 4, 16)}, {"K": 64, "N": 8, "block_size": 16, "bits": 8}, {1: 512}, "int8"),
        (NBITS, {1: (8, 4, 4)}, {"K": 64, "N": 8, "block_size": 16, "bits": 2}, {1: 512}, "int2"),
        # 40 rows fill three blocks of 16 by five sixths; so do the zero points of three blocks their two bytes
        (NBITS, {1: (8, 3, 8), 3: (8, 2)}, {"K": 40, "N": 8, "block_size": 16}, {1: 320, 3: 24}, "int4"),
        ("com.microsoft::MatMulBnb4", {1: (26,)}, {"K": 17, "N": 3, "quant_type": 1}, {1: 51}, "nf4"),
        ("com.microsoft::MatMulBnb4", {1: (26,)}, {"K": 17, "N": 3}, {1: 51}, "fp4"),
        ("com.microsoft::GatherBlockQuantized", {0: (100, 16)}, {}, {0: 3200}, "int4"),
        ("com.microsoft::GatherBlockQuantized", {0: (100, 32)}, {"bits": 8}, {0: 3200}, "int8"),
        ("com.microsoft::MatMulBlockQuantizedFp4Weight", {1: (8, 32)}, {}, {1: 512}, "float4e2m1"),
        ("com.microsoft::QMoE", {2: (4, 8, 16)}, {}, {2: 1024}, "int4"),
        ("com.microsoft::QMoE", {2: (4, 8, 16)}, {"quant_type": "fp4"}, {2: 1024}, "float4e2m1"),
        (
            "com.microsoft::QMoE",
            {2: (4, 8, 16), 5: (4, 8, 16)},
            {"expert_weight_bits": 8, "fc2_expert_weight_bits": 2},
            {2: 512, 5: 2048},
            "int8",
        ),
        ("com.microsoft::MatMulNBitsMlp", {3: (8, 4, 8)}, {"K": 64, "N": 8}, {3: 512}, "int4"),
        # three rows of two blocks of 32, each 18 bytes in q4_0
        ("com.microsoft::MatMulPacked", {1: (3, 36)}, {"K": 64, "N": 3, "packed_type": 2}, {1: 192}, "q4_0"),
        ("com.microsoft::GatherPacked", {0: (7, 66)}, {"K": 256, "packed_type": 16}, {0: 1792}, "iq2_xxs"),
        # a number of a type that came later leaves the bytes without a name
        ("com.microsoft::MatMulPacked", {1: (3, 36)}, {"K": 64, "N": 3, "packed_type": 999}, {1: 192}, None),
        # hidden states of 3: rows of gate and up; rows of down are as long as the experts are wide
        (
            "com.microsoft::MoEPacked",
            {2: (5, 16, 9), 3: (5, 16, 9), 4: (5, 3, 9)},
            {"gate_type": 2, "up_type": 6, "down_type": 8},
            {2: 240, 3: 240, 4: 240},
            "q4_0",
        ),
        # rank 3: 32 columns come down to it, 8 go up from it, of 8 bits unless lora_bits says otherwise
        (
            "com.microsoft::MatMulNBitsQLoRA",
            {1: (8, 2, 8), 3: (3, 1, 32), 4: (3, 1), 5: (8, 1, 32)},
            {"K": 32, "N": 8, "block_size": 16},
            {1: 256, 3: 96, 5: 24},
            "int4",
        ),
        (
            "com.microsoft::MatMulNBitsQLoRA",
            {3: (3, 1, 16), 4: (3, 1), 5: (8, 1, 16)},
            {"K": 32, "N": 8, "lora_bits": 4},
            {3: 96, 5: 24},
            "int4",
        ),
        (
            "com.microsoft::MatMulNBitsQkv",
            {3: (8, 4, 8), 6: (2, 4, 8), 9: (2, 4, 8)},
            {"K": 64, "Nq": 8, "Nkv": 2},
            {3: 512, 6: 128, 9: 128},
            "int4",
        ),
    ],
)
def test_elements(
    op: str, shapes: dict[int, Shape | None], attrs: dict[str, Any], elements: dict[int, int], dtype: str | None
) -> None:
    node, found = product(op, shapes, **attrs)
    assert found == elements
    assert packed_dtype(node, next(iter(shapes))) == dtype


def test_each_matrix_of_the_experts_has_a_type_of_its_own() -> None:
    types = {"gate_type": 2, "up_type": 6, "down_type": 8}
    node, _ = product("com.microsoft::MoEPacked", dict.fromkeys((2, 3, 4), (5, 16, 9)), **types)
    assert [packed_dtype(node, place) for place in (2, 3, 4)] == ["q4_0", "q5_0", "q8_0"]
    bits = {"expert_weight_bits": 3, "fc1_expert_weight_bits": 2, "fc2_expert_weight_bits": 8}
    node, _ = product("com.microsoft::QMoE", dict.fromkeys((2, 5, 8, 11, 12, 13), (5, 16, 9)), **bits)
    assert [packed_dtype(node, place) for place in (2, 5, 8)] == ["int2", "int8", "int3"]
    assert [packed_dtype(node, place) for place in (11, 12, 13)] == ["int2", "int8", "int3"]


@pytest.mark.parametrize(
    ("dtype", "shape", "attrs"),
    [
        ("uint8", (8, 4, 8), {}),
        ("uint8", (8, 4, 8), {"K": 64}),
        ("uint8", (8, 4, 8), {"K": "many", "N": 8}),
        ("uint8", (8, 4, 8), {"K": [64], "N": 8}),
        ("uint8", (8, 4, 8), {"K": -64, "N": 8}),
        ("uint8", (8, 4, 8), {"K": 10**30, "N": 8}),
        ("uint8", (8, 4, 8), {"K": 64, "N": 8, "bits": 0}),
        ("uint8", (8, 4, 8), {"K": 64, "N": 8, "bits": -4}),
        ("uint8", None, {"K": 64, "N": 8}),
        ("float32", (8, 64), {"K": 64, "N": 8}),
        ("int4", (8, 64), {"K": 64, "N": 8}),
    ],
)
def test_what_makes_no_sense_is_left_as_it_is(dtype: str, shape: Shape | None, attrs: dict[str, Any]) -> None:
    assert product(NBITS, {1: shape}, dtype, **attrs)[1] == {}


@pytest.mark.parametrize("attrs", [{"bits": "x"}, {"bits": [4]}, {"quant_type": [1]}, {}])
@pytest.mark.parametrize("op", PACKED)
def test_damaged_attributes_do_no_harm(op: str, attrs: dict[str, Any]) -> None:
    node, _ = product(op, dict.fromkeys(PACKED[op], (4, 4)), **attrs)
    for place in range(len(node.inputs) + 2):
        packed_dtype(node, place)
    empty = Node(op, "n", (), ())
    assert unpacked(empty) == {}
    assert packed_dtype(empty, 1) is None


def test_parameters_are_weights_and_bytes_are_bytes() -> None:
    node, _ = product(NBITS, {1: (8, 3, 8), 2: (8, 3), 3: (8, 2)}, K=40, N=8, block_size=16)
    scales = Tensor("scales", (8, 3), "float16", "buffer")
    inputs = (*node.inputs[:2], scales, node.inputs[3])
    node = Node(NBITS, "n", inputs, node.outputs, node.attrs)
    row = profile_graph(Graph("g", "", "", (), (), (node,)), get("flops")).rows[0]
    assert (row.params, row.buffers) == (320, 24 + 24)
    assert row.weight_bytes == 8 * 3 * 8 + 8 * 3 * 2 + 8 * 2
