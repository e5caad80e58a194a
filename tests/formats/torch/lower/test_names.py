"""What PyTorch calls a layer finds the operator that counts it."""

from __future__ import annotations

import pytest

from flopwise.formats.torch.lower.names import SEVERAL, all_names, counted_as, several
from flopwise.formats.torch.lower.operators import LOWERINGS
from flopwise.graph.names import LAYERS
from flopwise.operators.tables import NOT_RULED, OPERATORS


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("Linear", "Gemm"),
        ("torch.nn.Linear", "Gemm"),
        ("SDPA", "Attention"),
        ("aten.silu_.default", "aten::silu"),
        ("SiLU", "aten::silu"),
        ("F.silu", "aten::silu"),
        ("ReLU6", "aten::hardtanh"),
        ("LayerNorm", "LayerNormalization"),
        ("BatchNorm2d", "BatchNormalization"),
        ("view", "Reshape"),
        ("bmm", "MatMul"),
        ("MaxPool2d", "MaxPool"),
        ("nn.Unfold", "aten::im2col"),
        ("unfold", "Slice"),
        ("RNNCell", "aten::rnn_tanh_cell"),
        ("Nothing", None),
    ],
)
def test_name_finds_its_operator(name: str, op: str | None) -> None:
    assert counted_as(name) == op


def test_every_name_that_a_row_shows_has_an_operator() -> None:
    shown = {LAYERS.get(bare, bare) for name in LOWERINGS if "." not in name and (bare := name.strip("_"))}
    assert not {name for name in shown if counted_as(name) is None} - {"linalg_solve_triangular"}


def test_operators_of_names_are_in_the_tables() -> None:
    assert {counted_as(name) for name in all_names()} - {None} <= {*OPERATORS, *NOT_RULED}
    assert {op for name in SEVERAL for op in several(name)} <= set(OPERATORS)
