"""Heads that predict a token more, against DeepSeek's own figures and a hand count."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.language_models import LATENT, LLAMA, written

import flopwise
from flopwise.formats.language.read import SHARED, Language, head_of, language, weights_of

#: A dense layer, and six of eight experts behind latents.
_HEADED = {**LATENT, "num_hidden_layers": 7, "num_nextn_predict_layers": 1}


def _own(model: Language) -> int:
    """Weights of a head beside what it shares with its model."""
    shapes = weights_of(head_of(model).decoder).shapes
    return sum(math.prod(shape) for name, shape in shapes.items() if name not in SHARED)


def test_a_head_has_the_weights_of_a_layer_two_norms_and_a_projection(tmp_path: Path) -> None:
    model = language(written(tmp_path, _HEADED))
    assert model.decoder.heads == 1
    width = model.decoder.hidden
    layer = sum(
        math.prod(shape)
        for name, shape in weights_of(model.decoder).shapes.items()
        if name.startswith("model.layers.6.")
    )
    # two norms at the entry, one before the scores, and the projection of both halves
    assert _own(model) == layer + 3 * width + 2 * width * width


def test_the_head_of_deepseek_v3_is_as_large_as_its_makers_say(tmp_path: Path) -> None:
    """11.5 billion parameters of its own: README_WEIGHTS.md of deepseek-ai/DeepSeek-V3."""
    config = {
        **LATENT,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 5,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "n_group": 8,
        "topk_group": 4,
        "vocab_size": 129280,
        "num_nextn_predict_layers": 1,
    }
    assert _own(language(written(tmp_path, config))) == pytest.approx(11.5e9, rel=0.01)


def test_a_round_with_the_models_own_head(tmp_path: Path) -> None:
    folder = written(tmp_path, _HEADED)
    result = flopwise.llm(folder, prompt=32, generate=8, batch=2, device="h100", draft="mtp", accept=0.8)
    rounds, plain = result.speculation, flopwise.llm(folder, prompt=32, generate=8, batch=2)
    assert rounds is not None
    assert rounds.guesses == 1
    assert rounds.tokens_per_round == pytest.approx(1.8)
    assert plain.decode is not None
    assert rounds.draft_cache_bytes == plain.final_cache_bytes // 7  # of one layer
    width = _HEADED["hidden_size"]
    one, two = (
        flopwise.llm(written(tmp_path, {**_HEADED, "num_hidden_layers": layers}), prompt=32, generate=1, batch=2)
        for layers in (2, 3)
    )
    assert one.decode is not None
    assert two.decode is not None
    layer, scores = two.decode.macs - one.decode.macs, 2 * width * _HEADED["vocab_size"]
    assert rounds.step.macs == layer + scores + 2 * 2 * width * width
    more = 2 * (3 * width + 2 * width * width)
    assert rounds.draft_weight_bytes == two.weight_bytes - one.weight_bytes + more


def test_a_model_without_heads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(flopwise.InputError, match="draft mtp: LlamaForCausalLM has no heads that predict a token more"):
        flopwise.llm(written(tmp_path, LLAMA), prompt=8, generate=2, draft="mtp")
