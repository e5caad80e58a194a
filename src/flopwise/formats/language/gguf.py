"""GGUF files as language models: the header as a configuration, and the tensors by the names that weights have here.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from flopwise.errors import ModelError
from flopwise.formats.language.stored import Weights, Widths, widths_of_tensors
from flopwise.formats.sources.open import open_source
from flopwise.formats.weights.gguf import Cursor, begun, open_gguf, read_header
from flopwise.formats.weights.read import open_weights

#: GGUF's architecture -> the model type of the table.
TYPES = {
    **{
        name: name
        for name in ("llama", "qwen2", "qwen3", "gemma", "gemma2", "starcoder2", "phi3", "olmo2", "falcon", "bloom")
    },
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "gemma3": "gemma3_text",
    "nemotron": "nemotron",
    "deepseek2": "deepseek_v3",
    "gpt-oss": "gpt_oss",
    "glm4": "glm4",
    "glm4moe": "glm4_moe",
    "command-r": "cohere",
    "cohere2": "cohere2",
    "stablelm": "stablelm",
    "gptneox": "gpt_neox",
    "gpt2": "gpt2",
    "ernie4_5": "ernie4_5",
    "ernie4_5-moe": "ernie4_5_moe",
    "exaone4": "exaone4",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "mamba": "mamba",
    "falcon-h1": "falcon_h1",
    "lfm2": "lfm2",
    "hunyuan-moe": "hunyuan_v1_moe",
    "minimax-m2": "minimax_m2",
    "apertus": "apertus",
}

#: GGUF's parts of a layer -> what weights are called here. Stacks of experts keep gate and up apart there.
_PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_b": "self_attn.kv_b_proj",
    "attn_sinks": "self_attn.sinks",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_down_exps": "mlp.experts.down_proj",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}

#: The same outside the layers.
_OUTSIDE = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}

#: Tensors that are computed from the header.
_COMPUTED = ("rope_freqs", "rope_factors")

#: Keys of a header, below its architecture, without which a model has no size of its own.
_SIZES = ("block_count", "embedding_length", "attention.head_count", "feed_forward_length")

#: GGUF's keys behind the architecture -> those of configurations.
KEYS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length_mla": "key_mla",
    "attention.value_length_mla": "v_head_dim",
    "rope.dimension_count": "qk_rope_head_dim",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "vocab_size": "vocab_size",
    "ssm.conv_kernel": "conv_kernel",
    "ssm.inner_size": "mamba_d_ssm",
    "ssm.state_size": "state_size",
    "ssm.time_step_rank": "mamba_n_heads",
    "ssm.group_count": "n_groups",
    "shortconv.l_cache": "conv_L_cache",
}

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def settings_of_gguf(name: str) -> Mapping[str, Any]:
    """The settings of a header.

    What a GGUF file holds in blocks is dequantised before it is multiplied; engines keep the cache in half precision,
    so that is the element type.

    Args:
        name: path of the file.

    Raises:
        ModelError: there is no such file, it is damaged, describes no model or lacks a size.
    """
    if not os.path.isfile(name):
        raise ModelError(f"{name}: no such file")
    with closing(open_source(name)) as source:
        tied = all(entry.name != "output.weight" for entry in read_header(source))
        cursor, _, entries = begun(source)
        pairs = ((key, _value(cursor, key, kind)) for key, kind in cursor.metadata(entries))
        values = {key: value for key, value in pairs if value is not None}
    kind = str(values.get("general.architecture", ""))
    if not kind or f"{kind}.block_count" not in values:
        raise ModelError(f"{name}: its header describes no model; 'flopwise weights {name}' lists its tensors")
    own = {KEYS[key]: values[f"{kind}.{key}"] for key in KEYS if f"{kind}.{key}" in values}
    recurrent = kind.startswith(("mamba", "rwkv"))
    missing = next((key for key in _SIZES[: 2 if recurrent else 4] if f"{kind}.{key}" not in values), None)
    if missing and kind in TYPES:
        raise ModelError(f"{name}: its header lacks {kind}.{missing}")
    own.setdefault("vocab_size", values.get("tokenizer.ggml.tokens"))
    if own.pop("key_mla", None) and "kv_lora_rank" in own:
        own["qk_nope_head_dim"] = values[f"{kind}.attention.key_length_mla"] - own["qk_rope_head_dim"]
    return {**own, "model_type": TYPES.get(kind, kind), "tie_word_embeddings": tied, "dtype": "float16"}


def _value(cursor: Cursor, key: str, kind: int) -> Any:
    """A number, or a text of the general part; the length of the list of tokens."""
    if kind in _NUMBERS:
        return struct.unpack("<" + _NUMBERS[kind], cursor.take(struct.calcsize(_NUMBERS[kind])))[0]
    if kind == 8 and key == "general.architecture":
        return cursor.text("an architecture")
    if kind == 9 and key == "tokenizer.ggml.tokens":
        inner, count = cursor.number("I"), cursor.number("Q")
        for _ in range(count):
            cursor.skip_value(inner, 1)
        return count
    return None


def widths_of_gguf(weights: Weights, path: str) -> Widths:
    """Storage of the weights in a file, with a note where it holds others than the model that its header describes.

    Raises:
        ModelError: it is damaged.
    """
    with open_weights(open_gguf, path) as stored:
        names = {tensor.name: _name(tensor.name) for tensor in stored.tensors}
        file = os.path.basename(path)
        widths = widths_of_tensors(weights, stored, file, names)
        numbers = {names[t.name]: t.numel for t in stored.tensors if not t.name.startswith(_COMPUTED)}
    parameters = sum(math.prod(shape) for shape in weights.shapes.values())
    if sum(numbers.values()) == parameters:
        return widths
    own = {_name(f"blk.{n}.{part}.weight"): f"blk.{n}.{part}.weight" for n in range(weights.layers) for part in _PARTS}
    missing = next((name for here, name in own.items() if here in weights.shapes and here not in numbers), None)
    note = (
        f"{file} holds {sum(numbers.values()):,} weights, and the model that its header describes has {parameters:,}: "
        f"counts are those of the model{f', {missing} is missing' if missing else ''}"
    )
    return replace(widths, notes=(*widths.notes, note))


def _name(name: str) -> str:
    """The name of a file's tensor here."""
    path, _, last = name.rpartition(".")
    head, _, rest = path.partition(".")
    if head == "blk":
        number, _, part = rest.partition(".")
        own = _PARTS.get(part)
        stack = own is not None and "experts." in own and "shared" not in own
        return name if own is None else f"model.layers.{number}.{own}" + ("" if stack or "sinks" in own else f".{last}")
    return f"{_OUTSIDE[path]}.{last}" if path in _OUTSIDE else name
