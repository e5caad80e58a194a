"""The rules of thumb for language models, beside their formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from tests.language_models import LLAMA, MIXTURE, written

import flopwise

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 4, "n_layer": 2}
GPT2 |= {"vocab_size": 320, "n_positions": 128}


@pytest.mark.parametrize("config", [LLAMA, MIXTURE, GPT2], ids=["llama", "mixture", "gpt2"])
@pytest.mark.parametrize("rule", ["palm", "nanogpt", "torchtitan", "megatron"])
def test_a_forward_pass_is_a_third_of_the_rule(tmp_path: Path, config: dict[str, object], rule: str) -> None:
    folder = written(tmp_path, config)
    step = flopwise.llm(folder, train=True, prompt=32, batch=2)
    count = flopwise.profile(folder, {"input_ids": (2, 32)}, convention=rule).total("count")
    assert 3 * count == step.rules_of_thumb[rule]


def test_palm_by_hand(tmp_path: Path) -> None:
    profile = flopwise.profile(written(tmp_path, LLAMA), {"input_ids": (2, 32)}, convention="palm")
    assert profile.total("count") == 64 * (2 * profile.total("params") + 4 * 2 * 4 * 16 * 32)


def test_a_model_without_tokens_has_no_count() -> None:
    profile = flopwise.profile("examples/tiny_resnet.onnx", convention="palm")
    assert not profile.exact
    assert any("is for language models" in note for note in profile.notes)
