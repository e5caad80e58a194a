"""Published language models against the same models worked out by hand: equal to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.language import calculators

import flopwise
from flopwise.formats.language.towers import tower_graph, tower_of

CONFIGURATIONS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("models.json").read_text())

#: Tokens of the prompts.
LENGTHS = (4096, 32768)


def written(folder: Path, name: str) -> Path:
    """The folder of a configuration."""
    (folder / "config.json").write_text(json.dumps(CONFIGURATIONS[name]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name != "bert_base"])
def test_equals_the_calculator(name: str, tmp_path: Path) -> None:
    hand = getattr(calculators, name)()
    for tokens in (1500,) if name.startswith("whisper") else LENGTHS:
        result = flopwise.llm(written(tmp_path, name), prompt=tokens, generate=1).to_dict()
        found = {
            "parameters": result["params"],
            "active": result["active_params"],
            "prompt": result["prefill"]["needed_macs"],
            "step": result["decode"]["needed_macs"],
            "cache": result["cache"]["bytes"],
        }
        assert found == {
            "parameters": hand.params,
            "active": hand.active,
            "prompt": hand.prefill(tokens),
            "step": hand.step(tokens),
            "cache": hand.cache(tokens),
        }


def test_an_encoder_equals_the_calculator(tmp_path: Path) -> None:
    hand = calculators.bert_base()
    result = flopwise.profile(written(tmp_path, "bert_base"), {"input_ids": (1, 512)})
    body = hand.body.macs + sum(macs * 512 for macs, _ in hand.body.attended)
    assert result.total("params") == hand.params
    assert result.total("macs") == 512 * (body + hand.scores)


def test_calculators_know_published_counts() -> None:
    # Parameters that model cards name.
    assert calculators.llama_3_1_8b().params == 8_030_261_248
    assert calculators.qwen2_5_14b().params == 14_770_033_664
    assert calculators.gemma_2_9b().params == 9_241_705_984
    assert calculators.mixtral_8x7b().params == 46_702_792_704
    assert calculators.deepseek_v3().params == 671_026_404_352
    assert calculators.t5_base().params == 222_903_552
    assert calculators.whisper_large_v3().params == 1_543_490_560


#: Configurations of towers, the width of the text, and the patches of an image.
_TOWERS: dict[str, tuple[dict[str, Any], int, int]] = {
    "llava_1_5_7b": (
        {
            "model_type": "llava",
            "vision_config": {
                "model_type": "clip_vision_model",
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
        },
        4096,
        576,
    ),
    "gemma_3_12b_vision": (
        {
            "model_type": "gemma3",
            "mm_tokens_per_image": 256,
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_size": 1152,
                "image_size": 896,
                "intermediate_size": 4304,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        3840,
        4096,
    ),
    "qwen3_vl_8b_vision": (
        {
            "model_type": "qwen3_vl",
            "vision_config": {
                "model_type": "qwen3_vl",
                "deepstack_visual_indexes": [8, 16, 24],
                "depth": 27,
                "hidden_size": 1152,
                "in_channels": 3,
                "intermediate_size": 4304,
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 4096,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            },
        },
        4096,
        4096,
    ),
}


@pytest.mark.parametrize("name", _TOWERS)
def test_a_tower_equals_the_calculator(name: str) -> None:
    configuration, width, patches = _TOWERS[name]
    tower = tower_of(configuration, width, "bfloat16")
    assert tower is not None
    profile = flopwise.profile(tower_graph(tower, 1, 1, patches))
    hand = getattr(calculators, name)()
    assert (profile.total("params"), profile.total("macs")) == (hand.params, hand.macs)


def test_a_bias_that_the_type_does_not_have_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIGURATIONS["mistral_7b"], "attention_bias": True}))
    notes = flopwise.llm(tmp_path, prompt=8).to_dict()["notes"]
    assert any("attention_bias; counted without" in note for note in notes)
