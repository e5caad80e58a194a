"""Towers against transformers' own modules: what they multiply for an image or sound, and their weights."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import flopwise
from flopwise.formats.language.images import Cut
from flopwise.formats.language.towers import tower_graph, tower_of, weights_beside
from flopwise.formats.torch.libraries import repaired

transformers = pytest.importorskip("transformers")

TEXT: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**TEXT, "num_key_value_heads": 2, "vocab_size": 99, "head_dim": 16}
VISION: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
CLIP = {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14, **VISION}
SIGLIP = {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14, "vision_use_head": False, **VISION}
LLAMA, QWEN2 = {"model_type": "llama", **TEXT}, {"model_type": "qwen2", **TEXT}
ROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e6}
QWEN: dict[str, Any] = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32}
WHISPER = {"num_mel_bins": 80, "max_source_positions": 50}
LATENTS = {
    **TEXT,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
LATENTS.pop("head_dim")


def _pixels(cut: Cut, patch: int) -> dict[str, Any]:
    """Pieces of an image as squares."""
    import torch

    return {"pixel_values": torch.zeros(cut.pieces, 3, cut.rows * patch, cut.columns * patch)}


def _sized(cut: Cut, patch: int) -> dict[str, Any]:
    import torch

    return {**_pixels(cut, patch), "image_sizes": torch.tensor([[cut.rows * patch, cut.columns * patch]])}


def _patches(cut: Cut, patch: int) -> dict[str, Any]:
    """Patches of two frames, and their grid."""
    import torch

    grid = torch.tensor([[1, cut.rows, cut.columns]])
    return {"pixel_values": torch.zeros(cut.rows * cut.columns, 6 * patch**2), "image_grid_thw": grid}


def _of_kimi(cut: Cut, patch: int) -> dict[str, Any]:
    import torch

    grid = torch.tensor([[1, cut.rows, cut.columns]])
    return {"pixel_values": torch.zeros(cut.rows * cut.columns, 3, patch, patch), "image_grid_thw": grid}


#: Class, what the configuration says, an image as its processor cuts it, and the arguments for that.
IMAGES: dict[str, tuple[str, dict[str, Any], Cut, Callable[[Cut, int], dict[str, Any]]]] = {
    "llava": ("Llava", {"text_config": LLAMA, "vision_config": CLIP}, Cut(16, 4, 4), _pixels),
    "gemma3": (
        "Gemma3",
        {
            "text_config": {"model_type": "gemma3_text", **TEXT},
            "vision_config": SIGLIP,
            "mm_tokens_per_image": 4,
        },
        Cut(4, 4, 4),
        _pixels,
    ),
    "internvl": (
        "InternVL",
        {"text_config": QWEN2, "vision_config": {"image_size": [56, 56], "patch_size": [14, 14], **VISION}},
        Cut(12, 4, 4, 3),
        _pixels,
    ),
    "mistral3": (
        "Mistral3",
        {
            "text_config": {"model_type": "mistral", **TEXT},
            "vision_config": {"model_type": "pixtral", "image_size": 140, "patch_size": 14, "head_dim": 16, **VISION},
            "spatial_merge_size": 2,
        },
        Cut(8, 4, 6),
        _sized,
    ),
    "qwen2_vl": (
        "Qwen2VL",
        {
            "text_config": {"model_type": "qwen2_vl_text", "rope_parameters": ROPE, **TEXT},
            "vision_config": {"depth": 2, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 4, "num_heads": 2},
        },
        Cut(24, 8, 12),
        _patches,
    ),
    "qwen2_5_vl": (
        "Qwen2_5_VL",
        {
            "text_config": {"model_type": "qwen2_5_vl_text", "rope_parameters": ROPE, **TEXT},
            "vision_config": {**QWEN, "fullatt_block_indexes": [1]},
        },
        Cut(70, 14, 20),
        _patches,
    ),
    "qwen3_vl": (
        "Qwen3VL",
        {
            "text_config": {"model_type": "qwen3_vl_text", "rope_parameters": ROPE, **TEXT},
            "vision_config": {**QWEN, "deepstack_visual_indexes": [0], "patch_size": 16},
        },
        Cut(24, 8, 12),
        _patches,
    ),
    "kimi_k25": (
        "Kimi_K25",
        {
            "text_config": LATENTS,
            "vision_config": {"model_type": "kimi_k25_vision", **VISION},
            "projection_hidden_size": 32,
        },
        Cut(24, 8, 12),
        _of_kimi,
    ),
    "llama4": (
        "Llama4",
        {
            "text_config": {"model_type": "llama4_text", "num_local_experts": 2, "intermediate_size_mlp": 48, **TEXT},
            "vision_config": {
                "model_type": "llama4_vision_model",
                "image_size": 56,
                "patch_size": 14,
                **VISION,
                "intermediate_size": 128,
                "projector_input_dim": 64,
                "projector_output_dim": 64,
                "vision_output_dim": 64,
            },
        },
        Cut(8, 4, 4, 2),
        _pixels,
    ),
}

SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "voxtral": ("Voxtral", {"text_config": LLAMA, "audio_config": {**VISION, **WHISPER, "intermediate_size": 160}}),
    "qwen2_audio": (
        "Qwen2Audio",
        {
            "text_config": QWEN2,
            "audio_config": {
                "model_type": "qwen2_audio_encoder",
                "d_model": 32,
                "encoder_layers": 2,
                "encoder_attention_heads": 2,
                "encoder_ffn_dim": 48,
                **WHISPER,
            },
        },
    ),
    "audioflamingo3": (
        "AudioFlamingo3",
        {"text_config": QWEN2, "audio_config": {"model_type": "audioflamingo3_encoder", **VISION, **WHISPER}},
    ),
}


def _module(kind: str, title: str, content: Mapping[str, Any]) -> Any:
    repaired(lambda: transformers.CONFIG_MAPPING["llama"])  # parts of it need torchvision
    config = transformers.AutoConfig.for_model(kind, **content)
    config._attn_implementation = "eager"
    return getattr(transformers, f"{title}ForConditionalGeneration")._from_config(config).eval()


def _executed(run: Callable[[], object]) -> int:
    """Multiply-adds by PyTorch's own counter."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops() // 2


