"""Activations that an engine's step keeps alive: no scores of pairs, and logits of sampled positions alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.language_models import BIASED_EXPERTS, LLAMA, MIXTURE, UNFUSED, UNFUSED_WINDOW, UNSAID, WINDOW, written

pytest.importorskip("transformers")

import flopwise
from flopwise.analyses.llm.serving.memory import EngineStep


@pytest.mark.parametrize(
    "config", [BIASED_EXPERTS, LLAMA, MIXTURE, UNFUSED, UNFUSED_WINDOW, UNSAID, WINDOW], ids=lambda c: c["model_type"]
)
def test_workspaces_grow_with_the_tokens_of_a_step(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = written(tmp_path, config)
    small, large = (
        EngineStep(flopwise.profile(folder, past=0, new=tokens), tokens).workspace() for tokens in (64, 128)
    )
    assert small is not None
    assert large is not None
    assert large.nbytes(0) == pytest.approx(2 * small.nbytes(0), rel=0.001)
    assert [each for _, each in large.shares] == [each for _, each in small.shares]


def test_the_workspace_of_a_small_model_by_hand(tmp_path: Path) -> None:
    tokens = 64
    workspace = EngineStep(flopwise.profile(written(tmp_path, LLAMA), past=0, new=tokens), tokens).workspace()
    assert workspace is not None
    hidden, scores = 64 * 2, 320 * 2
    assert workspace.nbytes(1000) == tokens * hidden + 1000 * scores


def test_logits_of_all_positions_are_alive_together(tmp_path: Path) -> None:
    model = written(tmp_path, {**LLAMA, "vocab_size": 1000})
    for settings in ({}, {"device": "h100", "tp": 1}):
        serving = flopwise.llm(model, prompt=32, generate=1, logits="all", max_batched_tokens=64, **settings).serving
        assert serving is not None
        hidden, scores = 64 * 2, 1000 * 2
        assert serving.memory.workspace_bytes(1) == serving.memory.workspace_bytes(9) == 64 * (hidden + scores)
