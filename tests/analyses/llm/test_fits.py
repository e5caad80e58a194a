"""Public statements of what runs on how many devices: weights and cache say the same.

A device holds its part of the weights and of the heads of keys, at least one, but all latents. An engine takes nine
tenths of what the driver reports. Whatever runs must fit; what does not run must not, with what engines take beyond.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.analyses.llm.held import MODELS, held
from tests.analyses.timing.throughputs import QUANTISED
from tests.language_models import written

import flopwise
from flopwise.analyses.timing.catalog import find

STATEMENTS = json.loads((Path(__file__).parents[2] / "recorded" / "fits.json").read_text())

#: Bytes of a device that vLLM took beyond weights and cache in the log of Qwen3-235B-A22B on four H100.
BEYOND = 9.3e9


@pytest.mark.parametrize("row", STATEMENTS, ids=lambda r: f"{r['model']} {r['stored']} {r['count']} {r['device']}")
def test_what_runs_fits(row: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
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
    pytest.importorskip("transformers")
    quantised = {"quantization_config": QUANTISED[row["stored"]]} if row["stored"] in QUANTISED else {}
    folder = written(tmp_path, {**MODELS[row["model"]], **quantised})
    serving = flopwise.llm(folder, prompt=row["context"] - 1, generate=1, device=row["device"]).serving
    assert serving is not None
    assert serving.fits is row["runs"]
