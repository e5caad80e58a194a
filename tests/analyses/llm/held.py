"""Weights and caches of published models, of two shallow ones each, as all layers after the first few are alike."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.analyses.llm.model_cards import CARDS
from tests.analyses.timing.throughputs import CONFIGURATIONS, QUANTISED
from tests.language_models import written

import flopwise


def _glm(**sizes: Any) -> dict[str, Any]:
    return {
        "model_type": "glm4_moe",
        "architectures": ["Glm4MoeForCausalLM"],
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "vocab_size": 151552,
        "attention_bias": True,
        "torch_dtype": "bfloat16",
        **sizes,
    }


MODELS = {
    **CONFIGURATIONS,
    "kimi-k2": CARDS["Kimi-K2"].config,
    "qwen3-coder-480b": {
        **CARDS["Qwen3-30B-A3B"].config,
        "hidden_size": 6144,
        "moe_intermediate_size": 2560,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "num_experts": 160,
        "num_hidden_layers": 62,
    },
    "glm-4.5": _glm(
        hidden_size=5120,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        n_routed_experts=160,
        num_hidden_layers=92,
        first_k_dense_replace=3,
        use_qk_norm=True,
    ),
    "glm-4.5-air": _glm(
        hidden_size=4096,
        intermediate_size=10944,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        num_hidden_layers=46,
        first_k_dense_replace=1,
    ),
}


class Held(NamedTuple):
    """Bytes of a model with one sequence."""

    weights: int
    #: Of a token in the cache, and of what does not grow any more, such as full windows.
    token: int
    kept: int


@functools.cache
def held(name: str, stored: str) -> Held:
    """The bytes of a model by its name and the type of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        return _held(Path(folder), name, stored)


def _held(folder: Path, name: str, stored: str) -> Held:
    config, context = dict(MODELS[name]), 1024
    turns = 2 if config["model_type"] == "gpt_oss" else 1  # full attention and a window take turns
    few = config.get("first_k_dense_replace", 0) + turns
    if stored in QUANTISED:
        config["quantization_config"] = QUANTISED[stored]
    less, more = (
        flopwise.llm(written(folder, {**config, "num_hidden_layers": layers}), prompt=context, generate=1)
        for layers in (few, few + turns)
    )
    times = (config["num_hidden_layers"] - few) // turns
    weights, token, cache = (
        first + times * (second - first)
        for first, second in (
            (less.weight_bytes, more.weight_bytes),
            (less.cache_bytes_per_token, more.cache_bytes_per_token),
            (less.cache_bytes, more.cache_bytes),
        )
    )
    return Held(weights, token, cache - context * token)
