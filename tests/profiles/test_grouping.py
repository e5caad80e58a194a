from __future__ import annotations

import pytest
from tests.graphs import sketch

from flopwise.conventions import get
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile
from flopwise.rows import FIGURES


def network() -> Graph:
    """Two blocks of two layers each, a layer in no module, and an operator that nobody knows."""
    made = sketch({"x": (2, 8), "y": (2, 8), "w": (8, 8)} | {f"t{i}": (2, 8) for i in range(6)}, x="input", w="weight")
    made.node("MatMul", "x w", "t0", "a.fc", scope=":Net a:Block a.fc:Linear")
    made.node("Relu", "t0", "t1", "a.act", scope=":Net a:Block a.act:ReLU")
    made.node("MatMul", "t1 w", "t2", "b.fc", scope=":Net b:Block b.fc:Linear")
    made.node("Relu", "t2", "t3", "b.act", scope=":Net b:Block b.act:ReLU")
    made.node("my::Thing", "t3", "t4", "thing", scope=":Net b:Block")
    made.node("Relu", "t4", "t5", "a.again", scope=":Net a:Block a.act:ReLU")
    made.node("Add", "t5 x", "y", "root")
    return made.graph()


@pytest.fixture
def counted() -> Profile:
    return profile_graph(network(), get("flops"))


def test_by_layer(counted: Profile) -> None:
    assert [s.name for s in counted.by("layer")] == [r.name for r in counted.rows]


def test_by_operator_the_most_expensive_first(counted: Profile) -> None:
    sums = counted.by("op")
    assert [(s.name, len(s.rows), s.count) for s in sums] == [
        ("MatMul", 2, 512),
        ("Relu", 3, 48),
        ("Add", 1, 16),
        ("my::Thing", 1, 0),
    ]
    assert [s.unknown for s in sums] == [0, 0, 0, 1]


def test_by_module_outermost_first_in_execution_order(counted: Profile) -> None:
    found = [(s.name, s.kind, s.depth, s.count, s.unknown) for s in counted.by("module")]
    assert found == [
        ("", "Net", 0, 576, 1),
        ("a", "Block", 1, 288, 0),
        ("a.fc", "Linear", 2, 256, 0),
        ("a.act", "ReLU", 2, 32, 0),
        ("b", "Block", 1, 272, 1),
        ("b.fc", "Linear", 2, 256, 0),
        ("b.act", "ReLU", 2, 16, 0),
    ]


@pytest.mark.parametrize(
    ("depth", "names"), [(0, [""]), (1, ["", "a", "b"]), (9, ["", "a", "a.fc", "a.act", "b", "b.fc", "b.act"])]
)
def test_to_a_depth(counted: Profile, depth: int, names: list[str]) -> None:
    assert [s.name for s in counted.by("module", depth)] == names


@pytest.mark.parametrize("figure", FIGURES)
def test_groups_add_up_to_the_total(counted: Profile, figure: str) -> None:
    total = counted.total(figure)
    assert sum(getattr(s, figure) for s in counted.by("layer")) == total
    assert sum(getattr(s, figure) for s in counted.by("op")) == total
    assert sum(getattr(s, figure) for s in counted.by("dtype")) == total
    assert getattr(counted.by("module")[0], figure) == total


def test_a_module_is_the_sum_of_its_parts_and_its_own_layers(counted: Profile) -> None:
    by_name = {s.name: s for s in counted.by("module")}
    for name, module in by_name.items():
        parts = [
            s for s in by_name.values() if s.depth == module.depth + 1 and (not name or s.name.startswith(f"{name}."))
        ]
        own = [r for r in module.rows if r.node.module == name]
        assert module.count == sum(s.count for s in parts) + sum(r.count or 0 for r in own)
        assert len(module.rows) == sum(len(s.rows) for s in parts) + len(own)


def test_models_without_modules() -> None:
    made = sketch({"x": (4,), "y": (4,)}, x="input")
    made.node("Relu", "x", "y")
    assert [(s.name, s.kind, s.count) for s in profile_graph(made.graph(), get("flops")).by("module")] == [("", "", 4)]


def test_no_such_group(counted: Profile) -> None:
    with pytest.raises(InputError, match="cannot group by 'colour'; choose layer, op, dtype or module"):
        counted.by("colour")