def _beside(content: Mapping[str, Any]) -> int:
    return sum(math.prod(shape) for _, shape in weights_beside(content, 32, "float32")[0])


def _beside_text(module: Any) -> int:
    """The parameters of a module beside those of its language model."""
    text = [getattr(module, "model", module).language_model, getattr(module, "lm_head", None)]
    own = {id(p) for part in text if part is not None for p in part.parameters()}
    return sum(p.numel() for p in module.parameters() if id(p) not in own)


@pytest.mark.parametrize("kind", IMAGES)
def test_a_tower_is_what_transformers_executes(kind: str) -> None:
    title, own, cut, inputs = IMAGES[kind]
    content = {"model_type": kind, **own}
    module = _module(kind, title, own)
    tower = tower_of(content, 32, "float32")
    assert tower is not None
    ours = flopwise.profile(tower_graph(tower, cut.pieces, cut.rows, cut.columns))
    arguments = inputs(cut, tower.patch)
    theirs = _executed(lambda: module.get_image_features(**arguments))
    if kind == "llama4":  # whose last product is outside
        theirs += cut.tokens * 64 * 32
    assert ours.total("macs") == theirs
    assert _beside(content) == _beside_text(module)


@pytest.mark.parametrize("kind", SOUND)
def test_an_encoder_of_sound_is_what_transformers_executes(kind: str) -> None:
    import torch

    title, own = SOUND[kind]
    content = {"model_type": kind, **own}
    module = _module(kind, title, own)
    tower = tower_of(content, 32, "float32", "audio_config")
    assert tower is not None
    ours = flopwise.profile(tower_graph(tower, 2, 1, 50))
    features, model = torch.zeros(2, 80, 100), module.model

    def run() -> object:
        if kind == "qwen2_audio":
            return model.multi_modal_projector(model.audio_tower(features).last_hidden_state)
        mask = {"input_features_mask": torch.ones(2, 100, dtype=torch.long)} if kind == "audioflamingo3" else {}
        return module.get_audio_features(input_features=features, **mask)

    assert ours.total("macs") == _executed(run)
    assert _beside(content) == _beside_text(module)


def test_llama_3_2_vision_is_what_transformers_executes(tmp_path: Path) -> None:
    """Tower, prompt and a step, layers that attend to four tiles among them."""
    import torch

    vision = {
        "model_type": "mllama_vision_model",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_global_layers": 2,
        "attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "max_num_tiles": 4,
        "intermediate_layers_indices": [0, 2],
        "vision_output_dim": 96,
    }
    text = {"model_type": "mllama_text_model", **TEXT, "num_hidden_layers": 3, "cross_attention_layers": [1]}
    text = {**text, "head_dim": None, "pad_token_id": 0}
    own = {"text_config": text, "vision_config": vision}
    content = {"model_type": "mllama", "architectures": ["MllamaForConditionalGeneration"], "dtype": "float32", **own}
    (tmp_path / "config.json").write_text(json.dumps(content))
    module = _module("mllama", "Mllama", own)
    result = flopwise.llm(tmp_path, image="100x100", prompt=7, generate=1)
    assert (result.media_tokens, result.prompt) == (1, 8)
    assert result.params == sum(p.numel() for p in module.parameters())
    pixels = torch.zeros(1, 1, 4, 3, 56, 56)
    inputs = {
        "pixel_values": pixels,
        "aspect_ratio_ids": torch.ones(1, 1, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(1, 1, 4, dtype=torch.long),
        "cross_attention_mask": torch.ones(1, 8, 1, 4, dtype=torch.long),
        "input_ids": torch.ones(1, 8, dtype=torch.long),
    }
    mask = (4 * 24) ** 2  # which the program multiplies of tiles that are there
    assert result.media[0].macs + result.prefill.macs == _executed(lambda: module(**inputs)) - mask
    assert result.decode is not None
    cross = 2 * 2 * 16 * 4 * 17  # keys and values of four tiles of 17 positions, in one layer
    assert result.cache_bytes == 4 * (cross + 2 * 2 * 2 * 16 * 8)
