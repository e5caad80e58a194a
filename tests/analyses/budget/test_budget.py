"""Budgets: what is read from TOML, which limits break, and what an update writes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flopwise
from flopwise.analyses.budget import Budget, Settings, Verdict, new_budget, parse, read_budget, updated
from flopwise.analyses.quantities import quantity
from flopwise.errors import FlopwiseError, InputError

EXAMPLES = Path(__file__).parents[3] / "examples"
TINY, CUSTOM = EXAMPLES / "tiny_resnet.onnx", EXAMPLES / "custom_op.onnx"


def limits(text: str) -> dict[str, int]:
    return {".".join(limit.path): limit.most for limit in parse(text).limits}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("25557032", 25557032),
        ("25_557_032", 25557032),
        ("4.1e9", 4100000000),
        ('"25.6 M"', 25600000),
        ('"25.6M"', 25600000),
        ('"4.1 G"', 4100000000),
        ('"4.1 GFLOPs"', 4100000000),
        ('"1e3"', 1000),
        ('"1.2345 k"', 1234),
        ("0", 0),
    ],
)
def test_numbers(value: str, number: int) -> None:
    assert limits(f"[model]\nflops = {value}") == {"model.flops": number}


@pytest.mark.parametrize(
    ("value", "number"), [('"100 MB"', 10**8), ('"1.5 GiB"', 3 * 2**29), ('"512 KiB"', 2**19), ('"8"', 8), ("9", 9)]
)
def test_bytes(value: str, number: int) -> None:
    assert limits(f"[model]\npeak_memory = {value}") == {"model.peak_memory": number}
    assert limits(f"[model]\nweight_bytes = {value}") == {"model.weight_bytes": number}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nparms = 1", r"\[model\]: unknown key 'parms'; did you mean 'params'\? known: count, macs"),
        ("[modle]\nparams = 1", "the budget: unknown key 'modle'; did you mean 'model'"),
        ("[layers.conv]\nunknown = 1", r"\[layers.conv\]: unknown key 'unknown'"),
        ("[layers.conv]\nmac = 1", "did you mean 'macs'"),
        ('[models."a*"]\nmac = 1', r"\[models.'a\*'\]: unknown key 'mac'; did you mean 'macs'"),
        ('[models."a*".layers."b*"]\nmac = 1', r"\[models.'a\*'.layers.'b\*'\]: unknown key"),
        ("[model]\nparams = -1", "is not a number of at least 0"),
        ("[model]\nparams = true", "True is not a number"),
        ("[model]\nparams = [1]", r"\[1\] is not a number"),
        ("[model]\nparams = nan", "nan is not a number"),
        ("[model]\nparams = inf", "inf is not a number"),
        ('[model]\nparams = "many"', r"\[model\] params: 'many' is not a number"),
        ('[model]\nparams = "1 MB"', "has the wrong unit"),
        ('[model]\nweight_bytes = "1 GFLOP"', "has the wrong unit"),
        ("[model]\ncount = {fvcoer = 1}", "unknown convention 'fvcoer'"),
        ('convention = "fvcoer"', "unknown convention 'fvcoer'"),
        ("convention = 1", "is not the name of a convention"),
        ("batch_size = 0", "not a whole number of at least 1"),
        ("inputs = 3", "inputs: write texts"),
        ("dims = {n = 'x'}", "dims: write a table"),
        ("model = 3", r"\[model\] is not a table but 3"),
        ("layers = {conv = 3}", r"\[layers.conv\] is not a table but 3"),
        ("[model", "is not TOML"),
        ("a = " + "[" * 100000, "is not TOML"),
        ("params = 1", "unknown key 'params'"),
        ("a" + ".a" * 50_000 + " = 1", "more than 1000 dots"),
    ],
)
def test_what_is_no_budget(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_a_budget_or_refused(text: str) -> None:
    for budget in (text, f"[model]\nparams = {text}"):
        with contextlib.suppress(FlopwiseError):
            assert parse(budget).limits is not None


@given(st.text(max_size=50), st.booleans())
def test_any_text_is_a_quantity_or_refused(text: str, of_bytes: bool) -> None:
    with contextlib.suppress(InputError):
        assert 0 <= quantity(text, of_bytes) < 10**140


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file; --update writes one"):
        read_budget(tmp_path / "none.toml")
    with pytest.raises(InputError, match="not a regular file"):
        read_budget(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text in UTF-8"):
        read_budget(tmp_path / "binary.toml")


def broken(budget: object, model: object = TINY, **given: object) -> dict[str, bool]:
    found = flopwise.check(model, budget, **given)  # type: ignore[arg-type]
    return {".".join(v.limit.path): v.broken for v in found}


def test_the_exact_figure_is_kept_and_one_less_is_not() -> None:
    profile = flopwise.profile(TINY)
    for figure in ("params", "macs", "flops", "count", "buffers", "weight_bytes", "activations", "output_bytes"):
        value = profile.total(figure)
        assert broken({"model": {figure: value}}) == {f"model.{figure}": False}
        assert broken({"model": {figure: value - 1}}) == {f"model.{figure}": True}
    assert profile.peak_activation_bytes is not None
    assert broken({"model": {"peak_memory": profile.peak_activation_bytes - 1}}) == {"model.peak_memory": True}
    assert broken({"model": {"layers": 54, "unknown": 0}}) == {"model.layers": False, "model.unknown": False}


def test_counts_in_conventions() -> None:
    benanza = flopwise.profile(TINY, convention="benanza").total("count")
    assert broken({"model": {"count": {"benanza": benanza, "macs": 5}}}) == {
        "model.count.benanza": False,
        "model.count.macs": True,
    }
    assert broken({"convention": "benanza", "model": {"count": benanza}}) == {"model.count": False}
    assert broken({"convention": "benanza", "model": {"count": benanza - 1}}, convention="macs") == {
        "model.count": False
    }


def test_layers() -> None:
    found = flopwise.check(
        TINY, {"layers": {"*conv*": {"macs": 300_000}, "/stem/*": {"macs": 100}, "no*": {"macs": 1}}}
    )
    rows = [row for row in flopwise.profile(TINY).rows if "conv" in row.name]
    assert [v.broken for v in found] == [False, True, True]
    assert found[0].value == max(row.macs or 0 for row in rows)
    assert found[1].layer == "/stem/conv/Conv"
    assert (found[2].why, found[2].value) == ("no layer has such a name", None)


def test_what_nobody_knows_is_broken() -> None:
    found = flopwise.check(CUSTOM, {"model": {"macs": 10**12, "params": 10**12, "unknown": 0}})
    assert [v.broken for v in found] == [True, False, True]
    assert found[0].why == "a lower bound: there are layers without a count"
    layers = flopwise.check(CUSTOM, {"layers": {"*": {"macs": 10**12}}})
    assert (layers[0].broken, layers[0].why) == (True, "the figure is unknown")


def test_models_by_name() -> None:
    text = '[models."tiny*.onnx"]\nparams = 1\n[models."*/examples/*"]\nmacs = 1\n[models."other*"]\nparams = 1\n'
    assert [limit.figure for limit in parse(text).for_model(str(TINY))] == ["params", "macs"]
    with pytest.raises(InputError, match=r"sets no limit for resnet\.onnx"):
        parse(text).for_model("resnet.onnx")


def test_settings_of_the_budget_and_of_the_caller() -> None:
    budget = {"batch_size": 4, "dims": {"sequence": 8}, "model": {"macs": 0}}
    block = EXAMPLES / "transformer_block.onnx"
    four = flopwise.profile(block, batch_size=4, dims={"sequence": 8}).total("macs")
    assert flopwise.check(block, budget)[0].value == four
    assert flopwise.check(block, budget, batch_size=8)[0].value == 2 * four
    assert flopwise.check(block, budget, dims={"sequence": 4})[0].value < four  # type: ignore[operator]
    by_shape = {"inputs": {"hidden_states": [4, 8, 40]}, "model": {"macs": 0}}
    by_text = {"inputs": ["hidden_states:f32:4x8x40"], "model": {"macs": 0}}
    assert flopwise.check(block, by_shape)[0].value == flopwise.check(block, by_text)[0].value == four


def test_update_keeps_comments_and_order() -> None:
    text = """# what the phone can take
