"""Bytes moved by one run of an operator."""

from __future__ import annotations

import pytest

from flopwise.graph import Graph, Invocation, Node, Shape, Tensor
from flopwise.storage.traffic import may_overwrite, traffic

X = Tensor("x", (4, 6), "float32", "input")


IDS = Tensor("i", (3,), "int64")
MS = "com.microsoft::"


def node(
    op: str, inputs: tuple[Tensor | None, ...], *shapes: Shape | None, dtype: str = "float32", **attrs: int
) -> Node:
    return Node(op, "", inputs, tuple(Tensor(f"y{i}", s, dtype) for i, s in enumerate(shapes)), attrs, origin=op)


@pytest.mark.parametrize(
    ("made", "read", "written"),
    [
        (node("Relu", (X,), (4, 6)), 96, 96),
        (node("Add", (X, X), (4, 6)), 96, 96),  # each operand once
        (node("MatMul", (X, Tensor("w", (6, 2), "float16", "weight")), (4, 2)), 96 + 24, 32),
        (node("Clip", (X, None, Tensor("high", (), "float32", "constant")), (4, 6)), 100, 96),
        (node("Reshape", (X, Tensor("s", (1,), "int64", "constant")), (24,)), 0, 0),
        (node("Shape", (X,), (2,), dtype="int64"), 0, 16),
        # an embedding reads the rows that it picks
        (
            node("Gather", (Tensor("t", (1000, 8), "float32", "weight"), IDS), (3, 8)),
            96 + 24,
            96,
        ),
        # of a packed table, the bytes of these rows: 32 elements of 4 bits, or a block of 256 elements in 66 bytes
        (
            node(f"{MS}GatherBlockQuantized", (Tensor("t", (1000, 16), "uint8", "weight"), IDS), (3, 32)),
            3 * 16 + 24,
            3 * 32 * 4,
        ),
        (
            node(f"{MS}GatherBlockQuantized", (Tensor("t", (1000, 32), "int4", "weight"), IDS), (3, 32)),
            3 * 16 + 24,
            3 * 32 * 4,
        ),
        (
            node(f"{MS}GatherPacked", (Tensor("t", (1000, 66), "uint8", "weight"), IDS), (3, 256), K=256),
            3 * 66 + 24,
            3 * 256 * 4,
        ),
        (node("Slice", (X,), (2, 6)), 48, 48),
        (node("Split", (X,), (2, 6), (2, 6)), 96, 96),
        (node("Dropout", (X,), (4, 6), (4, 6)), 96, 96),  # the mask is written
        (node("Relu", (Tensor("u", None, "float32"),), (4, 6)), None, 96),
        (node("NonZero", (X,), None), 96, None),
        # of what is picked nothing is known where a size is missing
        (node("Slice", (X,), None), None, None),
        (node("Slice", (Tensor("u", None, "float32"),), (2, 6)), None, 48),
        (node("Gather", (X, Tensor("i", None, "int64")), (3, 6)), None, 72),
        (node("Gather", (X, Tensor("i", (9,), "int64")), (9, 6)), 96 + 72, 216),  # at most the whole table
        (node("If", (Tensor("c", (), "bool"),), (4, 6)), 1, 0),
        (node("If", (Tensor("c", None, "bool"),), (4, 6)), None, 0),
    ],
)
def test_traffic(made: Node, read: int | None, written: int | None) -> None:
    assert traffic(made) == (read, written)


def test_a_branch_writes_what_the_if_hands_on() -> None:
    assert traffic(node("If", (Tensor("c", (), "bool"),), (4, 6))) == (1, 0)


@pytest.mark.parametrize(
    ("index", "moved"),
    [
        ((slice(None), slice(2, 5)), 0),
        (1, 0),
        ((Ellipsis, None), 0),
        (Tensor("i", (4,), "int64"), 96),
        ([0, 2, 1, 3], 96),
        ((slice(None), [0]), 96),
        (True, 96),
    ],
)
def test_a_subscript_of_slices_is_a_view(index: object, moved: int) -> None:
    called = Invocation(arguments={"arg1": index})
    made = Node("Slice", "", (X,), (Tensor("y", (4, 6), "float32"),), origin="aten.getitem", invocation=called)
    assert traffic(made) == (moved, moved)


def test_in_place_writes_what_it_read() -> None:
    made = Node("Relu", "", (X,), (Tensor("y", (4, 6), "float32"),), origin="aten.relu_")
    assert traffic(made) == (96, 96)
    view = Node("Transpose", "", (X,), (Tensor("y", (6, 4), "float32"),), origin="aten.transpose")
    assert traffic(view) == (0, 0)


def test_intensity_of_a_layer_and_of_the_model() -> None:
    import flopwise
    from flopwise.report.sheet.columns import COLUMNS, cell

    w, h, y = Tensor("w", (6, 2), "float32", "weight"), Tensor("h", (4, 2), "float32"), Tensor("y", (8,), "float32")
    nodes = (Node("MatMul", "m", (X, w), (h,)), Node("Reshape", "r", (h,), (y,)))
    profile = flopwise.profile(Graph("two", "hand", "", (X,), (y,), nodes))
    intensity = COLUMNS["intensity"]
    assert [cell(intensity, row, profile) for row in profile.rows] == [96 / (96 + 48 + 32), ""]
    assert cell(intensity, profile.sum, profile) == 96 / 176
    assert (profile.total("read_bytes"), profile.total("written_bytes")) == (144, 32)


def test_a_result_overwrites_what_takes_as_many_bytes() -> None:
    whole, half, row = X, Tensor("h", (4, 6), "float16"), Tensor("r", (6,), "float32")
    assert may_overwrite(node("Add", (whole, half), (4, 6))) == [0]
    assert may_overwrite(node("Add", (whole, half), (4, 6), dtype="float16")) == [1]
    assert may_overwrite(node("Add", (row, whole), (4, 6))) == [1]
    assert may_overwrite(node("Add", (whole, whole), (4, 6))) == [0, 1]
    assert may_overwrite(node("MatMul", (whole, whole), (4, 6))) == []
    assert may_overwrite(node("Relu", (Tensor("u", None, "float32"),), (4, 6))) == []
