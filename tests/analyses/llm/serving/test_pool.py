"""The room that engines leave for the cache, as public logs say it: within the band."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from tests.language_models import LLAMA, written

import flopwise
from flopwise.analyses.llm.serving.pool import LOGS, SCORE

ROOT = Path(__file__).parents[3]
RECORDED: list[dict[str, Any]] = json.loads((ROOT / "recorded" / "pools.json").read_text())

_GIB = 2**30


def _channels(kind: str) -> dict[str, Any]:
    """Eight bits with a scale for each output."""
    weights = {"num_bits": 8, "type": kind, "strategy": "channel"}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}


@functools.cache
def _configurations() -> dict[str, dict[str, Any]]:
    folder = ROOT / "formats" / "language"
    lists = [json.loads((folder / f"{name}.json").read_text()) for name in ("published", "parameters")]
    published, counted = ({entry["name"]: entry["configuration"] for entry in entries} for entries in lists)
    models = json.loads((folder / "models.json").read_text())
    large = published["Llama-3.1-70B"]
    sizes = {"hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "vocab_size": 131072}
    return {
        "llama-3-8b": published["Llama-3.1-8B"],
        "llama-3.1-8b": published["Llama-3.1-8B"],
        "llama-3.3-70b-fp8": {**large, "quantization_config": _channels("float")},
        "llama-3.1-70b-w8a8": {**large, "quantization_config": _channels("int")},
        "llama-3-70b-awq": published["Llama-3.1-70B-AWQ-INT4"],
        "phi-4-gptq": published["Phi-4-AutoRound-GPTQ-4bit"],
        "qwen3-0.6b": {**published["Qwen3-1.7B"], "hidden_size": 1024, "intermediate_size": 3072},
        "qwen3-32b": published["Qwen3-32B"],
        "r1-distill-qwen-14b": models["qwen2_5_14b"],
        "gpt-oss-20b": published["gpt-oss-20b"],
        "deepseek-v2-lite": counted["DeepSeek-V2-Lite"],
        "mistral-small-24b": {**models["mistral_7b"], **sizes, "head_dim": 128, "sliding_window": None},
    }


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['model']} {row['count']} {row['device']}")
def test_pools_of_public_logs_lie_in_the_band(row: dict[str, Any], tmp_path: Path) -> None:
    ways: dict[str, Any] = {"tp": row["count"]} if row["count"] > 1 else {}
    result = flopwise.llm(
        written(tmp_path, _configurations()[row["model"]]),
        prompt=1000,
        generate=1,
        device=f"{row['count']}x{row['device']}",
        memory_fraction=row["fraction"],
        max_batched_tokens=row["step_tokens"],
        **ways,
    ).to_dict()
    pool = result["serving"]["pool"]
    assert pool["low_bytes"] <= row["pool_gib"] * _GIB <= pool["high_bytes"]
    assert pool["figures"] == LOGS == len(RECORDED)


def test_the_band_by_hand(tmp_path: Path) -> None:
    model = written(tmp_path, {**LLAMA, "vocab_size": 100_000})
    for device, sequences in (("h100-sxm", 1024), ("a100-sxm-80gb", 256), ("rtx-4090", 256)):
        serving = flopwise.llm(model, prompt=32, generate=1, device=device).to_dict()["serving"]
        pool, own = serving["pool"], serving["per_device"]
        assert pool["bytes"] == own["memory_bytes"] - own["weight_bytes"] - own["workspace_bytes"]
        assert pool["bytes"] - pool["high_bytes"] == int(0.3 * _GIB)
        samplers = SCORE * 100_000 * sequences - own["workspace_bytes"]
        assert pool["bytes"] - pool["low_bytes"] == int(1.9 * _GIB) + samplers


def test_no_pool_without_a_device_or_a_cache(tmp_path: Path) -> None:
    assert "pool" not in flopwise.llm(written(tmp_path, LLAMA), prompt=32, generate=1).to_dict()["serving"]


def test_a_request_that_fits_by_less_than_engines_keep_says_so(tmp_path: Path) -> None:
    model = written(tmp_path, _configurations()["llama-3-8b"])
    settings: dict[str, Any] = {"prompt": 1000, "generate": 1, "device": "rtx-4090"}
    narrow, wide = (flopwise.llm(model, batch=batch, **settings).to_dict()["verdict"] for batch in (36, 8))
    assert "; engines may keep 2.5 GB more for themselves; " in narrow
    assert "engines" not in wide
