"""Formulas of engines and trainers: of twelve models what their files make of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from tests.analyses.llm.engines import BY_PARAMETERS, BY_SIZES, Sizes, needed, stated
from tests.analyses.llm.model_cards import CARDS
from tests.language_models import LLAMA, written

import flopwise
from flopwise.conventions import get
from flopwise.profiles.count import profile_graph

#: A prompt that fills the windows of 4,096 tokens.
PROMPT = 5000

#: Of these SGLang takes sizes that no program shows.
HIDDEN = ("Qwen3-30B-A3B", "DeepSeek-V3", "Kimi-K2")

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_head": 4, "n_layer": 2}


@pytest.mark.parametrize("name", CARDS)
def test_a_prompt(tmp_path: Path, name: str) -> None:
    card = CARDS[name]
    config = {**card.config, "num_hidden_layers": card.shallow}
    hand, sizes = card.model(card.shallow), Sizes(config)
    assert sum(needed(sizes, PROMPT).values()) == hand.needed_prefill(PROMPT)
    graph = flopwise.read(written(tmp_path, config), {"input_ids": (1, PROMPT)})
    for convention in (*BY_SIZES, *BY_PARAMETERS):
        if convention == "sglang" and name in HIDDEN:
            continue
        count = profile_graph(graph, get(convention)).total("count")
        assert count == 2 * sum(stated(convention, sizes, PROMPT, hand.params).values()), convention


def test_a_latent_attention_has_no_count_by_sglang(tmp_path: Path) -> None:
    card = CARDS["Kimi-K2"]
    model = written(tmp_path, {**card.config, "num_hidden_layers": 1})
    profile = flopwise.profile(model, {"input_ids": (1, 16)}, convention="sglang")
    assert not profile.exact
    assert any("heads of 256" in note for note in profile.notes)


def test_steps_by_hand(tmp_path: Path) -> None:
    model = written(tmp_path, LLAMA)
    products, pair, scores = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96), 2 * 2 * 4 * 16, 64 * 320
    counts = {
        name: flopwise.profile(model, past=20, new=1, batch_size=3, convention=name).total("count")
        for name in ("vllm", "sglang", "verl")
    }
    assert counts["vllm"] == 2 * 3 * (products + 21 * pair + scores)
    assert counts["sglang"] == 2 * 3 * (products + 21 * pair)
    assert counts["verl"] == 2 * 3 * (products + 21 * pair + 2 * scores)


def test_sglang_takes_the_sequences_of_a_batch_as_one(tmp_path: Path) -> None:
    count = flopwise.profile(written(tmp_path, LLAMA), {"input_ids": (2, 20)}, convention="sglang").total("count")
    products, pair = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96), 2 * 2 * 4 * 16
    assert count == 2 * (40 * products + 40 * 41 // 2 * pair)


@pytest.mark.parametrize("config", [LLAMA, GPT2, {**LLAMA, "tie_word_embeddings": True}], ids=["llama", "gpt2", "tied"])
def test_transformers_itself(tmp_path: Path, config: dict[str, object]) -> None:
    from flopwise.formats.torch.language.model import language_model

    folder = written(tmp_path, config)
    count = flopwise.profile(folder, {"input_ids": (2, 20)}, convention="transformers").total("count")
    assert 3 * count == 6 * 40 * language_model(folder).num_parameters(exclude_embeddings=True)
