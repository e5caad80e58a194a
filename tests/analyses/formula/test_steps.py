"""Formulas of a step of a language model in the batch, the tokens in its state and the tokens that are fed."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

pytest.importorskip("transformers")
pytest.importorskip("sympy")

from tests.language_models import LLAMA, MIXTURE, STATE_SPACE, WINDOW, written

import flopwise


@pytest.mark.parametrize("config", [LLAMA, MIXTURE, WINDOW], ids=["llama", "mixture", "window"])
def test_steps_equal_their_profiles(tmp_path: Path, config: dict[str, object]) -> None:
    folder = written(tmp_path, config)
    found = flopwise.formula(folder, past="past", new="new", convention="macs")
    for batch, past, new in ((1, 1, 1), (1, 64, 1), (2, 5, 3), (3, 9, 1), (2, 40, 17)):
        expected = flopwise.profile(folder, past=past, new=new, batch_size=batch, convention="macs")
        point = found.at(batch=batch, past=past, new=new)
        assert point["macs"] == expected.total("macs"), (batch, past, new)
        assert point["params"] == expected.total("params")


@pytest.mark.parametrize("config", [LLAMA, WINDOW, STATE_SPACE], ids=["llama", "window", "state space"])
def test_there_is_a_formula_for_all_sizes(tmp_path: Path, config: dict[str, object]) -> None:
    """A prompt, one token after a state and several take different ways, each with a formula of its own."""
    folder = written(tmp_path, config)
    found = flopwise.formula(folder, past="past", new="new")
    assert found.closed
    functions = found.lambdify()
    for batch, past, new in (
        (1, 0, 1),
        (1, 3, 1),
        (2, 0, 5),
        (1, 7, 2),
        (1, 8, 1),
        (2, 6, 300),
        (1, 0, 256),
        (3, 70, 4),
    ):
        point = found.point({"batch": batch, "past": past, "new": new})
        expected = flopwise.profile(folder, past=past, new=new, batch_size=batch)
        values = found.at(**point)
        for figure in ("flops", "macs", "params", "output_bytes"):
            assert values[figure] == expected.total(figure), (figure, point)
            assert functions[figure](batch, past, new) == values[figure], (figure, point)
        assert found.value("peak_activation_bytes", **point) == expected.peak_activation_bytes, point
        assert found.value("exp", **point) == expected.sum.counts.exp, point
    past, new = numpy.array([0, 0, 7, 8]), numpy.array([[1], [4]])
    assert functions["flops"](2, past, new).tolist() == [[functions["flops"](2, p, n) for p in past] for n in (1, 4)]


def test_figures_that_all_ways_share_have_one_formula(tmp_path: Path) -> None:
    found = flopwise.formula(written(tmp_path, WINDOW), past="past", new="new", batch_size=1)
    text = str(found)
    assert "min(past, 7)" in next(line for line in text.splitlines() if line.startswith("MACs"))
    head, _, below = text.partition("\nMACs")
    assert "otherwise" in head
    assert "where" not in below.partition("\nactivation")[0]
    assert "holds for past: 0 or more\nholds for new: 1 or more\n" in text
    content = found.to_dict()
    assert content["closed"]
    assert content["ways"][0]["totals"]["macs"]


def test_some_sizes_may_be_fixed(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    found = flopwise.formula(folder, past="past", new=1, batch_size=2, convention="macs")
    assert found.at(past=100)["macs"] == flopwise.profile(folder, past=100, new=1, batch_size=2).total("macs")


def test_what_is_missing(tmp_path: Path) -> None:
    folder = written(tmp_path, LLAMA)
    with pytest.raises(flopwise.InputError, match="no size is open"):
        flopwise.formula(folder, past=8, new=1, batch_size=2)
    with pytest.raises(flopwise.InputError, match="has no value"):
        flopwise.profile(folder, past="past")
    with pytest.raises(flopwise.InputError, match="give no others"):
        flopwise.formula(folder, {"input_ids": ("b", 4)}, past="past")
