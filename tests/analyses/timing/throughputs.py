"""The most tokens a second that a published measurement could have shown: floors of requests to language models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.analyses.llm.model_cards import CARDS
from tests.language_models import PUBLISHED, written

import flopwise
from flopwise.analyses.timing.catalog import find
from flopwise.analyses.timing.device import roofline

RECORDED_FILE = Path(__file__).parents[2] / "recorded" / "measured.json"
RECORDED = json.loads(RECORDED_FILE.read_text())
Row = Mapping[str, Any]


def figures(*kinds: str) -> list[Row]:
    """The recorded measurements of some kinds."""
    return [row for row in RECORDED["figures"] if row["kind"] in kinds]


_CONFIGURATIONS = Path(__file__).parents[2] / "formats" / "language"
WHOLE: dict[str, dict[str, Any]] = json.loads((_CONFIGURATIONS / "models.json").read_text())
COUNTED: dict[str, dict[str, Any]] = {
    entry["name"]: entry["configuration"] for entry in json.loads((_CONFIGURATIONS / "parameters.json").read_text())
}

#: The configurations of the models, by the figures that say what is computed.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    **PUBLISHED,
    "llama2-7b": {
        **PUBLISHED["llama3-8b"],
        "intermediate_size": 11008,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    "llama2-70b": {**CARDS["Llama-3.1-70B"].config, "vocab_size": 32000},
    "llama3-70b": CARDS["Llama-3.1-70B"].config,
    "qwen3-30b-a3b": CARDS["Qwen3-30B-A3B"].config,
    "qwen3-235b-a22b": {
        **CARDS["Qwen3-30B-A3B"].config,
        "hidden_size": 4096,
        "moe_intermediate_size": 1536,
        "num_attention_heads": 64,
        "num_hidden_layers": 94,
    },
    "gpt-oss-20b": CARDS["gpt-oss-20b"].config,
    "gpt-oss-120b": {**CARDS["gpt-oss-20b"].config, "num_local_experts": 128, "num_hidden_layers": 36},
    "deepseek-v3.2": WHOLE["deepseek_v3_2"],
    "llama4-maverick": WHOLE["llama_4_maverick"],
    "qwen3-next-80b": WHOLE["qwen3_next_80b"],
    "glm-5.2": COUNTED["GLM-5.2"],
    "nemotron-3-nano": COUNTED["Nemotron-3-Nano-30B-A3B"],
    "qwen3.5-35b-a3b": COUNTED["Qwen3.6-35B-A3B"],
}

#: How checkpoints of these types say it.
QUANTISED: dict[str, dict[str, Any]] = {
    "float8e4m3fn": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "float4e2m1": {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}
        },
        "ignore": ["lm_head"],
    },
    "mxfp4": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
}


class Request(NamedTuple):
    """The work and the bytes of a request, by element types."""

    prefill: Mapping[tuple[str, ...], int]
    prefill_bytes: int
    generated: Mapping[tuple[str, ...], int]
    #: Bytes of the state that all generated tokens read.
    state_bytes: int


def request(folder: Path, row: Row) -> Request:
    """The request of a row."""
    config = {**CONFIGURATIONS[row["model"]], "max_position_embeddings": 163840}
    if row["stored"] in QUANTISED:
        config["quantization_config"] = QUANTISED[row["stored"]]
    else:
        config = {**config, "torch_dtype": row["stored"], "quantization_config": None}
    prompt, generate = row.get("context") or row.get("prompt", 512), row.get("generate") or 1
    cache = "fp8" if "cache" in row else None
    result = flopwise.llm(written(folder, config), prompt=prompt, generate=generate, kv_dtype=cache)
    prefill, decode = result.prefill, result.decode
    assert decode is not None
    state = result.least_generated_bytes - generate * decode.weights.least
    return Request(prefill.products, prefill.least_bytes, result.generated_products, state)


def at_most(row: Row, cost: Request) -> float:
    """The most that a row can show, in its own unit: tokens a second of one device or of all.

    Of prompts whose batch is published weights are read once; of other requests, whose number is not, for nothing.
    """
    device = find(row["device"])
    if row["kind"] == "prompt":
        tokens = row.get("prompt", 512)
        least = roofline(device, cost.prefill, cost.prefill_bytes if "batch" in row else 0).seconds
        return float(tokens / least * row["count"] / row.get("computed", 1))
    work = dict(cost.generated)
    for types, macs in {} if "context" in row else cost.prefill.items():  # else others read the prompts
        work[types] = work.get(types, 0) + macs
    least = roofline(device, work, cost.state_bytes).seconds
    return float(row.get("generate", 1) / least * (1 if "each" in row else row["count"]))