[layers."*conv*"]   # each of them
macs = "1 M"        # was 2 M

[model]
unknown = 0
params = 5 # trained
count = {benanza = 1} # theirs
"""
    verdicts = flopwise.check(TINY, parse(text))
    macs = max(r.macs or 0 for r in flopwise.profile(TINY).rows if "conv" in r.name)
    theirs = flopwise.profile(TINY, convention="benanza").total("count")
    assert updated(text, verdicts) == text.replace('"1 M"', str(macs)).replace("params = 5", "params = 44370").replace(
        "benanza = 1", f"benanza = {theirs}"
    )
    assert not any(v.broken for v in flopwise.check(TINY, parse(updated(text, verdicts))))


def test_update_takes_the_largest_of_several_models() -> None:
    text = "[model]\nparams = 1\n"
    verdicts = [*flopwise.check(TINY, parse(text)), *flopwise.check(CUSTOM, parse(text))]
    most = max(flopwise.profile(m).total("params") for m in (TINY, CUSTOM))
    assert updated(text, verdicts) == f"[model]\nparams = {most}\n"


def test_what_nobody_knows_is_not_written() -> None:
    text = "[model]\nmacs = 1\n"
    with pytest.raises(InputError, match=r"model.macs cannot be updated: this figure of .* is not known exactly"):
        updated(text, flopwise.check(CUSTOM, parse(text)))


def test_a_new_budget_can_be_read() -> None:
    profile, settings = flopwise.profile(CUSTOM), Settings("macs", 2, ["x:1x3"], {"n": 1})
    made = parse(new_budget(profile, settings))
    assert isinstance(made, Budget)
    assert [(limit.figure, limit.most) for limit in made.limits] == [
        ("params", 640),
        ("weight_bytes", 2560),
        ("peak_activation_bytes", 256),
        ("unknown", 1),
    ]
    assert (made.settings.convention, made.settings.batch_size, made.settings.dims) == ("macs", 2, {"n": 1})


def test_a_limit_is_kept_by_as_much_as_it_allows_and_by_exact_figures_alone() -> None:
    (limit,) = parse("[model]\nmacs = 100").limits

    def verdict(value: int | None, exact: bool = True) -> tuple[bool, str]:
        one = Verdict(limit, "a.onnx", "", value, exact)
        return one.broken, one.why

    assert verdict(100) == (False, "")
    assert verdict(101) == (True, "1 too many")
    assert verdict(99, exact=False) == (True, "a lower bound: there are layers without a count")
    assert verdict(None) == (True, "the figure is unknown")


def test_a_limit_of_time_is_broken_by_what_is_too_slow_or_was_not_measured() -> None:
    (limit,) = parse("[model]\nmax_time_ratio = 2").limits
    assert Verdict(limit, "a.onnx", "", 2000, True).why == ""
    assert Verdict(limit, "a.onnx", "", 2001, True).why == "too slow"
    assert Verdict(limit, "a.onnx", "", None, True).why == "nothing was measured: flopwise bench"
