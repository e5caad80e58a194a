"""What is made of formulas: functions, source code, budgets, peaks of memory, training, plots."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from onnx import TensorProto, helper
from tests.analyses.formula import models
from tests.analyses.formula.models import Net

import flopwise
from flopwise.analyses.formula.extras.solve import Budget, _last, budget, solve
from flopwise.analyses.formula.terms import symbol
from flopwise.errors import InputError
from flopwise.operators.counts import CLASSES


@pytest.fixture(scope="module")
def resnet() -> flopwise.Formula:
    return flopwise.formula(models.resnet50())


@pytest.mark.parametrize("make", [models.resnet50, models.unet, models.resized, models.window, models.chunked])
def test_functions(make: Callable[[], bytes]) -> None:
    formula = flopwise.formula(make())
    functions = formula.lambdify()
    for place in (3, 40, 170):
        point = {d.name: d.size(place) for d in formula.domains}
        at = formula.at(**point)
        assert {f: functions[f](*point.values()) for f in at} == at


def test_functions_of_arrays(resnet: flopwise.Formula) -> None:
    sides = numpy.array([32, 64, 224, 225])
    macs = resnet.lambdify("macs")(1, sides, sides)
    assert macs.tolist() == [resnet.at(N=1, H=int(s), W=int(s))["macs"] for s in sides]


def test_functions_refuse_sizes_at_which_formulas_do_not_hold() -> None:
    formula = flopwise.formula(models.resized())
    macs, good, bad = formula.lambdify("macs"), (2, 8, 9), (2, 8, 1)
    assert formula.conditions == ("W >= 3",)
    assert macs(*good) == formula.at(N=2, H=8, W=9)["macs"]
    for wrong in (bad, (2, 8, numpy.array([9, 1])), (2, 8, -1)):
        with pytest.raises(InputError, match=r"the formulas do not hold for W = -?1; they need W >= 3"):
            macs(*wrong)
    for half in (9.5, numpy.array([9.5])):
        with pytest.raises(InputError, match=r"not (a )?whole number"):
            macs(2, 8, half)
    scope: dict[str, Any] = {}
    exec(formula.source("python", ["macs"]), scope)
    assert scope["holds"](*good)
    assert not scope["holds"](*bad)


@pytest.mark.parametrize(
    "name", ["lambda", "__import__", "int", "while", "function", "holds", "floor_div", 'N; exit("")']
)
def test_functions_of_symbols_with_odd_names(name: str, tmp_path: Path) -> None:
    matrix = TensorProto(name="w", data_type=1, dims=[3, 4])
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [helper.make_tensor_value_info("x", 1, [name, 3])], [helper.make_tensor_value_info("y", 1, None)]
    formula = flopwise.formula(
        helper.make_model(helper.make_graph([product], "g", *ends, [matrix])).SerializeToString()
    )
    assert formula.lambdify("macs")(5) == formula.at(**{name: 5})["macs"] == 60
    compiler = shutil.which("cc")
    if compiler:
        (tmp_path / "cost.c").write_text(formula.source("c"))
        subprocess.run([compiler, "-c", tmp_path / "cost.c", "-o", tmp_path / "cost.o"], check=True)


def test_functions_of_arrays_do_not_overflow(resnet: flopwise.Formula) -> None:
    macs = resnet.lambdify("macs")
    sides = numpy.array([224, 100_000], dtype=numpy.int32)
    assert macs(1000, sides, sides).tolist() == [macs(1000, int(s), int(s)) for s in sides]
    assert macs(1000, numpy.array([], int), 3).tolist() == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler is needed")
@pytest.mark.parametrize("make", [models.resnet50, models.unet, models.window])
def test_c(make: Callable[[], bytes], tmp_path: Path) -> None:
    formula = flopwise.formula(make())
    point = {d.name: d.size(29) for d in formula.domains}
    sizes = ", ".join(map(str, point.values()))
    cost = f"holds({sizes}) ? (long long)macs({sizes}) : -1"
    main = f'#include <stdio.h>\nint main(void) {{ printf("%lld", {cost}); return 0; }}\n'
    (tmp_path / "cost.c").write_text(formula.source("c", ["macs"]) + main)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "cost.c", "-o", "cost"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "cost"], capture_output=True, text=True, check=True).stdout
    assert int(printed) == formula.at(**point)["macs"]


def test_javascript(resnet: flopwise.Formula) -> None:
    text = resnet.source("javascript", ["macs"])
    assert "export function macs(N, H, W) {" in text
    assert "floor_div(H + 1, 2)" in text


def test_there_is_no_such_language(resnet: flopwise.Formula) -> None:
    with pytest.raises(InputError, match="source cannot be written in 'fortran'; known: c, javascript, python"):
        resnet.source("fortran")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("macs <= 10G for H", {"N": 1, "W": 224}),
        ("flops < 1e9 for N", {"H": 64, "W": 64}),
        ("output_bytes <= 1 GB for W", {"N": 4, "H": 32}),
        ("peak_activation_bytes <= 100 MiB for H", {"N": 1, "W": 224}),
        ("weight_bytes + peak_activation_bytes <= 24 GB for N", {"H": 224, "W": 224}),
        ("4 * weight_bytes+output_bytes <= 24 GB for N", {"H": 224, "W": 224}),
    ],
)
def test_the_largest_size_within_a_budget(resnet: flopwise.Formula, text: str, sizes: dict[str, int]) -> None:
    limit = budget(text)
    found = solve(resnet, limit, sizes)
    assert found.certain
    assert found.size is not None
    assert found.value is not None
    assert found.value <= limit.most

    def cost(size: int) -> int:
        values = {figure: resnet.value(figure, **{**sizes, found.symbol: size}) for _, figure in limit.figures}
        return sum(times * (values[figure] or 0) for times, figure in limit.figures)

    assert cost(found.size) == found.value
    assert cost(found.size + 1) > limit.most


def test_steps_between_sizes_are_kept() -> None:
    formula = flopwise.formula(models.unet())
    found = solve(formula, budget("count <= 1G for H"), {"N": 1, "W": 64})
    assert found.size is not None
    assert found.size % 8 == 0
    assert formula.value("count", N=1, W=64, H=found.size + 8) > 10**9  # type: ignore[operator]


def test_every_size_is_too_large(resnet: flopwise.Formula) -> None:
    assert solve(resnet, budget("params <= 1K for H"), {"N": 1, "W": 224}).size is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("macs", "write for example 'macs <= 10G for H'"),
        ("macs <= 10Q for H", "is not a number"),
        ("macs <= 10G for Z", "no symbol 'Z'"),
        ("macs <= 10G", "name the symbol to solve for"),
        ("work <= 10G for H", "unknown figure 'work'"),
        ("weight_bytes + macs <= 10G for H", "bytes are added to what is no bytes"),
        ("weight_bytes + <= 10G for H", "cannot understand"),
        ("params <= 1T for H", "every size is within the budget"),
    ],
)
def test_bad_budgets(resnet: flopwise.Formula, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve(resnet, budget(text), {} if text == "macs <= 10G" else {"N": 1, "W": 224})


@pytest.mark.parametrize("make", [models.resnet50, models.unet, models.past, models.lstm])
def test_peaks_of_memory(make: Callable[[], bytes]) -> None:
    model = make()
    formula = flopwise.formula(model)
    for place in (1, 4, 23, 77):
        point = {d.name: d.size(place) for d in formula.domains}
        dims = {**point, "past_length + seq": 2 * place} if make is models.past else point
        peak = flopwise.profile(model, dims=dims).peak_activation_bytes
        assert formula.value("peak_activation_bytes", **point) == peak


def test_peaks_where_tensors_share_storage_at_one_size() -> None:
    formula = flopwise.formula(models.vit())
    for batch in (1, 2, 3):
        point = {d.name: batch if d.name == "batch" else d.size(d.place(d.low) + 5) for d in formula.domains}
        peak = flopwise.profile(models.vit(), dims=point).peak_activation_bytes
        assert formula.value("peak_activation_bytes", **point) == peak
        if formula.peak is not None:
            assert formula.lambdify("peak_activation_bytes")(*point.values()) == peak


def test_bytes_of_a_cache() -> None:
    formula = flopwise.formula(models.past())
    assert str(formula.term("state_bytes")) == "128*batch*past_length"
    assert formula.to_dict()["totals"]["state_bytes"] == "128*batch*past_length"


@pytest.mark.parametrize("make", [models.resnet50, models.vit])
def test_training_steps(make: Callable[[], bytes]) -> None:
    model = make()
    formula = flopwise.formula(model, train=True)
    point = {d.name: 3 + d.size(30) for d in formula.domains}
    profile = flopwise.profile(model, dims=point, train=True)
    at = formula.at(**point)
    for figure in ("backward", "backward_macs", "saved_bytes"):
        assert at[figure] == sum(getattr(row, figure) for row in profile.rows)


def test_lower_bounds_travel_with_values() -> None:
    at = flopwise.formula(models.mystery()).at(batch=2, seq=3)
    assert "count" in at.lower_bounds
    assert "params" not in at.lower_bounds
    assert flopwise.formula(models.past()).at(batch=1, seq=1, past_length=1).lower_bounds == ()


def test_a_plot(resnet: flopwise.Formula) -> None:
    pytest.importorskip("matplotlib")
    drawn = resnet.plot("H", range(32, 257, 32), ["macs", "flops"], N=1, W=224)
    lines = drawn.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["macs", "flops"]
    assert list(lines[0].get_ydata())[6] == 4089184256


def test_larger_summands_stand_first(resnet: flopwise.Formula) -> None:
    term = 5 * symbol("N") ** 2 + 700 * symbol("N")
    assert resnet.text(term) == "5*N*(N + 140)"
    assert resnet.text(term, {"N": 3, "H": 1, "W": 1}) == "5*N*(140 + N)"
    assert resnet.text(term, {"N": 141, "H": 1, "W": 1}) == "5*N*(N + 140)"
    assert resnet.latex(term, {"N": 3, "H": 1, "W": 1}) == r"5 N \left(140 + N\right)"
    with pytest.raises(InputError, match="no symbol 'M'"):
        resnet.text(term, {"M": 3})


def test_layers_alike_say_how_many_they_are(resnet: flopwise.Formula) -> None:
    groups = resnet.by("formula")
    assert sum(group.times for group in groups) == len(resnet.rows)
    for group in groups:
        one = group.one or group
        assert group.terms["macs"] == one.terms["macs"] * group.times  # type: ignore[operator]


@pytest.mark.parametrize("make", [models.llama, models.lstm, models.loop, models.unet, models.resnet50, models.window])
def test_operations_of_each_class(make: Callable[[], bytes]) -> None:
    model = make()
    formula = flopwise.formula(model)
    for place in (3, 47):
        point = {d.name: d.size(max(place, d.place(d.low))) for d in formula.domains}
        loops = {n: s for n, s in point.items() if not any(n in str(i[2]) for i in formula.inputs)}
        dims = {n: s for n, s in point.items() if n not in loops}
        profile = flopwise.profile(model, dims=dims, trips=loops or None)
        assert {c: formula.value(c, **point) for c in CLASSES} == profile.sum.counts.to_dict()
        assert formula.value("exp", **point) == formula.lambdify("exp")(*point.values())


def test_operations_of_each_class_outside_the_conditions() -> None:
    formula = flopwise.formula(models.window())
    (outside,) = [d.low - 1 for d in formula.domains if d.low > 1][:1] or [0]
    point = {d.name: outside if d.low > 1 else 2 for d in formula.domains}
    profile = flopwise.profile(models.window(), dims=point)
    assert formula.value("mac", **point) == profile.sum.counts.mac


def test_a_budget_below_the_sizes_for_which_the_formula_holds_is_sought_with_profiles() -> None:
    net = models.Net()
    data = bytes(net.model(net.op("MaxPool", net.op("Exp", "x"), kernel_shape=[9], strides=[4]), x=["N", 4, "W"]))
    formula = flopwise.formula(data)
    assert [d.low for d in formula.domains if d.name == "W"] == [9]
    found = solve(formula, budget("count <= 66 for W"), {"N": 1})
    profiles = {}
    for width in range(1, 9):
        with contextlib.suppress(flopwise.InputError):  # of a window that is larger than the image
            profiles[width] = flopwise.profile(data, dims={"N": 1, "W": width}).total("flops")
    assert found.size == max(w for w, count in profiles.items() if count is not None and count <= 66)
    assert found.value == profiles[found.size]
    assert found.profiled == 0


def bounded(net: Net) -> str:
    """As many elements as there are in x, at most 7."""
    elements = net.op("Mul", net.extent("x", 0), net.extent("x", 1))
    end = net.op("Min", elements, net.values(7))
    return str(net.op("Slice", net.op("Reshape", "x", net.values(-1)), net.values(0), end))


def test_functions_of_arrays_count_in_as_many_digits_as_it_takes_on_the_way() -> None:
    net = Net()
    formula = flopwise.formula(net.model(net.op("Relu", bounded(net)), x=["N", "T"]))
    sizes = [3, 1 << 33, 1 << 40]
    counts = formula.lambdify("count")(numpy.array(sizes), numpy.array(sizes))
    assert counts.tolist() == [formula.at(N=size, T=size)["count"] for size in sizes] == [7, 7, 7]


def rest(net: Net) -> str:
    """As many elements as are left of T divided by 5, for every seventh of T."""
    left = net.op("Mod", net.extent("x", 0), net.values(5))
    return str(
        net.op("Tile", net.op("Slice", "x", net.values(0), left), net.op("Div", net.extent("x", 0), net.values(7)))
    )


def even(net: Net) -> str:
    """What is right for even sizes alone, between others that are multiplied."""
    half = net.op("Concat", net.op("Div", net.extent("x", 0), net.values(2)), net.values(2), axis=0)
    halves = net.op("Reshape", "x", half)
    return str(net.op("MatMul", halves, net.op("Transpose", halves, perm=[1, 0])))


def test_the_last_place_that_holds_is_found_up_to_the_last_there_is() -> None:
    for low, high, edge in itertools.product((0, 3), (3, 8, 10, 11), range(14)):
        assert _last(lambda place, edge=edge: place <= edge, low, high) == (min(edge, high) if edge >= low else low - 1)


@pytest.mark.parametrize("build", [bounded, rest, even])
@pytest.mark.parametrize("most", [0, 5, 7, 8, 40, 100, 1000, 10_000, 10**6])
def test_the_largest_size_is_that_of_all_tried_one_by_one(build: Callable[[Net], str], most: int) -> None:
    net = Net()
    inputs = ["N", "T"] if build is bounded else ["T"]
    formula = flopwise.formula(net.model(net.op("Exp", build(net)), x=inputs))
    others = {"N": 2} if build is bounded else {}
    fits = []
    for size in range(1500):
        with contextlib.suppress(flopwise.InputError):
            formula.point({"T": size, **others})
            fits += [size] if formula.value("count", T=size, **others) <= most else []
    if fits and fits[-1] >= 1490:  # it may stay within the budget for ever
        with contextlib.suppress(flopwise.InputError):
            larger = solve(formula, Budget("count", most, "T"), others).size
            assert larger is not None
            assert larger >= fits[-1]
    else:
        assert solve(formula, Budget("count", most, "T"), others).size == max(fits, default=None)
