"""Formulas of a step of a language model in the batch, the tokens in its state and the tokens that are fed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sympy")

from tests.language_models import LLAMA, MIXTURE, WINDOW, written

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
