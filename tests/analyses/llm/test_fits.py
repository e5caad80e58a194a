"""Public statements of what runs on how many devices: weights and cache say the same.

A device holds its part of the weights and of the heads of keys, at least one, but all latents. An engine takes nine
tenths of what the driver reports. Whatever runs must fit; what does not run must not, with what engines take beyond.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.analyses.llm.model_cards import CARDS
from tests.analyses.timing.throughputs import CONFIGURATIONS, QUANTISED
from tests.language_models import written

import flopwise
from flopwise.analyses.timing.catalog import find

STATEMENTS = json.loads((Path(__file__).parents[2] / "recorded" / "fits.json").read_text())

#: Bytes of a device that vLLM took beyond weights and cache in the log of Qwen3-235B-A22B on four H100.
BEYOND = 9.3e9


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
    config, context = dict(MODELS[name]), 1024
    if stored in QUANTISED:
        config["quantization_config"] = QUANTISED[stored]
    with tempfile.TemporaryDirectory() as folder:
        result = flopwise.llm(written(Path(folder), config), prompt=context, generate=1)
    token = result.cache_bytes_per_token
    return Held(result.weight_bytes, token, result.cache_bytes - context * token)


@pytest.mark.parametrize("row", STATEMENTS, ids=lambda r: f"{r['model']} {r['stored']} {r['count']} {r['device']}")
def test_what_runs_fits(row: dict[str, Any]) -> None:
    weights, token, kept = held(row["model"], row["stored"])
    config, count = MODELS[row["model"]], row["count"]
    heads = 1 if "kv_lora_rank" in config else min(count, config["num_key_value_heads"])
    cache = (kept + row["context"] * token) / heads / (2 if "cache" in row else 1)
    need, have = weights / count + cache, 0.9 * find(row["device"]).capacity_bytes
    assert need / 1e9 == pytest.approx(row["needed_gb"], abs=0.05)
    assert have / 1e9 == pytest.approx(row["usable_gb"], abs=0.05)
    assert need <= have if row["runs"] else need + BEYOND > have


@pytest.mark.parametrize(
    "row",
    [row for row in STATEMENTS if row["count"] == 1 and row["model"] in ("llama3-8b", "gpt-oss-20b")],
    ids=lambda row: f"{row['model']} {row['device']} {row['context']}",
)
def test_the_verdict_on_one_device_is_what_was_said(tmp_path: Path, row: dict[str, Any]) -> None:
    quantised = {"quantization_config": QUANTISED[row["stored"]]} if row["stored"] in QUANTISED else {}
    folder = written(tmp_path, {**MODELS[row["model"]], **quantised})
    serving = flopwise.llm(folder, prompt=row["context"] - 1, generate=1, device=row["device"]).serving
    assert serving is not None
    assert serving.fits is row["runs"]
