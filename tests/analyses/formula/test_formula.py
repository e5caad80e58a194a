"""Formulas of whole models beside the profile at points that nothing was fitted to."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import sympy
from tests.analyses.formula import models

import flopwise
from flopwise.conventions import CONVENTIONS

#: Points at which each formula is compared.
POINTS = 20


def sizes(formula: flopwise.Formula, count: int = POINTS, most: int = 600) -> list[dict[str, int]]:
    """Random points where the formulas say that they hold."""
    chance = random.Random(11)
    found = []
    for _ in range(count):
        point = {}
        for d in formula.domains:
            high = max(most, d.low + 10 * d.step) if d.high is None else d.high
            point[d.name] = d.size(chance.randint(d.place(d.low), d.place(high)))
        found.append(point)
    return found


def check(model: object, formula: flopwise.Formula, count: int = POINTS, **options: Any) -> None:
    """Compare every figure of the model, and of its most expensive layers, with the profile."""
    layers = {id(group): i for i, group in enumerate(formula.layers)}
    costliest = formula.most_expensive(formula.layers)[:5]
    for point in sizes(formula, count):
        profile = flopwise.profile(model, convention=formula.convention, **shapes(formula, point), **options)
        totals = formula.at(**point)
        for figure, found in totals.items():
            if found is not None:
                expected = getattr(profile.sum, figure)
                assert found <= expected if figure in totals.lower_bounds else found == expected, (figure, point)
        for group in costliest:
            row, found_in_layer = profile.rows[layers[id(group)]], formula.evaluate(group, point)
            assert found_in_layer["count"] in (row.count, *[None] * (not group.exact("count"))), (row.name, point)


def shapes(formula: flopwise.Formula, point: dict[str, int]) -> dict[str, Any]:
    """What to give to ``profile`` for a point: concrete shapes by name."""
    inputs = {}
    for name, _, dims in formula.inputs:
        values = [
            formula.expressions.expression(d).subs({s: point[n] for n, s in formula.expressions.symbols.items()})
            for d in dims
        ]
        inputs[name] = tuple(int(v) for v in values)
    return {"inputs": inputs}


#: Model -> the total in the convention "flops", and the conditions without their reasons.
ROWS: dict[Callable[[], bytes], tuple[str, list[str]]] = {
    models.unet: ("9868*H*N*W", ["H divisible by 8", "W divisible by 8"]),
    models.vit: ("121344*batch", []),
    models.lstm: ("1392*batch*steps", []),
    models.resized: ("N*(856*ceil(W/2) + 640*floor((W + 1)/4))*ceil(H/2)", ["W >= 3"]),
    models.past: ("batch*seq*(76*past_length + 76*seq + 2048)", []),
    models.total_length: ("136*b*(p + s)", ["t = p + s"]),
    models.positions: ("136*batch*seq", ["seq <= 48"]),
    models.window: ("136*batch*min(seq, 150)", []),
    models.chunked: ("9472*batch*ceil(seq/16)", []),
    models.shuffled: ("48*H*N*W", ["H divisible by 4", "W divisible by 4"]),
    models.mystery: ("128*batch*seq", []),
    models.loop: ("136*batch*seq", []),
    models.branches: ("256*batch*steps**2", ["steps >= 33"]),
}


@pytest.mark.parametrize("make", ROWS, ids=lambda make: make.__name__)
def test_totals(make: Callable[[], bytes]) -> None:
    model = make()
    formula = flopwise.formula(model)
    total, conditions = ROWS[make]
    assert formula.text(formula.whole.terms["count"]) == total
    assert [c.partition(" (")[0] for c in formula.conditions] == conditions
    if make is not models.total_length:
        check(model, formula)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("make", [*ROWS, models.resnet50], ids=lambda make: make.__name__)
def test_every_convention(make: Callable[[], bytes], convention: str) -> None:
    model = make()
    formula = flopwise.formula(model, convention=convention)
    if make is not models.total_length:
        check(model, formula, 3)


def test_a_tied_symbol_follows_the_others() -> None:
    model = models.total_length()
    formula = flopwise.formula(model)
    for p, s in ((3, 4), (1, 1), (100, 7)):
        profile = flopwise.profile(model, dims={"b": 2, "p": p, "s": s, "t": p + s})
        assert formula.at(b=2, p=p, s=s)["count"] == profile.total("count")


def test_resnet50() -> None:
    model = models.resnet50()
    formula = flopwise.formula(model)
    check(model, formula)
    assert formula.conditions == ()
    assert formula.at(N=1, H=224, W=224)["macs"] == 4089184256
    n, h, w = formula.symbols
    halves = [sympy.ceiling(h / 2**i) * sympy.ceiling(w / 2**i) for i in range(1, 6)]
    expected = (
        64
        * n
        * (147 * halves[0] + 3840 * halves[1] + 20480 * halves[2] + 116736 * halves[3] + 225280 * halves[4] + 32000)
    )
    assert sympy.expand(formula.total("macs") - expected) == 0
    assert formula.total("params") == 25503912


def test_llama_of_32_layers() -> None:
    model = models.llama()
    formula = flopwise.formula(model)
    assert len(formula.rows) > 1700
    batch, sequence = formula.symbols
    assert formula.total("macs") == 256 * batch * sequence * (16 * sequence + 5145)
    check(model, formula, 20)


def test_llama_layers_have_formulas() -> None:
    formula = flopwise.formula(models.llama(2))
    batch, sequence = formula.symbols
    softmax = next(group for group in formula.layers if group.kind == "Softmax")
    assert formula.layer(softmax, "count") == 20 * batch * sequence**2
    by_op = {group.name: group for group in formula.by("op")}
    assert formula.layer(by_op["Softmax"], "count") == 40 * batch * sequence**2
    total = sum(formula.layer(group, "count") for group in formula.layers)
    assert sympy.expand(total - formula.total("count")) == 0


def test_symbols_in_place_of_numbers() -> None:
    model = models.closed()
    formula = flopwise.formula(model, "image:f32:N,3,H,W")
    check(model, formula)
    assert [str(s) for s in formula.symbols] == ["N", "H", "W"]
    assert flopwise.formula(model, {"image": (1, 3, "H", 32)}).at(H=32) == flopwise.formula(model, "N,3,32,32").at(N=1)


def test_dims_and_batch_size_fix_symbols() -> None:
    model = models.past()
    formula = flopwise.formula(model, dims={"batch": 2})
    assert {str(s) for s in formula.symbols} == {"seq", "past_length"}
    assert formula.total("macs") == flopwise.formula(model, batch_size=2).total("macs")
    assert formula.at(seq=3, past_length=0)["macs"] == 64 * 3 * 35


def test_loops_of_unknown_length_are_symbols() -> None:
    model = models.endless()
    formula = flopwise.formula(model)
    batch, decode = formula.symbols
    assert formula.total("count") == 8 * batch * decode
    for size, trips in ((1, 1), (3, 20), (7, 5)):
        profile = flopwise.profile(model, dims={"batch": size}, trips={"decode": trips})
        assert formula.at(batch=size, decode=trips)["output_bytes"] == profile.total("output_bytes")
    assert flopwise.formula(model, trips={"decode": 5}).total("count") == 40 * batch


def test_unknown_operators_make_lower_bounds() -> None:
    formula = flopwise.formula(models.mystery())
    assert not formula.exact
    assert not formula.whole.exact("count")
    assert formula.layer(formula.layers[1], "count") is None
    assert formula.to_dict()["coverage"]["unknown"] == {"acme::Mystery": 1}
    assert any(note.startswith("unknown: acme::Mystery") for note in formula.notes)


def scrambled(node: flopwise.Node) -> flopwise.Counts:
    return flopwise.Counts(mul=node.output().numel * 7919 % 1009)


def stepped(node: flopwise.Node) -> flopwise.Counts:
    n = node.output().numel
    return flopwise.Counts(mul=n if n < 100000 else 2 * n)


def clipped(node: flopwise.Node) -> flopwise.Counts:
    return flopwise.Counts(mul=max(node.output().dims[1], 120))  # type: ignore[type-var]


@pytest.mark.parametrize("rule", [clipped, stepped, scrambled])
def test_rules_that_branch_on_sizes_make_conditions(rule: Callable[[flopwise.Node], flopwise.Counts]) -> None:
    model = models.window()
    formula = flopwise.formula(model, rules={"Exp": rule})
    assert formula.exact
    assert bool(formula.conditions) == (rule is not scrambled)
    check(model, formula, rules={"Exp": rule})


def test_conditions_on_several_symbols() -> None:
    model = models.past()
    formula = flopwise.formula(model, rules={"Softmax": stepped})
    assert formula.conditions == ("batch*past_length*seq + batch*seq**2 >= 50000",)
    check(model, formula, rules={"Softmax": stepped})


def test_where_no_condition_speaks_values_come_from_the_profile() -> None:
    formula = flopwise.formula(models.mystery())
    some = dataclasses.replace(formula, everywhere=False)
    for figure in (None, "macs"):
        with pytest.raises(flopwise.InputError, match=r"no condition speaks: values come from at\(\), which asks"):
            some.lambdify(figure)
    assert ["not everywhere" in each.source("python", ["macs"]) for each in (some, formula)] == [True, False]


def test_what_has_no_formula_is_named() -> None:
    model = models.window()
    formula = flopwise.formula(model, rules={"Exp": scrambled_by_text})
    assert not formula.exact
    assert formula.to_dict()["coverage"]["without_formula"] == ["/Exp_1"]
    assert any(note.startswith("uncounted: '/Exp_1'") for note in formula.notes)
    assert formula.layer(formula.layers[1], "count") is None
    assert formula.at(batch=2, seq=10)["macs"] == 2 * 10 * 64


def scrambled_by_text(node: flopwise.Node) -> flopwise.Counts:
    return flopwise.Counts(mul=int(str(node.output().numel)[::-1]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seq": 3}, "a size for batch is missing"),
        ({"batch": 1, "seq": 3, "x": 2}, "no symbol 'x'; the symbols are batch, seq"),
        ({"batch": 1, "seq": 49}, "do not hold for seq = 49; they need seq <= 48"),
        ({"batch": -1, "seq": 4}, "do not hold for batch = -1; they need batch >= 0"),
    ],
)
def test_points_where_formulas_do_not_hold(given: dict[str, int], message: str) -> None:
    formula = flopwise.formula(models.positions())
    with pytest.raises(flopwise.InputError, match=message):
        formula.at(**given)


def test_figures() -> None:
    formula = flopwise.formula(models.vit())
    with pytest.raises(flopwise.InputError, match="unknown figure 'work'; known: count, macs"):
        formula.total("work")
    with pytest.raises(flopwise.InputError, match="cannot group by 'x'"):
        formula.by("x")


def test_groups_add_up() -> None:
    formula = flopwise.formula(models.unet())
    for key in ("op", "layer", "formula"):
        total = sum(formula.layer(group, "count") for group in formula.by(key))
        assert sympy.expand(total - formula.total("count")) == 0
    assert formula.layer(formula.by("module")[0], "count") == formula.total("count")


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (models.closed, None, r"no open dimension.*-i image:float32:N,3,H,W"),
        (models.closed, "image:f32:1x3x64x64", "no open dimension"),
        (models.past, {"mask": (1, "x", "y")}, "input 'mask' has 2 dimensions, but 3 are given"),
        (
            lambda: models.Net().model("x", x=["a", None, 4]),
            None,
            r"open dimensions without a name.*-i x:float32:a,S,4",
        ),
    ],
)
def test_bad_inputs(make: Callable[[], bytes], inputs: Any, message: str) -> None:
    with pytest.raises(flopwise.InputError, match=message):
        flopwise.formula(make(), inputs)


def test_unknown_dims_are_refused() -> None:
    with pytest.raises(flopwise.InputError, match="no input has a dimension named 'bach'"):
        flopwise.formula(models.past(), dims={"bach": 2})


def test_a_model_of_one_size_says_why() -> None:
    net = models.Net()
    x = net.op("Reshape", "x", net.values(2, 8))
    with pytest.raises(flopwise.InputError, match=r"the model takes N = 1 and no other.*Reshape"):
        flopwise.formula(net.model(x, x=[1, 16]), "x:f32:N,16")


def test_dict() -> None:
    formula = flopwise.formula(models.shuffled())
    found = formula.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert list(found) == [
        "schema",
        "model",
        "inputs",
        "convention",
        "symbols",
        "conditions",
        "totals",
        "layers",
        "coverage",
        "verified_at",
        "notes",
    ]
    assert found["schema"] == "flopwise.formula/1"
    assert found["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["N", 3, "H", "W"]}]
    assert found["symbols"][1] == {"name": "H", "written": "H", "low": 0, "high": None, "step": 4}
    assert found["totals"]["count"] == "48*H*N*W"
    assert found["layers"][-1]["macs"] == "24*H*N*W"
    at = found["verified_at"][-1]
    names = {"floor": sympy.floor, "ceil": sympy.ceiling, "min": sympy.Min, "max": sympy.Max, "N": sympy.Symbol("N")}
    total = sympy.sympify(found["totals"]["output_bytes"], locals=names).subs(at)
    assert total == formula.at(**at)["output_bytes"]


def test_names_that_are_no_identifiers() -> None:
    net = models.Net()
    formula = flopwise.formula(net.model(net.op("Relu", "x"), x=["batch size", "unk__1", "2*n"]))
    assert [str(s) for s in formula.symbols] == ["batch_size", "unk__1", "n"]
    assert formula.text(formula.whole.terms["count"]) == "2*batch_size*n*unk__1"
    assert formula.at(batch_size=2, unk__1=3, n=5)["count"] == 60
    assert formula.evaluate(formula.whole, {"batch size": 2, "unk__1": 3, "n": 5})["count"] == 60


def test_nothing_depends_on_chance() -> None:
    first, second = (flopwise.formula(models.resized()).to_dict() for _ in range(2))
    assert first == second


def test_steps_between_sizes_are_found() -> None:
    model = models.yolox()
    formula = flopwise.formula(model)
    assert formula.exact
    assert [c.partition(" (")[0] for c in formula.conditions] == ["H divisible by 32", "W divisible by 32"]
    check(model, formula, 4)


@pytest.mark.parametrize("make", [models.fpn, lambda: models.llama(2, cache=True)], ids=["pyramid", "cache"])
def test_there_are_no_conditions(make: Callable[[], bytes]) -> None:
    model = make()
    formula = flopwise.formula(model)
    assert formula.exact
    assert not formula.conditions
    check(model, formula, 6)


def test_elements_that_are_given_steer_shapes() -> None:
    net = models.Net()
    model = net.model(net.op("Exp", net.op("Squeeze", "x", "axes")), types={"axes": 7}, x=["A", "B"], axes=[1])
    formula = flopwise.formula(model, {"x": ("A", "B"), "axes": numpy.array([0])})
    assert [d.name for d in formula.domains if d.high == 1] == ["A"]
    assert formula.exact
