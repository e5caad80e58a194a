"""Twelve published models: every figure of a request is the one worked out by hand, to the last digit.

Models are built with few of their layers, in all their widths; parameters are worked out of all layers.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analyses.llm.by_hand import Gated, Grouped, Mixture
from tests.analyses.llm.model_cards import CARDS
from tests.language_models import written

import flopwise

#: A prompt that fills the windows of 4,096 tokens.
PROMPT = 5000


@pytest.mark.parametrize("name", CARDS)
def test_requests_cost_what_the_architecture_says(tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers")
    card = CARDS[name]
    config = {**card.config, "num_hidden_layers": card.shallow}
    hand = card.model(card.shallow)
    result = flopwise.llm(written(tmp_path, config), prompt=PROMPT, generate=1)
    assert result.params == hand.params
    assert result.prefill.macs == hand.prefill(PROMPT)
    assert result.prefill.needed_macs == sum(result.prefill.products.values()) == hand.needed_prefill(PROMPT)
    assert result.decode is not None
    assert result.decode.macs == hand.step(PROMPT)
    assert result.decode.needed_macs == hand.needed_step(PROMPT)
    assert result.cache_bytes == hand.cache(PROMPT)


@pytest.mark.parametrize("name", CARDS)
def test_checkpoints_have_the_parameters_worked_out_by_hand(name: str) -> None:
    card = CARDS[name]
    assert card.model(card.config["num_hidden_layers"]).params == card.params


#: Models whose plan of division in transformers leaves out latent attention, or everything but the last product.
UNPLANNED = ("gpt-oss-20b", "DeepSeek-V3", "Kimi-K2")


@pytest.mark.parametrize("name", [name for name in CARDS if name not in UNPLANNED])
def test_parameters_of_a_rank(tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers")
    card = CARDS[name]
    hand = card.model(card.shallow)
    model = written(tmp_path, {**card.config, "num_hidden_layers": card.shallow})
    experts = card.config.get("num_local_experts") or card.config.get("num_experts")
    for tp, ep in ((4, 1), (1, 4)) if experts else ((4, 1),):
        rank = flopwise.llm(model, train=True, prompt=16, batch=ep, dp=ep, tp=tp, ep=ep).rank
        assert rank is not None
        assert rank.params == hand.share(tp, ep)


@pytest.mark.parametrize("name", CARDS)
def test_a_device_of_an_engine(tmp_path: Path, name: str) -> None:
    """Weights on each of four devices, in bfloat16, and the cache of a sequence in blocks of 16 tokens."""
    pytest.importorskip("transformers")
    card, tokens = CARDS[name], 5008
    hand = card.model(card.shallow)
    model = written(tmp_path, {**card.config, "num_hidden_layers": card.shallow})
    mixtures = [layer.feed for layer in hand.layers if isinstance(layer.feed, Mixture)]
    corrections = 2 * sum(feed.experts for feed in mixtures) if "n_routed_experts" in card.config else 0
    cache = 2 * sum(layer.mixer.kept_share(4) * min(tokens, layer.mixer.window or tokens) for layer in hand.layers)
    for ep in (1, 4) if mixtures else (1,):
        result = flopwise.llm(model, prompt=tokens - 1, generate=1, device="4xh200", tp=4, ep=ep)
        device = result.to_dict()["serving"]["per_device"]
        assert device["weight_bytes"] == 2 * hand.share(4, ep) + corrections
        assert device["cache_bytes"] == cache


#: The sizes of Granite-4.0-H-Tiny, whose layers are Mamba-2 (https://arxiv.org/abs/2405.21060) but for one in ten.
HYBRID = {
    "model_type": "granitemoehybrid",
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "hidden_size": 1536,
    "intermediate_size": 512,
    "shared_intermediate_size": 1024,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "vocab_size": 100352,
    "num_local_experts": 64,
    "num_experts_per_tok": 6,
    "mamba_n_heads": 48,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "tie_word_embeddings": True,
    "position_embedding_type": "nope",
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def test_a_model_of_state_spaces_and_attention(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    width, inner, heads, head, state = 1536, 3072, 48, 64, 128
    convolved = inner + 2 * state  # channels: values, and the projections into the state and out of it
    products = width * (inner + convolved + heads) + inner * width
    mamba = products + convolved * (4 + 1) + 3 * heads + inner
    attention, shared = Grouped(width, 12, 4, 128), Gated(width, 1024)
    experts = Mixture(width, 512, 64, 6)
    feed, active = experts.share(1, 1) + shared.active + 2 * width, experts.active + shared.active
    tables = 100352 * width + width
    assert 36 * (mamba + feed) + 4 * (attention.share(1) + feed) + tables == 6_939_037_248

    config = {**HYBRID, "num_hidden_layers": 3, "layer_types": ["mamba", "mamba", "attention"]}
    result = flopwise.llm(written(tmp_path, config), prompt=512, generate=1)
    assert result.params == 2 * (mamba + feed) + attention.share(1) + feed + tables
    recurrent = 2 * convolved * 4 + 4 * heads * head * state  # inputs of the convolution, and a state in float32
    assert result.cache_bytes == 2 * recurrent + 2 * 512 * attention.kept_share(1)
    assert result.decode is not None
    step = 2 * (products + convolved * 4 + 2 * heads * head * state + active)
    assert result.decode.macs == step + attention.executed(1, 513, 513) + active + 100352 * width
    weights = 2 * (products + convolved * 4 + active) + attention.executed(1, 513, 513) + active + 100352 * width
    assert sum(result.decode.products.values()) == weights  # no engine need scan
