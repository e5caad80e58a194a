"""Notes on a profile: they say of which figures, and why, the totals are bounds, and nothing of exact ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.graphs import Sketch, sketch

from flopwise.conventions import CONVENTIONS
from flopwise.graph import Body, Graph, Kind, Node, Program, Tensor
from flopwise.profiles.count import profile_graph


def notes(graph: Graph, **options: str) -> tuple[str, ...]:
    return profile_graph(graph, CONVENTIONS["flops"], **options).notes  # type: ignore[arg-type]


def chain(*ops: str) -> Sketch:
    """Operators one after the other, on 4 × 4 numbers."""
    shapes = {"x": (4, 4), **{f"t{i}": (4, 4) for i in range(len(ops))}}
    made = sketch(dict(shapes), x="input")
    for place, op in enumerate(ops):
        made.node(op, f"t{place - 1}" if place else "x", f"t{place}", f"{op.lower()}{place}")
    return made


def of_chain(*ops: str) -> Graph:
    return chain(*ops).graph("x", f"t{len(ops) - 1}")


def bounded(graph: Graph, *names: str) -> Graph:
    """The graph with tensors whose shapes are upper bounds."""

    def marked(node: Node) -> Node:
        outputs = (replace(t, bound=True) if t is not None and t.name in names else t for t in node.outputs)
        return replace(node, outputs=tuple(outputs))

    return replace(graph, nodes=tuple(map(marked, graph.nodes)))


def test_of_exact_figures_nothing_is_said() -> None:
    assert notes(of_chain("Relu", "Exp")) == ()


def test_work_that_depends_on_the_data_is_an_upper_bound() -> None:
    made = sketch({"x": (4, 4), "k": (1,), **dict.fromkeys(("y", "i", "u", "v"), (4, 4))}, x="input", k="constant")
    made.node("Unique", "x", "u")
    made.node("TopK", "u k", "y i")
    made.node("Relu", "y", "v")
    assert notes(made.graph("x", "v")) == ("upper bounds, because the work depends on the data: TopK, Unique",)


@pytest.mark.parametrize(
    ("names", "words"),
    [(("t1",), "1 tensor is; the first is 't1'"), (("t1", "t2"), "2 tensors are; the first is 't1'")],
)
def test_sizes_that_the_data_decide_are_upper_bounds(names: tuple[str, ...], words: str) -> None:
    graph = bounded(of_chain("Relu", "Relu", "Relu"), *names)
    assert notes(graph) == (f"upper bounds: the data decide how large {words}",)


@pytest.mark.parametrize(
    ("names", "words"), [(("t1",), "1 tensor is"), (("t0", "t1"), "2 tensors are"), (("x", "t1"), "1 tensor is")]
)
def test_sizes_that_the_file_alone_states_are_named(names: tuple[str, ...], words: str) -> None:
    graph = replace(of_chain("Relu", "Relu"), stated=frozenset(names))
    first = "t0" if "t0" in names else "t1"
    told = f"stated: the data decide how large {words}, and the file alone says it; the first is {first!r}"
    assert notes(graph) == (told,)


def test_operators_that_run_an_unknown_number_of_times_make_lower_bounds() -> None:
    made = chain("Loop", "Relu", "Exp")
    made.nodes[1:] = [replace(node, within=(Body(0, "body", None),)) for node in made.nodes[1:]]
    several = "uncounted: 2 operators run an unknown number of times, first 'relu1'; totals are lower bounds"
    assert notes(made.graph("x", "t2")) == (several,)
    made.nodes[2:] = []
    one = "uncounted: Relu runs an unknown number of times, first 'relu1'; totals are lower bounds"
    assert notes(made.graph("x", "t1")) == (one,)


def test_tensors_without_a_shape_make_lower_bounds() -> None:
    made = chain("Relu", "Relu", "Relu")
    for name in ("t0", "t1", "t2"):
        made.tensor(name, None)
    made.nodes = []
    for place, (source, result) in enumerate((("x", "t0"), ("t0", "t1"), ("t1", "t2"))):
        made.node("Relu", source, result, f"relu{place}")
    told = "unresolved: 3 tensors have no shape, from Relu at 'relu0' on; totals are lower bounds"
    assert told in notes(made.graph("x", "t2"))


def test_tensors_whose_inputs_have_no_shape_want_shapes_from_the_user() -> None:
    made = sketch({"x": None, "y": None}, x="input")
    made.node("Relu", "x", "y")
    cure = "give the input shapes with -i NAME:DTYPE:SHAPE"
    assert f"unresolved: 1 tensor has no shape; {cure}; totals are lower bounds" in notes(made.graph())


@pytest.mark.parametrize(("count", "hold"), [(1, "1 tensor holds strings"), (2, "2 tensors hold strings")])
def test_bytes_of_strings_are_lower_bounds(count: int, hold: str) -> None:
    graph = of_chain(*["Identity"] * count)
    text = [Tensor(f"t{place}", (4, 4), "string") for place in range(count)]
    nodes = (replace(node, outputs=(t,)) for node, t in zip(graph.nodes, text, strict=True))
    told = f"unknown bytes: {hold}, the first is 't0'; bytes are lower bounds"
    assert notes(replace(graph, nodes=tuple(nodes))) == (told,)


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 operator on {} runs once and is"), (2, "2 operators on {} run once and are")]
)
def test_what_is_left_out_is_said(count: int, words: str) -> None:
    made = sketch({"x": (4,), "w": (4,), "a": (4,), "b": (4,), "y": (4,)}, x="input", w="weight")
    made.node("Exp", "w", "a")
    if count == 2:
        made.node("Exp", "a", "b")
    made.node("Mul", f"x {'ab'[count - 1]}", "y")
    told = words.format("weights, constants and shapes alone")
    assert notes(made.graph()) == (f"{told} not counted (--no-fold)",)


def attention(keys: int) -> Graph:
    """Causal attention of as many queries as keys."""
    made = sketch({"q": (1, 2, keys, 8), "k": (1, 2, keys, 8), "v": (1, 2, keys, 8), "y": (1, 2, keys, 8)})
    made.node("Attention", "q k v", "y")
    made.nodes[0] = replace(made.nodes[0], attrs={"is_causal": 1})
    return made.graph("q k v", "y")


def test_masks_are_noted_where_they_leave_less() -> None:
    executed, left = 2 * 2 * 3 * 3 * 8, 2 * 2 * 6 * 8
    share = f"masks: 1 attention layer executes {executed} MACs, {left} after masking"
    assert f"{share} (--masked needed counts these)" in notes(attention(3))
    assert f"{share}; these are counted (--masked needed)" in notes(attention(3), masked="needed")
    assert not any(note.startswith("masks:") for note in notes(attention(1)))


@pytest.mark.parametrize("kind", ["input", "state"])
def test_an_input_without_elements_makes_costs_of_zero(kind: Kind) -> None:
    """A state has none at first, and a program was handed what it has."""
    graph = of_chain("Relu")
    empty = replace(graph, inputs=(Tensor("x", (0, 3), "float32", kind),))
    said = ("input 'x' has a dimension of 0, so most costs are 0; give its shape with -i",)
    assert notes(empty) == (said if kind == "input" else ())
    assert notes(replace(empty, program=Program(recorded=True))) == ()
