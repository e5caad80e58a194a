"""Images and sound before the prompt: against whole models under PyTorch's counter, and published numbers of tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flopwise
from flopwise.cli import main
from flopwise.formats.torch.libraries import repaired

transformers = pytest.importorskip("transformers")

TEXT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**TEXT, "num_key_value_heads": 2, "vocab_size": 99, "head_dim": 16}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
CLIP = {"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14, **VISION}
SIGLIP = {"model_type": "siglip_vision_model", "image_size": 896, "patch_size": 14, "vision_use_head": False, **VISION}
LLAMA = {"model_type": "llama", **TEXT}

#: Made small in everything but the sizes that decide how many tokens an image is.
MODELS: dict[str, dict[str, Any]] = {
    "llava": {"architectures": ["LlavaForConditionalGeneration"], "text_config": LLAMA, "vision_config": CLIP},
    "llava_next": {"architectures": ["LlavaNextForConditionalGeneration"], "text_config": LLAMA, "vision_config": CLIP},
    "gemma3": {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {"model_type": "gemma3_text", **TEXT},
        "vision_config": SIGLIP,
        "mm_tokens_per_image": 256,
    },
    "internvl": {
        "architectures": ["InternVLForConditionalGeneration"],
        "text_config": {"model_type": "qwen2", **TEXT},
        "vision_config": {"image_size": [448, 448], "patch_size": [14, 14], **VISION},
    },
    "qwen2_5_vl": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "text_config": {
            "model_type": "qwen2_5_vl_text",
            "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e6},
            **TEXT,
        },
        "vision_config": {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
        },
        "image_token_id": 90,
        "vision_start_token_id": 91,
        "vision_end_token_id": 92,
        "video_token_id": 93,
    },
    "voxtral": {
        "architectures": ["VoxtralForConditionalGeneration"],
        "text_config": LLAMA,
        "audio_config": {**VISION, "intermediate_size": 128, "num_mel_bins": 80, "max_source_positions": 1500},
        "audio_token_id": 90,
    },
    "whisper": {
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": 99,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "pad_token_id": 0,
    },
    "moonshine": {"architectures": ["MoonshineForConditionalGeneration"], **TEXT},
}


def configured(folder: Path, kind: str) -> str:
    """The path of a configuration."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, **MODELS[kind], "dtype": "float32"}))
    if kind == "qwen2_5_vl":  # as the published ones have it, beyond the class's own default
        settings = {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 12845056}
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.mark.parametrize(
    ("kind", "size", "tokens"),
    [
        ("llava", "1024x1024", 576),  # (336 / 14)²
        ("llava_next", "1024x1024", 2928),  # 576 of the whole, 48 × 48 of 2 × 2 tiles, an end of each line
        ("gemma3", "640x480", 256),  # of its paper: 256 for every image
        ("internvl", "1024x1024", 2560),  # 3 × 3 tiles and the whole, 256 each
        ("qwen2_5_vl", "1024x1024", 1369),  # 1036 / 28 squared
        ("qwen2_5_vl", "640x480", 391),  # 644 / 28 × 476 / 28
    ],
)
def test_an_image_is_as_many_tokens_as_published(kind: str, size: str, tokens: int, tmp_path: Path) -> None:
    result = flopwise.llm(configured(tmp_path, kind), image=size, images=2, prompt=10, generate=1)
    assert result.media_tokens == 2 * tokens
    assert result.prompt == 10 + 2 * tokens
    assert result.media[0].calls == 2


@pytest.mark.parametrize("kind", ["llava", "gemma3", "qwen2_5_vl", "voxtral"])
def test_stage_and_prompt_are_what_the_model_executes(kind: str, tmp_path: Path) -> None:
    """The encoder and the prompt, one after the other, multiply what the model does with both at once."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    folder = configured(tmp_path, kind)
    asked = {"seconds": 40.0} if kind == "voxtral" else {"image": "224x168"}
    result = flopwise.llm(folder, prompt=7, generate=0, **asked)
    repaired(lambda: transformers.CONFIG_MAPPING["llama"])  # parts of it need torchvision
    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, MODELS[kind]["architectures"][0])(config).eval()
    special = getattr(config, "image_token_id", None) or getattr(config, "audio_token_id", None)
    if kind in ("llava", "gemma3"):
        model.config.image_token_id = model.model.config.image_token_id = special = 90
    ids = torch.tensor([[special] * result.media_tokens + [1] * 7])
    inputs: dict[str, Any] = {"input_ids": ids}
    if kind == "voxtral":
        inputs["input_features"] = torch.zeros(2, 80, 3000)
    elif kind == "qwen2_5_vl":
        inputs |= {"pixel_values": torch.zeros(192, 1176), "image_grid_thw": torch.tensor([[1, 12, 16]])}
        inputs["mm_token_type_ids"] = (ids == special).int()
    else:
        side = 336 if kind == "llava" else 896
        inputs["pixel_values"] = torch.zeros(1, 3, side, side)
        inputs |= {"token_type_ids": (ids == special).long()} if kind == "gemma3" else {}
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(**inputs)
    executed = counter.get_total_flops() // 2
    assert result.media[0].macs + result.prefill.macs == executed
    assert result.request_macs == executed


def test_sound_of_encoders_with_a_decoder(tmp_path: Path) -> None:
    whisper = configured(tmp_path / "whisper", "whisper")
    one, three = (flopwise.llm(whisper, seconds=seconds, generate=4) for seconds in (30, 75))
    assert (one.batch, three.batch) == (1, 3)
    assert three.request_macs == 3 * one.request_macs
    assert "75 s of sound: 3 windows of 30 s, each of them a sequence" in three.notes
    moonshine = flopwise.llm(configured(tmp_path / "moonshine", "moonshine"), seconds=2, generate=4)
    assert moonshine.prompt == 32_000


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = configured(tmp_path, "llava")
    words = ["llm", folder, "--image", "640x480", "--prompt", "10", "--generate", "4", "--device", "h100"]
    assert main(words) == 0
    page = capsys.readouterr().out
    assert "1 image of 640 × 480  prefill, 586 tokens" in page
    assert main([*words, "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["media"]["tokens"] == 576
    parts = document["media"]["stages"][0]["total_macs"], document["prefill"]["macs"], document["generate"]["macs"]
    assert document["request"]["macs"] == sum(parts)
    assert document["device"]["request"]["least_ns"] > document["device"]["media"][0]["least_ns"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--image", "640x480"], "LlamaForCausalLM: takes no images among its tokens"),
        (["--seconds", "30"], "LlamaForCausalLM: takes no sound"),
        (["--images", "2"], "give the size of an image"),
        (["--train", "--image", "640x480"], "--image is for a request"),
    ],
)
def test_one_line_for_what_is_wrong(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["llm", "examples/tiny_llama", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
