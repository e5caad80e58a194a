"""The columns: their values for rows and sums, how they are chosen, and how they sort."""

from __future__ import annotations

import pytest
from tests.cases import each
from tests.report.graphs import conv_net, graph, mystery, profiled, tensor, transformer, unresolved

import flopwise
from flopwise.errors import InputError
from flopwise.graph import Node
from flopwise.report.sheet.columns import COLUMNS, Item, cell, defaults, select
from flopwise.report.sheet.sheet import AtLeast
from flopwise.report.sheet.zeros import KEYS


@each("key", COLUMNS)
def test_every_column_works_on_rows_groups_and_totals(key: str) -> None:
    for profile in (mystery(), profiled(transformer()), profiled(unresolved())):
        items: list[Item] = [*profile.rows, *profile.by("op"), *profile.by("module"), profile.sum]
        for item in items:
            value = cell(COLUMNS[key], item, profile)
            assert value is None or isinstance(value, str | int | float | tuple)


@pytest.mark.parametrize(
    ("key", "conv", "fc"),
    [
        ("name", "conv1", "fc"),
        ("op", "Conv", "Gemm"),
        ("inputs", ((1, 3, 8, 8),), ((1, 16),)),
        ("weights", ((4, 3, 3, 3), (4,)), ((10, 16), (10,))),
        ("outputs", ((1, 4, 8, 8),), ((1, 10),)),
        ("params", 112, 170),
        ("macs", 6912, 160),
        ("masked_macs", 0, 0),
        ("bops", 6912 * 32 * 32, 160 * 32 * 32),
        ("flops", 14080, 330),
        ("count", 14080, 330),
        ("mac", 6912, 160),
        ("add", 256, 10),
        ("weight_bytes", 448, 680),
        ("input_bytes", 768, 64),
        ("output_bytes", 1024, 40),
        ("memory", 1472, 720),
        ("activations", 256, 10),
        ("layers", 1, 1),
        ("unknown", 0, 0),
        ("convention", "flops", "flops"),
        ("unit", "FLOP", "FLOP"),
    ],
)
def test_values(key: str, conv: object, fc: object) -> None:
    profile = mystery()
    found = [cell(COLUMNS[key], profile.rows[i], profile) for i in (0, -1)]
    assert found == [conv, fc]


def test_multiply_adds_that_masks_leave_out() -> None:
    """Of 4 queries and keys each sees itself and those before it: 10 of 16 pairs, in 2 heads of 8 numbers."""
    x, y = tensor("x", (1, 4, 16), "input"), tensor("y", (1, 4, 16))
    heads = {"q_num_heads": 2, "kv_num_heads": 2, "is_causal": 1}
    profile = flopwise.profile(graph([Node("Attention", "attention", (x, x, x), (y,), heads)], [x], [y], "net"))
    for item in (profile.rows[0], profile.sum):
        found = {key: cell(COLUMNS[key], item, profile) for key in ("macs", "masked_macs", "moved_bytes")}
        assert found == {"macs": 2 * 2 * 16 * 8, "masked_macs": 2 * 2 * 6 * 8, "moved_bytes": 4 * 2 * 64}
    unknown = mystery().rows[3]
    assert cell(COLUMNS["masked_macs"], unknown, mystery()) is None


def test_unknown_is_none_in_a_row_and_a_lower_bound_in_a_sum() -> None:
    profile = mystery()
    assert cell(COLUMNS["count"], profile.rows[3], profile) is None
    total = cell(COLUMNS["count"], profile.sum, profile)
    assert total == 15178
    assert isinstance(total, AtLeast)
    assert not isinstance(cell(COLUMNS["params"], profile.sum, profile), AtLeast)
    nothing = next(s for s in profile.by("op") if s.name == "acme::Mystery")
    assert cell(COLUMNS["count"], nothing, profile) is None
    assert cell(COLUMNS["count%"], nothing, profile) is None


def test_shares_add_up_to_the_whole() -> None:
    profile = profiled(transformer())
    for key, column in COLUMNS.items():
        of_the_whole = not key.startswith("backward") and key not in KEYS  # no training; zeros are shares of weights
        if column.kind == "percent" and of_the_whole:
            parts = [cell(column, row, profile) for row in profile.rows]
            whole = cell(column, profile.sum, profile)
            assert sum(p for p in parts if isinstance(p, float)) == pytest.approx(whole), key


def test_a_module_takes_and_gives_what_crosses_its_border() -> None:
    profile = profiled(transformer())
    mlp = next(s for s in profile.by("module") if s.name == "model.layers.0.mlp")
    assert cell(COLUMNS["inputs"], mlp, profile) == ((1, 5, 8),)
    assert cell(COLUMNS["outputs"], mlp, profile) == ((1, 5, 8),)


@pytest.mark.parametrize(
    "keys", ["name,op,params", " name , OP,params,", ["name", "op", "params"], "layer,operator,params"]
)
def test_select(keys: str | list[str]) -> None:
    assert [c.key for c in select(keys)] == ["name", "op", "params"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("name,parms", "unknown column 'parms'; did you mean 'params'? known: name, op, type,"),
        ("xyzzy", "unknown column 'xyzzy'; known: name, op,"),
        (" , ", "no columns are named; known: name, op,"),
    ],
)
def test_select_says_what_there_is(keys: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        select(keys)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("by", ["layer", "op", "module", "dtype"])
@pytest.mark.parametrize("audience", ["terminal", "tree", "document", "program"])
def test_defaults_start_with_the_name_and_hold_the_count(audience: str, by: str) -> None:
    keys = [c.key for c in defaults(audience, by, profiled(conv_net(), "macs"))]
    assert keys[0] == "name"
    assert "count" in keys
    assert ("macs" in keys) == (audience == "program")
