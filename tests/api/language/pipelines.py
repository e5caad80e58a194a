"""Configurations of published diffusion pipelines, in full and made small, as folders of diffusers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Settings = dict[str, Any]

#: Of stable-diffusion-v1-5, stable-diffusion-xl-base-1.0, FLUX.1-dev and Wan2.1-T2V-1.3B, as their folders have them.
CLIP: Settings = {
    "model_type": "clip_text_model",
    "vocab_size": 49408,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 77,
    "projection_dim": 768,
}
T5: Settings = {
    "model_type": "t5",
    "d_model": 4096,
    "d_ff": 10240,
    "d_kv": 64,
    "num_layers": 24,
    "num_heads": 64,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
}
SD_UNET: Settings = {
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": [320, 640, 1280, 1280],
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
}
SDXL_UNET: Settings = {
    "sample_size": 128,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "attention_head_dim": [5, 10, 20],
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
    "down_block_types": ["DownBlock2D"] + ["CrossAttnDownBlock2D"] * 2,
    "up_block_types": ["CrossAttnUpBlock2D"] * 2 + ["UpBlock2D"],
}
FLUX: Settings = {
    "in_channels": 64,
    "num_layers": 19,
    "num_single_layers": 38,
    "attention_head_dim": 128,
    "num_attention_heads": 24,
    "joint_attention_dim": 4096,
    "pooled_projection_dim": 768,
    "guidance_embeds": True,
}
SD3: Settings = {
    "sample_size": 128,
    "patch_size": 2,
    "in_channels": 16,
    "num_layers": 24,
    "attention_head_dim": 64,
    "num_attention_heads": 24,
    "joint_attention_dim": 4096,
    "caption_projection_dim": 1536,
    "pooled_projection_dim": 2048,
    "out_channels": 16,
    "pos_embed_max_size": 192,
}
WAN: Settings = {
    "num_attention_heads": 12,
    "attention_head_dim": 128,
    "in_channels": 16,
    "out_channels": 16,
    "text_dim": 4096,
    "freq_dim": 256,
    "ffn_dim": 8960,
    "num_layers": 30,
    "cross_attn_norm": True,
}
VAE: Settings = {
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "latent_channels": 4,
    "sample_size": 512,
}
VAE_16: Settings = {
    **VAE,
    "latent_channels": 16,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "scaling_factor": 0.3611,
    "shift_factor": 0.1159,
}
WAN_VAE: Settings = {"base_dim": 96, "z_dim": 16}
FLOW: Settings = {"shift": 3.0}

#: Component -> library, class and settings; those of tokenizers are not needed.
Parts = dict[str, tuple[str, str, Settings]]
CLIP_TOKENIZER = ("transformers", "CLIPTokenizer", {})
T5_TOKENIZER = ("transformers", "T5TokenizerFast", {})


def stable_diffusion(small: bool = False) -> Parts:
    """Stable Diffusion 1.5, or two blocks of 32 channels of it."""
    unet = {**SD_UNET, "block_out_channels": [32] * 4, "sample_size": 16} if small else SD_UNET
    return {
        "text_encoder": ("transformers", "CLIPTextModel", {**CLIP, **(_LITTLE if small else {})}),
        "tokenizer": CLIP_TOKENIZER,
        "unet": ("diffusers", "UNet2DConditionModel", {**unet, **({"cross_attention_dim": 32} if small else {})}),
        "vae": ("diffusers", "AutoencoderKL", {**VAE, **({"block_out_channels": [32] * 4} if small else {})}),
        "scheduler": ("diffusers", "PNDMScheduler", {"skip_prk_steps": True, "steps_offset": 1}),
        "safety_checker": ("stable_diffusion", "StableDiffusionSafetyChecker", {}),
    }


def stable_diffusion_3(small: bool = False) -> Parts:
    """Stable Diffusion 3 medium without its third encoder, as its card allows; or a layer of it."""
    clip = {**CLIP, **(_LITTLE if small else {})}
    sizes = {"num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 16, "caption_projection_dim": 32}
    sizes = {**sizes, "pooled_projection_dim": 64, "joint_attention_dim": 64, "sample_size": 16}
    second = {"text_encoder_2": ("transformers", "CLIPTextModelWithProjection", clip), "tokenizer_2": CLIP_TOKENIZER}
    return {
        "text_encoder": ("transformers", "CLIPTextModelWithProjection", clip),
        "tokenizer": CLIP_TOKENIZER,
        **second,
        "transformer": ("diffusers", "SD3Transformer2DModel", {**SD3, **(sizes if small else {})}),
        "vae": ("diffusers", "AutoencoderKL", {**VAE_16, **({"block_out_channels": [32] * 4} if small else {})}),
        "scheduler": ("diffusers", "FlowMatchEulerDiscreteScheduler", FLOW),
    }


def flux(small: bool = False) -> Parts:
    """FLUX.1-dev, or a layer of each kind."""
    sizes = {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 1, "joint_attention_dim": 32}
    sizes = {**sizes, "pooled_projection_dim": 32}
    return {
        "text_encoder": ("transformers", "CLIPTextModel", {**CLIP, **(_LITTLE if small else {})}),
        "tokenizer": CLIP_TOKENIZER,
        "text_encoder_2": ("transformers", "T5EncoderModel", {**T5, **(_LITTLE_T5 if small else {})}),
        "tokenizer_2": T5_TOKENIZER,
        "transformer": ("diffusers", "FluxTransformer2DModel", {**FLUX, **(sizes if small else {})}),
        "vae": ("diffusers", "AutoencoderKL", {**VAE_16, **({"block_out_channels": [32] * 4} if small else {})}),
        "scheduler": ("diffusers", "FlowMatchEulerDiscreteScheduler", {**FLOW, "use_dynamic_shifting": True}),
    }


def wan(small: bool = False) -> Parts:
    """Wan2.1-T2V-1.3B, or a layer of it."""
    sizes = {"num_layers": 1, "num_attention_heads": 2, "ffn_dim": 64, "text_dim": 32}
    text = {**T5, "model_type": "umt5", "vocab_size": 256384, **(_LITTLE_T5 if small else {})}
    return {
        "text_encoder": ("transformers", "UMT5EncoderModel", text),
        "tokenizer": T5_TOKENIZER,
        "transformer": ("diffusers", "WanTransformer3DModel", {**WAN, **(sizes if small else {})}),
        "vae": ("diffusers", "AutoencoderKLWan", {**WAN_VAE, **({"base_dim": 16} if small else {})}),
        "scheduler": ("diffusers", "UniPCMultistepScheduler", {"use_flow_sigmas": True, "flow_shift": 3.0}),
    }


_LITTLE: Settings = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
_LITTLE = {**_LITTLE, "vocab_size": 100, "projection_dim": 32}
_LITTLE_T5: Settings = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 1, "num_heads": 4, "vocab_size": 100}

#: Class of the pipeline -> its parts.
PIPELINES = {
    "StableDiffusionPipeline": stable_diffusion,
    "StableDiffusion3Pipeline": stable_diffusion_3,
    "FluxPipeline": flux,
    "WanPipeline": wan,
}


def written(folder: Path, kind: str, parts: Parts) -> str:
    """The path of a folder with a pipeline's configuration files."""
    index = {"_class_name": kind, **{name: [library, maker] for name, (library, maker, _) in parts.items()}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_index.json").write_text(json.dumps(index))
    for name, (_, _, settings) in parts.items():
        (folder / name).mkdir(exist_ok=True)
        file = "scheduler_config.json" if name == "scheduler" else "config.json"
        (folder / name / file).write_text(json.dumps(settings))
    return str(folder)
