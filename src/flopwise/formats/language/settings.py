"""The settings of a configuration, whatever its authors call them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flopwise.errors import ModelError

#: What is asked for -> what configurations call it; the first that is there counts.
NAMES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim", "embed_dim", "emb_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads"),
    "groups": ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv", "num_attention_groups"),
    "head": ("head_dim", "attention_head_dim", "d_kv"),
    "inner": (
        "intermediate_size",
        "n_inner",
        "d_ff",
        "ffn_dim",
        "ffn_hidden_size",
        "hidden_dim",
        "decoder_ffn_dim",
        "dff",
    ),
    "embedding": ("word_embed_proj_dim", "embedding_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "positions": (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "n_ctx",
        "max_target_positions",
    ),
    "epsilon": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k", "top_k_experts"),
    "expert_inner": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "ffn_dim"),
    "shared": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_inner": (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
    ),
    "window": ("sliding_window", "sliding_window_size", "window_size", "attention_window_size"),
    "kinds": ("layer_types", "layers_block_type", "attn_type_list", "block_types"),
    "linear_key": ("linear_key_head_dim",),
    "conv": ("linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv", "conv_kernel_size", "d_conv", "conv_L_cache"),
    "state": ("state_size", "ssm_state_size", "mamba_d_state", "d_state"),
    "mamba_heads": ("mamba_num_heads", "mamba_n_heads", "num_heads"),
    "mamba_head": ("mamba_head_dim", "mamba_d_head", "mamba_headdim", "head_dim"),
    "mamba_groups": ("mamba_n_groups", "n_groups", "mamba_ngroups"),
    "expand": ("expand", "mamba_expand"),
}

_MOST = 1 << 40


class MissingSizeError(ModelError):
    """A configuration lacks a size, for which transformers has a default."""


class Settings:
    """The settings of one model, or of the part of one that generates text."""

    def __init__(self, name: str, content: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.name, self.content, self.defaults = name, content, defaults or {}
        self._read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """What stands under a key, or under one of the names of what is asked for; null is as good as nothing."""
        names = NAMES.get(key, (key,))
        self._read.update(names)
        found = next((self.content[name] for name in names if self.content.get(name) is not None), None)
        found = next((self.defaults[n] for n in (key, *names) if n in self.defaults), None) if found is None else found
        return default if found is None else found

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A size.

        Raises:
            ModelError: it is missing, or no whole number of at least ``least``.
        """
        value = self.get(key, default)
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]  # one number for each layer, all the same
        if value is None:
            raise MissingSizeError(f"{self.name}: {NAMES.get(key, (key,))[0]} is missing")
        if type(value) is not int or not least <= value < _MOST:
            what = NAMES.get(key, (key,))[0]
            raise ModelError(f"{self.name}: {what} is {value!r}; a whole number of at least {least} is expected")
        return value

    def flag(self, rule: bool | str) -> bool:
        """A flag by a rule: itself, or the key that says it; one with ``+`` behind it is true where nobody says."""
        if isinstance(rule, bool):
            return rule
        return self.get(rule.rstrip("+"), rule.endswith("+")) is True

    def settled(self, *keys: str) -> None:
        """Take keys as read that others settle: a pattern beside the kinds of all layers."""
        self._read.update(name for key in keys for name in NAMES.get(key, (key,)))

    def has(self, key: str) -> bool:
        """True if the configuration itself has a key that is not null."""
        return self.content.get(key) is not None

    def unread(self) -> list[str]:
        """The keys that nothing was read from and that may matter: numbers, flags that are set, lists, settings."""
        return [
            key
            for key, value in self.content.items()
            if key not in self._read
            and not _ASIDE.search(key)
            and (value is True or (type(value) is int and value > 0) or (isinstance(value, (list, dict)) and value))
        ]


#: Keys that change no size: tokens, training, decoding, positions, losses, values of scales, what a runtime does.
_ASIDE = re.compile(
    r"^summary_|^clip_qkv|^task_type_vocab|^kda_safe|^layer_norm_elementwise|^n_langs|^use_lang_emb|^use_attention_gate|^fp16$|"
    r"^bf16$|^use_(dynamic_ntk|logn_attn)|^use_associative|^(kv_channels|no_bias|learned_pos_emb|dim_model_base)$|^linear_allow_neg|^alibi_bias|"
    r"^use_(moe_router_bias|expert_bias)$|^mamba_norm_before|^activation_sparsity|^per_layer_config|"
    r"^(start|end)_n_top|^query_pre_attn|^hc_|^legacy$|^pooler_hidden|^num_random_blocks|^unk_index|"
    r"_token(_id|_ids|_index)?s?$|^(is_|use_cache|output_|do_|id2|label2|auto_map|architectures|transformers|tokenizer|tie_)"
    r"|drop|initializer|rope|rotary|^mrope|scal(e|ing)|loss|_factor$|_eps(ilon)?$|norm_topk|topk_method|^n_group|topk_group"
    r"|^(num_|n_)?expert_groups?$|_act(ivation)?(_fn)?$|softcap|_limit|_alpha|_beta|^quantization_config|max_position|range"
    r"|temperature|top_[kp]$|num_beam|beam|length$|penalty|pretraining|dtype|fp32|^aux|router_(jitter|z|aux)|^problem"
    r"|num_nextn|mtp|^vision|^audio|^image|^video|_kernels?$|pad_|chunk_size(_feed_forward)?$|^mask|^sampl|seed|theta"
    r"|multiplier|cache|^ep_size|^time_step|bidirectional|^qk_head_dim|^max_window|gemma_norm|routing_bias|^norm_|^moe_router"
    r"|^num_logits|return|^mla_use_nope|^moe_renorm|^use_grouped|expand$|interval$|^block_(size|dim)$|overlap|^intermediate"
    r"|^decoder_bias|^index_(skip|topk_freq)|^indexer_rope|^index_share|^vocab_size_per|^first_k|^use_mixed|^moe_layer_freq"
    r"|swiglu|scoring|^use_qk|^head_dim|prefix|^num_(attention|key)|^seq_aux|residual|^train|mup|chat|^attn_implementation"
)
