"""Small language models that transformers builds from configurations written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SMALL: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}

LLAMA: dict[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "head_dim": 16, **SMALL}

#: The first layer's window is full after 8 tokens.
WINDOW: dict[str, Any] = {
    **LLAMA,
    "model_type": "mistral",
    "architectures": ["MistralForCausalLM"],
    "sliding_window": 8,
}

#: Its scores are capped by a tanh, so that its attention is no fused operator.
UNFUSED: dict[str, Any] = {**LLAMA, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}

#: The same with a window of 8 tokens in the first layer.
UNFUSED_WINDOW: dict[str, Any] = {
    **UNFUSED,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
}

#: It adds a bias of its own to the scores, and says nothing of its mask.
UNSAID: dict[str, Any] = {
    "model_type": "bloom",
    "architectures": ["BloomForCausalLM"],
    "vocab_size": 320,
    "hidden_size": 64,
    "n_layer": 2,
    "n_head": 4,
}

MIXTURE: dict[str, Any] = {
    **LLAMA,
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}

#: Each of its experts has biases, of which a token takes those of its own.
BIASED_EXPERTS: dict[str, Any] = {
    **LLAMA,
    "model_type": "gpt_oss",
    "architectures": ["GptOssForCausalLM"],
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
}

LATENT: dict[str, Any] = {
    **SMALL,
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 8,
    "v_head_dim": 24,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
}

#: Encoders, which keep nothing between calls.
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {**SMALL, "model_type": "bert", "architectures": ["BertForMaskedLM"]},
    "xlm-roberta": {**SMALL, "model_type": "xlm-roberta", "architectures": ["XLMRobertaModel"]},
    "modernbert": {
        **SMALL,
        "model_type": "modernbert",
        "architectures": ["ModernBertForMaskedLM"],
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
}

STATE_SPACE: dict[str, Any] = {
    "model_type": "mamba2",
    "architectures": ["Mamba2ForCausalLM"],
    "vocab_size": 320,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "state_size": 16,
    "head_dim": 16,
    "num_heads": 8,
    "n_groups": 1,
    "expand": 2,
}

#: Its encoder reads a spectrum of 80 moments, of which it makes 40 positions.
SOUND: dict[str, Any] = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "vocab_size": 320,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "num_mel_bins": 16,
    "max_source_positions": 40,
    "max_target_positions": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}

#: Its decoder attends to what its encoder made of the prompt.
ENCODER_DECODER: dict[str, Any] = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "vocab_size": 320,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 96,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}


#: Models of public repositories, by the figures in their configurations that say what is computed.
PUBLISHED: dict[str, dict[str, Any]] = {
    "llama3-8b": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rope_theta": 500000.0,
        "vocab_size": 128256,
        "torch_dtype": "bfloat16",
    },
    "mixtral-8x7b": {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "sliding_window": None,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "first_k_dense_replace": 3,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "kv_lora_rank": 512,
        "max_position_embeddings": 163840,
        "moe_intermediate_size": 2048,
        "n_group": 8,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_attention_heads": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 61,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "topk_group": 4,
        "v_head_dim": 128,
        "vocab_size": 129280,
        "torch_dtype": "bfloat16",
    },
}


def written(folder: Path, config: dict[str, Any]) -> Path:
    """The folder with a configuration in it."""
    (folder / "config.json").write_text(json.dumps(config))
    return folder
