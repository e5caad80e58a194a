"""The settings of a configuration, whatever its authors call them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
    "embedding": ("word_embed_proj_dim", "embedding_size", "input_embedding_size"),
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
    "activation": (
        *("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function", "activation", "afn"),
        "dense_act_fn",
    ),
    "rope": ("rope_parameters", "rope_scaling"),
}

_MOST = 1 << 40


class _Kind(NamedTuple):
    """The values that a key may have."""

    words: str
    fits: Callable[[Any], bool]
    #: Whether a list with one value for each layer is allowed: "may", "must", or not at all.
    each: str = ""


def _is_whole(value: object) -> bool:
    return type(value) is int and -_MOST < value < _MOST


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < _MOST  # type: ignore[operator] # a number


def _is_places(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


_COUNT = "a whole number of at least 0"
_NETWORKS = ("dense", "sparse", "moe", "hash_moe")

#: What values may be -> the keys that have such values; null is as good as nothing everywhere.
_KINDS: dict[_Kind, str] = {
    _Kind("true or false", lambda value: isinstance(value, bool)): (
        "alibi attention_k_eq_v do_layer_norm_before enable_moe_block lm_head_bias mla_use_output_gate "
        "moe_use_aux_free multi_query new_decoder_architecture parallel_attn position_biased_input qk_layernorm "
        "relative_attention share_att_key tie_word_embeddings use_double_wide_mlp use_parallel_residual "
        "use_post_norm use_qk_norm use_sandwich_norm use_sliding_window use_task_id"
    ),
    _Kind(_COUNT, _is_count): (
        "attn_layer_offset block_ff_dim decoder_sparse_step dense_intermediate_size expert_layer_offset "
        "expert_layer_period first_k_dense_replace full_attention_interval global_attn_every_n_layers "
        "hidden_size_per_layer_input index_topk interleave_moe_layer_step intermediate_size_mlp mamba_d_head "
        "mamba_d_ssm mamba_n_heads mamba_num_heads max_window_layers moe_latent_size moe_layer_interval "
        "moe_layer_start_index moe_num_experts n_routed_experts num_dense_layers num_experts num_kv_shared_layers "
        "num_ln_in_parallel_attn num_local_experts num_moe_experts num_nextn_predict_layers "
        "prefix_dense_intermediate_size q_lora_rank routed_expert_hidden_size zero_expert_num mtp_num_hidden_layers "
        "num_mtp_modules num_mel_bins " + " ".join(NAMES["shared_inner"])
    ),
    _Kind("a whole number of at least 1", lambda value: _is_count(value) and value > 0): " ".join(NAMES["positions"]),
    _Kind("a whole number", _is_whole): (
        "max_relative_positions position_buckets moe_layer_end_index sliding_window sliding_window_size window_size "
        "attention_window_size"
    ),
    _Kind("a whole number of at least 0, or a list of one for each layer", _is_count, "may"): (
        "moe_layer_freq num_attention_heads_per_layer sparse_attention_freq "
        + " ".join((*NAMES["inner"], *NAMES["expert_inner"], *NAMES["shared"], *NAMES["top_k"]))
    ),
    _Kind("a list of a whole number for each layer", _is_count, "must"): "hybrid_layer_pattern compress_ratios",
    _Kind("a list of numbers of layers", _is_places): (
        "attn_layer_indices cross_attention_layers full_attn_idxs full_attn_layers mlp_only_layers moe_layers "
        "hybrid_layer_ids"
    ),
    _Kind("a list of 'dense' or 'sparse' for each layer", _NETWORKS.__contains__, "must"): "mlp_layer_types",
    _Kind("a list of 'full' or 'shared' for each layer", ("full", "shared").__contains__, "must"): "indexer_types",
    _Kind("a list of kinds of layers", lambda value: isinstance(value, (str, int)), "must"): (
        "layer_types layers_block_type attn_type_list attention_layers"
    ),
    _Kind("a number of at least 0", _is_number): (
        "block_ffn_dim_multiplier expansion_ratio factor mlp_ratio rope_theta rotary_emb_base"
    ),
    _Kind("a number from 0 to 1", lambda value: _is_number(value) and value <= 1): "partial_rotary_factor rotary_pct",
    _Kind("a number of layers, or letters L and G", lambda v: _is_count(v) or bool(re.fullmatch("[LG]+", str(v)))): (
        "sliding_window_pattern"
    ),
    _Kind("an object of settings", lambda value: isinstance(value, Mapping)): (
        "attn_config compress_rates ffn_config linear_attn_config rope_parameters rope_scaling sparse_attention_config"
    ),
    _Kind("a word", lambda value: isinstance(value, str)): (
        "feed_forward_proj norm_rel_ebd position_embedding_type rope_type topk_method type "
        + " ".join(NAMES["activation"])
    ),
}

_KIND = {key: kind for kind, keys in _KINDS.items() for key in keys.split()}


#: What configurations call the function between the products of a network -> its operator.
_ACTIVATIONS = {
    **dict.fromkeys(("silu", "swish", "swiglu", "swigluoai", "situ", "quick_gelu"), "Swish"),
    **dict.fromkeys(("gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "xielu"), "Gelu"),
    **dict.fromkeys(("gelu_python_tanh", "gelu_pytorch_tanh", "geglu"), "Gelu"),
    "relu": "Relu",
    "relu2": "Relu2",
    "leaky_relu": "LeakyRelu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "hardswish": "HardSwish",
    "mish": "Mish",
}


class MissingSizeError(ModelError):
    """A configuration lacks a size, for which transformers has a default."""


class Settings:
    """The settings of one model, or of the part of one that generates text."""

    def __init__(self, name: str, content: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.name, self.content, self.defaults = name, content, defaults or {}
        self._read: set[str] = set()
        #: What a reader should know of them.
        self.notes: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        """What stands under a key, or under one of the names of what is asked for; null is as good as nothing."""
        names = NAMES.get(key, (key,))
        self._read.update(names)
        for name in names:
            if self.content.get(name) is not None:
                return self._checked(name, self.content[name])
        return next((self.defaults[name] for name in (key, *names) if name in self.defaults), default)

    def _checked(self, key: str, value: Any) -> Any:
        """A value that is of the kind that its key has.

        Raises:
            ModelError: it is not.
        """
        kind = _KIND.get(key)
        if kind is None:
            return value
        if kind.each and isinstance(value, list):
            fits = all(map(kind.fits, value))
            count: int = next((n for name in NAMES["layers"] if type(n := self.content.get(name)) is int), 0)
            if fits and len(value) < count:
                raise ModelError(f"{self.name}: {key} has {len(value):,} entries for {count:,} layers")
        else:
            fits = kind.each != "must" and kind.fits(value)
        if not fits:
            raise ModelError(f"{self.name}: {key} is {str(repr(value))[:60]}; expected: {kind.words}")
        return value

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
        value = self.get(rule.rstrip("+"), rule.endswith("+"))
        if not isinstance(value, bool):
            raise ModelError(f"{self.name}: {rule.rstrip('+')} is {value!r}; expected: true or false")
        return value

    def activation(self, gated: bool) -> str:
        """The operator between the products of a network; a name that is not known gets a note."""
        word, usual = self.get("activation"), "Swish" if gated else "Gelu"
        if word is not None and word not in _ACTIVATIONS:
            self.notes.append(f"{word!r} is no activation that is known here; counted as {usual}")
        return _ACTIVATIONS.get(word, usual)

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
    r"|drop|initializer|rope|rotary|^mrope|^use_(mamba_kernels|mem_eff_path|long_context)$|^(kv_channels|num_query_groups)$|scal(e|ing)|loss|_factor$|_eps(ilon)?$|norm_topk|topk_method|^n_group|topk_group"
    r"|^(num_|n_)?expert_groups?$|_act(ivation)?(_fn)?$|softcap|_limit|_alpha|_beta|^quantization_config|max_position|range"
    r"|temperature|top_[kp]$|num_beam|beam|length$|penalty|pretraining|dtype|fp32|^aux|router_(jitter|z|aux)|^problem"
    r"|num_nextn|mtp|^vision|^audio|^image|^video|_kernels?$|pad_|chunk_size(_feed_forward)?$|^mask|^sampl|seed|theta"
    r"|multiplier|cache|^ep_size|^time_step|bidirectional|^qk_head_dim|^max_window|gemma_norm|routing_bias|^norm_|^moe_router"
    r"|^num_logits|return|^mla_use_nope|^moe_renorm|^use_grouped|expand$|interval$|^block_(size|dim)$|overlap|^intermediate"
    r"|^decoder_bias|^index_(skip|topk_freq)|^indexer_rope|^index_share|^vocab_size_per|^first_k|^use_mixed|^moe_layer_freq"
    r"|swiglu|scoring|^use_qk|^head_dim|prefix|^num_(attention|key)|^seq_aux|residual|^train|mup|chat|^attn_implementation"
)
