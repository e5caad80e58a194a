"""Public statements of what runs on how many devices: weights and cache say the same.

A device holds its part of the weights and of the heads of keys, at least one, but all latents. An engine takes nine
tenths of what the driver reports. Whatever runs must fit; what does not run must not, with what engines take beyond.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.analyses.llm.model_cards import CARDS
from tests.analyses.timing.throughputs import CONFIGURATIONS, QUANTISED
from tests.language_models import written

import flopwise

STATEMENTS = json.loads((Path(__file__).parents[2] / "recorded" / "fits.json").read_text())

#: Bytes of a device that vLLM took beyond weights and cache in the log of Qwen3-235B-A22B on four H100.
BEYOND = 9.3e9

#: MiB that nvidia-smi prints as a device's memory.
REPORTED = {"h100-sxm": 81559, "h800-sxm": 81559, "h200-sxm": 143771, "b200": 183359, "rtx-3090": 24576}
REPORTED["rtx-4080"] = 16376


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


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Bytes of the weights, of a token in the cache and of a cache that grows no more, by model and type."""
    pytest.importorskip("transformers")
    folder, context = tmp_path_factory.mktemp("model"), 1024
    sums: dict[tuple[str, str], tuple[int, int, int]] = {}
    for name, stored in {(row["model"], row["stored"]): None for row in STATEMENTS}:
        config = dict(MODELS[name])
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
        sums[name, stored] = weights, token, cache - context * token
    return sums


@pytest.mark.parametrize("row", STATEMENTS, ids=lambda r: f"{r['model']} {r['stored']} {r['count']} {r['device']}")
def test_what_runs_fits(held: dict[tuple[str, str], tuple[int, int, int]], row: dict[str, Any]) -> None:
    weights, token, kept = held[row["model"], row["stored"]]
    config, count = MODELS[row["model"]], row["count"]
    heads = 1 if "kv_lora_rank" in config else min(count, config["num_key_value_heads"])
    cache = (kept + row["context"] * token) / heads / (2 if "cache" in row else 1)
    need, have = weights / count + cache, 0.9 * REPORTED[row["device"]] * 2**20
    assert need / 1e9 == pytest.approx(row["needed_gb"], abs=0.05)
    assert have / 1e9 == pytest.approx(row["usable_gb"], abs=0.05)
    assert need <= have if row["runs"] else need + BEYOND > have
