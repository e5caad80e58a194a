"""PyTorch's operators have a lowering, and its names find it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import flopwise  # noqa: E402
from flopwise.formats.torch.lower.operators import (  # noqa: E402
    LOWERINGS,
    SEVERAL,
    all_names,
    counted_as,
    several,
)
from flopwise.graph.names import LAYERS  # noqa: E402
from flopwise.operators.tables import NOT_RULED, OPERATORS  # noqa: E402

#: Reason -> beginnings or names of operators.
LEFT_OUT = {
    "gradients, which a forward pass does not call": ("backward",),
    "questions about a tensor": ("sym_", "_local_scalar_dense"),
    "comparisons that give no tensor, whose row has the operator's own name": ("equal",),
    "checks, which compute nothing": ("_assert_",),
    "special functions, whose work is the library's choice": ("special_",),
}


def _bare(name: str) -> str:
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@pytest.mark.parametrize("tag", ["core", "pointwise"])
def test_every_tagged_operator_is_known(tag: str) -> None:
    wanted = getattr(torch.Tag, tag)
    missing = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dir(torch.ops.aten):
            packet = getattr(torch.ops.aten, name, None)
            overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()
            if any(wanted in getattr(packet, o).tags for o in overloads):
                bare = _bare(name)
                if bare not in LOWERINGS and bare.removesuffix("_copy") not in LOWERINGS:
                    missing.add(bare)
    reasons = [part for parts in LEFT_OUT.values() for part in parts]
    assert not {name for name in missing if f"aten::{name}" not in NOT_RULED and not any(r in name for r in reasons)}


def test_operators_without_a_rule_are_unknown_and_never_zero() -> None:
    import flopwise

    class Special(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.lgamma(x) + torch.linalg.svdvals(x)

    profile = flopwise.profile(Special(), (4, 4))
    assert profile.unknown == {"aten::lgamma": 1, "aten::linalg_svdvals": 1}
    assert any("a special function" in note for note in profile.notes)


# What PyTorch calls a layer finds the operator that counts it.


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


# Operators of PyTorch that move data, as operators of ONNX: what adds while it moves, and what does not.


PLACES = torch.tensor([0, 2, 2])


@pytest.mark.parametrize(
    ("program", "adds"),
    [
        (lambda x: x.index_put((PLACES,), torch.ones(3, 5), accumulate=True), 15),
        (lambda x: x.index_put((PLACES,), torch.ones(3, 5)), 0),
        (lambda x: x.scatter_add(0, torch.zeros(3, 5, dtype=torch.int64), torch.ones(3, 5)), 15),
        (lambda x: x.scatter(0, torch.zeros(3, 5, dtype=torch.int64), torch.ones(3, 5)), 0),
        (lambda x: x.index_add(0, PLACES, torch.ones(3, 5)), 15),
        (lambda x: x.index_copy(0, PLACES, torch.ones(3, 5)), 0),
    ],
)
def test_what_is_added_in_place_counts(program: Callable[[Any], Any], adds: int) -> None:
    assert flopwise.profile(program, (4, 5)).total("flops") == adds
