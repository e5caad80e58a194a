"""Comparisons: totals, operators, layers, differences, and what fails on them."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from tests.analyses.compare.variants import NUMBERED, network
from tests.cli.conftest import EXAMPLES

import flopwise
from flopwise.analyses.compare.comparison import broken, conditions, difference, percent
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.report.commands.compare import comparison_report
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

SHAPE = {"x": (1, 3, 16, 16)}


def model(**given: object) -> bytes:
    return network(**given).SerializeToString()  # type: ignore[arg-type]


def compared(*models: object, **given: object) -> flopwise.Comparison:
    return flopwise.compare(*models, **{"inputs": SHAPE, **given})  # type: ignore[arg-type]


def test_totals_are_those_of_the_profiles() -> None:
    wide = model(widths=(16, 16, 32, 32))
    found = compared(model(), wide)
    one, other = flopwise.profile(model(), SHAPE), flopwise.profile(wide, SHAPE)
    for figure in ("count", "macs", "flops", "params", "weight_bytes", "activations", "output_bytes"):
        assert found.total(figure) == (one.total(figure), other.total(figure))
        assert found.difference(figure) == other.total(figure) - one.total(figure)
    assert found.total("peak_activation_bytes") == (one.peak_activation_bytes, other.peak_activation_bytes)


@pytest.mark.parametrize("figure", ["macs", "params", "output_bytes"])
def test_operators_and_layers_add_up_to_the_totals(figure: str) -> None:
    found = compared(model(), model(extra=1, namer=NUMBERED), model(norm=False))
    for groups in (found.operators, found.layers):
        for index, total in enumerate(found.total(figure)):
            assert sum(group.values(figure)[index] or 0 for group in groups) == total


@pytest.mark.parametrize("figure", ["count", "params", "output_bytes"])
def test_differences_of_layers_and_operators_add_up_too(figure: str) -> None:
    """A layer that only one of the two has differs by all of it."""
    found = compared(model(), model(norm=False), model(extra=1))
    for groups in (found.operators, found.layers):
        for index in (1, 2):
            differences = [found.of_group(group, figure)[index].difference for group in groups]
            assert sum(difference or 0 for difference in differences) == found.difference(figure, index)
    lost = next(g for g in found.layers if g.op == "BatchNormalization")
    assert found.of_group(lost, "params")[1] == (-16, -100.0)
    gained = next(g for g in compared(model(norm=False), model()).layers if g.op == "BatchNormalization")
    assert compared(model(norm=False), model()).of_group(gained, "params")[1] == (16, None)
    lines = as_text(comparison_report(compared(model(norm=False), model()), by="layer"), "csv").splitlines()
    assert ",/block1/BatchNormalization,BatchNormalization,,,4136,4136,,,16,16," in lines


def test_counts_in_different_units_are_converted() -> None:
    found = flopwise.compare(model(), inputs=SHAPE, convention=["flops", "fvcore", "textbook"])
    assert found.comparable("count") == (True, True, True)
    first, second, third = (p.sum.count for p in found.profiles)
    assert (found.difference("count", 1), found.difference("macs", 1)) == (2 * second - first, 0)
    assert found.to_dict()["totals"]["count"]["difference"] == [0, 2 * second - first, third - first]
    assert "differences of counts are in FLOP: 1 MAC = 2 FLOP" in as_text(comparison_report(found))
    with pytest.raises(InputError, match="count>0: fvcore counts in a different unit from flops"):
        list(broken(found, conditions("count>0")))


def test_a_renamed_model_is_no_different() -> None:
    found = compared(model(), model(namer=NUMBERED))
    assert not any(group.changed for group in found.layers)
    assert all(found.difference(figure) == 0 for figure in ("macs", "params", "peak_activation_bytes"))


def test_what_is_added_stands_after_what_precedes_it() -> None:
    found = compared(model(), model(norm=False))
    added = compared(model(norm=False), model())
    assert [g.op for g in found.layers] == [g.op for g in added.layers]
    assert [g.names[0] for g in added.layers if g.op == "BatchNormalization"] == [None] * 4
    missing = next(g for g in found.layers if g.op == "BatchNormalization")
    assert (missing.missing, missing.changed, missing.values("params")) == (True, True, (16, None))


def test_json() -> None:
    found = compared(model(), model(extra=0)).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert list(found) == ["schema", "models", "totals", "operators", "layers"]
    assert found["schema"] == "flopwise.compare/1"
    params = found["totals"]["params"]
    assert params["difference"][1] == params["values"][1] - params["values"][0]
    assert params["percent"][1] == pytest.approx(100 * params["difference"][1] / params["values"][0])
    assert (params["difference"][0], params["exact"]) == (0, [True, True])


def test_conventions_batches_and_profiles() -> None:
    by_convention = compared(model(), convention=["flops", "macs", "benanza"])
    assert by_convention.labels == ("flops", "macs", "benanza")
    assert {m.way for each in by_convention.matches for m in each} == {"same"}
    by_batch = flopwise.compare(model(norm=False), batch_size=[1, 4])
    assert by_batch.labels == ("batch 1", "batch 4")
    assert by_batch.total("macs")[1] == 4 * (by_batch.total("macs")[0] or 0)
    profiles = [flopwise.profile(model(), {"x": (1, 3, s, s)}) for s in (16, 32)]
    by_size = flopwise.compare(*profiles)
    assert by_size.labels == ("1x3x16x16", "1x3x32x32")
    assert not any(group.missing for group in by_size.layers)


def test_labels() -> None:
    assert compared(model(), model(), labels=["old", "new"]).labels == ("old", "new")
    assert compared(model(), model()).labels == ("network 1", "network 2")
    with pytest.raises(InputError, match="2 models are compared, and 1 labels"):
        compared(model(), model(), labels=["old"])


@pytest.mark.parametrize(
    ("models", "given", "message"),
    [
        (1, {}, "comparing takes two"),
        (2, {"convention": ["flops", "macs"]}, "one thing at a time"),
        (1, {"convention": ["flops", "macs"], "batch_size": [1, 2]}, "one thing at a time"),
    ],
)
def test_what_cannot_be_compared(models: int, given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compared(*[model()] * models, **given)


def test_printing() -> None:
    text = str(compared(model(), model(extra=0)))
    assert "parameters" in text
    assert "B - A" in text


def test_empty_models() -> None:
    empty = flopwise.profile(Graph("none", "hand", "", (), (), ()))
    assert flopwise.compare(empty, empty).total("macs") == (0, 0)


@pytest.mark.parametrize(
    ("text", "figure", "sign", "limit", "percent"),
    [
        ("macs>+1%", "macs", ">", Fraction(1), True),
        (" params > 0 ", "params", ">", Fraction(0), False),
        ("peak>=1.5MiB", "peak_activation_bytes", ">=", Fraction(3 * 2**19), False),
        ("flops<-2.5%", "flops", "<", Fraction(-5, 2), True),
        ("weights!=0", "weight_bytes", "!=", Fraction(0), False),
        ("Layers>2", "layers", ">", Fraction(2), False),
        ("count>=1 G", "count", ">=", Fraction(10**9), False),
    ],
)
def test_conditions(text: str, figure: str, sign: str, limit: Fraction, percent: bool) -> None:
    found = conditions(text)[0]
    assert (found.figure, found.sign, found.limit, found.percent) == (figure, sign, limit, percent)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no condition"),
        ("macs", "cannot understand 'macs'"),
        ("macs>", "cannot understand 'macs>'"),
        ("macs>x%", "'macs>x%': 'x' is not a number"),
        ("macs>1 MB", "wrong unit"),
        ("parms>0", "did you mean 'params'"),
        ("macs>1%%", "cannot understand"),
        ("macs>" + "9" * 1000, "is not a number"),
        ("macs>1e999999999", "is not a number"),
    ],
)
def test_conditions_without_sense(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        conditions(text)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("macs>0", True),
        ("macs>+1%", True),
        ("macs>1000%", False),
        ("macs<0", False),
        ("params>0,macs>1000%", True),
        ("layers>3", False),
        ("layers>=3", True),
        ("unknown>0", False),
    ],
)
def test_failing(text: str, fails: bool) -> None:
    found = compared(model(), model(extra=0))  # three layers more
    assert bool(list(broken(found, conditions(text)))) is fails


def test_growth_from_nothing_is_more_than_any_share() -> None:
    found = compared(model(norm=False), model())
    assert [None not in (b.first, b.other) for b in broken(found, conditions("buffers>1000%"))] == [True]
    assert not list(broken(found, conditions("buffers<5%")))


def test_what_nobody_knows_fails() -> None:
    custom = EXAMPLES / "custom_op.onnx"
    found = flopwise.compare(custom, custom)
    assert [None not in (b.first, b.other) for b in broken(found, conditions("macs>5%"))] == [False]
    assert not list(broken(found, conditions("params>0")))
    assert found.to_dict()["totals"]["macs"]["difference"] == [None, None]


def test_a_narrow_terminal_keeps_per_cents_beside_the_figures() -> None:
    found = flopwise.compare("examples/tiny_resnet.onnx", "examples/custom_op.onnx", labels=["a" * 60, "b" * 60])
    for width in (60, 80, 200):
        text = as_text(comparison_report(found), look=Look(width=width))
        assert max(len(line) for line in text.splitlines()) <= width
        totals, operators = text.split("\n\n")[1:3]
        assert "A" in totals.split("\n")[0]
        assert "%" in totals.split("\n")[0]
        assert "%" in operators.split("\n")[0]


@pytest.mark.parametrize(
    ("values", "more", "share"),
    [
        ((100, 150), 50, 50.0),
        ((100, 100), 0, 0.0),
        ((0, 0), 0, 0.0),
        ((0, 5), 5, None),
        ((None, 5), None, None),
        ((5, None), None, None),
        ((8, 2), -6, -75.0),
    ],
)
def test_differences(values: tuple[int | None, ...], more: int | None, share: float | None) -> None:
    assert difference(values, 1) == more
    assert percent(values, 1) == share
