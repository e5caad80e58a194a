"""Formulas of steps in past and new tokens: windows, mixtures and latents, beside profiles of single steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sympy")

from tests.language_models import LATENT, MIXTURE, WINDOW, written

import flopwise

#: Before, at and after the point where a window of eight tokens is full.
PASTS = (1, 6, 7, 8, 30)


@pytest.mark.parametrize(
    "config",
    [WINDOW, MIXTURE, {**MIXTURE, "sliding_window": 8}, LATENT],
    ids=["window", "mixture", "mixture with a window", "latents"],
)
def test_formulas_equal_profiles(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = written(tmp_path, config)
    step = flopwise.formula(folder, past="past", new=1, batch_size=2)
    fed = flopwise.formula(folder, past="past", new="new")
    for formula in (step, fed):
        assert "≥" not in str(formula)
        assert "?" not in str(formula)
    for past in PASTS:
        one, many = (flopwise.profile(folder, past=past, new=new, batch_size=2) for new in (1, 3))
        for figure in ("macs", "params"):
            assert step.value(figure, past=past) == one.total(figure)
            assert fed.value(figure, past=past, new=3, batch=2) == many.total(figure)


def test_the_result_of_an_encoder_is_no_state(tmp_path: Path) -> None:
    config = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 60, "d_model": 32}
    sizes = {"d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    folder = written(tmp_path, {**config, **sizes})
    formula = flopwise.formula(folder, past="past", new="new")
    profile = flopwise.profile(folder, past=10, new=3)
    assert formula.value("state_bytes", past=10, new=3, batch=1) == profile.state_bytes
